//! `lab drive`: every scheduled request is accounted for. The latencies that it measures here mean nothing.

use crate::process::{Run, command, run};
use millstream_testkit::{TestDatabase, database, each_build};
use serde_json::Value;
use std::process::Stdio;
use std::time::Duration;

const TABLE: &str = "create table account (id bigint primary key, balance bigint not null, name text not null);
    insert into account select n, 0, n::text from generate_series(1, 100) n";

/// Reads, transfers of two statements, and a class that fails each time.
const MIX: &str = r#"
about = "reads beside transfers"
connections = 4
seconds = 2
[[class]]
name = "read"
rate = 60
objective_ms = 60000
statements = ["select balance from account where id = {id} or name = {id}::text"]
values = { id = { uniform = [1, 100] } }
[[class]]
name = "transfer"
steps = [{ at_seconds = 0, rate = 10 }, { at_seconds = 1, rate = 40 }]
ramp = true
statements = [
  "update account set balance = balance - {amount} where id = {from}",
  "update account set balance = balance + {amount} where id = {from} % 100 + 1",
]
values = { from = { uniform = [1, 100] }, amount = { uniform = [1, 9] } }
[[class]]
name = "broken"
rate = 20
statements = ["select 1", "select 1 / {zero}::int"]
values = { zero = { uniform = [0, 0] } }
"#;

fn drive(database: &TestDatabase, workload: &str, args: &[&str]) -> Run {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mix.toml");
    std::fs::write(&file, workload).unwrap();
    run(command(&["lab", "drive"]).arg(&file).args(["--db", &database.url()]).args(args))
}

fn count(class: &Value, name: &str) -> u64 {
    class[name].as_u64().unwrap_or_else(|| panic!("{name}: {class}"))
}

fn assert_adds_up(class: &Value) {
    let ended = count(class, "done") + count(class, "failed") + count(class, "dropped");
    assert_eq!(count(class, "scheduled"), ended, "{class}");
    let sum = |name: &str| class[name].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("failures"), sum("drops")), (count(class, "failed"), count(class, "dropped")));
    let seconds = class["seconds"].as_array().unwrap();
    let done: u64 = seconds.iter().map(|second| count(second, "done")).sum();
    assert_eq!(done, count(class, "done"), "{class}");
    let latencies = class["response"]["count"].as_u64().unwrap_or(0);
    assert_eq!(latencies, count(class, "done"), "{class}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_scheduled_request_is_accounted_for() {
    each_build(async |database| {
        let client = database.client().await;
        client.batch_execute(TABLE).await.unwrap();
        let run = drive(&database, MIX, &["--output", "json", "--seed", "7"]);
        assert!([0, 1].contains(&run.code), "{run:?}");
        let result = run.json();
        let classes = result["classes"].as_array().unwrap();
        classes.iter().for_each(assert_adds_up);
        let [read, transfer, broken] = classes.as_slice() else { panic!("{result}") };
        assert!(count(read, "scheduled") > 60 && count(read, "done") > 0, "{read}");
        let steps = |class: &Value| class["steps"].as_array().unwrap().len();
        assert_eq!((steps(read), steps(transfer), steps(broken)), (1, 4, 4));
        assert_eq!((count(broken, "done"), count(broken, "late")), (0, 0));
        assert_eq!(broken["failures"]["22012"].as_u64(), Some(count(broken, "failed")), "{broken}");
        assert!(result["cpu_seconds"].as_f64().unwrap() > 0.0 && result["lateness"]["count"].as_u64().unwrap() > 0);

        // Transfers are whole: what one account loses, another gains.
        let sums = "select sum(balance)::bigint, count(*) filter (where balance <> 0) from account";
        let row = client.query_one(sums, &[]).await.unwrap();
        let (sum, moved): (i64, i64) = (row.get(0), row.get(1));
        assert_eq!((sum, moved > 0), (0, count(transfer, "done") > 0));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn too_much_load_is_dropped_and_said() {
    let database = database().await;
    let slow = "about = \"too slow\"\nconnections = 1\nseconds = 1\nbacklog = 5\n[[class]]\nname = \"sleep\"\n\
                rate = 100\nobjective_ms = 1\nstatements = [\"select pg_sleep(0.1)\"]\n";
    let run = drive(&database, slow, &[]).ends(1);
    assert!(run.stdout.contains("overloaded: "), "{run:?}");
    assert!(run.stdout.contains("% of the scheduled requests were served; latency grows with the run's length"));
    assert!(run.stdout.contains("dropped: backlog full") && run.stdout.contains("p99 of 1 ms: missed"), "{run:?}");
    let json = drive(&database, slow, &["--output", "json"]).ends(1).json();
    assert_adds_up(&json["classes"][0]);
    assert!(count(&json["classes"][0], "dropped") > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_end_is_dropped_and_ended_on_the_server() {
    let database = database().await;
    let hung = "connections = 2\nseconds = 1\nfinish_seconds = 0\n[[class]]\nname = \"hang\"\nrate = 20\n\
                statements = [\"select pg_sleep(600)\"]\n";
    let json = drive(&database, hung, &["--output", "json"]).ends(1).json();
    assert_adds_up(&json["classes"][0]);
    assert_eq!(json["classes"][0]["drops"]["not finished in time"], 2);
    let client = database.client().await;
    let sql = "select count(*) from pg_stat_activity where datname = current_database() and query like '%pg_sleep%'
               and pid <> pg_backend_pid()";
    let mut left = 2;
    for _ in 0..200 {
        left = client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0);
        if left == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    assert_eq!(left, 0, "sessions are left");
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_sessions_are_opened_again() {
    let database = database().await;
    let kill = "connections = 2\nseconds = 2\n[[class]]\nname = \"kill\"\nrate = 3\n\
                statements = [\"select pg_terminate_backend(pg_backend_pid())\"]\n\
                [[class]]\nname = \"one\"\nrate = 30\nstatements = [\"select 1\"]\n";
    let json = drive(&database, kill, &["--output", "json"]).json();
    let [kill, one] = json["classes"].as_array().unwrap().as_slice() else { panic!("{json}") };
    assert_adds_up(kill);
    assert_adds_up(one);
    assert!(count(kill, "failed") > 2 && kill["failures"]["57P01"].as_u64().is_some(), "{kill}");
    assert!(count(one, "done") > 0, "{one}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_prints_every_step() {
    let database = database().await;
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("found.json");
    let workload = "connections = 1\nseconds = 1\n[[class]]\nname = \"one\"\nrate = 40\n\
                    statements = [\"select pg_sleep(0.05)\"]\n";
    let args = ["--search", "one.p90 < 10ms", "--output", "json", "--out", out.to_str().unwrap()];
    let run = drive(&database, workload, &args).ends(1);
    let found = run.json();
    let steps = found["steps"].as_array().unwrap();
    assert_eq!(run.stderr.matches(" requests/s: ").count(), steps.len(), "{run:?}");
    assert!(found["highest_rate"].is_null() && steps.iter().all(|step| step["kept"] == false), "{found}");
    let factors: Vec<f64> = steps.iter().map(|step| step["rate_factor"].as_f64().unwrap()).collect();
    // Half of it again would be too few requests for a percentile.
    assert_eq!(factors, [1.0, 0.5, 0.25]);
    assert_eq!(serde_json::from_str::<Value>(&std::fs::read_to_string(&out).unwrap()).unwrap(), found);
    let run = drive(&database, workload, &args).ends(2);
    assert!(run.stderr.contains("results are never overwritten"), "{run:?}");
    let run = drive(&database, workload, &["--search", "tow.p90 < 10ms"]).ends(2);
    assert!(run.stderr.contains("unknown class \"tow\""), "{run:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_workloads_are_refused_with_their_place() {
    let database = database().await;
    for (from, to, says) in [
        ("connections", "connection", "unknown key \"connection\": did you mean \"connections\"?"),
        ("from account", "from accounts", "class read, statement 1: relation \"accounts\" does not exist"),
        ("balance - {amount}", "balance - {amount}::numeric", "{amount} does not fit: PostgreSQL takes it for numeric"),
    ] {
        assert!(MIX.contains(from), "{from}");
        let client = database.client().await;
        client.batch_execute(&format!("drop table if exists account; {TABLE}")).await.unwrap();
        let run = drive(&database, &MIX.replacen(from, to, 1), &[]).ends(2);
        assert!(run.stderr.contains(says), "{to}: {run:?}");
    }
    let run = drive(&database, &MIX.replacen("rate = 60", "raet = 60", 1), &[]).ends(2);
    assert!(run.stderr.contains("mix.toml:7") && run.stderr.contains("did you mean \"rate\"?"), "{run:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_prints_what_was_measured() {
    let database = database().await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mix.toml");
    let long = "connections = 1\nseconds = 3600\n[[class]]\nname = \"one\"\nrate = 50\nstatements = [\"select 1\"]\n";
    std::fs::write(&file, long).unwrap();
    let mut command = command(&["lab", "drive", "--output", "json"]);
    command.arg(&file).args(["--db", &database.url()]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let client = database.client().await;
    let sql = "select count(*) from pg_stat_activity where query = 'select 1' and datname = current_database()";
    while client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let output = tokio::task::spawn_blocking(|| child.wait_with_output().unwrap()).await.unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["stopped"], true);
    assert_adds_up(&result["classes"][0]);
}
