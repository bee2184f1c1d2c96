//! `network`: the network of a host, described, checked and written for the programs that make it.

mod apply;
mod check;
mod plan;
mod read;

use crate::changes::{self, NumberArg};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use millstream_change::Kind;
use millstream_network::profile::NetworkProfiles;
use millstream_network::topology::Topology;
use std::path::PathBuf;

/// Describe this host's bonds, VLANs and bridges, and find the mistakes before they cut you off
///
/// A topology is a TOML file. docs/guides/network.md explains it.
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
    /// Let a topology stay
    #[command(after_help = "Example:\n  millstream network confirm")]
    Confirm(NumberArg),
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
    let room = Some(NetworkProfiles.commands());
    match &args.command {
        NetworkCommand::Check(args) => check::run(args, output),
        NetworkCommand::Plan(args) => plan::run(args, output),
        NetworkCommand::Read(args) => read::run(args, output),
        NetworkCommand::Apply(args) => Box::pin(apply::apply(args, output)).await,
        NetworkCommand::Confirm(args) => changes::confirm_change(args.number, room, None).await,
        NetworkCommand::Undo(args) => changes::undo_change(args.number, args.keep, room, None).await,
    }
}

impl TopologyArg {
    /// Reads the topology.
    fn read(&self) -> Result<Topology, Failure> {
        Ok(Topology::read(&self.topology)?)
    }
}
