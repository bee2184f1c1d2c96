//! What keeps dead rows: each cause is named while it is there, and no longer.

use crate::checks::{request, sql};
use crate::server_more::{server, until};
use millstream_doctor::{Report, examine};
use millstream_testkit::{self as testkit, Server};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use tokio_postgres::Client;

const CHECK: &str = "dead-tuples";

/// A small table counts, and each holder at once.
const SETTINGS: &str =
    "[threshold.dead-tuples]\ntable_mb = 0\nholder_seconds = 0\nholder_transactions = 0\npace_seconds = 1e9";

/// A table with dead rows that no vacuum has visited.
const DEAD: &str = "create table dead (n int); insert into dead select generate_series(1, 5000); update dead set n = 0";

/// What is said of the table, if it is found.
fn said(report: &Report) -> Option<&str> {
    report.findings.iter().find(|one| one.subject == "public.dead").map(|one| one.sentence.as_str())
}

async fn until_said(url: &str, part: &str) -> Report {
    until(url, CHECK, SETTINGS, |report| said(report).is_some_and(|sentence| sentence.contains(part))).await
}

const UNEXPLAINED: &str = "no snapshot, slot or setting explains it";

/// What ends a prepared transaction: the reader decides.
const BOTH_WAYS: [&str; 4] = ["-- either:", "commit prepared 'forgotten'", "-- or:", "rollback prepared 'forgotten'"];

#[tokio::test]
async fn a_prepared_transaction_a_slot_and_autovacuum_that_is_off_are_named() {
    for build in testkit::builds().await {
        // Autovacuum does not come by itself.
        let server = server(build, &["max_prepared_transactions = 5", "autovacuum_naptime = 1h"]).await;
        let (url, client) = (server.url("postgres"), testkit::connect(&server.url("postgres")).await);
        sql(&client, DEAD).await;
        until_said(&url, UNEXPLAINED).await;

        sql(&client, "begin; create table other (n int); prepare transaction 'forgotten'").await;
        let found = until_said(&url, "prepared transaction 'forgotten' of millstream has held them for").await;
        let repair = found.findings[0].repair.as_ref().unwrap();
        assert_eq!(repair.sentence, "commit the prepared transaction, or roll it back");
        let long = async |seconds: &str| {
            let settings = format!("[threshold.long-transaction]\nidle_seconds = {seconds}");
            let report = examine(&request(&url, &["long-transaction"], &settings)).await.unwrap();
            let of = |one: &&millstream_model::Finding| one.subject == "prepared transaction of millstream in postgres";
            report.findings.iter().find(of).cloned()
        };
        let prepared = long("0").await.unwrap();
        assert!(prepared.sentence.starts_with("a transaction has been prepared for"), "{prepared:?}");
        assert_eq!(prepared.repair.unwrap().commands, BOTH_WAYS);
        assert_eq!(long("300").await, None, "it may still be committed");
        sql(&client, "rollback prepared 'forgotten'").await;
        assert_eq!(long("0").await, None);
        until_said(&url, UNEXPLAINED).await;

        // A slot that holds WAL alone keeps no rows.
        sql(&client, "select pg_create_physical_replication_slot('gone', true)").await;
        until_said(&url, UNEXPLAINED).await;
        hold_rows(&server, &client).await;
        let found = until_said(&url, "replication slot gone has held them (").await;
        let repair = found.findings[0].repair.as_ref().unwrap();
        assert_eq!(repair.sentence, "let the slot's reader catch up, or drop the slot");
        sql(&client, "select pg_drop_replication_slot('gone')").await;
        until_said(&url, UNEXPLAINED).await;

        sql(&client, "alter system set autovacuum = off; select pg_reload_conf()").await;
        let found = until_said(&url, "autovacuum is off on this server").await;
        let change = found.findings[0].repair.as_ref().unwrap().change.as_ref().unwrap();
        assert_eq!((change.target.as_str(), change.value.as_deref()), ("autovacuum", Some("on")));
        // The option of the table changes nothing until the server's is changed.
        sql(&client, "alter table dead set (autovacuum_enabled = off)").await;
        let found = until_said(&url, "autovacuum is off on this server, and for this table").await;
        let repair = found.findings[0].repair.as_ref().unwrap();
        assert_eq!(repair.commands[0], "alter system set autovacuum = 'on'");
        assert_eq!(repair.change.as_ref().unwrap().target, "autovacuum");
        assert!(repair.sentence.starts_with("switch it on for the server first"), "{repair:?}");
        sql(&client, "alter system reset autovacuum; select pg_reload_conf()").await;
        let found = until_said(&url, "autovacuum is off for this table").await;
        let change = found.findings[0].repair.as_ref().unwrap().change.as_ref().unwrap();
        assert_eq!(change.target, "postgres/public.dead/autovacuum_enabled");
    }
}

/// A standby reads from the slot `gone`, says which rows its queries may see, and goes away.
async fn hold_rows(server: &Server, client: &Client) {
    let sql = "select restart_lsn::text, pg_current_xact_id()::text from pg_replication_slots where slot_name = 'gone'";
    let row = client.query_one(sql, &[]).await.unwrap();
    let (place, xid): (String, String) = (row.get(0), row.get(1));
    let xid: u32 = xid.parse().unwrap();
    let socket = server.socket_dir().join(format!(".s.PGSQL.{}", server.port()));
    let mut reader = UnixStream::connect(socket).unwrap();
    reader.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let startup = b"\0\x03\0\0user\0millstream\0replication\0true\0\0";
    reader.write_all(&message(None, startup)).unwrap();
    read_until(&mut reader, b'Z');
    let start = format!("START_REPLICATION SLOT gone PHYSICAL {place}\0");
    reader.write_all(&message(Some(b'Q'), start.as_bytes())).unwrap();
    read_until(&mut reader, b'W');
    // Hot standby feedback: the time, the oldest transaction and its epoch, and the same for catalogs.
    let feedback = [&b"h"[..], &[0; 8], &xid.to_be_bytes(), &[0; 4], &[0; 4], &[0; 4]].concat();
    reader.write_all(&message(Some(b'd'), &feedback)).unwrap();
    let held = "select xmin is not null from pg_replication_slots where slot_name = 'gone'";
    testkit::until("the slot holds rows", async || client.query_one(held, &[]).await.unwrap().get(0)).await;
}

/// A message of PostgreSQL's protocol: its kind, if it has one, its length and what it says.
fn message(kind: Option<u8>, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    kind.into_iter().chain(length).chain(body.iter().copied()).collect()
}

/// Reads messages up to one of a kind.
fn read_until(stream: &mut UnixStream, kind: u8) {
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let mut body = vec![0; usize::try_from(length).unwrap() - 4];
        stream.read_exact(&mut body).unwrap();
        assert_ne!(head[0], b'E', "{}", String::from_utf8_lossy(&body));
        if head[0] == kind {
            return;
        }
    }
}

#[tokio::test]
async fn workers_that_are_all_busy_are_named() {
    for build in testkit::builds().await {
        let server = server(build, &["autovacuum_naptime = 1s", "autovacuum_max_workers = 1"]).await;
        let (url, client) = (server.url("postgres"), testkit::connect(&server.url("postgres")).await);
        // Each page costs at least a delay: the only worker is busy for most of a minute.
        sql(
            &client,
            "create table slow (n int) with (autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1);
             insert into slow select generate_series(1, 60000); update slow set n = n + 1",
        )
        .await;
        let busy = "select exists (select from pg_stat_progress_vacuum)";
        testkit::until("the worker is busy", async || client.query_one(busy, &[]).await.unwrap().get(0)).await;
        sql(&client, DEAD).await;
        let found = until_said(&url, "of autovacuum are busy").await;
        let finding = found.findings.iter().find(|one| one.subject == "public.dead").unwrap();
        let change = finding.repair.as_ref().unwrap().change.as_ref().unwrap();
        assert_eq!((change.target.as_str(), change.value.as_deref()), ("autovacuum_vacuum_cost_limit", Some("400")));
    }
}
