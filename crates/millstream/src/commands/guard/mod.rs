//! `guard`: a packet filter for this host, planned, explained, proved and watched.

mod apply;
mod check;
mod deny;
mod explain;
mod plan;
mod prove;
mod show;
mod status;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use millstream_guard::policy::Policy;
use millstream_model::Refusal;
use millstream_model::range::Range;
use millstream_ranges::Generation;
use std::path::{Path, PathBuf};

/// Filter this host's packets by a policy, which is proved before you trust it
///
/// A policy is a TOML file that says what may come in and what may go out. docs/guard.md explains it.
#[derive(Debug, clap::Args)]
pub struct GuardArgs {
    #[command(subcommand)]
    command: GuardCommand,
}

#[derive(Debug, clap::Subcommand)]
enum GuardCommand {
    Check(check::CheckArgs),
    Explain(explain::ExplainArgs),
    Show(show::ShowArgs),
    Prove(prove::ProveArgs),
    Plan(plan::PlanArgs),
    Apply(apply::ApplyArgs),
    Confirm(apply::ConfirmArgs),
    Undo(apply::UndoArgs),
    Status(status::StatusArgs),
    Deny(deny::DenyArgs),
    SendProbes(prove::SendProbesArgs),
}

/// The policy that a command is about.
#[derive(Debug, clap::Args)]
struct PolicyArg {
    /// Policy to read
    #[arg(value_name = "POLICY")]
    policy: PathBuf,
}

/// Runs the command.
pub async fn run(args: &GuardArgs, output: Output) -> Result<Exit, Failure> {
    match &args.command {
        GuardCommand::Check(args) => check::run(args, output),
        GuardCommand::Explain(args) => explain::run(args, output),
        GuardCommand::Show(args) => show::run(args, output),
        GuardCommand::Prove(args) => prove::run(args, output),
        GuardCommand::Plan(args) => plan::run(args, output).await,
        GuardCommand::Apply(args) => Box::pin(apply::apply(args, output)).await,
        GuardCommand::Confirm(args) => apply::confirm(args).await,
        GuardCommand::Undo(args) => apply::undo(args).await,
        GuardCommand::Status(args) => status::run(args, output).await,
        GuardCommand::Deny(args) => deny::run(args, output).await,
        GuardCommand::SendProbes(args) => prove::send_probes(args, output),
    }
}

impl PolicyArg {
    /// Reads the policy. Its lists may be stores of IP ranges.
    fn read(&self) -> Result<Policy, Failure> {
        Ok(Policy::read(&self.policy, &ranges)?)
    }
}

/// The ranges of a store.
fn ranges(store: &Path) -> Result<Vec<Range>, Refusal> {
    let refused = |error: millstream_ranges::Error| Refusal::new(error.to_string());
    let generation = Generation::open(store, None).map_err(refused)?;
    let ranges = generation.ranges().map_err(refused)?;
    ranges.map(|found| found.map(|found| found.range).map_err(refused)).collect()
}
