//! `--progress json`: what the program that starts a command reads on its stderr, and what happens if it is gone.

use crate::process::{Run, command, millstream};
use millstream_testkit::database;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

/// The lines of stderr, all of which are JSON.
#[track_caller]
fn lines(run: &Run) -> Vec<Value> {
    run.stderr
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {run:?}")))
        .collect()
}

/// The last event of this name.
#[track_caller]
fn last(run: &Run, name: &str) -> Value {
    lines(run).into_iter().rfind(|line| line["event"] == name).unwrap_or_else(|| panic!("no event {name}: {run:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_on_stderr_is_a_line_of_json() {
    let db = database().await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    let text: String = (0..2_000).map(|n| format!("{{\"id\":{n}}}\n")).collect();
    std::fs::write(&file, format!("{text}{{\"id\":\nno\n")).unwrap();
    let file = file.to_str().unwrap();
    let url = db.url();
    let args = ["--into", "public.events", "--key", "id", "--output", "json", "--progress", "json", "--db", &url];
    let load = millstream(&[&["load", file][..], &args[..]].concat()).ends(1);
    let receipt = load.json();
    let at = |name: &str| lines(&load).iter().position(|line| line["event"] == name);
    assert!(at("reading").is_some() && at("reading") < at("key"), "types are inferred from what is read: {load:?}");
    let (started, progress) = (last(&load, "started"), last(&load, "progress"));
    assert_eq!(started["load_id"], receipt["load_id"]);
    assert_eq!(progress["documents"], 2_002, "the last event counts everything: {load:?}");
    assert_eq!((&progress["rejected"], &progress["bytes"]), (&receipt["rejected"], &receipt["bytes_read"]));
    assert_eq!(progress["input_bytes_total"], std::fs::metadata(file).unwrap().len());
    assert!(last(&load, "key")["columns"][0].as_str().unwrap().contains("bigint"), "{load:?}");
    assert!(last(&load, "created")["ddl"].as_str().unwrap().contains("create table"), "{load:?}");
    assert!(last(&load, "note")["text"].as_str().unwrap().starts_with("hint: millstream rejects "), "{load:?}");
    let verify = millstream(&[&["verify", file][..], &args[..]].concat()).ends(0);
    assert_eq!(verify.json()["equal"], 2_000);
    assert!(last(&verify, "progress")["documents"].as_u64().unwrap() >= 2_000, "{verify:?}");
}

#[test]
fn an_error_is_such_a_line_too() {
    let typed = ["load", "absent", "--into", "a", "--key", "id", "--progress", "json"];
    let absent = millstream(&typed).ends(2);
    let wrong = millstream(&[&typed[..], &["--nonsense"]].concat()).ends(2);
    for run in [absent, wrong] {
        let lines = lines(&run);
        assert!(lines.last().unwrap()["error"].is_string() && run.stdout.is_empty(), "{run:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_whose_events_nobody_reads_any_more_ends_and_can_be_resumed() {
    let db = database().await;
    let url = db.url();
    let args = ["--into", "public.left", "--key", "id:bigint", "--source-name", "left", "--output", "json"];
    let load = || {
        let mut load = command(&[&["load", "-", "--progress", "json", "--db", &url][..], &args[..]].concat());
        load.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        load.spawn().unwrap()
    };
    let mut left = load();
    let mut documents = left.stdin.take().unwrap();
    documents.write_all(b"{\"id\":1}\n").unwrap();
    let mut events = BufReader::new(left.stderr.take().unwrap());
    loop {
        let mut line = String::new();
        assert!(events.read_line(&mut line).unwrap() > 0, "the document was not committed");
        let event: Value = serde_json::from_str(&line).unwrap();
        if event["event"] == "progress" && event["documents"] == 1 {
            break;
        }
    }
    drop(events);
    let mut receipt = String::new();
    left.stdout.take().unwrap().read_to_string(&mut receipt).unwrap();
    assert_eq!(left.wait().unwrap().code(), Some(143), "as after SIGTERM, while its input is open");
    let receipt: Value = serde_json::from_str(&receipt).unwrap();
    assert_eq!(receipt["read"], 1);
    assert_eq!(receipt["finished"], false);
    drop(documents);

    let mut resumed = load();
    resumed.stdin.take().unwrap().write_all(b"{\"id\":1}\n{\"id\":2}\n").unwrap();
    let output = resumed.wait_with_output().unwrap();
    let receipt: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(receipt["read"], 2);
    assert_eq!(receipt["resumed_from"], 1);
}
