//! `self check`: which PostgreSQL the program would use, and whether it can.

use crate::args::TargetArgs;
use crate::commands::db;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::screen::indented;
use crate::target::{local, named_database};
use millstream_local::{LocalOptions, Outlook, Running, outlook, status};
use millstream_pg::{ConnInfo, SessionSettings};
use serde_json::{Value, json};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  millstream self check
  millstream self check --db postgres://loader@db.example/shop
  millstream self check --output json

Exit code 0 if commands with the same target can use PostgreSQL, 1 if they
cannot. Without --db, MILLSTREAM_DB and DATABASE_URL the target is the local
server: then 0 means that it runs, or that it can be started here.

Nothing is made, started or downloaded.";

/// Parts that a build of the program may lack, each with whether this one has it.
const FEATURES: &[(&str, bool)] = &[
    ("full", cfg!(feature = "full")),
    ("columnar", cfg!(feature = "columnar")),
    ("objects", cfg!(feature = "objects")),
    ("kafka", cfg!(feature = "kafka")),
];

/// The target if the user names no database.
const LOCAL: &str = "the local server";

/// Say what this program is, which PostgreSQL it would use, and whether it can
///
/// Connects to the database that commands would use, and says whether the local server runs or can be started here:
/// whether its directory can be made, and whether a PostgreSQL is installed or could be downloaded.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct CheckArgs {
    #[command(flatten)]
    target: TargetArgs,
}

/// A PostgreSQL that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Usable {
    /// Its version.
    version: String,
    /// Where it is.
    place: String,
}

/// Why there is none, for programs and for people.
#[derive(Debug, Clone)]
struct Problem {
    json: Value,
    text: String,
}

/// The local server.
struct LocalServer {
    state: &'static str,
    home: Option<PathBuf>,
    running: Option<Running>,
    postgres: Result<Usable, Problem>,
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        Self { json: failure.json(), text: failure.to_string() }
    }
}

/// Runs the command.
pub async fn run(args: &CheckArgs, output: Output) -> Result<Exit, Failure> {
    let named = named_database(&args.target);
    let server = Box::pin(local_server()).await;
    let (named_by, database) = match (named, &server.running) {
        (Some((conninfo, named_by)), _) => (named_by, Box::pin(asked(conninfo)).await.map_err(Problem::from)),
        (None, Some(running)) => (LOCAL, Box::pin(asked(local(running))).await.map_err(Problem::from)),
        (None, None) => (LOCAL, server.postgres.clone()),
    };
    let features: Vec<&str> = FEATURES.iter().filter(|(_, is_built)| *is_built).map(|(name, _)| *name).collect();
    let known = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "system": format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        "features": features,
        "database": { "named_by": named_by, "postgres": facts(&database), "problem": problem(&database) },
        "local_server": {
            "state": server.state,
            "home": server.home,
            "postgres": facts(&server.postgres),
            "problem": problem(&server.postgres),
        },
        "usable": database.is_ok(),
    });
    let features = if features.is_empty() { "none".to_owned() } else { features.join(", ") };
    let text = format!(
        "millstream {}, {} {}\nfeatures: {features}\ndatabase ({named_by}): {}\nlocal server ({}): {}",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH,
        words(&database),
        server.state,
        words(&server.postgres),
    );
    output.print(&known, &text)?;
    Ok(if database.is_ok() { Exit::Done } else { Exit::Findings })
}

/// Connects to a database, which must take writes.
async fn asked(conninfo: Result<ConnInfo, Failure>) -> Result<Usable, Failure> {
    let conninfo = conninfo?;
    let connection = millstream_pg::connect(&conninfo, &SessionSettings::control()).await?;
    connection.require_writable()?;
    let number = connection.server.version_num;
    Ok(Usable { version: format!("{}.{}", number / 10_000, number % 10_000), place: conninfo.describe() })
}

/// What runs, or what a start would use.
async fn local_server() -> LocalServer {
    let options = LocalOptions::default();
    let status = match status(&options) {
        Ok(status) => status,
        Err(error) => {
            let postgres = Err(Problem::from(Failure::from(error)));
            return LocalServer { state: "unclear", home: None, running: None, postgres };
        }
    };
    let state = db::state(&status);
    let postgres = match &status.running {
        Some(running) => Ok(Usable { version: running.major.clone(), place: format!("127.0.0.1:{}", running.port) }),
        None => outlook(&options).await.map(startable).map_err(|error| Problem::from(Failure::from(error))),
    };
    LocalServer { state, home: Some(status.home), running: status.running, postgres }
}

fn startable(outlook: Outlook) -> Usable {
    match outlook {
        Outlook::Found(one) => {
            Usable { version: format!("{}.{}", one.major, one.minor), place: one.bin.display().to_string() }
        }
        Outlook::Offered { version, source } => Usable { version, place: format!("a download from {source}") },
    }
}

fn facts(found: &Result<Usable, Problem>) -> Option<Value> {
    let Usable { version, place } = found.as_ref().ok()?;
    Some(json!({ "version": version, "place": place }))
}

fn problem(found: &Result<Usable, Problem>) -> Option<&Value> {
    found.as_ref().err().map(|problem| &problem.json)
}

fn words(found: &Result<Usable, Problem>) -> String {
    match found {
        Ok(Usable { version, place }) => format!("PostgreSQL {version}, {place}"),
        Err(problem) => indented(&format!("cannot be used\n{}", problem.text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_of_the_manifest_is_named() {
        let manifest = include_str!("../../../Cargo.toml");
        let lines = manifest.lines().skip_while(|line| *line != "[features]").skip(1);
        let lines = lines.take_while(|line| !line.starts_with('['));
        let names = lines.filter_map(|line| line.split_once(" = ")).map(|(name, _)| name);
        let built: Vec<&str> = names.filter(|name| *name != "default").collect();
        let named: Vec<&str> = FEATURES.iter().map(|(name, _)| *name).collect();
        assert_eq!(named, built, "FEATURES and the manifest differ");
    }

    #[test]
    fn a_problem_keeps_its_hint() {
        let failed = Err(Problem::from(Failure::user("no server").hint("start one")));
        assert_eq!(words(&failed), "cannot be used\n  error: no server\n  hint: start one");
        assert_eq!(problem(&failed).unwrap()["hint"], "start one");
        assert!(facts(&failed).is_none());
    }
}
