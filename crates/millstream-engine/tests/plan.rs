//! The statements of every batch find their rows by key on large tables, whatever the statistics say.

use crate::scene::{Files, Stream, request, run};
use millstream_engine::SkipUnchanged;
use millstream_testkit::{TestDatabase, each_build};
use std::time::Duration;
use tokio_postgres::Client;

/// Rows of each table, which is what one sequential scan reads.
const ROWS: i64 = 20_000;
/// Rows that a load may read by sequential scans: looking whether a table is empty is such a scan.
const SCANNED_MAX: i64 = 100;
const TABLES: &[&str] =
    &["public.big", "millstream.load", "millstream.lane", "millstream.reject", "millstream.tombstone"];

/// What the planner knows.
#[derive(Debug, Clone, Copy)]
enum Statistics {
    Never,
    /// Statistics from when the tables held one load of a few documents.
    Outdated,
    Fresh,
}

const STATISTICS: &[Statistics] = &[Statistics::Never, Statistics::Outdated, Statistics::Fresh];

#[tokio::test]
async fn a_load_scans_no_large_table() {
    each_build(async |db| {
        for statistics in STATISTICS {
            let client = large(&db, *statistics).await;
            let before = scanned(&client).await;
            let mut stream = Stream::default();
            for n in 0..ROWS {
                stream.push(&format!("{n:06}"), 2);
            }
            let files = Files::new();
            let clean = files.write("clean", &stream.text);
            stream.text.push_str("{\"id\":\"a\"\n{\"id\":\"refused\"}\n");
            let mut wanted = request("big", "id", &[files.write("wave", &stream.text)]);
            (wanted.batch_rows, wanted.lanes) = (500, Some(2));
            let receipt = run(&db.url(), &wanted).await.receipt;
            assert_eq!((receipt.counters.updated, receipt.counters.rejected), (20_000, 2), "{receipt:?}");
            let writers = &receipt.writers;
            assert!(writers["staged"] > 5 && writers["replay"] == 1, "{writers:?}");
            expect_no_scan(&client, before, *statistics).await;
            let before = scanned(&client).await;
            (wanted.arrays_rows_max, wanted.skip_unchanged) = (wanted.batch_rows * 100, SkipUnchanged::On);
            wanted.sources = vec![clean];
            let receipt = run(&db.url(), &wanted).await.receipt;
            assert_eq!((receipt.counters.unchanged, receipt.writers["arrays"] > 5), (20_000, true), "{receipt:?}");
            expect_no_scan(&client, before, *statistics).await;
            drop_all(&client).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_load_that_deletes_scans_no_large_table() {
    each_build(async |db| {
        for statistics in STATISTICS {
            let client = large(&db, *statistics).await;
            let before = scanned(&client).await;
            let mut stream = Stream::default();
            for n in 0..ROWS {
                stream.push(&format!("{n:06}"), 2);
                if n % 10 == 0 {
                    stream.text.push_str(&format!("{{\"id\":\"{n:06}\",\"value\":3,\"op\":\"d\"}}\n"));
                }
            }
            let files = Files::new();
            let mut wanted = request("big", "id", &[files.write("wave", &stream.text)]);
            let mode: millstream_engine::Mode = "newest:value:bigint".parse().unwrap();
            wanted.mode = mode.with_tombstone(Some("op=d".parse().unwrap()));
            (wanted.batch_rows, wanted.lanes) = (500, Some(2));
            let receipt = run(&db.url(), &wanted).await.receipt;
            let put = receipt.counters.updated + receipt.counters.superseded;
            assert_eq!((put, receipt.counters.deleted), (20_000, 2_000), "{receipt:?}");
            assert!(receipt.writers["deletes"] > 5, "{receipt:?}");
            expect_no_scan(&client, before, *statistics).await;
            let before = scanned(&client).await;
            let mode: millstream_engine::Mode = "replace".parse().unwrap();
            wanted.mode = mode.with_tombstone(Some("op=d".parse().unwrap()));
            let receipt = run(&db.url(), &wanted).await.receipt;
            assert!(receipt.writers["deletes"] > 5 && receipt.counters.unchanged >= 18_000, "{receipt:?}");
            expect_no_scan(&client, before, *statistics).await;
            drop_all(&client).await;
        }
    })
    .await;
}

#[tokio::test]
async fn plans_use_the_key_index() {
    each_build(async |db| {
        for statistics in STATISTICS {
            let client = large(&db, *statistics).await;
            client
                .batch_execute(
                    "create temporary table millstream_stage (id text collate \"C\" not null, doc jsonb not null)",
                )
                .await
                .unwrap();
            for action in ["nothing", "update set doc = excluded.doc"] {
                let upsert = include_str!("../src/write/upsert.sql")
                    .replace("{table}", "public.big")
                    .replace("{key}", "id")
                    .replace("{filter}", "")
                    .replace("{inserted}", "(xmax = 0)")
                    .replace("{action}", action);
                expect_plan(&client, &upsert, "", &["Conflict Arbiter Indexes: big_pkey"], "big").await;
            }
            for filter in ["", include_str!("../src/write/changed_filter.sql")] {
                let arrays = include_str!("../src/write/arrays.sql")
                    .replace("{filter}", filter)
                    .replace("{table}", "public.big")
                    .replace("{key}", "id")
                    .replace("{join}", "stored.id = staged.id")
                    .replace("{arrays}", "$1::text[], $2::jsonb[]")
                    .replace("{inserted}", "(xmax = 0)")
                    .replace("{action}", "update set doc = excluded.doc");
                let words = ["Conflict Arbiter Indexes: big_pkey", "Sort Key: wanted.millstream_place"];
                client.batch_execute(NO_OTHER_JOIN).await.expect("the server answers");
                let lookup = if filter.is_empty() { "Function Scan" } else { "Index Cond: (id = staged.id)" };
                expect_plan(&client, &arrays, "'{a,b}', '{1,2}'", &[lookup], "big").await;
                expect_plan(&client, &arrays, "'{a,b}', '{1,2}'", &words, "big").await;
            }
            let merge = include_str!("../src/write/merge.sql")
                .replace("{table}", "public.big")
                .replace("{key}", "id")
                .replace("{values}", "staged.id")
                .replace("{join}", "stored.id = staged.id")
                .replace("{matched}", "when matched then update set doc = staged.doc");
            client.batch_execute("create temporary sequence millstream_inserted").await.expect("the server answers");
            client.batch_execute(NO_OTHER_JOIN).await.expect("the server answers");
            let words =
                ["Nested Loop Left Join", "Seq Scan on millstream_stage staged", "Index Cond: (id = staged.id)"];
            expect_plan(&client, &merge, "", &words, "big").await;
            client.batch_execute("reset all").await.expect("the server answers");
            let advance = include_str!("../../millstream-store/src/lane_advance.sql").replace("{schema}", "millstream");
            let values = format!("1, 0, 1, 0, 10, '\\x00'{}, 1, 't', 'public', null, null", ", 1".repeat(12));
            expect_plan(&client, &advance, &values, &["lane_pkey", "Index Cond: ((load_id = "], "lane").await;
            let reject = include_str!("../../millstream-store/src/reject_insert.sql").replace("{schema}", "millstream");
            let values = "1, '{0}', '{10}', '{1}', '{r}', '{d}', '{t}', '{null}', '{1}', '{f}'";
            expect_plan(&client, &reject, values, &["Conflict Arbiter Indexes: reject_pkey"], "reject").await;
            drop_all(&client).await;
        }
    })
    .await;
}

/// Plans a statement for its values and for any values. Both plans must hold these words in this order, and no
/// sequential scan.
async fn expect_plan(client: &Client, sql: &str, values: &str, words: &[&str], table: &str) {
    let values = if values.is_empty() { String::new() } else { format!("({values})") };
    for mode in ["force_custom_plan", "force_generic_plan"] {
        client
            .batch_execute(&format!("set plan_cache_mode = {mode}; prepare planned as {sql}"))
            .await
            .expect("the server answers");
        let rows = client.query(&format!("explain execute planned{values}"), &[]).await.expect("the server answers");
        let plan = rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>().join("\n");
        let mut rest = plan.as_str();
        for word in words {
            let found = rest.find(word);
            rest = &rest[found.unwrap_or_else(|| panic!("{mode}: no {word} where it belongs in\n{plan}"))..];
        }
        assert!(!plan.contains(&format!("Seq Scan on {table}")), "{mode}:\n{plan}");
        client.batch_execute("deallocate planned").await.expect("the server answers");
    }
}

/// A collection and our own tables, all with many rows of other loads.
async fn large(db: &TestDatabase, statistics: Statistics) -> Client {
    let files = Files::new();
    let mut stream = Stream::default();
    (0..100).for_each(|n| stream.push(&format!("{n:06}"), 1));
    stream.text.push_str("no JSON\n");
    run(&db.url(), &request("big", "id", &[files.write("seed", &stream.text)])).await;
    let client = db.client().await;
    for table in TABLES {
        client
            .batch_execute(&format!("alter table {table} set (autovacuum_enabled = false)"))
            .await
            .expect("the server answers");
    }
    // Only the server refuses it, so its batch is replayed.
    client
        .batch_execute("alter table big add constraint named check (id <> 'refused')")
        .await
        .expect("the server answers");
    // A finished load has no lanes left, but the planner may have seen some.
    client.batch_execute(LANE_OF_EVERY_LOAD).await.expect("the server answers");
    if matches!(statistics, Statistics::Outdated) {
        client.batch_execute("analyze").await.expect("the server answers");
    }
    client
        .batch_execute(&include_str!("plan.sql").replace("{rows}", &ROWS.to_string()))
        .await
        .expect("the server answers");
    client.batch_execute(LANE_OF_EVERY_LOAD).await.expect("the server answers");
    if matches!(statistics, Statistics::Fresh) {
        client.batch_execute("analyze").await.expect("the server answers");
    }
    for table in TABLES {
        let rows: i64 =
            client.query_one(&format!("select count(*) from {table}"), &[]).await.expect("the server answers").get(0);
        assert!(rows >= ROWS, "{rows} rows in {table}");
    }
    client
}

/// The settings of a lane's session, which leave only the key's index.
const NO_OTHER_JOIN: &str = "set enable_hashjoin = off; set enable_mergejoin = off; set enable_seqscan = off";

const LANE_OF_EVERY_LOAD: &str = "
    insert into millstream.lane (load_id, lane, run, epoch, slot_first, slot_end)
    select load_id, 0, 1, 1, 0, 256 from millstream.load on conflict do nothing";

/// Asserts that the load that ended since `before` scanned no large table.
async fn expect_no_scan(client: &Client, before: Vec<i64>, statistics: Statistics) {
    ended(client).await;
    for ((table, before), after) in TABLES.iter().zip(before).zip(scanned(client).await) {
        let read = after - before;
        assert!(read <= SCANNED_MAX, "{statistics:?}: {read} rows of {table} were read by sequential scans");
    }
}

/// Rows of each table that were ever read by sequential scans.
async fn scanned(client: &Client) -> Vec<i64> {
    client.batch_execute("select pg_stat_force_next_flush()").await.expect("the server answers");
    let sql = "select seq_tup_read from pg_stat_user_tables where relid = $1::text::regclass";
    let mut read = Vec::new();
    for table in TABLES {
        read.push(client.query_one(sql, &[table]).await.expect("the server answers").get(0));
    }
    read
}

/// Waits until the sessions of the load are gone, because they then have reported what they read.
async fn ended(client: &Client) {
    let sql = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()";
    while client.query_one(sql, &[]).await.expect("the server answers").get::<_, i64>(0) > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn drop_all(client: &Client) {
    let sql = "drop table public.big; drop table if exists pg_temp.millstream_stage; drop schema millstream cascade";
    client.batch_execute(sql).await.expect("the server answers");
}
