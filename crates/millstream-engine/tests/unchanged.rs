//! Documents that equal the stored ones are skipped.

use crate::scene::{Files, Stream, request, run, stored};
use millstream_engine::SkipUnchanged;
use millstream_testkit::{Cases, Server, Settings, TestDatabase, connect, dealt_builds, each_build};
use std::collections::BTreeMap;

/// What writing or locking a row would change: its place, its writer and its locker.
async fn traces(db: &TestDatabase, table: &str) -> Vec<String> {
    let sql = format!("select concat_ws(' ', ctid, xmin, xmax, doc) from {table} order by ctid");
    let rows = db.client().await.query(&sql, &[]).await.expect("the table can be read");
    rows.iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn an_equal_document_in_any_spelling_writes_nothing() {
    each_build(async |db| {
        let files = Files::new();
        let (mut first, mut second) = (String::new(), String::new());
        for n in 0..2_000 {
            first += &format!(
                "{{\"id\":{n},\"list\":[1.50,{{\"b\":null,\"a\":\"é\\n\"}}],\"n\":{n}.0,\"twice\":1,\"twice\":2}}\n"
            );
            second += &format!(
                "{{\"twice\":2,\"n\":{n},\"list\":[15e-1,{{\"a\":\"\\u00e9\\u000a\",\"b\":null}}],\"id\":{n}}}\n"
            );
        }
        let mut wanted = request("spelled", "id:bigint", &[files.write("1", first)]);
        run(&db.url(), &wanted).await;
        let before = traces(&db, "spelled").await;
        wanted.skip_unchanged = SkipUnchanged::On;
        for file in [wanted.sources.clone(), vec![files.write("2", second)]] {
            wanted.sources = file;
            for (writer, arrays_rows_max) in [("compared", 0), ("arrays", 10_000)] {
                wanted.arrays_rows_max = arrays_rows_max;
                let receipt = run(&db.url(), &wanted).await.receipt;
                assert_eq!((receipt.counters.unchanged, receipt.counters.updated), (2_000, 0), "{receipt:?}");
                assert_eq!(receipt.writers.keys().collect::<Vec<_>>(), [writer]);
                assert_eq!(traces(&db, "spelled").await, before);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn equal_documents_write_only_bookkeeping_wal() {
    for build in dealt_builds().await {
        // Alone, because PostgreSQL 15 counts the WAL of all sessions.
        let server = Server::start(build, Settings::with(&["autovacuum = off"])).await;
        let (url, files) = (server.url("postgres"), Files::new());
        let mut stream = Stream::default();
        (0..20_000).for_each(|n| stream.push(&format!("key-{n:06}"), n));
        let mut wanted = request("equal", "id:text", &[files.write("a", &stream.text)]);
        (wanted.skip_unchanged, wanted.batch_rows) = (SkipUnchanged::On, 2_000);
        let new = run(&url, &wanted).await.receipt;
        // Every hint bit is set, and every page was written in full since the last checkpoint.
        let client = connect(&url).await;
        client.batch_execute("vacuum (freeze) equal").await.expect("it is vacuumed");
        let receipt = run(&url, &wanted).await.receipt;
        assert_eq!(receipt.counters.unchanged, 20_000, "{receipt:?}");
        let batches = receipt.writers.values().sum::<u64>();
        // This includes the catalog rows of the lanes' temporary tables.
        assert!(receipt.wal_bytes < 16_384 * (batches + 10), "{} bytes in {batches} batches", receipt.wal_bytes);
        assert!(receipt.wal_bytes * 20 < new.wal_bytes, "{} beside {} of new ones", receipt.wal_bytes, new.wal_bytes);
    }
}

#[tokio::test]
async fn changed_documents_are_written_and_counted_exactly() {
    each_build(async |db| {
        for mut rng in Cases::new(4) {
            let (table, files) = (format!("mixed{}", rng.u32(..)), Files::new());
            let keys = ["id", "id,value=value:bigint"][rng.usize(..2)];
            let stored_keys = rng.usize(1..3_000);
            let first = Stream::random(&mut rng, 4_000, stored_keys);
            let mut wanted = request(&table, keys, &[files.write("1", &first.text)]);
            wanted.lanes = Some(rng.u16(1..4));
            let outcome = run(&db.url(), &wanted).await;
            assert!(outcome.stopped.is_none(), "{outcome:?}");
            let old = all(&db, &table).await;
            // Some of the old documents, some changed ones, some new keys.
            let mut lines: Vec<String> = first.text.lines().map(str::to_owned).collect();
            rng.shuffle(&mut lines);
            lines.truncate(rng.usize(1..4_000));
            for line in &mut lines {
                match rng.u8(..10) {
                    0 => *line = line.replace("\"note\":", "\"noted\":"),
                    1 => *line = line.replace("\"id\":\"key-", "\"id\":\"new-"),
                    _ => {}
                }
            }
            wanted.sources = vec![files.write("2", lines.join("\n"))];
            wanted.batch_rows = rng.usize(1..2_000);
            wanted.skip_unchanged = [SkipUnchanged::On, SkipUnchanged::Auto][rng.usize(..2)];
            wanted.arrays_rows_max = [0, 100, 10_000][rng.usize(..3)];
            let counters = run(&db.url(), &wanted).await.receipt.counters;
            let mut expected = old.clone();
            for line in &lines {
                let document: serde_json::Value = serde_json::from_str(line).unwrap();
                let value = if keys == "id" { 0 } else { document["value"].as_i64().unwrap() };
                expected.insert((document["id"].as_str().unwrap().to_owned(), value), document);
            }
            let new = all(&db, &table).await;
            let wrong: Vec<_> =
                expected.iter().filter(|(key, document)| new.get(key) != Some(document)).take(3).collect();
            assert!(new == expected, "{keys}: {} rows instead of {}; not stored: {wrong:?}", new.len(), expected.len());
            assert_eq!(counters.inserted, (new.len() - old.len()) as u64);
            // A key that changes and changes back within the load causes more updates than differences.
            let changed = old.iter().filter(|(key, document)| new[*key] != **document).count() as u64;
            assert!(counters.updated >= changed, "{counters:?}");
            assert_eq!(counters.read, lines.len() as u64);
        }
    })
    .await;
}

/// `(id, value where it is part of the key) -> document`.
async fn all(db: &TestDatabase, table: &str) -> BTreeMap<(String, i64), serde_json::Value> {
    let client = db.client().await;
    let sql = format!("select id, coalesce((to_jsonb(t) ->> 'value')::bigint, 0), doc::text from {table} t");
    let rows = client.query(&sql, &[]).await.expect("the table can be read");
    rows.iter().map(|r| ((r.get(0), r.get(1)), serde_json::from_str(r.get(2)).expect("jsonb is JSON"))).collect()
}

/// A new document that breaks another unique index, among equal ones.
#[tokio::test]
async fn a_duplicate_of_another_index_is_a_reject_also_where_documents_are_compared() {
    each_build(async |db| {
        let (files, client) = (Files::new(), db.client().await);
        let sql = "create table mails (id bigint primary key, doc jsonb not null); \
                   create unique index on mails ((doc ->> 'mail'))";
        client.batch_execute(sql).await.expect("it is made");
        let line = |id: i64, mail: i64| format!("{{\"id\":{id},\"mail\":{mail}}}\n");
        let first: String = (0..2_000).map(|n| line(n, n)).collect();
        let mut wanted = request("mails", "id:bigint", &[files.write("1", &first)]);
        (wanted.adopt, wanted.skip_unchanged, wanted.arrays_rows_max) = (true, SkipUnchanged::On, 0);
        run(&db.url(), &wanted).await;
        wanted.sources = vec![files.write("2", first + &line(2_000, 2_000) + &line(2_001, 7))];
        let counters = run(&db.url(), &wanted).await.receipt.counters;
        assert_eq!((counters.unchanged, counters.inserted, counters.rejected), (2_000, 1, 1), "{counters:?}");
    })
    .await;
}

/// Few documents of stored keys among many new ones, some of them equal to the stored ones.
#[tokio::test]
async fn equal_documents_in_a_divided_batch_are_skipped() {
    each_build(async |db| {
        for mode in ["replace", "sum:value", "keep"] {
            let files = Files::new();
            let mut stream = Stream::default();
            (0..100).for_each(|n| stream.push(&format!("{n:06}"), n));
            let mut wanted = request("divided", "id", &[files.write("1", &stream.text)]);
            (wanted.mode, wanted.lanes) = (mode.parse().unwrap(), Some(1));
            run(&db.url(), &wanted).await;
            let mut stream = Stream::default();
            (0..50).for_each(|n| stream.push(&format!("{n:06}"), n));
            (50..100).for_each(|n| stream.push(&format!("{n:06}"), -n));
            (100..3_000).for_each(|n| stream.push(&format!("{n:06}"), n));
            wanted.sources = vec![files.write("2", &stream.text)];
            let receipt = run(&db.url(), &wanted).await.receipt;
            let c = receipt.counters;
            // The other modes take no sample, so the first batch is staged.
            let writer = if mode == "replace" { "divided" } else { "staged" };
            assert_eq!(receipt.writers.keys().collect::<Vec<_>>(), [writer], "{mode}: {receipt:?}");
            let (updated, unchanged, kept) = match mode {
                "replace" => (50, 50, 0),
                "keep" => (0, 0, 100),
                _ => (100, 0, 0),
            };
            assert_eq!((c.inserted, c.updated, c.unchanged, c.kept), (2_900, updated, unchanged, kept), "{mode}");
            db.client().await.batch_execute("drop table divided").await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn comparing_starts_and_stops_as_it_pays_off() {
    each_build(async |db| {
        let files = Files::new();
        let mut same = Stream::default();
        (0..30_000).for_each(|n| same.push(&format!("{n:06}"), n));
        let mut wanted = request("adaptive", "id", &[files.write("1", &same.text)]);
        (wanted.lanes, wanted.batch_rows) = (Some(1), 1_000);
        let receipt = run(&db.url(), &wanted).await.receipt;
        assert!(!receipt.writers.contains_key("compared"), "there was nothing to compare with: {receipt:?}");
        let receipt = run(&db.url(), &wanted).await.receipt;
        assert_eq!((receipt.counters.unchanged, receipt.counters.updated), (30_000, 0), "{receipt:?}");
        let mut changed = Stream::default();
        (0..15_000).for_each(|n| changed.push(&format!("{n:06}"), n));
        (15_000..30_000).for_each(|n| changed.push(&format!("{n:06}"), -n));
        wanted.sources = vec![files.write("2", &changed.text)];
        let receipt = run(&db.url(), &wanted).await.receipt;
        assert!(receipt.writers.contains_key("compared") && receipt.writers.contains_key("staged"), "{receipt:?}");
        assert_eq!(receipt.counters.unchanged + receipt.counters.updated, 30_000);
        assert!(receipt.counters.unchanged > 1_000 && receipt.counters.updated >= 15_000, "{receipt:?}");
        assert_eq!(stored(&db, "adaptive").await, changed.last);
        wanted.skip_unchanged = SkipUnchanged::Off;
        let receipt = run(&db.url(), &wanted).await.receipt;
        assert_eq!((receipt.counters.unchanged, receipt.counters.updated), (0, 30_000), "{receipt:?}");
    })
    .await;
}

#[tokio::test]
async fn large_documents_are_compared_by_the_server() {
    each_build(async |db| {
        let files = Files::new();
        let document =
            |n: usize, end: &str| format!("{{\"id\":{n},\"text\":\"{}{end}\"}}\n", "0123456789".repeat(150_000));
        let mut wanted =
            request("large", "id:bigint", &[files.write("1", (0..6).map(|n| document(n, "")).collect::<String>())]);
        wanted.lanes = Some(1);
        run(&db.url(), &wanted).await;
        let before = traces(&db, "large").await;
        let receipt = run(&db.url(), &wanted).await.receipt;
        assert_eq!((receipt.counters.unchanged, receipt.counters.updated), (6, 0), "{receipt:?}");
        assert_eq!(receipt.writers.keys().collect::<Vec<_>>(), ["upsert"]);
        assert_eq!(traces(&db, "large").await, before);
        let changed: String = (0..9).map(|n| document(n, if n % 3 == 0 { "!" } else { "" })).collect();
        wanted.sources = vec![files.write("2", changed)];
        let counters = run(&db.url(), &wanted).await.receipt.counters;
        assert_eq!((counters.unchanged, counters.updated, counters.inserted), (4, 2, 3), "{counters:?}");
        // Another unique index refuses a large document.
        let index = "create unique index on large (right(doc ->> 'text', 5))";
        let client = db.client().await;
        client.batch_execute(&format!("delete from large where id > 0; {index}")).await.unwrap();
        wanted.sources = vec![files.write("3", document(20, "!") + &document(21, "?"))];
        let counters = run(&db.url(), &wanted).await.receipt.counters;
        assert_eq!((counters.rejected, counters.inserted), (1, 1), "{counters:?}");
    })
    .await;
}

#[tokio::test]
async fn comparing_does_not_wait_for_a_locked_row() {
    each_build(async |db| {
        let files = Files::new();
        let mut stream = Stream::default();
        (0..100).for_each(|n| stream.push(&format!("{n:06}"), n));
        let mut wanted = request("shared", "id", &[files.write("1", &stream.text)]);
        run(&db.url(), &wanted).await;
        let other = db.client().await;
        other.batch_execute("begin; update shared set doc = '{\"value\": -1}' where id = '000007'").await.unwrap();
        wanted.skip_unchanged = SkipUnchanged::On;
        let receipt = run(&db.url(), &wanted).await.receipt;
        assert_eq!(receipt.counters.unchanged, 100, "{receipt:?}");
        other.batch_execute("commit").await.unwrap();
        assert_eq!(stored(&db, "shared").await["000007"], -1, "the other session came after");
        let receipt = run(&db.url(), &wanted).await.receipt;
        assert_eq!((receipt.counters.unchanged, receipt.counters.updated), (99, 1), "{receipt:?}");
        assert_eq!(stored(&db, "shared").await, stream.last);
    })
    .await;
}

#[tokio::test]
async fn equal_documents_are_skipped_in_a_deleting_load() {
    each_build(async |db| {
        let (files, client) = (Files::new(), db.client().await);
        for refuses in [false, true] {
            let table = format!("public.deleting_{refuses}");
            let mut first = Stream::default();
            (0..1_000).for_each(|n| first.push(&format!("{n:06}"), n));
            let mut wanted = request(&table, "id", &[files.write("1", &first.text)]);
            run(&db.url(), &wanted).await;
            let (mut text, mut last) = (first.text, first.last);
            if refuses {
                client.batch_execute(&format!("alter table {table} add check (id <> 'refused')")).await.unwrap();
                text += "{\"id\":\"refused\"}\n";
            }
            // One is deleted, one is deleted and put again as it was, one changes, and one is deleted that is not there.
            text += "{\"id\":\"000007\",\"op\":\"d\"}\n{\"id\":\"000008\",\"op\":\"d\"}\n{\"id\":\"absent\",\"op\":\"d\"}\n";
            let mut then = Stream::default();
            then.push("000008", 8);
            then.push("000009", -9);
            text += &then.text;
            last.remove("000007");
            last.insert("000009".into(), -9);
            wanted.sources = vec![files.write("2", &text)];
            wanted.mode = wanted.mode.with_tombstone(Some("op=d".parse().unwrap()));
            (wanted.lanes, wanted.skip_unchanged) = (Some(1), SkipUnchanged::On);
            let before = traces(&db, &table).await;
            let left_alone: Vec<&String> =
                before.iter().filter(|t| !t.contains("\"000007\"") && !t.contains("\"000009\"")).collect();
            // Another session has begun to change an equal row. The load does not wait for it.
            let other = db.client().await;
            let change = format!("update {table} set doc = '{{\"value\": -1}}' where id = '000100'");
            other.batch_execute(&format!("begin; {change}")).await.unwrap();
            let counters = run(&db.url(), &wanted).await.receipt.counters;
            other.batch_execute("rollback").await.unwrap();
            assert_eq!((counters.unchanged, counters.updated, counters.deleted), (999, 1, 1), "{counters:?}");
            assert_eq!((counters.superseded, counters.rejected), (4, u64::from(refuses)), "{counters:?}");
            let after = traces(&db, &table).await;
            assert!(left_alone.iter().all(|trace| after.contains(trace) || trace.contains("\"000100\"")));
            assert_eq!(stored(&db, &table).await, last);

            wanted.skip_unchanged = SkipUnchanged::Off;
            let counters = run(&db.url(), &wanted).await.receipt.counters;
            assert_eq!((counters.unchanged, counters.updated), (2, 999), "{counters:?}");
        }
    })
    .await;
}
