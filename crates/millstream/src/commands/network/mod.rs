//! `network`: the network of a host, described, checked and written for the programs that make it.

mod apply;
mod check;
mod plan;
mod read;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use millstream_network::topology::Topology;
use std::path::PathBuf;

/// Describe this host's bonds, VLANs and bridges, and find the mistakes before they cut you off
///
/// A topology is a TOML file. docs/network.md explains it.
#[derive(Debug, clap::Args)]
pub struct NetworkArgs {
    #[command(subcommand)]
    command: NetworkCommand,
}

#[derive(Debug, clap::Subcommand)]
enum NetworkCommand {
    Check(check::CheckArgs),
    Plan(plan::PlanArgs),
    Read(read::ReadArgs),
    Apply(apply::ApplyArgs),
    Confirm(apply::ConfirmArgs),
    Undo(apply::UndoArgs),
}

/// The topology that a command is about.
#[derive(Debug, clap::Args)]
struct TopologyArg {
    /// Topology to read
    #[arg(value_name = "TOPOLOGY")]
    topology: PathBuf,
}

/// Runs the command.
pub async fn run(args: &NetworkArgs, output: Output) -> Result<Exit, Failure> {
    match &args.command {
        NetworkCommand::Check(args) => check::run(args, output),
        NetworkCommand::Plan(args) => plan::run(args, output),
        NetworkCommand::Read(args) => read::run(args, output),
        NetworkCommand::Apply(args) => Box::pin(apply::apply(args, output)).await,
        NetworkCommand::Confirm(args) => apply::confirm(args).await,
        NetworkCommand::Undo(args) => apply::undo(args).await,
    }
}

impl TopologyArg {
    /// Reads the topology.
    fn read(&self) -> Result<Topology, Failure> {
        Ok(Topology::read(&self.topology)?)
    }
}
