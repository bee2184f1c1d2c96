//! `lab drive`: what it prints, and how it ends.

use crate::process::{Run, assert_runs, command, run, send};
use millstream_testkit::{Feature, TestDatabase, database_with, until};
use serde_json::Value;
use std::process::Stdio;
use tokio_postgres::Client;

/// One script that sleeps.
fn sleeping(seconds: &str, head: &str) -> String {
    format!("connections = 1\nseconds = 1\n{head}\n[[script]]\nname = \"one\"\nsql = \"select pg_sleep({seconds})\"\n")
}

fn drive(database: &TestDatabase, workload: &str, args: &[&str]) -> Run {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mix.toml");
    std::fs::write(&file, workload).unwrap();
    run(command(&["lab", "drive"]).arg(&file).args(["--db", &database.url()]).args(args))
}

/// How many statements of `lab drive` the server runs.
async fn driven(client: &Client) -> i64 {
    let sql = "select count(*) from pg_stat_activity where datname = current_database() and state = 'active'
               and application_name like 'millstream drive %'";
    client.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missed_objective_is_printed_and_ends_with_1() {
    let Some(database) = database_with(&[Feature::Pgbench]).await else { return };
    let slow = sleeping("0.1", "rate = 100").replace("name = \"one\"", "name = \"one\"\nobjective_ms = 1");
    let run = drive(&database, &slow, &[]).ends(1);
    assert!(run.stdout.contains("overloaded: ") && run.stdout.contains("p99 of 1 ms: missed"), "{run:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_prints_every_step() {
    let Some(database) = database_with(&[Feature::Pgbench]).await else { return };
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("found.json");
    let workload = sleeping("0.05", "rate = 40");
    let args = ["--search", "one.p90 < 10ms", "--output", "json", "--out", out.to_str().unwrap()];
    let run = drive(&database, &workload, &args).ends(1);
    let found = run.json();
    let steps = found["search"]["steps"].as_array().unwrap();
    assert_eq!(run.stderr.matches(" transactions/s: ").count(), steps.len(), "{run:?}");
    assert!(found["search"]["highest_rate"].is_null() && steps.iter().all(|step| step["kept"] == false), "{found}");
    assert_eq!(serde_json::from_str::<Value>(&std::fs::read_to_string(&out).unwrap()).unwrap(), found);
    let run = drive(&database, &workload, &args).ends(2);
    assert!(run.stderr.contains("results are never overwritten"), "{run:?}");
}

#[test]
fn a_workload_that_is_wrong_or_has_no_end_is_refused_with_its_place() {
    let refused = run(&mut command(&["lab", "drive", "/dev/zero"])).ends(2);
    assert!(refused.stderr.contains("/dev/zero has more than 1048576 bytes"), "{refused:?}");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mix.toml");
    std::fs::write(&file, sleeping("0", "rate = 1").replace("name = \"one\"", "name = \"one\"\nwieght = 3")).unwrap();
    let refused = run(command(&["lab", "drive"]).arg(&file)).ends(2);
    let said = &refused.stderr;
    assert!(said.contains("mix.toml:6") && said.contains("did you mean \"weight\"?"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_ends_the_run_on_the_server_too() {
    let Some(database) = database_with(&[Feature::Pgbench]).await else { return };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mix.toml");
    std::fs::write(&file, sleeping("600", "rate = 100")).unwrap();
    let mut command = command(&["lab", "drive", "--output", "json"]);
    command.arg(&file).args(["--db", &database.url()]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let client = database.client().await;
    until("the server runs the statement that sleeps", async || {
        assert_runs(&mut child);
        driven(&client).await == 1
    })
    .await;
    send("INT", child.id());
    let output = tokio::task::spawn_blocking(|| child.wait_with_output().unwrap()).await.unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&result["stopped"], result["runs"].as_array().unwrap().len()), (&Value::Bool(true), 0));
    until("the server runs no statement any more", async || driven(&client).await == 0).await;
}
