//! `self`: what this program is, and what a machine gets of it. Rust keeps the name `self` for itself.

mod check;
mod completions;
mod pages;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  millstream self check
  millstream self completions bash";

/// Say what this program is and which PostgreSQL it would use; print completions
///
/// These commands look at the program and at the machine. They change nothing, and start no server.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct OwnArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    Check(check::CheckArgs),
    Completions(completions::CompletionsArgs),
    #[command(name = "man")]
    Pages(pages::PagesArgs),
}

/// Runs the command.
pub async fn run(args: &OwnArgs, output: Output, definition: fn() -> clap::Command) -> Result<Exit, Failure> {
    match &args.action {
        Action::Check(args) => Box::pin(check::run(args, output)).await,
        Action::Completions(args) => completions::run(args, output, definition()),
        Action::Pages(args) => pages::run(args, output, definition()),
    }
}
