//! `lab drive`: every scheduled transaction is accounted for. The latencies that it measures here mean nothing.

use crate::process::{Run, assert_runs, command, run, send};
use millstream_testkit::{Feature, TestDatabase, database_with, each_build_with, until};
use serde_json::Value;
use std::process::Stdio;
use tokio_postgres::Client;

const TABLE: &str = "create table account (id bigint primary key, balance bigint not null);
    insert into account select n, 0 from generate_series(1, 100) n";

/// Reads beside transfers of two statements, at two rates.
const MIX: &str = r#"
about = "reads beside transfers"
connections = 4
seconds = 1
rate = [100, 150]
[[script]]
name = "read"
weight = 3
objective_ms = 60000
sql = '''
\set id random(1, 100)
select balance from account where id = :id;
'''
[[script]]
name = "transfer"
sql = '''
\set from random(1, 100)
\set amount random(1, 9)
begin;
update account set balance = balance - :amount where id = :from;
update account set balance = balance + :amount where id = :from % 100 + 1;
commit;
'''
"#;

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

fn count(script: &Value, name: &str) -> u64 {
    script[name].as_u64().unwrap_or_else(|| panic!("{name}: {script}"))
}

fn assert_adds_up(script: &Value) {
    let ended = count(script, "done") + count(script, "failed") + count(script, "skipped");
    assert_eq!(count(script, "scheduled"), ended, "{script}");
    for latency in ["response", "service"] {
        assert_eq!(script[latency]["count"].as_u64().unwrap_or(0), count(script, "done"), "{script}");
    }
}

/// How many statements of `lab drive` the server runs.
async fn driven(client: &Client) -> i64 {
    let sql = "select count(*) from pg_stat_activity where datname = current_database() and state = 'active'
               and application_name like 'millstream drive %'";
    client.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_scheduled_transaction_is_accounted_for() {
    each_build_with(&[Feature::Pgbench], async |database| {
        let client = database.client().await;
        client.batch_execute(TABLE).await.unwrap();
        let run = drive(&database, MIX, &["--output", "json", "--seed", "7"]);
        assert!([0, 1].contains(&run.code), "{run:?}");
        let result = run.json();
        let runs = result["runs"].as_array().unwrap();
        assert_eq!(runs.iter().map(|run| run["rate"].as_f64().unwrap()).collect::<Vec<_>>(), [100.0, 150.0]);
        let mut transfers = 0;
        for run in runs {
            let scripts = run["scripts"].as_array().unwrap();
            scripts.iter().for_each(assert_adds_up);
            let [read, transfer] = scripts.as_slice() else { panic!("{run}") };
            assert!(count(read, "done") > 0, "{read}");
            assert_eq!((count(read, "late"), &read["objective_met"]), (0, &Value::Bool(true)));
            transfers += count(transfer, "done");
        }
        // Transfers are whole: what one account loses, another gains.
        let sums = "select sum(balance)::bigint, count(*) filter (where balance <> 0) from account";
        let row = client.query_one(sums, &[]).await.unwrap();
        let (sum, moved): (i64, i64) = (row.get(0), row.get(1));
        assert_eq!((sum, moved > 0), (0, transfers > 0));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn too_much_load_is_said_and_skipped_where_there_is_a_limit() {
    let Some(database) = database_with(&[Feature::Pgbench]).await else { return };
    let slow = sleeping("0.1", "rate = 100").replace("name = \"one\"", "name = \"one\"\nobjective_ms = 1");
    let run = drive(&database, &slow, &[]).ends(1);
    assert!(run.stdout.contains("overloaded: ") && run.stdout.contains("p99 of 1 ms: missed"), "{run:?}");
    let limited = sleeping("0.1", "rate = 100\nlimit_ms = 150");
    let json = drive(&database, &limited, &["--output", "json"]).ends(1).json();
    let script = &json["runs"][0]["scripts"][0];
    assert_adds_up(script);
    assert!(count(script, "skipped") > 0, "{script}");
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
    let rates: Vec<f64> = steps.iter().map(|step| step["rate"].as_f64().unwrap()).collect();
    // Half of it again would be too few transactions for a percentile.
    assert_eq!(rates, [40.0, 20.0, 10.0]);
    assert_eq!(serde_json::from_str::<Value>(&std::fs::read_to_string(&out).unwrap()).unwrap(), found);
    let run = drive(&database, &workload, &args).ends(2);
    assert!(run.stderr.contains("results are never overwritten"), "{run:?}");
    let run = drive(&database, &workload, &["--search", "tow.p90 < 10ms"]).ends(2);
    assert!(run.stderr.contains("unknown script \"tow\""), "{run:?}");
    let several = workload.replace("rate = 40", "rate = [40, 80]");
    let run = drive(&database, &several, &["--search", "p90 < 10ms"]).ends(2);
    assert!(run.stderr.contains("a search begins at one rate"), "{run:?}");
}

#[test]
fn a_workload_file_without_an_end_is_refused() {
    let refused = run(&mut command(&["lab", "drive", "/dev/zero"])).ends(2);
    assert!(refused.stderr.contains("/dev/zero has more than 1048576 bytes"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_workloads_are_refused_with_their_place() {
    let Some(database) = database_with(&[Feature::Pgbench]).await else { return };
    database.client().await.batch_execute(TABLE).await.unwrap();
    let run = drive(&database, &MIX.replacen("weight = 3", "wieght = 3", 1), &[]).ends(2);
    assert!(run.stderr.contains("mix.toml:8") && run.stderr.contains("did you mean \"weight\"?"), "{run:?}");
    for (from, to, says) in [
        ("from account", "from accounts", "relation \"accounts\" does not exist"),
        ("\\set id", "\\seat id", "invalid command"),
    ] {
        assert!(MIX.contains(from), "{from}");
        let run = drive(&database, &MIX.replacen(from, to, 1), &[]).ends(2);
        assert!(run.stderr.contains("pgbench failed: ") && run.stderr.contains(says), "{to}: {run:?}");
    }
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
