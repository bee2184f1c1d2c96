//! Mending rejects: from a load with rejects to the mended documents in the table.

use crate::process::{Run, command, run};
use millstream_testkit::database;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn rejects_are_exported_repaired_and_loaded() {
    let database = database().await;
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (input, rejects, export) = (path("in.ndjson"), path("in.rejects"), path("mend.rejects"));
    let at = |args: &[&str]| -> Run { run(command(args).args(["--db", &database.url()])) };
    std::fs::write(&input, "{\"id\": 1}\n{\"id\": 2,}\n{\"id\": 3}\n{\"name\": \"x\"}\n").unwrap();

    let load = ["load", &input, "--into", "events", "--key", "id:bigint", "--rejects", &rejects, "--output", "json"];
    let receipt = at(&load).ends(1).json();
    assert_eq!((&receipt["read"], &receipt["inserted"], &receipt["rejected"]), (&json!(4), &json!(2), &json!(2)));
    at(&["rejects", "events", "--export", &export, "--clear"]).ends(0);
    let text = std::fs::read_to_string(&export).unwrap();
    assert_eq!(text, std::fs::read_to_string(&rejects).unwrap(), "both ways write the same");

    let mended = text.replace("2,}", "2}").replace("{\\\"name\\\"", "{\\\"id\\\": 4, \\\"name\\\"");
    std::fs::write(&export, mended).unwrap();
    let load = ["load", "--format", "rejects", &export, "--into", "events", "--key", "id:bigint"];
    at(&load).ends(0);
    let run = at(&["get", "events", "2", "4"]).ends(0);
    assert_eq!(run.stdout, "{\"id\": 2}\n{\"id\": 4, \"name\": \"x\"}\n");
    assert!(at(&["rejects", "events"]).ends(0).stderr.contains("no rejects"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rerun_overwrites_the_rejects_of_the_first_run() {
    let database = database().await;
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (input, rejects) = (path("in.ndjson"), path("in.rejects"));
    std::fs::write(&input, "{\"id\": 1}\nbad\n[]\n").unwrap();
    let url = database.url();
    let load = ["load", &input, "--into", "events", "--key", "id:bigint", "--rejects", &rejects, "--db", &url];
    for load_id in [1, 2] {
        run(&mut command(&load)).ends(1);
        let text = std::fs::read_to_string(&rejects).unwrap();
        let ids: Vec<Value> = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect();
        assert_eq!(ids.iter().map(|line| &line["load_id"]).collect::<Vec<_>>(), [load_id, load_id], "{text:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn repeating_a_sum_prints_its_receipt_again() {
    let database = database().await;
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in.ndjson");
    std::fs::write(&input, "{\"id\": 1, \"n\": 2}\nbad\n").unwrap();
    let url = database.url();
    let load = ["load", input.to_str().unwrap(), "--into", "events", "--key", "id:bigint", "--mode", "sum:n"];
    let at = || run(command(&load).args(["--output", "json", "--db", &url]));
    let counted = |run: &Run| ["load_id", "read", "inserted", "rejected"].map(|name| run.json()[name].clone());
    let (first, again) = (at().ends(1), at().ends(0));
    assert_eq!(counted(&again), counted(&first));
    assert!(again.stderr.contains("nothing is added"), "{again:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_are_printed_alone_on_stdout() {
    let database = database().await;
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in.ndjson");
    std::fs::write(&input, "{\"id\": 1}\nbad\n").unwrap();
    let url = database.url();
    let load = ["load", input.to_str().unwrap(), "--into", "events", "--key", "id:bigint", "--db", &url];
    run(&mut command(&load)).ends(1);
    let print = ["rejects", "events", "--export", "-", "--clear", "--output", "json", "--db", &url];
    let run = run(command(&print).current_dir(dir.path())).ends(0);
    assert_eq!(run.json()["document"], "bad");
    assert_eq!(run.stdout.lines().count(), 1);
    assert!(run.stderr.contains("exported 1 reject to stdout\ncleared 1 reject\n"), "{run:?}");
    assert!(!dir.path().join("-").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_do_not_overwrite_a_file_of_something_else() {
    let database = database().await;
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in.ndjson");
    std::fs::write(&input, "{\"id\": 1}\n").unwrap();
    let file = input.to_str().unwrap();
    let args = ["load", file, "--into", "events", "--key", "id", "--rejects", file, "--db", &database.url()];
    let run = run(&mut command(&args)).ends(2);
    assert!(run.stderr.contains("does not hold rejects"), "{run:?}");
    assert_eq!(std::fs::read_to_string(&input).unwrap(), "{\"id\": 1}\n");
}
