//! Commands: processes of a run that are not pgbench's own business, and how any of them ends.

use super::arm::{Setup, Via};
use super::cluster::{Cluster, Trouble};
use crate::core::{Measures, Metric, libpq, number};
use crate::error::Error;
use crate::limits::{COMMAND_TIME_MAX, RUN_SLACK};
use millstream_host::{Child, Command, Measured};
use millstream_pg::ConnInfo;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// What a shell command finds: a directory for its files in `LAB_DIR`, and where to find a database.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ground<'a> {
    /// Neither.
    Nothing,
    /// Files alone: the experiment needs no server.
    Files(&'a Path),
    /// A database, and the files of its server.
    Server(&'a Cluster, &'a ConnInfo),
}

/// Measures a command line from its start to its exit. If that time decides, what the command prints is its own matter:
/// only a list of metrics counts.
pub(crate) async fn measure(
    command: &str,
    setup: &Setup,
    time_decides: bool,
    ground: Ground<'_>,
) -> Result<Measures, Trouble> {
    let mut shell = shell_command(command, ground, setup.via);
    let measured = run_to_end(&mut shell, COMMAND, COMMAND_TIME_MAX).await?;
    if let Some(why) = skipped(&measured.ended.stdout) {
        return Err(Trouble::Unfit(why));
    }
    let mut measures = Measures::default();
    measures.set("wall_seconds", Some(measured.wall_seconds));
    measures.set("client_cpu_seconds", measured.cpu_seconds);
    measures.set("client_peak_bytes", measured.peak_bytes.map(number));
    measures.set(ROWS, setup.rows());
    measures.set("rows_per_second", setup.rows().map(|rows| rows / measured.wall_seconds));
    let said =
        said(&measured.ended.stdout).or_else(|error| if time_decides { Ok(BTreeMap::new()) } else { Err(error) });
    for (name, value) in said? {
        measures.set(&name, Some(value));
        measures.said.insert(name);
    }
    Ok(measures)
}

/// Why a command has nothing to measure here: its last line of output is `{"skipped": "WHY"}`.
fn skipped(output: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Skipped {
        skipped: String,
    }
    serde_json::from_str::<Skipped>(output.lines().next_back()?).ok().map(|said| said.skipped)
}

/// Runs the shell command that checks a result, and adds the metrics that it prints to the numbers of the run.
///
/// # Errors
/// [`Error::Wrong`] if it fails.
pub(crate) async fn check(text: &str, ground: Ground<'_>, measures: &mut Measures) -> Result<(), Trouble> {
    let ended = shell(text, ground).await.map_err(|trouble| match trouble {
        Trouble::Error(Error::Program { why, .. }) => Error::Wrong(format!("{CHECK_FAILED}: {why}")).into(),
        trouble => trouble,
    })?;
    for (name, value) in said(&ended.ended.stdout)? {
        if let Some(declared) = measures.values.get(&name).filter(|declared| name == ROWS && **declared != value) {
            let why = format!("the arm has rows = {declared}, and {value} were loaded; correct the value");
            return Err(Error::Wrong(format!("{CHECK_FAILED}: {why}")).into());
        }
        measures.set(&name, Some(value));
    }
    Ok(())
}

/// Metrics that a command measured itself: its last line of output, if that is a JSON object.
fn said(output: &str) -> Result<BTreeMap<String, f64>, Trouble> {
    let Some(line) = output.lines().next_back().filter(|line| line.starts_with('{')) else {
        return Ok(BTreeMap::new());
    };
    let failed = |why: String| Trouble::Error(Error::Program { program: COMMAND, why });
    let said: BTreeMap<String, f64> = serde_json::from_str(line)
        .map_err(|error| failed(format!("its last line is not a list of metrics: {error}")))?;
    match said.keys().find(|name| Metric::by_name(name).is_none()) {
        Some(unknown) => Err(failed(format!("it reports {unknown}, which is not a metric"))),
        None => Ok(said),
    }
}

/// Runs a shell command. It finds the database in libpq's variables and in `MILLSTREAM_DB`, the server's programs first in `PATH`, a directory
/// for its files in `LAB_DIR`, and this program in `MILLSTREAM`.
pub(crate) async fn shell(text: &str, ground: Ground<'_>) -> Result<Measured, Trouble> {
    Ok(run_to_end(&mut shell_command(text, ground, None), COMMAND, COMMAND_TIME_MAX).await?)
}

/// The metric that a check compares with what the arm declares.
const ROWS: &str = "rows";

/// How the reason begins of a run whose check failed.
pub(crate) const CHECK_FAILED: &str = "the check failed";

/// What errors call a shell command.
const COMMAND: &str = "the command";

/// What errors call pgbench.
pub(crate) const PGBENCH: &str = "pgbench";

/// Runs a shell command as [`shell`] does, again and again, until it fails, or what is returned is dropped.
pub(crate) fn again_and_again(text: &str, cluster: &Cluster, db: &ConnInfo) -> Result<Child, Trouble> {
    // Our end of its input closes if this program is killed; then it ends itself and what it has started.
    let watch = "exec 3<&0 </dev/null; { cat <&3; kill -KILL 0; } >/dev/null 2>&1 &";
    let script = format!("{watch}\nwhile\n{text}\ndo :; done");
    let started = shell_command(&script, Ground::Server(cluster, db), None).start();
    started.map_err(|error| Trouble::Error(Error::Program { program: "beside", why: error.to_string() }))
}

/// A shell command, in the second network if the database is reached from there.
fn shell_command(text: &str, ground: Ground<'_>, via: Option<Via>) -> Command {
    let shell = Path::new("/bin/sh");
    let mut command = match ground {
        Ground::Server(cluster, _) if via == Some(Via::Veth) => {
            let network = cluster.second_network().upgrade();
            network.map_or_else(|| Command::new(shell), |network| network.command(0, shell))
        }
        _ => Command::new(shell),
    };
    match ground {
        Ground::Nothing => {}
        Ground::Files(files) => _ = command.env("LAB_DIR", files),
        Ground::Server(cluster, db) => {
            libpq::lead(&mut command, db, false);
            command.env("MILLSTREAM_DB", libpq::text(db)).env("LAB_DIR", cluster.files());
            if let Some(dir) = cluster.programs() {
                let path = std::env::var("PATH").unwrap_or_default();
                command.env("PATH", format!("{}:{path}", dir.display()));
            }
        }
    }
    if let Ok(own) = std::env::current_exe() {
        command.env("MILLSTREAM", own);
    }
    command.args(["-c", text]);
    command
}

/// Runs a pgbench to its end, which must be a good one. It may take so many seconds, and some more to start and to end.
pub(crate) async fn pgbench(command: &mut Command, seconds: u32) -> Result<Measured, Trouble> {
    Ok(run_to_end(command, PGBENCH, Duration::from_secs(seconds.into()) + RUN_SLACK).await?)
}

/// Runs a program to its end, which must be a good one, and come in time.
pub(crate) async fn run_to_end(
    command: &mut Command,
    program: &'static str,
    limit: Duration,
) -> Result<Measured, Error> {
    let failed = |why: String| Error::Program { program, why };
    let measured = command.measure(limit).await.map_err(|error| failed(error.to_string()))?;
    match measured.ended.status.success() {
        true => Ok(measured),
        false => {
            let said = measured.ended.stderr.lines().filter(|line| !line.starts_with("progress: "));
            let said: Vec<&str> = said.collect();
            let said = said[said.len().saturating_sub(5)..].join(" ");
            let said = if said.is_empty() { said } else { format!(": {said}") };
            Err(failed(format!("it ended with {}{said}", measured.ended.status)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn measured(command: &str, time_decides: bool) -> Result<Measures, String> {
        let measured = measure(command, &Setup::default(), time_decides, Ground::Nothing).await;
        measured.map_err(|trouble| match trouble {
            Trouble::Error(error) => error.chain(),
            Trouble::Unfit(why) => why,
        })
    }

    #[tokio::test]
    async fn a_command_that_fails_is_named_as_such() {
        assert_eq!(measured("exit 3", true).await.unwrap_err(), "the command failed: it ended with exit status: 3");
        let said = measured("echo why >&2; false", true).await.unwrap_err();
        assert_eq!(said, "the command failed: it ended with exit status: 1: why");
    }

    #[tokio::test]
    async fn a_command_may_say_that_it_has_nothing_to_measure() {
        let outcome =
            measure("echo '{\"skipped\": \"no such rule\"}'", &Setup::default(), false, Ground::Nothing).await;
        assert!(matches!(outcome, Err(Trouble::Unfit(why)) if why == "no such rule"));
    }

    #[tokio::test]
    async fn a_command_says_metrics_and_other_json_only_if_its_time_decides() {
        let said = measured("echo '{\"rows_per_second\": 5.0}'", false).await.unwrap();
        assert_eq!(said.values["rows_per_second"], 5.0);
        assert!(said.said.iter().eq(["rows_per_second"]), "{said:?}");
        for other in ["{\"rows\": \"many\"}", "{\"nothing\": 1.0}", "{"] {
            let command = format!("echo '{other}'");
            assert!(measured(&command, true).await.unwrap().values.contains_key("wall_seconds"), "{other}");
            assert!(measured(&command, false).await.is_err(), "{other}");
        }
    }
}
