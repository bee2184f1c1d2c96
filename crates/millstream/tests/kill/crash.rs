//! The server is killed during a load and between two runs of it: what each durability guarantees.

use crate::client::Client;
use crate::kill::is_killed;
use millstream_testkit::{Server, Settings, StopMode, connect, dealt_builds, until};
use serde_json::{Value, json};
use std::fmt::Write;
use std::process::Output;
use tokio_postgres::types::PgLsn;

const CRASHES: [StopMode; 2] = [StopMode::Immediate, StopMode::Kill];
/// Documents of a load: some 50 batches of a chunk each.
const DOCUMENTS: i64 = 40_000;
/// Documents to be committed before the first crash.
const SOME: i64 = 4_000;
/// The batch that is held before its commit, so that the second crash comes while the load is unfinished.
const HELD_AT: u32 = 35;
/// PostgreSQL 15 wakes its WAL writer at every commit. So milliseconds often decide whether a crash loses anything.
const ROUNDS_MAX: u32 = 10;

/// Every document has a key of its own, in order, so that one lane always has committed a beginning of the input: half
/// a batch would show as a gap or a ragged end. `half` is summed, so that a batch that is written twice shows too.
fn documents() -> String {
    let (mut text, note) = (String::new(), "x".repeat(280));
    for id in 0..DOCUMENTS {
        writeln!(text, "{{\"id\":{id},\"half\":{},\"note\":\"{note}\"}}", id / 2).unwrap();
    }
    text
}

/// The state of a load at one moment.
struct Look {
    committed: i64,
    /// Where the WAL ended after that was committed.
    written: PgLsn,
    /// Where the part of it that is on disk ends.
    flushed: PgLsn,
}

async fn look(url: &str, table: &str) -> Look {
    let client = connect(url).await;
    let made = "select to_regclass('millstream.tombstone') is not null";
    let begun = client.query_one(made, &[]).await.unwrap().get::<_, bool>(0);
    let sql = "select coalesce(sum(l.read + (select coalesce(sum(n.read), 0) from millstream.lane n
                   where n.load_id = l.load_id)), 0)::bigint from millstream.load l where l.table_oid = to_regclass($1)";
    let committed = if begun { client.query_one(sql, &[&table]).await.unwrap().get(0) } else { 0 };
    let log = "select pg_current_wal_insert_lsn(), pg_current_wal_flush_lsn()";
    let log = client.query_one(log, &[]).await.unwrap();
    Look { committed, written: log.get(0), flushed: log.get(1) }
}

/// Reads the state until it satisfies a condition. Returns all states.
async fn watched(client: &mut Client, url: &str, table: &str, enough: impl Fn(&Look) -> bool) -> Vec<Look> {
    let mut seen = Vec::new();
    until("the load goes on", async || {
        assert!(client.runs(), "it is not at its end");
        let look = look(url, table).await;
        let last = enough(&look);
        seen.push(look);
        last
    })
    .await;
    seen
}

/// The table holds this many documents: the first ones.
async fn holds(url: &str, table: &str, count: i64) {
    let sql = format!(
        "select count(*), count(*) filter (where id < $1 and doc - 'note' = jsonb_build_object('id', id, 'half', id / 2)) from {table}"
    );
    let row = connect(url).await.query_one(&sql, &[&count]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (count, count), "{table}");
}

fn receipt(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_loses_only_what_the_durability_allows() {
    for build in dealt_builds().await {
        println!("on {}", build.installation);
        let server = Server::start(build, Settings::forgetful()).await;
        let mut lost = 0;
        for round in 0..ROUNDS_MAX {
            for crash in CRASHES {
                for promise in ["durable", "async", "unlogged"] {
                    lost += crashed_twice(&server, crash, promise, round).await;
                }
            }
            if lost > 0 {
                break;
            }
        }
        // Before PostgreSQL 17, each commit wakes the process that flushes it.
        assert!(lost > 0 || build.major() < 17, "no crash took a batch that was not flushed");
    }
}

/// A crash under the running load, then one of both or between two runs, then the same command again. Returns
/// how many documents the second crash took from an async load.
async fn crashed_twice(server: &Server, crash: StopMode, promise: &str, round: u32) -> i64 {
    let (url, table) = (server.url("postgres"), format!("public.{promise}_{crash:?}_{round}").to_lowercase());
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.ndjson");
    std::fs::write(&file, documents()).unwrap();
    let streamed = crash == StopMode::Kill && promise != "unlogged";
    let source: &[&str] = if streamed { &["-", "--source-name", &table] } else { &[file.to_str().unwrap()] };
    let input = streamed.then(|| documents().into_bytes());
    let more = ["--durability", promise, "--mode", "sum:half"];
    let mut client = Client::new(&table, &url, &[source, &more].concat(), input);
    if streamed {
        client.feed(documents().len());
    }
    let held = dir.path().join("held");
    client.start(1, &format!("batch-advancing=wait:{}@{HELD_AT}", held.display()));
    watched(&mut client, &url, &table, |look| look.committed > SOME).await;
    server.restart(crash).await;
    let seen = watched(&mut client, &url, &table, |_| held.exists()).await;
    let last = look(&url, &table).await;
    // A backend whose client is gone flushes its commits when it drops its staging table. So an async load loses
    // commits only if the client and the server die at once.
    let together = crash == StopMode::Immediate || promise == "async";
    if together {
        server.stop(crash).await;
        assert!(is_killed(client.kill().await.unwrap().status), "{table}: it was still at work");
        server.start_again().await;
    } else {
        assert!(is_killed(client.kill().await.unwrap().status), "{table}: it was still at work");
        let orphans = "select from pg_stat_activity where application_name like 'millstream lane%'";
        let watch = connect(&url).await;
        until("nothing is on its way", async || watch.query(orphans, &[]).await.unwrap().is_empty()).await;
        // A load may be held before it notices the first crash, which has emptied an unlogged table.
        if promise == "durable" {
            holds(&url, &table, look(&url, &table).await.committed).await;
        }
        server.restart(crash).await;
    }

    let kept = look(&url, &table).await.committed;
    let flushed = seen.iter().filter(|one| one.written <= last.flushed).map(|one| one.committed).max();
    match promise {
        "durable" => assert_eq!(kept, last.committed, "{table}: nothing acknowledged is missing"),
        "async" => {
            assert!((flushed.unwrap_or(0)..=last.committed).contains(&kept), "{table}: {kept} of {flushed:?} flushed")
        }
        _ => {}
    }
    holds(&url, &table, if promise == "unlogged" { 0 } else { kept }).await;
    client.start(2, "");
    let receipt = receipt(&client.end().await.unwrap());
    let resumed = if promise == "unlogged" { Value::Null } else { json!(kept) };
    assert_eq!(receipt["resumed_from"], resumed, "{table}");
    assert_eq!((&receipt["read"], &receipt["inserted"]), (&json!(DOCUMENTS), &json!(DOCUMENTS)), "{table}");
    holds(&url, &table, DOCUMENTS).await;
    if promise == "async" { last.committed - kept } else { 0 }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unlogged_stream_stops_after_a_crash_and_counts_lost_documents() {
    for build in dealt_builds().await {
        println!("on {}", build.installation);
        let server = Server::start(build, Settings::forgetful()).await;
        let (url, text) = (server.url("postgres"), documents());
        for crash in CRASHES {
            let table = format!("public.stream_{crash:?}").to_lowercase();
            let more = ["-", "--source-name", &table, "--durability", "unlogged"];
            let mut client = Client::new(&table, &url, &more, Some(text.clone().into_bytes()));
            let half = text.len() / 2;
            let fed = text[..half].lines().count() as i64;
            client.feed(half);
            client.start(2, "");
            let seen = watched(&mut client, &url, &table, |look| look.committed > SOME).await;
            let committed = seen.last().unwrap().committed;
            server.restart(crash).await;
            client.feed(text.len());
            let output = client.end().await.unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{stderr}");
            let (_, missing) = stderr.split_once("a crash of the server has emptied the collection, ").expect(&stderr);
            let missing: i64 = missing.split(' ').next().unwrap().parse().expect(&stderr);
            assert!((committed..=fed).contains(&missing), "{missing} of {committed} committed: {stderr}");
            assert!(stderr.contains("load everything again from its start"), "{stderr}");
            assert!(output.stdout.is_empty(), "there is no receipt of what is gone");
            holds(&url, &table, 0).await;

            client.start(2, "");
            let receipt = receipt(&client.end().await.unwrap());
            assert_eq!((&receipt["resumed_from"], &receipt["inserted"]), (&Value::Null, &json!(DOCUMENTS)));
            holds(&url, &table, DOCUMENTS).await;
        }
    }
}
