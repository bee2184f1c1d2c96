//! `db`: starts, stops and shows the local server.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::target::variable_in_the_way;
use millstream_local::{Error, LocalOptions, Phase, PostgresBin, Running, Status};
use serde_json::{Value, json};
use std::ffi::OsString;

const EXAMPLES: &str = "\
Examples:
  millstream db start
  millstream db psql
  millstream db status --output json";

const START_EXAMPLES: &str = "\
Examples:
  millstream db start
  millstream db start --postgres-bin /usr/lib/postgresql/17/bin
  MILLSTREAM_HOME=/fast/millstream millstream db start --postgres-bin download";

const STOP_EXAMPLES: &str = "\
Examples:
  millstream db stop";

const STATUS_EXAMPLES: &str = "\
Examples:
  millstream db status
  millstream db status --output json";

const URL_EXAMPLES: &str = "\
Examples:
  pg_dump \"$(millstream db url)\" > all.sql";

const PSQL_EXAMPLES: &str = "\
Examples:
  millstream db psql
  millstream db psql -c 'select count(*) from events'";

/// Start, stop and use the local server
///
/// Commands without --db use the local server if neither MILLSTREAM_DB nor DATABASE_URL is set. They start it
/// when they need it. MILLSTREAM_HOME names its directory. Without that variable, the directory is under
/// /var/lib/millstream for root, and in the XDG data directory for other users.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct DbArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Start the server, and create it if it does not exist
    #[command(after_help = START_EXAMPLES)]
    Start {
        /// PostgreSQL to use: a directory of programs, `download`, or `auto`, which means the newest installed
        /// version from 15 on, or else a downloaded one
        #[arg(long, value_name = "DIR", default_value = "auto")]
        postgres_bin: String,
    },
    /// Stop the server and keep its data
    #[command(after_help = STOP_EXAMPLES)]
    Stop,
    /// Show where the server is and whether it runs; exit code 1 if it does not
    #[command(after_help = STATUS_EXAMPLES)]
    Status,
    /// Print a URL for other programs, including the password
    #[command(after_help = URL_EXAMPLES)]
    Url,
    /// Open psql on the server
    #[command(after_help = PSQL_EXAMPLES)]
    Psql {
        /// Arguments for psql
        #[arg(value_name = "ARG", trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
}

/// Runs the command.
pub async fn run(args: &DbArgs, output: Output) -> Result<Exit, Failure> {
    let options = LocalOptions::default();
    match &args.action {
        Action::Start { postgres_bin } => {
            let options = LocalOptions { postgres_bin: PostgresBin::from(postgres_bin.as_str()), ..options };
            start(&options, output).await
        }
        Action::Stop => stop(&options, output).await,
        Action::Status => status(&options, output),
        Action::Url => url(&options, output),
        Action::Psql { args } => psql(&options, args),
    }
}

async fn start(options: &LocalOptions, output: Output) -> Result<Exit, Failure> {
    let before = millstream_local::status(options)?.running;
    let server = millstream_local::start(options, &mut |line| note(line)).await?;
    if before.as_ref() == Some(&server) && options.postgres_bin != PostgresBin::Auto {
        let from = server.bin.as_ref().map_or_else(String::new, |bin| format!(", from {}", bin.display()));
        note(&format!("the server already runs{from}; --postgres-bin takes effect when it starts"));
    }
    output.print(&facts(&server), &running(&server))?;
    Ok(Exit::Done)
}

async fn stop(options: &LocalOptions, output: Output) -> Result<Exit, Failure> {
    let stopped = millstream_local::stop(options, &mut |line| note(line)).await?;
    output.print(&json!({ "stopped": stopped }), if stopped { "stopped" } else { "no server was running" })?;
    Ok(Exit::Done)
}

fn status(options: &LocalOptions, output: Output) -> Result<Exit, Failure> {
    let status = millstream_local::status(options)?;
    let state = state(&status);
    let known = json!({
        "state": state,
        "home": status.home,
        "data": status.data,
        "log": status.log,
        "major": status.major,
        "server": status.running.as_ref().map(facts),
    });
    let running = status.running.as_ref().map_or_else(|| state.to_owned(), running);
    output.print(&known, &format!("{running}\nhome: {}\nlog: {}", status.home.display(), status.log.display()))?;
    Ok(if status.running.is_some() { Exit::Done } else { Exit::Findings })
}

fn url(options: &LocalOptions, output: Output) -> Result<Exit, Failure> {
    let url = millstream_local::connect(options)?.url();
    output.print(&json!({ "url": url }), &url)?;
    Ok(Exit::Done)
}

/// Replaces this process by psql, so that psql gets the signals, the terminal and the exit code.
fn psql(options: &LocalOptions, args: &[OsString]) -> Result<Exit, Failure> {
    let server = millstream_local::connect(options).map_err(|error| {
        let other = variable_in_the_way().filter(|_| matches!(error, Error::NotRunning { .. }));
        let failure = Failure::from(error);
        match other {
            Some(name) => failure.hint(format!(
                "start it with: millstream db start; {name} names another server, which this opens: psql \"${name}\""
            )),
            None => failure,
        }
    })?;
    let mut command = server.psql()?;
    Err(Failure::user(command.args(args).exec().to_string()))
}

/// The state of the local server, in words.
pub fn state(status: &Status) -> &'static str {
    match status.phase {
        Some(Phase::Ready) => "running",
        Some(Phase::Starting) => "starting",
        Some(Phase::Stopping) => "stopping",
        None if status.major.is_some() => "stopped",
        None => "not created yet",
    }
}

fn running(server: &Running) -> String {
    let Running { pid, port, major, .. } = server;
    format!("running: PostgreSQL {major} on 127.0.0.1:{port}, process {pid}")
}

fn facts(server: &Running) -> Value {
    json!({
        "pid": server.pid,
        "port": server.port,
        "socket_dir": server.socket_dir,
        "major": server.major,
        "bin": server.bin,
        "data": server.data,
        "log": server.log,
    })
}
