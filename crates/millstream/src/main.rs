//! The `millstream` command: reads the arguments, runs one command, turns its end into an exit code.

#![expect(unreachable_pub, reason = "nothing in a binary is reachable from outside")]

mod args;
mod changes;
mod command_line;
mod commands;
mod confirmation;
mod demo;
mod dump;
mod enrich;
mod event_line;
mod exit;
mod failure;
mod file_pattern;
#[cfg(test)]
#[path = "../tests/door/guides/line.rs"]
mod guide_line;
mod interruption;
mod keeper;
mod key_values;
mod limits;
mod missing_args;
mod origin_args;
mod output;
mod preview;
mod progress;
mod quantity;
mod receipt;
#[cfg(test)]
mod reference;
mod screen;
mod secret;
mod signal;
mod source_args;
mod standing;
mod store_name;
mod table;
mod target;
mod topic;

use clap::{CommandFactory, Parser};
use command_line::Args;
use exit::Exit;
use failure::Failure;

fn main() -> std::process::ExitCode {
    failure::report_panics();
    let typed = command_line::typed(std::env::args_os().collect());
    if command_line::asks_for_json(&typed) {
        failure::print_as_json();
    }
    if command_line::asks_for_lines(&typed) {
        event_line::print_as_lines();
        failure::print_as_json();
    }
    let args = match Args::try_parse_from(&typed) {
        Ok(args) => args,
        Err(error) => return command_line::explain(error, &typed),
    };
    match run(args) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            failure.print();
            failure.exit().into()
        }
    }
}

fn run(args: Args) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::user("cannot start the worker threads").because(&error))?;
    let exit = runtime.block_on(async {
        let signals = signal::Signals::watch()?;
        Box::pin(commands::run(args.command, args.output, signals, Args::command)).await
    });
    runtime.shutdown_background();
    exit
}
