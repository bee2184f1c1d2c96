//! The lab's own server: whatever ends an experiment, it gets back its settings and its WAL.

use crate::process::{Run, assert_runs, command, run, send};
use millstream_lab::Outcome;
use millstream_lab::experiments::Record;
use millstream_testkit::{Feature, LocalHome, build_with, until};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const EXPERIMENT: &str = "\
question = 'Which is faster?'
expected = 'nothing'
read = 'as it is'
seconds = 1
run = { scripts = ['one.sql'] }
[[arm]]
name = 'base'
about = 'as it is'
run = { check = \"select current_setting('max_connections') <> '37'\" }
[[arm]]
name = 'other'
about = 'with a setting that needs a restart, and one that does not'
run = { settings = { max_connections = '37', work_mem = '3MB' }, check = \"select current_setting('work_mem') = '3MB' and current_setting('max_connections') = '37'\" }
[[arm]]
name = 'apart'
about = 'the WAL elsewhere, and settings'
run = { wal_apart = true, settings = { max_connections = '38', work_mem = '5MB' } }
";

/// A home with a server of the lab, an experiment, and a directory on another device.
struct Place {
    local: LocalHome,
    dir: tempfile::TempDir,
    wal: tempfile::TempDir,
    bin: &'static Path,
}

impl Place {
    /// `None`, after a skip, without pgbench.
    async fn new() -> Option<Self> {
        let bin = &build_with(&[Feature::Pgbench]).await?.installation.bin;
        let local = LocalHome::new();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("own.toml"), EXPERIMENT).unwrap();
        std::fs::write(dir.path().join("one.sql"), "select 1;\n").unwrap();
        let device = |dir: &Path| std::fs::metadata(dir).ok().map(|facts| facts.dev());
        let places = [std::env::temp_dir(), PathBuf::from("/dev/shm")];
        let other = places.iter().find(|place| place.is_dir() && device(place) != device(&local.dir));
        let wal = tempfile::tempdir_in(other.expect("two devices for temporary files")).unwrap();
        std::fs::set_permissions(wal.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        Some(Self { local, dir, wal, bin })
    }

    fn command(&self, out: &str) -> Command {
        let bin = self.bin.display().to_string();
        let mut command = command(&["lab", "run", "--quick", "--seconds", "1", "--postgres", &bin, "--wal-dir"]);
        command.arg(self.wal.path()).arg(self.dir.path().join("own.toml")).arg("--out").arg(self.dir.path().join(out));
        command.env("MILLSTREAM_HOME", &self.local.dir);
        command
    }

    fn start(&self, out: &str) -> Child {
        self.command(out).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The home of the lab's server.
    fn server(&self) -> PathBuf {
        let mut homes = std::fs::read_dir(self.local.dir.join("lab")).unwrap();
        homes.next().unwrap().unwrap().path()
    }

    /// Settings of experiments that are left, and whether the WAL is elsewhere.
    fn left(&self) -> (Vec<String>, bool) {
        let data = self.server().join("data");
        let text = std::fs::read_to_string(data.join("postgresql.auto.conf")).unwrap();
        let settings = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
        let away = data.join("pg_wal").is_symlink() || std::fs::read_dir(self.wal.path()).unwrap().count() > 0;
        (settings.map(str::to_owned).collect(), away)
    }

    /// Waits until an experiment has moved the WAL and changed settings.
    async fn wait_for_both(&self, running: &mut Child) {
        until("an experiment has moved the WAL and changed settings", async || {
            assert_runs(running);
            matches!(self.left(), (settings, true) if !settings.is_empty())
        })
        .await;
    }

    fn record(&self, out: &str) -> Record {
        Record::read(&self.dir.path().join(out)).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut stop = command(&["db", "stop"]);
        let _ = stop.env("MILLSTREAM_HOME", self.server()).output();
    }
}

/// What a run of a second comes to if the machine stands still in that second.
const NO_TRANSACTION: &str = "finished no transaction in the measured time";

/// An experiment that has made all of its runs.
fn ended(run: Run) -> Run {
    let stalled = run.code == 1 && run.stderr.contains(NO_TRANSACTION);
    if stalled { run } else { run.ends(0) }
}

/// An arm for a PostgreSQL that nobody has any more.
const OLD: &str = "\
question = 'Which is faster?'
seconds = 1
run = { scripts = ['one.sql'] }
[[arm]]
name = 'here'
[[arm]]
name = 'old'
run = { postgres = '9' }
";

#[tokio::test(flavor = "multi_thread")]
async fn an_experiment_that_is_stopped_or_killed_gives_back_settings_and_wal_and_is_resumed() {
    let Some(place) = Place::new().await else { return };
    let mut stopped = place.start("out");
    let mut lines = BufReader::new(stopped.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.starts_with("block 1 of 1: ")), "the first run never ended");
    place.wait_for_both(&mut stopped).await;
    send("INT", stopped.id());
    let rest: Vec<String> = lines.collect();
    assert_eq!(stopped.wait().unwrap().code(), Some(130), "{rest:?}");
    assert!(rest.iter().any(|line| line.contains("stopped; to resume: ") && line.contains("--wal-dir")), "{rest:?}");
    assert_eq!(place.left(), (Vec::new(), false), "after Ctrl-C");
    let before = place.record("out");
    assert!((1..4).contains(&before.runs.len()), "{before:?}");

    let resumed = ended(run(&mut place.command("out")));
    assert!(resumed.stderr.contains("recorded; the others follow"), "{resumed:?}");
    assert_eq!(place.left(), (Vec::new(), false), "at the end");
    let record = place.record("out");
    assert_eq!(record.runs[..before.runs.len()], before.runs, "nothing is measured twice");
    let mut arms: Vec<&str> = record.runs.iter().map(|run| run.arm.as_str()).collect();
    arms.sort_unstable();
    assert_eq!(arms, ["again", "apart", "base", "other"]);
    let is_good = |outcome: &Outcome| match outcome {
        Outcome::Measured(_) => true,
        Outcome::Error(why) => why.contains(NO_TRANSACTION),
        Outcome::Void(_) | Outcome::Skipped(_) => false,
    };
    assert!(record.runs.iter().all(|run| is_good(&run.outcome)), "{record:?}");
    // The facts are those of the runs, also of arms that another command has run.
    let settings = |arm: &str| {
        let facts = record.conditions.facts_of(arm).unwrap();
        ["max_connections", "work_mem"].map(|name| facts.sections["settings"].get(name).cloned().unwrap_or_default())
    };
    assert_eq!(
        [settings("other"), settings("apart")],
        [["37", "3MB"], ["38", "5MB"]].map(|two| two.map(str::to_owned))
    );
    assert!(!["37", "38"].contains(&settings("base")[0].as_str()), "{record:?}");
    let common = &record.conditions.environments.first_key_value().unwrap().1.sections["settings"];
    assert!(!common.contains_key("max_connections") && !common.contains_key("work_mem"), "{common:?}");

    let mut killed = place.start("killed");
    place.wait_for_both(&mut killed).await;
    send("KILL", killed.id());
    killed.wait().unwrap();
    assert!(place.left().1);
    std::fs::write(place.dir.path().join("own.toml"), OLD).unwrap();
    let next = ended(run(&mut place.command("next")));
    assert!(next.stderr.contains("moving the WAL back"), "{next:?}");
    assert_eq!(place.left(), (Vec::new(), false), "after a kill");

    // An arm whose PostgreSQL is not installed is skipped aloud.
    assert!(next.stderr.contains("own: skipped: old: PostgreSQL 9 is not installed; installed: "), "{next:?}");
    let runs = place.record("next").runs;
    let skipped = |one: &str| {
        let run = runs.iter().find(|run| run.arm == one).unwrap();
        matches!(&run.outcome, Outcome::Skipped(why) if why.starts_with("PostgreSQL 9 is not installed"))
    };
    assert_eq!(["here", "again", "old"].map(skipped), [false, false, true], "{next:?}");
    assert!(!place.local.dir.join("lab/9").exists(), "no home is made for it");
}
