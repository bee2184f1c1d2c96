//! `lab run`, `lab report` and `lab compare`: what they print of small runs, and how they end.

use crate::process::{command, millstream, run};
use millstream_lab::experiments::Record;
use millstream_testkit::{Feature, database_on, dealt_builds_with};
use std::path::Path;

/// Two ways to ask for the same number, and arms without a result.
const EXPERIMENT: &str = "\
question = 'Which is faster?'
seconds = 1
run = { scripts = ['one.sql'] }
setup = ['create table if not exists t (a int)']
cleanup = ['drop table t']
[[arm]]
name = 'simple'
[[arm]]
name = 'prepared'
run = { protocol = 'prepared' }
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

#[tokio::test(flavor = "multi_thread")]
async fn an_experiment_in_a_file_runs_is_reported_and_compared() {
    for build in dealt_builds_with(&[Feature::Pgbench]).await {
        let (database, dir) = (database_on(build).await, tempfile::tempdir().unwrap());
        let name = format!("own{:08x}", fastrand::u32(..));
        let (file, out) = (dir.path().join(format!("{name}.toml")), dir.path().join("out"));
        std::fs::write(&file, EXPERIMENT).unwrap();
        std::fs::write(dir.path().join("one.sql"), "insert into t values (1);\n").unwrap();
        let [file, out] = [file, out].map(|path| path.display().to_string());
        let url = database.url();
        let args = ["lab", "run", &file, "--quick", "--seconds", "1", "--db", &url, "--out", &out];
        let run = millstream(&args).ends(1);
        let record = Record::read(Path::new(&out)).unwrap();
        let of = |arm: &str| record.runs.iter().find(|run| run.arm == arm).unwrap();
        for (arm, why) in [("settings", "--i-own-this-server"), ("host", "--change-host")] {
            let outcome = format!("{:?}", of(arm).outcome);
            assert!(outcome.contains(why), "{outcome}");
        }
        let recorded = &of("simple").measures().unwrap().recorded;
        assert!(recorded.contains_key("processor.busy_percent"), "{recorded:?}");
        assert!(run.stdout.contains("What limits, by two signs that agree:"), "{run:?}");
        assert!(run.stdout.contains("quick: not evidence") && run.stdout.contains("prepared"), "{run:?}");
        assert!(run.stdout.lines().all(|line| line.chars().count() <= 80), "{run:?}");

        let again = millstream(&args).ends(1);
        assert!(again.stderr.contains("4 runs are recorded; the others follow"), "{again:?}");

        let compared = millstream(&["lab", "compare", &out, &out]).ends(0);
        let says = "no verdicts: a record is one sample, whatever runs it holds";
        assert!(compared.stdout.starts_with(says), "{compared:?}");
        let numbers =
            compared.stdout.lines().find(|line| line.starts_with("prepared") && line.contains(" tps ")).unwrap();
        assert!(numbers.matches(" tx/s").count() == 2 && numbers.contains("1.000"), "{compared:?}");
        let refused = millstream(&["lab", "compare", &out, &out, "--fail-above", "5%"]).ends(2);
        assert!(refused.stderr.contains("hint: a record is one sample"), "{refused:?}");
        let page = dir.path().join("three.html").display().to_string();
        let three = millstream(&["lab", "compare", &out, &out, &out, "--html", &page]).ends(0);
        let ratios = three.stdout.matches("1.000").count();
        assert!(ratios > 0 && ratios.is_multiple_of(3), "{three:?}");
        assert!(three.stdout.contains("VS FIRST") && three.stdout.contains(says), "{three:?}");
        assert!(std::fs::read_to_string(&page).unwrap().contains("3 records beside each other"));
        let refused = millstream(&["lab", "compare", &out, &out, &out, "--fail-above", "5%"]).ends(2);
        assert!(refused.stderr.contains("--fail-above compares two sides"), "{refused:?}");
        let csv = millstream(&["lab", "report", &out, "--format", "csv"]).ends(1);
        assert_eq!(csv.stdout.lines().count(), 7, "{csv:?}");
        let seconds = millstream(&["lab", "report", &out, "--format", "csv", "--series"]).ends(1);
        let (heading, _) = seconds.stdout.split_once('\n').unwrap();
        assert!(heading.contains(",second,") && heading.contains(",tps"), "{seconds:?}");
        let refused = millstream(&["lab", "report", &out, "--series"]).ends(2);
        assert!(refused.stderr.contains("add --format csv"), "{refused:?}");
        let client = database.client().await;
        client.batch_execute(&format!("drop database lab_{name}")).await.unwrap();
    }
}

#[test]
fn the_mistakes_of_an_experiment_are_printed_with_their_lines() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.toml");
    let two = EXPERIMENT.replace("seconds", "secnods").replace("'prepared' }", "'prepare' }");
    std::fs::write(&path, two).unwrap();
    let run = millstream(&["lab", "run", path.to_str().unwrap()]).ends(2);
    let said = "experiment x: 2 mistakes\n    line 2: unknown key \"secnods\": did you mean \"seconds\"?\n    \
        line 10: unknown word \"prepare\": did you mean \"prepared\"?\n";
    assert!(run.stderr.contains(said), "{run:?}");
    let run = millstream(&["lab", "run", "ladder", "--postgres", "9"]).ends(2);
    assert!(run.stderr.contains("PostgreSQL 9 is not installed; installed: "), "{run:?}");
}

/// An experiment whose command finds nothing to measure.
const NOTHING: &str = r#"
question = "Does it work?"
metric = "wall_seconds"
seconds = 1
server = false
run = { command = """echo '{"skipped": "not on this machine"}'""" }
[[arm]]
name = "one"
[[arm]]
name = "two"
"#;

#[test]
fn an_experiment_that_measures_nothing_does_not_end_well() {
    let dir = tempfile::tempdir().unwrap();
    let (out, home) = (dir.path().join("out"), dir.path().join("home"));
    let mut kernel = command(&["lab", "run", "kernel", "--quick", "--out"]);
    let refused = run(kernel.arg(&out).env("MILLSTREAM_HOME", &home)).ends(2);
    let says = "no arm of kernel can be run: it changes this machine; --change-host allows that";
    assert!(refused.stderr.contains(says), "{refused:?}");
    assert!(!out.exists() && !home.exists(), "{refused:?}");

    let file = dir.path().join("nothing.toml");
    std::fs::write(&file, NOTHING).unwrap();
    let [file, out] = [file, out].map(|path| path.display().to_string());
    let skipped = millstream(&["lab", "run", &file, "--quick", "--out", &out]).ends(1);
    assert!(skipped.stderr.contains("nothing was measured: every arm was skipped"), "{skipped:?}");
    assert!(skipped.stdout.contains("not on this machine"), "{skipped:?}");
    millstream(&["lab", "report", &out]).ends(1);
}

#[test]
fn two_command_lines_are_compared() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let args = ["lab", "run", "--a", "true", "--b", "sleep 0.2", "--quick", "--out", out.to_str().unwrap()];
    let run = millstream(&args).ends(0);
    assert!(run.stdout.contains("Which of two commands takes less time?"), "{run:?}");
    let record = Record::read(&out).unwrap();
    let seconds = |arm: &str| record.runs.iter().find(|run| run.arm == arm).unwrap().value("wall_seconds").unwrap();
    assert!(seconds("b") >= 0.2 && seconds("a") > 0.0, "{record:?}");
    let (page, out) = (dir.path().join("page.html"), out.display().to_string());
    millstream(&["lab", "report", &out, "--html", page.to_str().unwrap()]).ends(0);
    assert!(std::fs::read_to_string(&page).unwrap().contains("</html>"));
    let report = millstream(&["lab", "report", &out, "--output", "json"]).ends(0);
    assert_eq!(report.json()["metric"]["name"], "wall_seconds");
    let other = dir.path().join("other");
    // What a command leaves running neither lengthens its run nor outlives it.
    let a = "sleep 300 & true";
    let args = ["lab", "run", "--a", a, "--b", "false", "--quick", "--shell", "--out", other.to_str().unwrap()];
    let failed = millstream(&args).ends(1);
    assert!(failed.stdout.contains("b: failed: the command failed: it ended with"), "{failed:?}");
    assert_eq!(Record::read(&other).unwrap().argv[4], a);
    let refused = millstream(&["lab", "run", "--a", a, "--b", "false"]).ends(2);
    assert!(refused.stderr.contains("only a shell understands &, unless it is quoted; --shell runs"), "{refused:?}");
}
