//! Commands: processes of a run that are not pgbench's own business, and how any of them ends.

use super::arm::Setup;
use super::cluster::{Cluster, Trouble};
use super::experiment::Experiment;
use super::via::Via;
use super::words::words;
use crate::core::{Measures, libpq};
use crate::error::Error;
use crate::limits::{COMMAND_TIME_MAX, RUN_SLACK, SAID_BYTES_MAX, SAID_LINES_MAX};
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

/// Measures a command line from its start to its exit. If something of the process itself decides, what the command
/// prints is its own matter: only a list of metrics counts.
pub(crate) async fn measure(
    command: &str,
    setup: &Setup,
    experiment: &Experiment,
    ground: Ground<'_>,
) -> Result<Measures, Trouble> {
    let mut program = match setup.shell {
        Some(false) => plain_command(command, ground, setup.via)?,
        Some(true) | None => shell_command(command, ground, setup.via),
    };
    let measured = run_to_end(&mut program, COMMAND, COMMAND_TIME_MAX).await?;
    if let Some(why) = skipped(&measured.ended.stdout) {
        return Err(Trouble::Unfit(why));
    }
    let mut measures = Measures::default();
    measures.set("wall_seconds", Some(measured.wall_seconds));
    measures.set("client_cpu_seconds", measured.cpu_seconds);
    measures.set("client_peak_bytes", measured.peak_bytes.map(|bytes| bytes as f64));
    measures.set(ROWS, setup.rows());
    measures.set("rows_per_second", setup.rows().map(|rows| rows / measured.wall_seconds));
    let is_own_matter = experiment.metric.is_of_the_process();
    let said = said(&measured.ended.stdout, experiment)
        .or_else(|error| if is_own_matter { Ok(BTreeMap::new()) } else { Err(error) });
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
    serde_json::from_str::<Skipped>(output.lines().next_back()?).ok().map(|said| short(&said.skipped))
}

/// Runs the shell command that checks a result, and adds the metrics that it prints to the numbers of the run.
///
/// # Errors
/// [`Error::Wrong`] if it fails.
pub(crate) async fn check(
    text: &str,
    experiment: &Experiment,
    ground: Ground<'_>,
    measures: &mut Measures,
) -> Result<(), Trouble> {
    let ended = shell(text, ground).await.map_err(|trouble| match trouble {
        Trouble::Error(Error::Program { why, .. }) => Error::Wrong(format!("{CHECK_FAILED}: {why}")).into(),
        trouble => trouble,
    })?;
    for (name, value) in said(&ended.ended.stdout, experiment)? {
        if let Some(declared) = measures.values.get(&name).filter(|declared| name == ROWS && **declared != value) {
            let why = format!("the arm has rows = {declared}, and {value} were loaded; correct the value");
            return Err(Error::Wrong(format!("{CHECK_FAILED}: {why}")).into());
        }
        measures.set(&name, Some(value));
    }
    Ok(())
}

/// Metrics that a command measured itself: its last line of output, if that is a JSON object.
fn said(output: &str, experiment: &Experiment) -> Result<BTreeMap<String, f64>, Trouble> {
    let Some(line) = output.lines().next_back().filter(|line| line.starts_with('{')) else {
        return Ok(BTreeMap::new());
    };
    let failed = |why: String| Trouble::Error(Error::Program { program: COMMAND, why: short(&why) });
    let said: BTreeMap<String, f64> = serde_json::from_str(line)
        .map_err(|error| failed(format!("its last line is not a list of metrics: {error}")))?;
    match said.keys().find(|name| !experiment.metrics().any(|metric| metric.name == name.as_str())) {
        Some(unknown) => {
            let way_out = "the experiment can name it in metric or show, with unit and better";
            Err(failed(format!("it prints {unknown}, which is not a metric; {way_out}")))
        }
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
pub(crate) const COMMAND: &str = "the command";

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
    let mut command = command_on(Path::new("/bin/sh"), ground, via);
    command.args(["-c", text]);
    command
}

/// As [`shell_command`], without a shell: a program with its arguments.
fn plain_command(text: &str, ground: Ground<'_>, via: Option<Via>) -> Result<Command, Error> {
    let words = words(text).map_err(|why| Error::Program { program: COMMAND, why })?;
    let (program, args) = words.split_first().map_or((text, &[][..]), |(program, args)| (program.as_str(), args));
    let mut command = command_on(Path::new(program), ground, via);
    command.args(args);
    Ok(command)
}

/// A program, in the second network if the database is reached from there.
fn command_on(program: &Path, ground: Ground<'_>, via: Option<Via>) -> Command {
    let mut command = match ground {
        Ground::Server(cluster, _) if via == Some(Via::Veth) => {
            let network = cluster.second_network().upgrade();
            network.map_or_else(|| Command::new(program), |network| network.command(0, program))
        }
        _ => Command::new(program),
    };
    match ground {
        Ground::Nothing => {}
        Ground::Files(files) => _ = command.env("LAB_DIR", files),
        Ground::Server(cluster, db) => {
            libpq::lead(&mut command, db);
            command.env("MILLSTREAM_DB", libpq::text(db)).env("LAB_DIR", cluster.files());
            // A server whose programs we must not run was refused before.
            if let Ok(Some(dir)) = cluster.programs() {
                let path = std::env::var("PATH").unwrap_or_default();
                command.env("PATH", format!("{}:{path}", dir.display()));
            }
        }
    }
    if let Ok(own) = std::env::current_exe() {
        command.env("MILLSTREAM", own);
    }
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
            let said = reason(&measured.ended.stderr);
            let said = if said.is_empty() { said } else { format!(": {said}") };
            Err(failed(format!("it ended with {}{said}", measured.ended.status)))
        }
    }
}

/// Of what a failed program said, the lines from the first error on, else the last ones. The first error says why: what
/// clients of pgbench say afterwards may only follow from it.
fn reason(stderr: &str) -> String {
    let lines = || stderr.lines().filter(|line| !line.starts_with("progress: "));
    let is_error = |line: &str| line.to_ascii_lowercase().contains("error:");
    let mut said: Vec<&str> = lines().skip_while(|line| !is_error(line)).take(SAID_LINES_MAX).collect();
    if said.is_empty() {
        said = lines().rev().take(SAID_LINES_MAX).collect();
        said.reverse();
    }
    short(&said.join(" "))
}

/// The beginning of a text that a program printed. It may be of any length, and a record keeps it for each run.
pub(super) fn short(text: &str) -> String {
    text[..text.floor_char_boundary(SAID_BYTES_MAX)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::chosen_metric::ChosenMetric;
    use crate::experiments::commands::Commands;
    use crate::experiments::{Selection, Source};

    #[tokio::test]
    async fn a_command_that_writes_no_rows_to_count_has_its_time_alone() {
        let setup = Setup { rows: Some(crate::experiments::Number::Plain(0.0)), ..Setup::default() };
        let found = measure("true", &setup, &experiment(true), Ground::Nothing).await;
        let Ok(measures) = found else { panic!("it runs") };
        assert!(measures.values.contains_key("wall_seconds") && !measures.values.contains_key("rows_per_second"));
    }

    /// Two commands, of which the time or the rows per second decide.
    fn experiment(time_decides: bool) -> Experiment {
        let metric = if time_decides { "wall_seconds" } else { "rows_per_second" };
        let metric = Some(ChosenMetric::known(metric).unwrap());
        Commands { metric, ..Commands::new("true", "false") }.experiment().unwrap()
    }

    async fn measured(command: &str, time_decides: bool) -> Result<Measures, String> {
        let measured = measure(command, &Setup::default(), &experiment(time_decides), Ground::Nothing).await;
        measured.map_err(|trouble| match trouble {
            Trouble::Error(error) => error.chain(),
            Trouble::Unfit(why) => why,
        })
    }

    #[tokio::test]
    async fn a_command_without_a_shell_is_the_process_that_is_measured() {
        let setup = Setup { shell: Some(false), ..Setup::default() };
        let measured = |command: &'static str| {
            let setup = setup.clone();
            async move { measure(command, &setup, &experiment(false), Ground::Nothing).await }
        };
        let said = measured("printf '{\"rows_per_second\": %s}' 5").await.unwrap();
        assert_eq!(said.values["rows_per_second"], 5.0);
        let Err(Trouble::Error(error)) = measured("no-such-program-here x").await else { panic!("it ran") };
        assert!(error.chain().contains("no-such-program-here"), "{}", error.chain());
    }

    #[tokio::test]
    async fn the_loops_of_ranges_are_found_beside_this_program_or_named_and_need_no_source_tree() {
        let dir = tempfile::tempdir().unwrap();
        let first = |values: BTreeMap<String, String>| {
            let source = Source::named("ranges", &Selection { values, ..Selection::default() }).unwrap();
            source.experiment.setup[0].trim_start_matches('!').to_owned()
        };
        let ran = shell(&first(BTreeMap::new()), Ground::Files(dir.path())).await;
        let Err(Trouble::Error(error)) = &ran else { panic!("{ran:?}") };
        let says = "build it in the source tree with cargo build --release -p millstream-ranges --example lookups, and";
        assert!(error.chain().contains("/examples/lookups: ") && error.chain().contains(says), "{}", error.chain());
        let named = first(BTreeMap::from([("lookups".to_owned(), "/bin/sh".to_owned())]));
        shell(&named, Ground::Files(dir.path())).await.unwrap();
        assert!(dir.path().join("lookups").is_file());
    }

    #[tokio::test]
    async fn a_command_that_fails_is_named_as_such() {
        assert_eq!(measured("exit 3", true).await.unwrap_err(), "the command failed: it ended with exit status: 3");
        let said = measured("echo why >&2; false", true).await.unwrap_err();
        assert_eq!(said, "the command failed: it ended with exit status: 1: why");
    }

    #[tokio::test]
    async fn a_command_may_say_that_it_has_nothing_to_measure() {
        let command = "echo '{\"skipped\": \"no such rule\"}'";
        let outcome = measure(command, &Setup::default(), &experiment(false), Ground::Nothing).await;
        assert!(matches!(outcome, Err(Trouble::Unfit(why)) if why == "no such rule"));
    }

    #[tokio::test]
    async fn however_much_a_command_prints_its_last_line_counts_and_what_it_said_is_short() {
        let much = "head -c 40000000 /dev/zero | tr '\\0' x";
        let last = format!("{much}; echo; echo '{{\"rows_per_second\": 5.0}}'");
        assert_eq!(measured(&last, false).await.unwrap().values["rows_per_second"], 5.0);
        for command in [
            format!("{{ echo error: no; {much}; }} >&2; exit 3"),
            format!("{much} >&2; exit 3"),
            format!("printf '{{\"'; {much}; printf '\": 1.0}}'"),
            "printf '{\"%03000d\": 1.0}' 0".to_owned(),
            "printf '{\"skipped\": \"%03000d\"}' 0".to_owned(),
        ] {
            let said = measured(&command, false).await.err();
            let length = said.as_ref().map_or(0, String::len);
            assert!(length < 2 * SAID_BYTES_MAX, "{command}: {length}");
        }
        assert_eq!(reason("progress: 1\na\nERROR: b\nc\nprogress: 2\nERROR: d"), "ERROR: b c ERROR: d");
        assert_eq!(reason("1\n2\n3\n4\n5\n6\n"), "2 3 4 5 6");
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
