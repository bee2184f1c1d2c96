//! Collections in partitioned tables give the same result as plain tables, in every mode and by every writer.

use crate::scene::{Files, request, run, schema, surroundings};
use fastrand::Rng;
use millstream_engine::{DURABILITIES, LAYOUTS, LoadRequest, Mode, Silent, SkipUnchanged, VerifyRequest, load, verify};
use millstream_model::Counters;
use millstream_pg::Explained;
use millstream_store::collections;
use millstream_testkit::{Cases, TestDatabase, each_build};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Partitioned tables with the key (id, at), named after how they are partitioned. They take only an `at` from 0 to 99.
const SHAPES: &[(&str, &str)] = &[
    (
        "by_hash",
        "create table by_hash (id text collate \"C\", at bigint check (at between 0 and 99), doc jsonb not null,
             primary key (id, at)) partition by hash (id);
         create table by_hash_0 partition of by_hash for values with (modulus 2, remainder 0);
         create table by_hash_1 partition of by_hash for values with (modulus 2, remainder 1)",
    ),
    (
        "by_range",
        "create table by_range (id text collate \"C\", at bigint, doc jsonb not null, primary key (id, at))
             partition by range (at);
         create table by_range_0 partition of by_range for values from (0) to (10);
         create table by_range_1 (doc jsonb not null, gone int, at bigint not null, id text collate \"C\" not null);
         alter table by_range_1 drop column gone;
         alter table by_range attach partition by_range_1 for values from (10) to (100)",
    ),
    (
        "by_list",
        "create table by_list (id text collate \"C\", at bigint, doc jsonb not null, primary key (at, id))
             partition by range (at);
         create table by_list_low partition of by_list for values from (0) to (50) partition by hash (id);
         create table by_list_low_0 partition of by_list_low for values with (modulus 2, remainder 0);
         create table by_list_low_1 partition of by_list_low for values with (modulus 2, remainder 1);
         create table by_list_high partition of by_list for values from (50) to (100) partition by list (at);
         create table by_list_some partition of by_list_high for values in (50, 60, 70);
         create table by_list_rest partition of by_list_high default",
    ),
];

const MODES: &[&str] = &["replace", "keep", "merge", "merge:deep", "newest:v:bigint", "sum:n"];

/// What marks the rows that no partition takes.
const OUTSIDE: i64 = 100;

fn wave(rng: &mut Rng, documents: usize, outside: bool, deletes: bool) -> String {
    let mut text = String::new();
    for n in 0..documents {
        let (mut id, mut at) = (format!("k{}", rng.u8(..20)), rng.i64(0..100));
        let mut op = if deletes && rng.u8(..5) == 0 { "d" } else { "u" };
        if outside && rng.u8(..50) == 0 {
            (id, at, op) = (format!("o{n}"), OUTSIDE, "u");
        }
        let (v, m) = (rng.u32(..1000), rng.u8(..3));
        let _ = writeln!(
            text,
            "{{\"id\":\"{id}\",\"at\":{at},\"v\":{v},\"n\":1,\"op\":\"{op}\",\"m{m}\":{{\"x{n}\":{n}}}}}"
        );
    }
    text
}

async fn rows(db: &TestDatabase, table: &str) -> Vec<(String, i64, String)> {
    let sql = format!("select id, at, doc::text from public.{table} order by at, id");
    let rows = db.client().await.query(&sql, &[]).await.expect("the table can be read");
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

fn wanted(table: &str, file: &str, mode: &str, deletes: bool) -> LoadRequest {
    let mut wanted = request(&format!("public.{table}"), "id,at", &[file.to_owned()]);
    let tombstone = deletes.then(|| "op=d".parse().expect("a path and a value"));
    wanted.mode = mode.parse::<Mode>().expect("a mode").with_tombstone(tombstone);
    (wanted.adopt, wanted.lanes, wanted.resume) = (true, Some(1), false);
    wanted
}

/// The counts that must be the same for both tables. Other counts depend on where batches are cut.
fn counted(counters: &Counters) -> (u64, u64, i128) {
    let Counters { read, rejected, inserted, deleted, .. } = *counters;
    (read, rejected, i128::from(inserted) - i128::from(deleted))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partitioned_table_ends_equal_to_a_plain_one() {
    each_build(async |db| {
        let client = db.client().await;
        // The test role has the name of our own schema, which would come first in the search path.
        client.batch_execute("set search_path = public").await.expect("the server answers");
        let (files, mut writers) = (Files::new(), BTreeSet::new());
        for (n, mut rng) in Cases::new(3).enumerate() {
            let (shape, made) = SHAPES[n % SHAPES.len()];
            // Each shape is tried in mode replace first.
            let first = n < SHAPES.len();
            let mode = if first { MODES[0] } else { MODES[rng.usize(..MODES.len())] };
            let deletes = !first && rng.bool();
            let tables = format!(
                "drop table if exists {shape}, plain;
                 create table plain (id text collate \"C\", at bigint check (at between 0 and 99), doc jsonb not null,
                     primary key (id, at));
                 {made}"
            );
            client.batch_execute(&tables).await.expect("tables");
            for (n, documents) in [(0, 2_000), (1, 40), (2, 2_000), (3, 300)] {
                let file = files.write(&format!("{n}"), wave(&mut rng, documents, n > 1, deletes && n > 0));
                let plain = run(&db.url(), &wanted("plain", &file, mode, deletes)).await.receipt;
                let parted = run(&db.url(), &wanted(shape, &file, mode, deletes)).await.receipt;
                let case = format!("{shape} {mode} deletes {deletes} wave {n}");
                assert_eq!(counted(&plain.counters), counted(&parted.counters), "{case}");
                assert_eq!(rows(&db, "plain").await, rows(&db, shape).await, "{case}");
                writers.extend(parted.writers.into_keys());
                if n == 3 && first {
                    unchanged(&db, shape, &file).await;
                }
            }
        }
        assert!(writers.len() > 1, "few ways to write were taken: {writers:?}");
    })
    .await;
}

/// Loading the same documents again changes nothing, verifying them finds no difference, and the rejects say why.
async fn unchanged(db: &TestDatabase, shape: &str, file: &str) {
    let client = db.client().await;
    // The same rows fit no partition the second time.
    let again = LoadRequest { skip_unchanged: SkipUnchanged::On, ..wanted(shape, file, "replace", false) };
    let receipt = run(&db.url(), &again).await.receipt;
    let Counters { inserted, unchanged, read, rejected, superseded, .. } = receipt.counters;
    assert_eq!((inserted, read), (0, unchanged + rejected + superseded), "{shape}: {receipt:?}");
    let sql = "select count(*), count(*) filter (where detail like '%no partition of relation%found for row%'
                   or reason = 'breaks_check')
               from millstream.reject where load_id = $1";
    let row = client.query_one(sql, &[&receipt.load_id]).await.expect("rejects");
    let count = i64::try_from(rejected).expect("few");
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (count, count), "{shape}");
    let found = VerifyRequest::new(wanted(shape, file, "replace", false), std::env::temp_dir());
    let found = Box::pin(verify(&found, &surroundings(&db.url()).0.db, std::sync::Arc::default(), &Silent)).await;
    let found = found.expect("the verification ends");
    assert_eq!((found.different, found.missing), (0, keys_outside(file)), "{shape}: {found:?}");
}

/// Keys of the file that no partition takes.
fn keys_outside(file: &str) -> u64 {
    let text = std::fs::read_to_string(file).expect("the file");
    let outside = format!("\"at\":{OUTSIDE},");
    let ids = text.lines().filter(|line| line.contains(&outside)).map(|line| line.split(',').next());
    ids.collect::<BTreeSet<_>>().len() as u64
}

#[tokio::test]
async fn what_partitioned_tables_cannot_do_is_refused_with_a_hint() {
    each_build(async |db| {
        let client = db.client().await;
        client.batch_execute("set search_path = public").await.expect("the server answers");
        let (_, made) = SHAPES[1];
        client.batch_execute(made).await.expect("a table");
        let files = Files::new();
        let file = files.write("a", "{\"id\":\"a\",\"at\":1}\n");
        let refused = async |wanted: &LoadRequest| {
            let error = Box::pin(load(wanted, &surroundings(&db.url()).0)).await.expect_err("it is refused");
            (error.to_string(), error.hint().expect("a hint"))
        };
        let mut log = wanted("by_range", &file, "replace", false);
        log.layout = LAYOUTS.iter().find(|layout| layout.name == "log").expect("the log");
        assert!(refused(&log).await.0.contains("it is partitioned"));
        let mut unlogged = wanted("by_range", &file, "replace", false);
        unlogged.durability = DURABILITIES.iter().find(|durability| durability.unlogged).expect("unlogged");
        assert!(refused(&unlogged).await.0.contains("it is partitioned"));
        client.batch_execute("alter table by_range_0 set unlogged").await.expect("an unlogged partition");
        let (problem, hint) = refused(&wanted("by_range", &file, "replace", false)).await;
        assert!(problem.contains("public.by_range_0 is unlogged"), "{problem}");
        client.batch_execute(&hint).await.expect("the hint helps");
        assert_eq!(run(&db.url(), &wanted("by_range", &file, "replace", false)).await.receipt.counters.inserted, 1);
        let listed = collections::list(&client, &schema()).await.expect("a list");
        let bytes: i64 = client
            .query_one("select sum(pg_total_relation_size(relid))::bigint from pg_partition_tree('by_range')", &[])
            .await
            .expect("sizes")
            .get(0);
        assert_eq!(listed[0].bytes, Some(u64::try_from(bytes).expect("bytes")));
    })
    .await;
}
