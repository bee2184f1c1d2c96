//! Loads that lose something on the server: disk space, rights, write access, time.

use crate::scene::{Files, Stream, request, surroundings, until_committed, until_event};
use millstream_engine::{Event, LoadRequest, Outcome, StopReason, Surroundings, load};
use millstream_pg::{ErrorKind, Explained};
use millstream_testkit::{Server, Settings, SmallDisk, connect, database, dealt_builds, each_build, until};
use std::collections::BTreeMap;
use tokio_postgres::Client;

/// Documents of a load: many batches for each lane.
const DOCUMENTS: usize = 60_000;
/// Documents committed before something is taken away.
const COMMITTED: u64 = 5_000;

fn small_batches(table: &str, file: String) -> LoadRequest {
    let mut wanted = request(table, "id", &[file]);
    (wanted.lanes, wanted.batch_rows) = (Some(2), 500);
    wanted
}

async fn run_in(around: &Surroundings, wanted: &LoadRequest) -> Outcome {
    Box::pin(load(wanted, around)).await.expect("the load begins")
}

/// The table holds as many rows as the receipt counts, all under keys of the stream.
async fn assert_whole(client: &Client, table: &str, stream: &Stream, outcome: &Outcome) {
    let counters = outcome.receipt.counters;
    assert_eq!(counters.read, counters.accounted());
    let found = values(client, table).await;
    assert_eq!(found.len() as u64, counters.inserted, "{:?}", outcome.receipt);
    assert!(found.keys().all(|id| stream.last.contains_key(id)));
}

async fn values(client: &Client, table: &str) -> BTreeMap<String, i64> {
    let rows = client
        .query(&format!("select id, (doc->>'value')::bigint from {table}"), &[])
        .await
        .expect("the table can be read");
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// Runs the same load again, to its end.
async fn ends_right(url: &str, wanted: &LoadRequest, stream: &Stream, client: &Client) {
    let outcome = run_in(&surroundings(url).0, wanted).await;
    assert!(outcome.receipt.finished && outcome.receipt.resumed_from.is_some(), "{outcome:?}");
    assert_eq!(outcome.receipt.counters.read, stream.documents);
    assert!(values(client, &wanted.collection.table).await == stream.last);
}

#[tokio::test]
async fn a_full_disk_ends_a_load_which_resumes_later() {
    for build in dealt_builds().await {
        let server = Server::start(build, Settings { durable: true, ..Settings::default() }).await;
        let Some(disk) = SmallDisk::mount(6 << 20) else { return };
        let client = connect(&server.url("postgres")).await;
        client.batch_execute(&format!("create tablespace small location '{}'", disk.dir.display())).await.unwrap();
        client
            .batch_execute(
                "create table filling (id text collate \"C\", doc jsonb not null,
                     primary key (id) using index tablespace small) tablespace small",
            )
            .await
            .unwrap();
        let stream = Stream::random(&mut fastrand::Rng::with_seed(31), DOCUMENTS, DOCUMENTS);
        let files = Files::new();
        let mut wanted = small_batches("filling", files.write("a", &stream.text));
        wanted.adopt = true;
        let url = server.url("postgres");
        let outcome = run_in(&surroundings(&url).0, &wanted).await;
        assert_eq!(outcome.stopped, Some(StopReason::Failed));
        let kind = outcome.error.as_ref().map(Explained::kind);
        assert_eq!(kind, Some(ErrorKind::DiskFull), "{outcome:?}");
        assert!(outcome.receipt.counters.read > 0, "it was full in mid-load");
        assert!(!outcome.receipt.writers.is_empty(), "what a lane wrote before it failed is told: {outcome:?}");
        assert_whole(&client, "filling", &stream, &outcome).await;
        disk.grow(200 << 20);
        ends_right(&url, &wanted, &stream, &client).await;
        client.batch_execute("drop table filling; checkpoint").await.unwrap();
        client.batch_execute("drop tablespace small").await.unwrap();
    }
}

#[tokio::test]
async fn a_revoked_right_ends_a_load_which_resumes_later() {
    each_build(async |db| {
        let client = db.client().await;
        let role = format!("loader_{}", fastrand::u32(..));
        client
            .batch_execute(&format!(
                "create role {role} login password 'x'; grant create on database {} to {role};
                 grant create on schema public to {role}",
                db.name
            ))
            .await
            .unwrap();
        let url = format!("postgres://{role}:x@127.0.0.1:{}/{}", db.server.port(), db.name);
        let stream = Stream::random(&mut fastrand::Rng::with_seed(32), DOCUMENTS, DOCUMENTS / 2);
        let files = Files::new();
        let wanted = small_batches("revoked", files.write("a", &stream.text));
        let (around, _) = surroundings(&url);
        let revoking = async {
            until_committed(&around.tally, COMMITTED).await;
            client.batch_execute(&format!("revoke insert on revoked from {role}")).await.unwrap();
        };
        let (outcome, ()) = tokio::join!(run_in(&around, &wanted), revoking);
        assert_eq!(outcome.stopped, Some(StopReason::Failed));
        let kind = outcome.error.as_ref().map(Explained::kind);
        assert_eq!(kind, Some(ErrorKind::Rights), "{outcome:?}");
        assert_whole(&client, "revoked", &stream, &outcome).await;
        client.batch_execute(&format!("grant insert on revoked to {role}")).await.unwrap();
        ends_right(&url, &wanted, &stream, &client).await;
    })
    .await;
}

#[tokio::test]
async fn a_load_waits_for_a_read_only_server() {
    for build in dealt_builds().await {
        let server = Server::start(build, Settings::default()).await;
        let (url, client) = (server.url("postgres"), connect(&server.url("postgres")).await);
        let stream = Stream::random(&mut fastrand::Rng::with_seed(33), DOCUMENTS, DOCUMENTS / 2);
        let files = Files::new();
        let wanted = small_batches("reading", files.write("a", &stream.text));
        let (around, events) = surroundings(&url);
        let refusing = async {
            until_committed(&around.tally, COMMITTED).await;
            client.batch_execute("alter system set default_transaction_read_only = on").await.unwrap();
            client.batch_execute("select pg_reload_conf()").await.unwrap();
            until_event(&events, "the load is refused and retries", |event| matches!(event, Event::Retry { .. })).await;
            client.batch_execute("alter system reset default_transaction_read_only").await.unwrap();
            client.batch_execute("select pg_reload_conf()").await.unwrap();
        };
        let (outcome, ()) = tokio::join!(run_in(&around, &wanted), refusing);
        assert!(outcome.receipt.finished && outcome.receipt.retries > 0, "{outcome:?}");
        assert_eq!(outcome.receipt.counters.read, stream.documents);
        assert!(values(&client, "reading").await == stream.last);
    }
}

#[tokio::test]
async fn a_statement_timeout_does_not_end_a_load() {
    each_build(async |db| {
        let client = db.client().await;
        client
            .batch_execute(&format!(
                "create table timed (id text collate \"C\" primary key, doc jsonb not null);
                 create function slow() returns trigger language plpgsql as $$begin perform pg_sleep(0.4); return null; end$$;
                 create trigger slow before insert on timed for each statement execute function slow();
                 alter database {} set statement_timeout = '200ms'",
                db.name
            ))
            .await
            .unwrap();
        let stream = Stream::random(&mut fastrand::Rng::with_seed(34), 5_000, 5_000);
        let files = Files::new();
        let mut wanted = request("timed", "id", &[files.write("a", &stream.text)]);
        (wanted.lanes, wanted.adopt) = (Some(1), true);
        let outcome = run_in(&surroundings(&db.url()).0, &wanted).await;
        assert!(outcome.receipt.finished && outcome.receipt.retries == 0, "{outcome:?}");
        assert!(values(&client, "timed").await == stream.last);
    })
    .await;
}

#[tokio::test]
async fn a_cancelled_batch_is_retried() {
    let db = database().await;
    let client = db.client().await;
    let stream = Stream::random(&mut fastrand::Rng::with_seed(35), DOCUMENTS, DOCUMENTS / 2);
    let files = Files::new();
    let wanted = small_batches("cancelled", files.write("a", &stream.text));
    let (around, events) = surroundings(&db.url());
    let cancelling = async {
        until_committed(&around.tally, COMMITTED).await;
        // A lane may be between two batches.
        let cancel = "select pg_cancel_backend(pid) from pg_stat_activity
            where datname = current_database() and application_name = 'millstream lane 0' and state = 'active'";
        until("a batch is cancelled and retried", async || {
            client.execute(cancel, &[]).await.unwrap();
            events.0.lock().unwrap().iter().any(|event| matches!(event, Event::Retry { .. }))
        })
        .await;
    };
    let (outcome, ()) = tokio::join!(run_in(&around, &wanted), cancelling);
    assert!(outcome.receipt.finished && outcome.receipt.retries > 0, "{outcome:?}");
    assert_eq!(outcome.receipt.counters.read, stream.documents);
    assert!(values(&client, "cancelled").await == stream.last);
}
