//! `guard deny`: denies an address for a time, at once.

use crate::args::duration;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::quantity::age;
use millstream_guard::in_effect;
use std::time::Duration;

/// Deny an address for a time, at once and without loading rules
///
/// Connections that it has open stop working too. Nothing else changes, and a restart of the machine ends it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  millstream guard deny 203.0.113.7 --for 1h")]
pub struct DenyArgs {
    /// Address, prefix, or range FIRST-LAST
    address: String,

    /// How long
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    time: Duration,
}

/// Runs the command.
pub async fn run(args: &DenyArgs, _output: Output) -> Result<Exit, Failure> {
    let range = in_effect::deny(&args.address, args.time).await?;
    note(&format!("{range} is denied for {}", age(args.time.as_secs_f64())));
    Ok(Exit::Done)
}
