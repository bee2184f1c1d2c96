//! The lab's recorder as a process of its own: what it records on every version, and how it ends.

use crate::process::{command, run};
use millstream_lab::recorder::{Recorder, Recording, Watched};
use millstream_pg::{ConnInfo, Environment as Surroundings};
use millstream_testkit::{Server, Settings, TestDatabase, connect, database, default_build, each_build, until};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio_postgres::Client;

const PROGRAM: &str = env!("CARGO_BIN_EXE_millstream");

/// What the extension `pg_stat_statements` counts.
const CALLS: &str = "statements.calls_per_second";

/// Somebody's function of the name of the extension's.
const FALSE_STATEMENTS: &str = "
    create function public.pg_stat_statements(boolean)
    returns table (calls bigint, rows bigint, total_exec_time float8, wal_bytes numeric)
    language sql as 'select 1::bigint, 1::bigint, 1.0::float8, 1::numeric'";

fn conninfo(database: &TestDatabase) -> ConnInfo {
    ConnInfo::parse(&database.url(), &Surroundings::from_variables([])).unwrap()
}

/// Seconds that the file holds so far.
const LOST: &str = "the recorder's session at the server was lost";

fn seconds(file: &Path) -> usize {
    std::fs::read_to_string(file).unwrap_or_default().matches("\"values\"").count()
}

/// How many of them have values of the server, which a slow answer may have kept away.
fn seconds_of_server(file: &Path) -> usize {
    std::fs::read_to_string(file).unwrap_or_default().matches("\"sessions.active\"").count()
}

async fn recorder_sessions(client: &Client) -> i64 {
    // Other tests use the same server, with databases of their own.
    let sql = "select count(*) from pg_stat_activity
         where application_name ~ 'millstream lab recorder' and datname = current_database()";
    client.query_one(sql, &[]).await.unwrap().get(0)
}

/// Records two seconds in which one session sleeps and another one writes.
async fn recorded(database: &TestDatabase, out: &Path) -> Recording {
    let (client, sleeper) = (database.client().await, database.client().await);
    client.batch_execute("create table t (a int primary key, b text)").await.unwrap();
    let (data, db) = (database.server.data(), conninfo(database));
    let watched = Watched { data: Some(&data), wal: None, db: Some(&db) };
    let recorder = Recorder::start(Path::new(PROGRAM), out, watched).await.unwrap();
    let sleeping = tokio::spawn(async move { sleeper.batch_execute("select pg_sleep(2.5)").await });
    client.batch_execute("insert into t select n, repeat('x', 500) from generate_series(1, 20000) n").await.unwrap();
    client.batch_execute("checkpoint").await.unwrap();
    until("two seconds are recorded", async || seconds_of_server(out) >= 2).await;
    let recording = recorder.finish().await.unwrap();
    // The server ends the session a moment after the recorder.
    until("the recorder's session ends", async || recorder_sessions(&client).await == 0).await;
    sleeping.await.unwrap().unwrap();
    recording
}

#[tokio::test(flavor = "multi_thread")]
async fn machine_and_server_are_recorded_on_every_version() {
    each_build(async |database| {
        database.plant_decoys().await;
        database.client().await.batch_execute(FALSE_STATEMENTS).await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("recording.ndjson");
        let recording = recorded(&database, &out).await;
        let text = std::fs::read_to_string(&out).unwrap();
        assert!(!text.contains(database.server.password()), "the password is recorded");
        let value = |name: &str| *recording.summary.get(name).unwrap_or_else(|| panic!("no {name}: {recording:?}"));
        for name in [
            "memory.free_mb",
            "processor.steal_percent",
            "network.loopback_mb_per_second",
            "database.commits_per_second",
            "wal.mb_per_second",
            "wal.syncs_per_second",
            "sessions.active",
            "checkpoint.running",
            "autovacuum.workers",
        ] {
            let series = &recording.series.get(name).unwrap_or_else(|| panic!("no {name}: {recording:?}")).values;
            assert!(series.len() >= 2 && series.iter().flatten().count() >= 2, "{name}: {recording:?}");
            assert!(value(name) >= 0.0);
        }
        assert!(value("processor.busy_percent") > 0.0);
        // Other tests use the server too.
        assert!(value("checkpoint.requested") >= 1.0);
        assert!(value("wait.Timeout:PgSleep") > 0.3, "{recording:?}");
        assert_eq!(recording.series.contains_key("io.checkpointer.writes_per_second"), database.build().major() >= 16);
        assert!(value("recorder.cpu_seconds") < value("recorder.seconds"));
        assert!(value("recorder.server_cpu_seconds") <= value("recorder.seconds"));
        assert!(value("recorder.server_query_seconds") > 0.0);
        let unexpected = |note: &&String| !note.contains("has no block device") && !note.starts_with(LOST);
        assert_eq!(recording.notes.iter().find(unexpected), None);
        assert!(!recording.series.contains_key(CALLS), "somebody's function was called: {recording:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_are_counted_by_the_extension_in_whatever_schema_it_is() {
    let settings = Settings::with(&["shared_preload_libraries = 'pg_stat_statements'"]);
    let server = Server::start(default_build().await, settings).await;
    let url = server.url("postgres");
    let make = "create schema \"Counted\"; create extension pg_stat_statements schema \"Counted\"";
    connect(&url).await.batch_execute(make).await.unwrap();
    let db = ConnInfo::parse(&url, &Surroundings::from_variables([])).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("recording.ndjson");
    let watched = Watched { db: Some(&db), ..Watched::default() };
    let recorder = Recorder::start(Path::new(PROGRAM), &out, watched).await.unwrap();
    until("statements are counted", async || std::fs::read_to_string(&out).unwrap_or_default().contains(CALLS)).await;
    recorder.finish().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_recorder_survives_the_loss_of_its_session() {
    let database = database().await;
    let (client, db) = (database.client().await, conninfo(&database));
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("recording.ndjson");
    let recorder =
        Recorder::start(Path::new(PROGRAM), &out, Watched { db: Some(&db), ..Watched::default() }).await.unwrap();
    let kill = "select pg_terminate_backend(pid) from pg_stat_activity
         where application_name ~ 'millstream lab recorder' and datname = current_database()";
    client.batch_execute(kill).await.unwrap();
    until("the recorder's session ends", async || recorder_sessions(&client).await == 0).await;
    until("the recorder connects again", async || recorder_sessions(&client).await == 1).await;
    let before = seconds(&out);
    until("more is recorded", async || seconds(&out) > before + 1).await;
    let recording = recorder.finish().await.unwrap();
    let sampled = &recording.series["sessions.active"].values;
    assert!(sampled.last().unwrap().is_some(), "{recording:?}");
    assert!(recording.notes.len() == 1 && recording.notes[0].starts_with(LOST), "{recording:?}");
    assert!(recording.series["processor.busy_percent"].values.last().unwrap().is_some(), "{recording:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_refuses_is_an_error_before_the_run() {
    let database = database().await;
    let db = ConnInfo::parse(&database.server.url("nowhere"), &Surroundings::from_variables([])).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("recording.ndjson");
    let refused = Recorder::start(Path::new(PROGRAM), &out, Watched { db: Some(&db), ..Watched::default() }).await;
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("database \"nowhere\" does not exist"), "{error}");
}

#[test]
fn the_recorder_ends_when_its_input_closes() {
    let dir = tempfile::tempdir().unwrap();
    let out: PathBuf = dir.path().join("recording.ndjson");
    let mut command = command(&["lab", "recorder", "--out", out.to_str().unwrap()]);
    let ended = run(command.stdin(Stdio::null())).ends(0);
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("", ""));
    let text = std::fs::read_to_string(&out).unwrap();
    assert!(text.starts_with("{\"recorder\":1,") && text.ends_with("]}\n"), "{text}");
}
