//! Values of experiments that a user chooses, and the page that a run writes.

use crate::process::{Run, millstream};
use millstream_lab::experiments::Source;
use std::path::Path;

/// Two commands without a server, of which a user may choose how long they take.
const EXPERIMENT: &str = r#"
question = "Which waits longer?"
metric = "wall_seconds"
seconds = 1
server = false

[values]
pause = { value = 0.01, changes = "seconds of the long command" }
other = "0.01"

[[arm]]
name = "short"
run = { command = "sleep {other}" }

[[arm]]
name = "long"
about = "{pause} seconds"
run = { command = "sleep {pause}" }
"#;

/// What was printed, with one space between words.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Runs the experiment of a directory with these options, into its `out`.
fn run_in(dir: &Path, options: &[&str]) -> Run {
    let (file, out) = (dir.join("waits.toml"), dir.join("out"));
    std::fs::write(&file, EXPERIMENT).unwrap();
    let args = ["lab", "run", file.to_str().unwrap(), "--quick", "--out", out.to_str().unwrap()];
    millstream(&[&args[..], options].concat())
}

#[test]
fn a_run_writes_its_page_in_the_same_command_and_reports_say_the_values() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page.html");
    let run = run_in(dir.path(), &["--set", "pause=0.02", "--html", page.to_str().unwrap()]).ends(0);
    let said = "other 0.01, pause 0.02 (usually 0.01)";
    assert!(words(&run.stdout).contains(&format!("values: {said}")), "{run:?}");
    assert!(run.stderr.contains(&format!("report: {}", page.display())), "{run:?}");
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(text.contains(said) && text.contains("seconds of the long command"), "{text}");
    let out = dir.path().join("out");
    let report = millstream(&["lab", "report", out.to_str().unwrap(), "--output", "json"]).ends(0).json();
    assert_eq!(report["dials"][1]["usual"], "0.01", "{report}");
    let resumed = run_in(dir.path(), &["--set", "pause=0.03"]).ends(2);
    assert!(resumed.stderr.contains("another --set"), "{resumed:?}");
}

#[test]
fn a_page_that_cannot_be_written_is_refused_before_anything_runs() {
    let dir = tempfile::tempdir().unwrap();
    let nowhere = dir.path().join("none/page.html");
    let refused = run_in(dir.path(), &["--html", nowhere.to_str().unwrap()]).ends(2);
    assert!(refused.stderr.contains("cannot write") && !dir.path().join("out").exists(), "{refused:?}");
    let two = millstream(&["lab", "run", "ladder", "clients", "--html", "page.html"]).ends(2);
    assert!(two.stderr.contains("--html names the page of one experiment"), "{two:?}");
}

#[test]
fn what_would_change_nothing_is_an_error_with_the_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let of_no_arm = run_in(dir.path(), &["--set", "pause=0.03", "--arms", "short"]).ends(2);
    let says = "the value pause=0.03 changes nothing: no chosen arm uses it";
    assert!(words(&of_no_arm.stderr).contains(says), "{of_no_arm:?}");
    for (args, says) in [
        (
            &["ladder", "--scale-max", "20"][..],
            "--scale-max changes nothing in ladder: its scale is 10; --set scale=20 makes larger tables",
        ),
        (&["ingest", "--seconds", "5"], "--seconds changes nothing in ingest: none of its arms is a run of pgbench"),
        (&["ladder", "--seconds", "5", "--set", "seconds=6"], "--seconds and --set seconds=5 choose the same"),
        // Names of versions that nobody has: they are checked before anything runs, and each is named.
        (&["versions", "--set", "versions=8,9"], "no arm of versions can be run: PostgreSQL 8 is not installed"),
        (&["checkpoint", "--set", "versions=8,9"], "PostgreSQL 9 is not installed"),
    ] {
        let refused = millstream(&[&["lab", "run"], args].concat()).ends(2);
        assert!(words(&refused.stderr).contains(says), "{refused:?}");
    }
}

#[test]
fn a_wrong_value_of_a_dial_is_refused_by_its_name_before_anything_starts() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    for (experiment, values, says) in [
        ("packets", &["seconds=0"][..], "experiment packets: seconds must be a number from 0.001 to 3600, not 0"),
        ("packets", &["rows=artcile"], "unknown value of rows \"artcile\": did you mean \"article\"?"),
        ("ingest", &["lanes=65"], "experiment ingest: lanes must be a whole number from 1 to 64, not 65"),
        ("ingest", &["documents=1e6"], "documents must be a whole number from 1 to 100000000, not 1e6"),
        ("ingest", &["bytes=149"], "bytes must be a whole number from 150 to 16777216, not 149"),
        ("ingest", &["keys=randm"], "unknown value of keys \"randm\": did you mean \"random\"?"),
        ("ingest", &["millstream=/nowhere/x"], "millstream must name a program, and there is no /nowhere/x"),
        ("copy", &["directories=0"], "experiment copy: directories must be a whole number, at least 1, not 0"),
        (
            "upsert",
            &["batches=10,x"],
            "batches must be a whole number, at least 1, or several with commas between them",
        ),
        ("policy", &["documents="], "experiment policy: the value of documents is empty"),
        ("ingest", &["lanes=1", "lanes=2"], "--set chooses lanes twice: lanes=1 and lanes=2"),
    ] {
        let values = values.iter().flat_map(|value| ["--set", *value]);
        let args = ["lab", "run", experiment, "--quick", "--out", out.to_str().unwrap()];
        let refused = millstream(&args.into_iter().chain(values).collect::<Vec<_>>()).ends(2);
        assert!(words(&refused.stderr).contains(says) && !out.exists(), "{experiment}: {refused:?}");
    }
    // Also in a file of the user's own, whose bounds are beside the value.
    let refused = run_in(dir.path(), &["--set", "pause=-1"]).ends(2);
    assert!(refused.stderr.contains("pause must be a number, at least 0, not -1"), "{refused:?}");
}

#[test]
fn a_list_has_each_question_and_an_experiment_shows_its_values_and_what_its_arms_have_in_common() {
    let all = words(&millstream(&["lab", "list"]).ends(0).stdout);
    for one in Source::built_in().unwrap() {
        assert!(all.contains(&one.experiment.question), "{}: {all}", one.experiment.name);
    }
    let rate = words(&millstream(&["lab", "list", "rate-limit"]).ends(0).stdout);
    for said in [
        "all arms: checkpoint_timeout 30s, clients 8, latency_limit_ms 20, protocol prepared, rate 200, scale 50,",
        "VALUE TO --SET USUAL WHAT IT CHANGES",
        "rate 200 scheduled transactions a second",
    ] {
        assert!(rate.contains(said), "{said}: {rate}");
    }
}
