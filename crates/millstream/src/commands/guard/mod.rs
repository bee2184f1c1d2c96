//! `guard`: a packet filter for this host, planned, explained, proved and watched.

mod apply;
mod check;
mod deny;
mod explain;
mod import;
mod plan;
mod prove;
mod show;
mod status;

use crate::changes::{self, NumberArg};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use millstream_change::Kind;
use millstream_guard::Prober;
use millstream_guard::packet_filter::PacketFilter;
use millstream_guard::policy::Policy;
use millstream_model::Refusal;
use millstream_model::range::Range;
use millstream_ranges::Generation;
use std::path::{Path, PathBuf};

/// Filter this host's packets by a policy, which is proved before you trust it
///
/// A policy is a TOML file that says what may come in and what may go out. docs/guides/guard.md explains it.
#[derive(Debug, clap::Args)]
pub struct GuardArgs {
    #[command(subcommand)]
    command: GuardCommand,
}

#[derive(Debug, clap::Subcommand)]
enum GuardCommand {
    Import(import::ImportArgs),
    Check(check::CheckArgs),
    Explain(explain::ExplainArgs),
    Show(show::ShowArgs),
    Prove(prove::ProveArgs),
    Plan(plan::PlanArgs),
    Apply(apply::ApplyArgs),
    /// Let the rules stay, and load them when the machine starts
    ///
    /// Over ssh, this must be a connection that began after the rules were applied. Stateless rules let every old
    /// session live on, so that an old one proves nothing.
    #[command(after_help = "Example:\n  millstream guard confirm")]
    Confirm(NumberArg),
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
    let room = Some(PacketFilter.commands());
    match &args.command {
        GuardCommand::Import(args) => import::run(args, output),
        GuardCommand::Check(args) => check::run(args, output),
        GuardCommand::Explain(args) => explain::run(args, output),
        GuardCommand::Show(args) => show::run(args, output),
        GuardCommand::Prove(args) => prove::run(args, output),
        GuardCommand::Plan(args) => plan::run(args, output).await,
        GuardCommand::Apply(args) => Box::pin(apply::apply(args, output)).await,
        GuardCommand::Confirm(args) => changes::confirm_change(args.number, room, None).await,
        GuardCommand::Undo(args) => changes::undo_change(args.number, args.keep, room, None).await,
        GuardCommand::Status(args) => status::run(args, output).await,
        GuardCommand::Deny(args) => deny::run(args, output).await,
        GuardCommand::SendProbes(args) => prove::send_probes(args, output),
    }
}

/// This program, which is started again in networks of their own.
fn prober() -> Result<Prober, Failure> {
    let program =
        std::env::current_exe().map_err(|error| Failure::user("this program cannot be found").because(&error))?;
    Ok(Prober { program, args: ["guard", "send-probes"].map(str::to_owned).to_vec() })
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
