//! `ranges`: stores of IP ranges, built, asked, checked, compared and exported.

mod build;
mod diff;
mod export;
mod get;
mod receipt;
mod rejects;
mod stat;
mod verify;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::signal::Signals;

/// Look up IP addresses in stores of ranges, and build such stores
///
/// A store is a directory of LMDB files, and STORE is its path. Other programs may read it while it is replaced,
/// without a server and without a lock. STORE@N names generation N of a store, such as cities@6, instead of the
/// current one. If a file or directory is really named STORE@N, Millstream uses that one.
#[derive(Debug, clap::Args)]
pub struct RangesArgs {
    #[command(subcommand)]
    command: RangesCommand,
}

#[derive(Debug, clap::Subcommand)]
enum RangesCommand {
    Build(Box<build::BuildArgs>),
    Get(get::GetArgs),
    Verify(verify::VerifyArgs),
    Stat(stat::StatArgs),
    Diff(diff::DiffArgs),
    Export(export::ExportArgs),
}

/// Runs the command.
pub async fn run(args: &RangesArgs, output: Output, signals: &Signals) -> Result<Exit, Failure> {
    match &args.command {
        RangesCommand::Build(args) => Box::pin(build::run(args, output, signals)).await,
        RangesCommand::Get(args) => get::run(args, output),
        RangesCommand::Verify(args) => verify::run(args, output),
        RangesCommand::Stat(args) => stat::run(args, output),
        RangesCommand::Diff(args) => diff::run(args, output),
        RangesCommand::Export(args) => Box::pin(export::run(args, output)).await,
    }
}
