//! `guard deny`: denies an address for a time, at once.

use crate::args::duration;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::quantity::age;
use crate::table::{Align, Table};
use millstream_guard::in_effect;
use serde_json::json;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  millstream guard deny 203.0.113.7 --for 1h
  millstream guard deny
  millstream guard deny 203.0.113.7 --remove";

/// Deny an address for a time, at once and without loading rules; without an address, list what is denied
///
/// Connections that it has open stop working too. Nothing else changes, and a restart of the machine ends it. An address
/// from which your own ssh connection comes is refused.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct DenyArgs {
    /// Address, prefix, or range FIRST-LAST
    address: Option<String>,

    /// How long
    #[arg(long = "for", value_name = "TIME", value_parser = duration, requires = "address")]
    time: Option<Duration>,

    /// Stop denying this address; write it as you denied it
    #[arg(long, requires = "address", conflicts_with = "time")]
    remove: bool,
}

/// Runs the command.
pub async fn run(args: &DenyArgs, output: Output) -> Result<Exit, Failure> {
    match (&args.address, args.time) {
        (None, _) => list(output).await?,
        (Some(address), _) if args.remove => {
            note(&format!("{} is not denied any more", in_effect::end_denial(address).await?));
        }
        (Some(_), None) => return Err(Failure::user("for how long?").hint("for example --for 1h")),
        (Some(address), Some(time)) => {
            let what = in_effect::deny(address, time).await?;
            note(&format!("{what} is denied for {}", age(time.as_secs_f64())));
        }
    }
    Ok(Exit::Done)
}

async fn list(output: Output) -> Result<(), Failure> {
    let denied = in_effect::denied().await?;
    if output.is_json() {
        let all: Vec<_> = denied.iter().map(|one| json!({ "denied": one.what, "seconds": one.seconds })).collect();
        return output.json(&all);
    }
    if denied.is_empty() {
        note("nothing is denied for a time");
        return Ok(());
    }
    let mut table = Table::new(&[("denied", Align::Left), ("for another", Align::Right)]);
    for one in denied {
        table.row([one.what, age(one.seconds as f64)]);
    }
    output.table(&table)
}
