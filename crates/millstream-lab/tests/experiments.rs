//! Small experiments: what becomes of their arms, and what their records say.

use crate::conninfo;
use millstream_lab::experiments::report::{html, text};
use millstream_lab::experiments::{
    self, Analysis, ChosenMetric, Commands, Conditions, Ended, Record, Request, Selection, Source, compare,
};
use millstream_lab::{Better, Outcome};
use millstream_testkit::{Feature, database_on, dealt_builds_with, until};
use std::collections::BTreeMap;
use std::fs;
use std::future::pending;
use std::path::Path;

/// Two ways to ask for the same number.
const EXPERIMENT: &str = "\
question = 'Which is faster?'
seconds = 1
run = { scripts = ['one.sql'] }
setup = ['create table if not exists t (a int)']
cleanup = ['drop table t']
[equal]
transactions = 2
start = ['truncate t']
query = 'select count(*) from t'
[[arm]]
name = 'simple'
[[arm]]
name = 'prepared'
run = { protocol = 'prepared' }
[[arm]]
name = 'other'
run = { scripts = ['two.sql'] }
[[arm]]
name = 'settings'
run = { settings = { commit_delay = '10' } }
[[arm]]
name = 'host'
run = { host = { 'vm.swappiness' = '60' } }
[[arm]]
name = 'checked'
run = { check = 'select count(*) = 0 from t' }
";

/// An experiment without a server, whose arms count the lines of a file that it has made first.
const FILES: &str = r#"
question = "Does it work?"
metric = "lost_pings"
seconds = 1
server = false
setup = ['!echo made >"$LAB_DIR/made"']
reset = ['!cp "$LAB_DIR/made" "$LAB_DIR/now"']
cleanup = ['!cp "$LAB_DIR/now" "$PLACE/last"']
[[arm]]
name = "one"
run = { command = 'printf "{\"lost_pings\": %s}" $(wc -l <"$LAB_DIR/now")' }
[[arm]]
name = "two"
run = { before = ['!echo more >>"$LAB_DIR/now"'], command = 'printf "{\"lost_pings\": %s}" $(wc -l <"$LAB_DIR/now")' }
"#;

/// An arm by itself, and a chain whose second arm does not end.
const CHAIN: &str = r#"
question = "Does it end?"
metric = "wall_seconds"
seconds = 1
server = false
[[arm]]
name = "alone"
run = { command = "true" }
[[arm]]
name = "first"
run = { command = "true" }
[[arm]]
name = "second"
after = "first"
run = { command = 'echo $$ >"$PLACE/begun"; exec sleep 600' }
"#;

/// Runs an experiment until its end or another one, into a record in this directory. Returns how it ended, and the record.
async fn ended(source: &Source, request: &Request, out: &Path, stop: impl Future<Output = ()>) -> (Ended<()>, Record) {
    let conditions = Conditions::planned(source, request);
    let opened = Record::open(source, request, conditions, Some(out), Vec::new());
    let (dir, mut record) = opened.expect("the record can be made");
    let mut say = |_: &str| {};
    let ended = Box::pin(experiments::run(source, request, &mut record, &dir, &mut say, stop)).await;
    (ended.expect("the lab works"), record)
}

/// Runs an experiment to its end, into a record in this directory. Returns the record.
async fn run(source: &Source, request: &Request, out: &Path) -> Record {
    let (ended, record) = ended(source, request, out, pending()).await;
    assert_eq!(ended, Ended::Finished);
    assert_eq!(Record::read(out).expect("it is a record"), record, "what is kept");
    record
}

/// An experiment from a file.
fn read(file: &Path) -> Result<Source, String> {
    Source::named(file.to_str().expect("a plain name"), &Selection::default()).map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_arm_without_a_result_says_why_and_nothing_is_measured_twice() {
    for build in dealt_builds_with(&[Feature::Pgbench]).await {
        let (database, dir) = (database_on(build).await, tempfile::tempdir().unwrap());
        let name = format!("own{:08x}", fastrand::u32(..));
        let file = dir.path().join(format!("{name}.toml"));
        fs::write(&file, EXPERIMENT).unwrap();
        fs::write(dir.path().join("one.sql"), "insert into t values (1);\n").unwrap();
        let two = "begin;\ninsert into t values (1);\ninsert into t values (1);\nend;\n";
        fs::write(dir.path().join("two.sql"), two).unwrap();
        let (source, out) = (read(&file).unwrap(), dir.path().join("out"));
        let db = Some(conninfo(&database));
        let request = Request { quick: true, seconds: Some(1), seed: 1, db, ..Request::default() };
        let record = run(&source, &request, &out).await;
        let outcome = |arm: &str| {
            let one = record.runs.iter().find(|run| run.arm == arm).unwrap();
            one.value("tps").map_or_else(|| format!("{:?}", one.outcome), |tps| (tps > 0.0).to_string())
        };
        assert_eq!(["simple", "prepared", "again"].map(outcome), ["true", "true", "true"], "{record:?}");
        for (arm, why) in [
            ("other", "its result differs from that of simple: 4 instead of 2"),
            ("settings", "it changes settings of a server that is not the lab's"),
            ("host", "it changes this machine"),
            ("checked", "after the run this is not true"),
        ] {
            assert!(outcome(arm).contains(why), "{arm}: {}", outcome(arm));
        }
        let made = |record: &Record| {
            let runs = record.runs.iter().filter(|run| !matches!(run.outcome, Outcome::Skipped(_)));
            runs.cloned().collect::<Vec<_>>()
        };
        assert_eq!(made(&run(&source, &request, &out).await), made(&record));
        let client = database.client().await;
        client.batch_execute(&format!("drop database lab_{name}")).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_command_lines_are_compared_by_what_they_print() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let [a, b] = [5, 7].map(|n| format!("printf '{{\"requests\": {n}}}'"));
    let commands = Commands {
        metric: Some(ChosenMetric::own("requests", "req/s", Better::Higher, "").unwrap()),
        prepare: Some(format!("echo prepared >>{}", log.display())),
        warm_up_runs: 1,
        ..Commands::new(&a, &b)
    };
    let source = Source::of_commands(&commands).unwrap();
    let request = Request { blocks: Some(8), seed: 1, steal_percent_max: Some(100.0), ..Request::default() };
    let record = run(&source, &request, &dir.path().join("out")).await;
    let analysis = Analysis::of(&record);
    let says = text(&record, &analysis).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(says.contains("Which of two commands has the better requests?"), "{says}");
    assert!(says.contains("b is faster than a by 40 %"), "{says}");
    // A run that is made again is prepared again.
    assert!(fs::read_to_string(&log).unwrap().lines().count() >= 2 + 3 * 8, "{says}");
    assert!(html(&record, &analysis).contains("req/s"));
    assert_eq!(analysis.metric.unit, "req/s");
    let found = compare(std::slice::from_ref(&record), std::slice::from_ref(&record)).unwrap();
    let b = found.arms.iter().find(|one| one.arm == "b").unwrap();
    assert_eq!((b.unit.as_str(), b.second.as_ref().map(|spread| spread.median)), ("req/s", Some(7.0)), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_experiment_without_a_server_makes_its_files_first() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("files.toml");
    fs::write(&file, FILES.replace("$PLACE", &place.path().display().to_string())).unwrap();
    let request = Request { blocks: Some(2), seed: 1, steal_percent_max: Some(100.0), ..Request::default() };
    let record = run(&read(&file).unwrap(), &request, &place.path().join("out")).await;
    assert_eq!(record.runs.len(), 2 * 3);
    for run in &record.runs {
        let lines = if run.arm == "two" { 2.0 } else { 1.0 };
        assert_eq!(run.value("lost_pings"), Some(lines), "{run:?}");
    }
    assert!(fs::read_to_string(place.path().join("last")).unwrap().starts_with("made\n"));
    fs::write(&file, FILES.replace("reset = ['!cp", "reset = ['cp")).unwrap();
    let refused = read(&file).unwrap_err();
    assert!(refused.contains("SQL needs a server, and server = false"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_experiment_that_is_stopped_ends_its_command_and_keeps_only_whole_chains() {
    let place = tempfile::tempdir().unwrap();
    let (file, begun) = (place.path().join("chain.toml"), place.path().join("begun"));
    fs::write(&file, CHAIN.replace("$PLACE", &place.path().display().to_string())).unwrap();
    let pid = || fs::read_to_string(&begun).ok().filter(|text| text.ends_with('\n'));
    let request = Request { blocks: Some(1), seed: 1, ..Request::default() };
    let stop = until("the second arm of the chain begins", async || pid().is_some());
    let (ended, record) = ended(&read(&file).unwrap(), &request, &place.path().join("out"), stop).await;
    assert_eq!(ended, Ended::Stopped(()));
    assert!(record.runs.iter().all(|run| ["alone", "again"].contains(&run.arm.as_str())), "{record:?}");
    let stat = format!("/proc/{}/stat", pid().unwrap().trim());
    let is_running = || fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
    until("its command ends", async || !is_running()).await;
}

#[test]
fn a_choice_that_an_experiment_does_not_have_is_refused_with_those_that_it_has() {
    let value = || BTreeMap::from([("docs".to_owned(), "5".to_owned())]);
    let of_values = || Selection { values: value(), ..Selection::default() };
    let of_arm = |arm: &str| Selection { arms: vec![arm.to_owned()], ..Selection::default() };
    for (name, selection, says) in [
        ("ingest", of_values(), "experiment ingest: unknown value \"docs\": expected one of bytes, documents"),
        ("ladder", of_values(), "experiment ladder: unknown value \"docs\": expected one of clients, disk"),
        ("ingest", of_arm("copie"), "experiment ingest: unknown arm \"copie\""),
        ("ingest", of_arm("millstream/third"), "millstream/third continues millstream/changed, which is not chosen"),
    ] {
        let refused = Source::named(name, &selection).unwrap_err().to_string();
        assert!(refused.contains(says), "{refused}");
    }
}
