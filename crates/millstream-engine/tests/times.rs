//! Times that are finer than PostgreSQL stores, as keys and as versions.

use crate::scene::{Files, request, run, surroundings};
use millstream_engine::{Event, load};
use millstream_testkit::{TestDatabase, each_build};
use std::fmt::Write as _;

async fn count(db: &TestDatabase, sql: &str) -> i64 {
    db.client().await.query_one(sql, &[]).await.expect("it can be counted").get(0)
}

/// Reasons and details of the rejects of a table's loads, in order.
async fn refused(db: &TestDatabase, table: &str) -> Vec<(String, String)> {
    let sql = "select r.reason, r.detail from millstream.reject r join millstream.load l using (load_id)
               where l.collection like '%' || $1 order by load_id, r.source, r.byte_offset";
    let rows = db.client().await.query(sql, &[&table]).await.expect("rejects can be read");
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

#[tokio::test]
async fn keys_finer_than_microseconds_are_inferred_as_text() {
    each_build(async |db| {
        let files = Files::new();
        let mut text = String::new();
        for n in 0..2_000 {
            let _ = writeln!(text, "{{\"at\":\"2026-01-01T00:00:00.{n:09}Z\"}}");
        }
        let wanted = request("fine", "at", &[files.write("fine", &text)]);
        let (around, events) = surroundings(&db.url());
        let outcome = Box::pin(load(&wanted, &around)).await.expect("the load begins");
        assert_eq!((outcome.receipt.counters.inserted, count(&db, "select count(*) from fine").await), (2_000, 2_000));
        let events = events.0.lock().expect("no test panics while it holds this");
        let warned = |part: &str| events.iter().any(|e| matches!(e, Event::Warning(text) if text.contains(part)));
        assert!(warned("key column at is text: some of its times are finer than a microsecond"), "{events:?}");
    })
    .await;
}

#[tokio::test]
async fn a_typed_key_refuses_times_that_postgresql_would_change() {
    each_build(async |db| {
        let files = Files::new();
        let text = "{\"at\":\"2026-01-01T00:00:00.000001Z\"}\n{\"at\":\"2026-01-01T00:00:00.000001200Z\"}\n\
                    {\"at\":\"2026-01-01T00:00:00.000001000Z\"}\n{\"at\":\"2016-12-31T23:59:60Z\"}\n\
                    {\"at\":\"2017-01-01T00:00:00Z\"}\n";
        let wanted = request("public.typed", "at:timestamptz", &[files.write("typed", text)]);
        let counters = run(&db.url(), &wanted).await.receipt.counters;
        assert_eq!((counters.inserted, counters.superseded, counters.rejected), (2, 1, 2));
        let refused = refused(&db, "typed").await;
        assert!(refused.iter().all(|(reason, _)| reason == "key_type"), "{refused:?}");
        assert!(refused[0].1.contains("finer than a microsecond") && refused[0].1.contains("at at"), "{refused:?}");
        assert!(refused[1].1.contains("leap second"), "{refused:?}");
    })
    .await;
}

/// Versions in ascending order. Those on one line are the same moment.
const ASCENDING: &[&[&str]] = &[
    &["2016-12-31T23:59:59.999999Z"],
    &["2016-12-31T23:59:59.9999994Z"],
    &["2016-12-31T23:59:59.9999996Z", "2017-01-01T01:59:59.9999996000+02:00"],
    &["2017-01-01T00:00:00Z", "2016-12-31 23:00:00.00-01:00"],
    &["2017-01-01T00:00:00.0000001Z"],
    &["2017-01-01T00:00:00.000000123Z", "2017-01-01T05:30:00.000000123000+05:30"],
    &["2017-01-01T00:00:00.0000005Z"],
    &["2017-01-01T00:00:00.0000009Z"],
    &["2017-01-01T00:00:00.000001Z"],
    &["2017-01-01T00:00:00.000001000000001Z"],
];

#[tokio::test]
async fn an_older_version_never_wins_by_nanoseconds() {
    each_build(async |db| {
        let files = Files::new();
        let spelled: Vec<(usize, &str)> =
            ASCENDING.iter().enumerate().flat_map(|(n, texts)| texts.iter().map(move |text| (n, *text))).collect();
        // Every pair in both orders, once in one batch and once with the first stored.
        let pairs: Vec<_> = spelled.iter().flat_map(|a| spelled.iter().map(move |b| (*a, *b))).collect();
        let (mut both, mut first, mut second) = (String::new(), String::new(), String::new());
        for (id, ((_, a), (_, b))) in pairs.iter().enumerate() {
            let (a, b) = (format!("{{\"id\":{id},\"v\":\"{a}\"}}\n"), format!("{{\"id\":{id},\"v\":\"{b}\"}}\n"));
            both.push_str(&(a.clone() + &b));
            first.push_str(&a);
            second.push_str(&b);
        }
        let load = async |table: &str, text: &str| {
            let mut wanted = request(table, "id:bigint", &[files.write(&fastrand::u64(..).to_string(), text)]);
            wanted.mode = "newest:v".parse().expect("a mode");
            run(&db.url(), &wanted).await.receipt.counters
        };
        let older = pairs.iter().filter(|((a, _), (b, _))| b < a).count() as u64;
        assert_eq!(load("folded", &both).await.stale, older);
        assert_eq!(load("stored", &first).await.inserted, pairs.len() as u64);
        assert_eq!(load("stored", &second).await.stale, older);
        for table in ["folded", "stored"] {
            for (id, ((a, first), (b, second))) in pairs.iter().enumerate() {
                let sql = format!("select doc ->> 'v' from {table} where id = {id}");
                let v: String = db.client().await.query_one(&sql, &[]).await.unwrap().get(0);
                assert_eq!(v, if b < a { *first } else { *second }, "{table}: {first} then {second}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_tombstone_refuses_documents_older_by_nanoseconds() {
    each_build(async |db| {
        let files = Files::new();
        let load = async |text: &str| {
            let mut wanted = request("public.gone", "id:bigint", &[files.write(&fastrand::u64(..).to_string(), text)]);
            wanted.mode = "newest:v".parse::<millstream_engine::Mode>().unwrap();
            wanted.mode = wanted.mode.with_tombstone(Some("op=d".parse().unwrap()));
            run(&db.url(), &wanted).await.receipt.counters
        };
        let line = |v: &str, op: &str| format!("{{\"id\":1,\"v\":\"2026-01-01T00:00:00.{v}Z\",\"op\":\"{op}\"}}\n");
        assert_eq!(load(&line("0000002", "d")).await.unchanged, 1);
        assert_eq!(load(&line("00000019", "i")).await.stale, 1);
        assert_eq!(load(&line("00000021", "i")).await.inserted, 1);
        assert_eq!(load(&line("000000209", "d")).await.stale, 1);
        assert_eq!(load(&line("00000021", "d")).await.deleted, 1);
        let leap = load("{\"id\":2,\"v\":\"2016-12-31T23:59:60Z\"}\n").await;
        assert_eq!(leap.rejected, 1);
        let refused = refused(&db, "gone").await;
        assert!(refused[0].0 == "version_type" && refused[0].1.contains("leap second"), "{refused:?}");
    })
    .await;
}
