//! Loads into a server without faults.

use crate::scene::{Files, Stream, request, run, schema, stored, surroundings};
use millstream_engine::{Error, Event, Layout, LoadRequest, SkipUnchanged, StopReason, load};
use millstream_model::{KEY_TYPES, KeyType};
use millstream_pg::Explained;
use millstream_store::Error as StoreError;
use millstream_store::Schema;
use millstream_store::rejects::{self, Cleared, RejectFilter};
use millstream_testkit::{Cases, database, each_build, until};

#[tokio::test]
async fn the_last_document_of_a_key_wins() {
    each_build(async |db| {
        for mut rng in Cases::new(3) {
            let table = format!("t{}", rng.u32(..));
            let files = Files::new();
            let (documents, keys) = (rng.usize(1..30_000), rng.usize(1..20_000));
            let stream = Stream::random(&mut rng, documents, keys);
            let file = files.write("a.ndjson", &stream.text);
            let mut wanted = request(&table, "id", &[file]);
            wanted.lanes = Some(rng.u16(1..5));
            wanted.batch_rows = rng.usize(1..5_000);
            let receipt = run(&db.url(), &wanted).await.receipt;
            assert_eq!(stored(&db, &table).await, stream.last);
            assert_eq!(receipt.counters.read, stream.documents);
            assert_eq!(receipt.counters.inserted, stream.last.len() as u64);
            assert_eq!(receipt.counters.rejected, 0);
            assert!(receipt.finished);
            assert_eq!(receipt.counters.bytes_read, (stream.text.len() as u64) - stream.documents);
        }
    })
    .await;
}

#[tokio::test]
async fn a_second_wave_updates_and_a_third_of_new_keys_inserts() {
    each_build(async |db| {
        let files = Files::new();
        let wave = |from: usize, to: usize, value: i64| {
            let mut stream = Stream::default();
            for n in from..to {
                stream.push(&format!("{n:08}"), value);
            }
            stream
        };
        let first = files.write("1", wave(0, 20_000, 1).text);
        let second = files.write("2", wave(0, 20_000, 2).text);
        let third = files.write("3", wave(15_000, 40_000, 3).text);
        let mut wanted = request("waves", "id", &[first]);
        wanted.batch_rows = 3_000;
        let receipt = run(&db.url(), &wanted).await.receipt;
        assert_eq!((receipt.counters.inserted, receipt.counters.updated), (20_000, 0));
        assert!(receipt.writers.contains_key("copy"), "{:?}", receipt.writers);
        wanted.sources = vec![second];
        let receipt = run(&db.url(), &wanted).await.receipt;
        assert_eq!((receipt.counters.inserted, receipt.counters.updated), (0, 20_000));
        assert!(receipt.writers.contains_key("staged"), "{:?}", receipt.writers);
        wanted.sources = vec![third];
        let receipt = run(&db.url(), &wanted).await.receipt;
        assert_eq!((receipt.counters.inserted, receipt.counters.updated), (20_000, 5_000));
        let values = stored(&db, "waves").await;
        assert_eq!(values.len(), 40_000);
        assert_eq!(values.values().filter(|v| **v == 2).count(), 15_000);
    })
    .await;
}

#[tokio::test]
async fn reconnecting_after_every_batch_loses_and_repeats_nothing() {
    each_build(async |db| {
        let mut rng = fastrand::Rng::with_seed(13);
        let files = Files::new();
        let stream = Stream::random(&mut rng, 20_000, 8_000);
        let mut wanted = request("renewed", "id", &[files.write("a", &stream.text)]);
        wanted.batch_rows = 2_000;
        wanted.lane_age_max = std::time::Duration::ZERO;
        let receipt = run(&db.url(), &wanted).await.receipt;
        assert_eq!(stored(&db, "renewed").await, stream.last);
        assert_eq!(receipt.counters.read, stream.documents);
        assert_eq!(receipt.retries, 0);
    })
    .await;
}

#[tokio::test]
async fn keep_does_not_change_stored_documents() {
    each_build(async |db| {
        let mut rng = fastrand::Rng::with_seed(7);
        let files = Files::new();
        let before = Stream::random(&mut rng, 5_000, 3_000);
        let after = Stream::random(&mut rng, 9_000, 6_000);
        let mut wanted = request("kept", "id", &[files.write("a", &before.text)]);
        wanted.mode = "keep".parse().unwrap();
        wanted.batch_rows = 700;
        run(&db.url(), &wanted).await;
        assert_eq!(stored(&db, "kept").await, before.first);
        wanted.sources = vec![files.write("b", &after.text)];
        let receipt = run(&db.url(), &wanted).await.receipt;
        let mut expected = after.first.clone();
        expected.extend(before.first.clone());
        let new = (expected.len() - before.first.len()) as u64;
        assert_eq!(stored(&db, "kept").await, expected);
        assert_eq!((receipt.counters.inserted, receipt.counters.updated), (new, 0));
        assert_eq!(receipt.counters.kept, after.documents - new);
    })
    .await;
}

#[tokio::test]
async fn several_files_take_effect_in_order() {
    let db = database().await;
    let files = Files::new();
    let names: Vec<String> = (0..5)
        .map(|n| {
            let mut stream = Stream::default();
            for id in 0..200 {
                stream.push(&id.to_string(), n);
            }
            files.write(&n.to_string(), &stream.text)
        })
        .collect();
    let receipt = run(&db.url(), &request("ordered", "id", &names)).await.receipt;
    assert_eq!(receipt.counters.read, 1_000);
    assert!(stored(&db, "ordered").await.values().all(|v| *v == 4));
}

#[tokio::test]
async fn composite_keys_equal_the_servers_casts() {
    each_build(async |db| {
        let files = Files::new();
        let text = concat!(
            r#"{"device":{"id":"a"},"ts":"2026-01-01T00:00:00Z","v":1}"#,
            "\n",
            r#"{"device":{"id":"a"},"ts":"2026-01-01T01:00:00+01:00","v":2}"#,
            "\n",
            r#"{"device":{"id":"b\u00e9"},"ts":"2026-01-01T00:00:00.5Z","v":3}"#,
            "\n"
        );
        let wanted = request("measures", "device=device.id,ts", &[files.write("a", text)]);
        let receipt = run(&db.url(), &wanted).await.receipt;
        assert_eq!((receipt.counters.inserted, receipt.counters.superseded), (2, 1));
        let client = db.client().await;
        let odd: i64 = client
            .query_one(
                "select count(*) from measures where device <> doc #>> '{device,id}' or ts <> (doc ->> 'ts')::timestamptz",
                &[],
            )
            .await
            .unwrap()
            .get(0);
        assert_eq!(odd, 0);
    })
    .await;
}

#[tokio::test]
async fn a_collection_with_a_key_of_any_type_is_loaded_again() {
    let db = database().await;
    let files = Files::new();
    let values = [
        (KeyType::Text, r#""a""#),
        (KeyType::Varchar(None), r#""a""#),
        (KeyType::Bigint, "1"),
        (KeyType::Integer, "1"),
        (KeyType::Smallint, "1"),
        (KeyType::Numeric, "1.50"),
        (KeyType::Uuid, r#""6f1c0e0a-7d3b-4a52-9f0e-3c1f5f0b9a11""#),
        (KeyType::Timestamptz, r#""2026-01-01T00:00:00Z""#),
        (KeyType::TimestamptzEpoch, "1700000000.5"),
        (KeyType::TimestamptzEpochMs, r#""1700000000500""#),
        (KeyType::TimestamptzLenient, r#""2026-01-01 00:00+0530""#),
        (KeyType::Timestamp, r#""2026-01-01T00:00:00""#),
        (KeyType::Date, r#""2026-01-01""#),
        (KeyType::Boolean, "true"),
    ];
    assert_eq!(values.map(|(key_type, _)| key_type), KEY_TYPES);
    for (key_type, value) in values {
        let name = key_type.to_string();
        let table = format!("of_{}", name.replace(':', "_"));
        let file = files.write(&table, format!("{{\"k\":{value},\"v\":1}}\n"));
        let first = run(&db.url(), &request(&table, &format!("k:{name}"), std::slice::from_ref(&file))).await.receipt;
        let again = run(&db.url(), &request(&table, "k", &[file])).await.receipt;
        assert_eq!((first.counters.inserted, again.counters.inserted, again.counters.rejected), (1, 0, 0), "{name}");
    }
}

#[tokio::test]
async fn rejects_are_stored_with_line_and_reason() {
    each_build(async |db| {
        let files = Files::new();
        let text = b"{\"id\":1,\"v\":1}\n{\"id\":2,\n{\"id\":null}\n{\"x\":1}\n{\"id\":\"\\u0000\"}\n\xff\n{\"id\":1,\"v\":2}\n";
        let wanted = request("mixed", "id:bigint", &[files.write("a", text)]);
        let receipt = run(&db.url(), &wanted).await.receipt;
        assert_eq!((receipt.counters.read, receipt.counters.rejected, receipt.counters.inserted), (7, 5, 1));
        let rows = db
            .client()
            .await
            .query("select line, reason, document, document_base64 from millstream.reject order by line", &[])
            .await
            .unwrap();
        let found: Vec<(i64, String)> = rows.iter().map(|r| (r.get(0), r.get(1))).collect();
        let wanted: Vec<(i64, String)> =
            [(2, "not_json"), (3, "key_null"), (4, "key_missing"), (5, "nul_character"), (6, "invalid_utf8")]
                .map(|(line, reason)| (line, reason.to_owned()))
                .to_vec();
        assert_eq!(found, wanted);
        assert_eq!(rows[1].get::<_, &str>(2), r#"{"id":null}"#);
        assert_eq!(rows[4].get::<_, &str>(3), "/w==");
    })
    .await;
}

#[tokio::test]
async fn documents_the_server_refuses_do_not_cost_good_ones() {
    each_build(async |db| {
        let client = db.client().await;
        client
            .batch_execute(
                "create table guarded (id text collate \"C\" primary key, doc jsonb not null \
                 check ((doc->>'value')::bigint % 97 <> 3))",
            )
            .await
            .unwrap();
        let mut rng = fastrand::Rng::with_seed(11);
        let stream = Stream::random(&mut rng, 3_000, 400);
        let files = Files::new();
        let mut wanted = request("guarded", "id", &[files.write("a", &stream.text)]);
        wanted.adopt = true;
        wanted.batch_rows = 500;
        let receipt = run(&db.url(), &wanted).await.receipt;
        let mut expected = std::collections::BTreeMap::new();
        for line in stream.text.lines() {
            let document: serde_json::Value = serde_json::from_str(line).unwrap();
            let value = document["value"].as_i64().unwrap();
            if value % 97 != 3 {
                expected.insert(document["id"].as_str().unwrap().to_owned(), value);
            }
        }
        assert_eq!(stored(&db, "guarded").await, expected);
        assert!(receipt.counters.rejected > 0 && receipt.counters.rejected <= 31);
        let reasons: i64 = client
            .query_one("select count(*) from millstream.reject where reason = 'breaks_check'", &[])
            .await
            .unwrap()
            .get(0);
        assert_eq!(u64::try_from(reasons).unwrap(), receipt.counters.rejected);
    })
    .await;
}

#[tokio::test]
async fn a_trigger_that_drops_rows_makes_rejects() {
    let db = database().await;
    let client = db.client().await;
    client
        .batch_execute(
            "create table sieved (id text collate \"C\" primary key, doc jsonb not null);
             create function sieve() returns trigger language plpgsql as
             $$begin if new.id like '%7' then return null; end if; return new; end$$;
             create trigger sieve before insert on sieved for each row execute function sieve()",
        )
        .await
        .unwrap();
    let mut stream = Stream::default();
    for n in 0..1_000 {
        stream.push(&n.to_string(), n);
    }
    let files = Files::new();
    let mut wanted = request("sieved", "id", &[files.write("a", &stream.text)]);
    wanted.adopt = true;
    let receipt = run(&db.url(), &wanted).await.receipt;
    assert_eq!((receipt.counters.rejected, receipt.counters.inserted), (100, 900));
}

#[tokio::test]
async fn a_load_stopped_by_rejects_resumes_with_a_higher_limit() {
    each_build(async |db| {
        let files = Files::new();
        let mut text = String::new();
        for n in 0..60_000 {
            text.push_str(&if n % 10 == 9 { format!("{{\"id\":{n}\n") } else { format!("{{\"id\":{n}}}\n") });
        }
        let mut wanted = request("limited", "id", &[files.write("a", &text)]);
        wanted.rejects_max = 100;
        let stopped = run(&db.url(), &wanted).await;
        assert_eq!(stopped.stopped, Some(StopReason::Rejects));
        assert!(!stopped.receipt.finished);
        let before = stopped.receipt.counters;
        assert!(before.rejected >= 100 && before.read < 60_000, "{before:?}");
        wanted.rejects_max = 100_000;
        wanted.lanes = Some(3);
        let done = run(&db.url(), &wanted).await.receipt;
        assert_eq!(done.load_id, stopped.receipt.load_id);
        assert_eq!(done.resumed_from, Some(before.read));
        assert_eq!((done.counters.read, done.counters.rejected), (60_000, 6_000));
        assert_eq!(done.counters.inserted, 54_000);
        let again = run(&db.url(), &wanted).await.receipt;
        assert_ne!(again.load_id, done.load_id, "a finished load runs again as a new one");
        assert_eq!(again.counters.updated + again.counters.unchanged, 54_000);
    })
    .await;
}

#[tokio::test]
async fn damage_ends_the_source_and_a_repaired_file_resumes_there() {
    each_build(async |db| {
        let files = Files::new();
        let file = files.write("a.json", "[{\"id\":1},{\"id\":2} {\"id\":3},{\"id\":4}]");
        let mut wanted = request("damaged", "id", &[file]);
        wanted.format = "json".into();
        for _ in 0..2 {
            let outcome = run(&db.url(), &wanted).await;
            assert!(matches!(outcome.stopped, Some(StopReason::Damage { line: 1, .. })), "{outcome:?}");
            let counters = outcome.receipt.counters;
            assert_eq!((counters.read, counters.inserted, counters.rejected), (3, 2, 1), "{outcome:?}");
        }
        files.write("a.json", "[{\"id\":1},{\"id\":2},{\"id\":3},{\"id\":4}]");
        let receipt = run(&db.url(), &wanted).await.receipt;
        assert_eq!((receipt.counters.read, receipt.counters.inserted, receipt.counters.rejected), (4, 4, 0));
        assert!(receipt.finished);
        let rejects: i64 =
            db.client().await.query_one("select count(*) from millstream.reject", &[]).await.unwrap().get(0);
        assert_eq!(rejects, 0);
    })
    .await;
}

#[tokio::test]
async fn a_damaged_place_is_counted_once_although_the_rejects_are_cleared() {
    each_build(async |db| {
        let files = Files::new();
        // Of a document above 1 MiB, less is kept than was read.
        let text = format!("id,n\n1,2\n3\n4,\"{}", "x".repeat(3 << 20));
        let csv = |table: &str, text: &str| {
            let mut wanted = request(table, "id:bigint", &[files.write("a.csv", text)]);
            wanted.format = "csv".into();
            wanted
        };
        let wanted = csv("halved", &text);
        let (client, mut stopped) = (db.client().await, Vec::new());
        for deleted in [1, 0] {
            let outcome = run(&db.url(), &wanted).await;
            assert!(matches!(outcome.stopped, Some(StopReason::Damage { line: 4, .. })), "{outcome:?}");
            stopped.push(outcome.receipt.counters);
            let table_oid = client.query_one("select 'halved'::regclass::oid", &[]).await.unwrap().get(0);
            let filter = RejectFilter { table_oid, ..RejectFilter::default() };
            let cleared = rejects::clear(&client, &schema(), &filter).await.unwrap();
            assert_eq!(cleared, Cleared { deleted, kept: 1 });
        }
        assert_eq!((stopped[0].read, stopped[0].inserted, stopped[0].rejected), (3, 1, 2));
        assert_eq!(stopped[1], stopped[0]);
        let mended = format!("{text}\"\n");
        let whole = run(&db.url(), &csv("whole", &mended)).await.receipt;
        let resumed = run(&db.url(), &wanted).await.receipt;
        assert_eq!((resumed.finished, resumed.counters.inserted), (true, 2));
        assert_eq!(resumed.counters, whole.counters);
    })
    .await;
}

#[tokio::test]
async fn a_load_repeated_without_resume_is_not_resumed_later() {
    let db = database().await;
    let files = Files::new();
    let text: String = (0..60_000).map(|n| format!("{{\"id\":{n}{}\n", if n % 10 == 9 { "" } else { "}" })).collect();
    let mut wanted = request("anew", "id", &[files.write("a", &text)]);
    wanted.rejects_max = 100;
    assert_eq!(run(&db.url(), &wanted).await.stopped, Some(StopReason::Rejects));
    wanted.rejects_max = 100_000;
    wanted.resume = false;
    assert!(run(&db.url(), &wanted).await.receipt.finished);
    wanted.resume = true;
    let receipt = run(&db.url(), &wanted).await.receipt;
    let again = receipt.counters.updated + receipt.counters.unchanged;
    assert_eq!((receipt.resumed_from, again), (None, 54_000));
}

#[tokio::test]
async fn a_changed_prefix_is_refused() {
    let db = database().await;
    let files = Files::new();
    let line = |n: usize| if n % 10 == 9 { format!("{{\"id\":{n}\n") } else { format!("{{\"id\":{n}}}\n") };
    let text: String = (0..60_000).map(line).collect();
    let file = files.write("a", &text);
    let mut wanted = request("prefixed", "id", &[file]);
    wanted.rejects_max = 100;
    assert_eq!(run(&db.url(), &wanted).await.stopped, Some(StopReason::Rejects));
    files.write("a", text.replacen("{\"id\":1}", "{\"id\":7}", 1));
    wanted.rejects_max = 100_000;
    let outcome = run(&db.url(), &wanted).await;
    assert_eq!(outcome.stopped, Some(StopReason::Failed));
    assert!(matches!(outcome.error, Some(Error::Source(_))), "{:?}", outcome.error);
}

#[tokio::test]
async fn a_load_stops_at_its_limit_of_reject_bytes_and_resumes() {
    let db = database().await;
    let files = Files::new();
    let bad = format!("{{{}\n", "x".repeat(300)).repeat(5_000);
    let mut wanted = request("long", "id:text", &[files.write("a", format!("{bad}{{\"id\":\"a\"}}\n"))]);
    wanted.reject_bytes_max = 10_000;
    let outcome = run(&db.url(), &wanted).await;
    assert_eq!(outcome.stopped, Some(StopReason::Rejects));
    // The load checks it after each chunk.
    assert!((34..5_000).contains(&outcome.receipt.counters.rejected), "{outcome:?}");
    wanted.reject_bytes_max = 10_000_000;
    let receipt = run(&db.url(), &wanted).await.receipt;
    assert_eq!((receipt.finished, receipt.counters.rejected, receipt.counters.inserted), (true, 5_000, 1));
}

#[tokio::test]
async fn concurrent_first_loads_create_the_table_once() {
    each_build(async |db| {
        let files = Files::new();
        for round in 0..20 {
            let table = format!("fresh{round}");
            let loads = (0..4).map(|n| {
                let wanted = request(&table, "id", &[files.write(&n.to_string(), format!("{{\"id\":\"{n}\"}}\n"))]);
                let url = db.url();
                tokio::spawn(async move { run(&url, &wanted).await.receipt.counters.inserted })
            });
            for load in loads.collect::<Vec<_>>() {
                assert_eq!(load.await.expect("the load begins"), 1);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn two_loads_over_the_same_keys_in_opposite_orders_do_not_deadlock() {
    const KEYS: u64 = 10_000;
    each_build(async |db| {
        let files = Files::new();
        let (mut up, mut down) = (Stream::default(), Stream::default());
        for n in 0..KEYS {
            up.push(&format!("{n:06}"), 1);
            down.push(&format!("{:06}", KEYS - 1 - n), 2);
        }
        let (up, down) = (files.write("up", &up.text), files.write("down", &down.text));
        let modes: [(&str, &[i64]); 6] = [
            ("replace", &[1, 2]),
            ("keep", &[1, 2]),
            ("merge", &[1, 2]),
            ("merge:deep", &[1, 2]),
            ("newest:value:bigint", &[2]),
            ("sum:value", &[3]),
        ];
        for (n, (mode, right)) in modes.into_iter().enumerate() {
            let table = format!("shared{n}");
            let mut first = request(&table, "id:text", std::slice::from_ref(&up));
            (first.mode, first.batch_rows) = (mode.parse().expect("a mode"), 700);
            // A batch ends with a chunk.
            first.chunk_bytes = 16 << 10;
            let mut second = LoadRequest { sources: vec![down.clone()], ..first.clone() };
            (second.batch_rows, second.lanes) = (600, Some(3));
            let url = db.url();
            let (a, b) = tokio::join!(run(&url, &first), run(&url, &second));
            for outcome in [&a, &b] {
                assert!(outcome.stopped.is_none(), "{mode}: {outcome:?}");
                assert_eq!((outcome.receipt.deadlocks, outcome.receipt.counters.read), (0, KEYS), "{mode}");
            }
            assert_eq!(a.receipt.counters.inserted + b.receipt.counters.inserted, KEYS, "{mode}");
            let values = stored(&db, &table).await;
            assert_eq!(values.len() as u64, KEYS, "{mode}");
            assert!(values.values().all(|value| right.contains(value)), "{mode}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_load_waits_for_keys_another_session_is_inserting() {
    each_build(async |db| {
        // The batch is divided, or all of it is staged, or it is compared and most of it is equal.
        for (rows, skip) in [(1_000, SkipUnchanged::Auto), (1_400, SkipUnchanged::Auto), (1_000, SkipUnchanged::On)] {
            let files = Files::new();
            let mut stream = Stream::default();
            (0..rows).for_each(|n| stream.push(&format!("{n:04}"), 1));
            let mut wanted = request("public.contended", "id:text", &[files.write("1", &stream.text)]);
            (wanted.lanes, wanted.arrays_rows_max) = (Some(1), 0);
            run(&db.url(), &wanted).await;
            let mut stream = Stream::default();
            let value = if skip == SkipUnchanged::On { 1 } else { 2 };
            (0..1_500).for_each(|n| stream.push(&format!("{n:04}"), value));
            (wanted.sources, wanted.skip_unchanged) = (vec![files.write("2", &stream.text)], skip);
            let (mut other, watch, url) = (db.client().await, db.client().await, db.url());
            let transaction = other.transaction().await.unwrap();
            let insert = "insert into public.contended select '1450', '{\"id\": \"1450\", \"value\": 0}'";
            transaction.execute(insert, &[]).await.unwrap();
            let commit = async {
                let waits = "select exists (select from pg_stat_activity where wait_event = 'transactionid' \
                             and application_name like 'millstream lane%' and datname = current_database())";
                until("a lane waits for the key", async || watch.query_one(waits, &[]).await.unwrap().get(0)).await;
                transaction.commit().await.unwrap();
            };
            let (outcome, ()) = tokio::join!(run(&url, &wanted), commit);
            assert!(outcome.error.is_none(), "{:?}", outcome.error);
            let receipt = outcome.receipt;
            let equal = if skip == SkipUnchanged::On { rows } else { 0 };
            assert_eq!(receipt.counters.unchanged, equal, "{receipt:?}");
            let written = (receipt.counters.inserted, receipt.counters.updated);
            assert_eq!(written, (1_499 - rows, rows + 1 - equal), "{receipt:?}");
            assert_eq!((receipt.writers["upsert"], receipt.retries), (1, 0), "{receipt:?}");
            assert_eq!(stored(&db, "public.contended").await, stream.last);
            db.client().await.batch_execute("drop table public.contended").await.unwrap();
        }
    })
    .await;
}

/// A lane that has met too many keys to remember them takes new ones for known.
#[tokio::test]
async fn new_keys_are_copied_however_many_a_lane_has_met() {
    each_build(async |db| {
        let files = Files::new();
        let mut stream = Stream::default();
        (0..20_000).for_each(|n| stream.push(&format!("{n:05}"), n));
        let mut wanted = request("public.many", "id:text", &[files.write("new", &stream.text)]);
        (wanted.lanes, wanted.arrays_rows_max, wanted.batch_rows) = (Some(1), 0, 1_000);
        (wanted.met_words, wanted.chunk_bytes) = (100, 32 << 10);
        let receipt = run(&db.url(), &wanted).await.receipt;
        assert_eq!(receipt.counters.inserted, 20_000, "{receipt:?}");
        assert_eq!(receipt.writers.keys().collect::<Vec<_>>(), ["copy"], "{receipt:?}");
    })
    .await;
}

/// Somebody else inserts keys that a lane has not met, into a table that was empty when the load began.
#[tokio::test]
async fn a_lane_that_knows_its_keys_learns_of_others() {
    each_build(async |db| {
        let files = Files::new();
        let mut wanted = request("public.known", "id:text", &[]);
        run(&db.url(), &LoadRequest { sources: vec![files.write("none", "")], ..wanted.clone() }).await;
        // Every twentieth key comes again; the keys of the other session are in the second half.
        let mut stream = Stream::default();
        (0..8_000).for_each(|n| stream.push(&format!("{:05}", if n % 20 == 19 { n / 2 } else { n }), n));
        wanted.sources = vec![files.write("mixed", &stream.text)];
        (wanted.lanes, wanted.arrays_rows_max, wanted.batch_rows) = (Some(1), 0, 1_000);
        wanted.chunk_bytes = 32 << 10;
        let receipt = run(&db.url(), &wanted).await.receipt;
        assert!(receipt.writers.keys().all(|name| ["copy", "divided"].contains(&name.as_str())), "{receipt:?}");
        assert!(receipt.writers["divided"] > 3, "{receipt:?}");
        assert_eq!(stored(&db, "public.known").await, stream.last);

        let client = db.client().await;
        let disturb = "truncate public.known;
            create function public.disturb() returns trigger language plpgsql as $$begin
                insert into public.known select lpad(n::text, 5, '0'), '{\"id\": \"x\", \"value\": -1}'
                from generate_series(4000, 7998, 200) n;
                return null;
            end$$;
            create trigger disturb after insert on millstream.load for each row execute function public.disturb()";
        client.batch_execute(disturb).await.unwrap();
        wanted.resume = false;
        let receipt = run(&db.url(), &wanted).await.receipt;
        assert_eq!(stored(&db, "public.known").await, stream.last, "{receipt:?}");
    })
    .await;
}

/// They pass through a staging table, which must not compress them in another way.
#[tokio::test]
async fn changed_documents_are_compressed_as_new_ones() {
    each_build(async |db| {
        let (files, client) = (Files::new(), db.client().await);
        let mut wanted = request("public.long", "id:text", &[]);
        (wanted.lanes, wanted.arrays_rows_max) = (Some(1), 0);
        let mut compressed = Vec::new();
        for (value, writer) in [(1, "copy"), (2, "staged")] {
            let long = format!("{value} is a number. ").repeat(300);
            let text: String = (0..100).map(|n| format!("{{\"id\":\"{n}\",\"text\":\"{long}\"}}\n")).collect();
            wanted.sources = vec![files.write(writer, text)];
            let receipt = run(&db.url(), &wanted).await.receipt;
            assert!(receipt.writers.contains_key(writer), "{receipt:?}");
            let sql = "select array_agg(distinct pg_column_compression(doc)) from public.long";
            compressed.push(client.query_one(sql, &[]).await.unwrap().get::<_, Vec<Option<String>>>(0));
        }
        assert!(compressed[0] == compressed[1] && compressed[0].len() == 1, "{compressed:?}");
        assert!(compressed[0][0].is_some(), "long documents are compressed");
    })
    .await;
}

#[tokio::test]
async fn an_unfit_table_is_refused_with_a_hint() {
    let db = database().await;
    let client = db.client().await;
    client
        .batch_execute(
            "create table plain (id text primary key, doc jsonb not null);
             create table nokey (id text, doc jsonb not null);
             create table deferred (id text primary key deferrable, doc jsonb not null);
             create table stuck (id text primary key, doc jsonb, other int not null);
             create table texts (id text primary key, doc text);
             create table numbers (id numeric(5,2) primary key, doc jsonb);
             create view seen as select * from plain",
        )
        .await
        .unwrap();
    let files = Files::new();
    let file = files.write("a", "{\"id\":\"x\"}\n");
    for (table, adopt, words) in [
        ("plain", false, "no load has made"),
        ("nokey", true, "no primary key"),
        ("deferred", true, "its primary key deferred_pkey, which is deferrable"),
        ("stuck", true, "not null and has no default"),
        ("texts", true, "of type text"),
        ("numbers", true, "of type numeric(5,2), which rounds"),
        ("seen", true, "a view"),
    ] {
        let mut wanted = request(table, "id", std::slice::from_ref(&file));
        wanted.adopt = adopt;
        let error = load(&wanted, &surroundings(&db.url()).0).await.expect_err(table);
        assert!(error.to_string().contains(words), "{table}: {error}");
        assert!(error.hint().is_some(), "{table}");
    }
    let mut wanted = request("plain", "id", std::slice::from_ref(&file));
    wanted.adopt = true;
    let receipt = run(&db.url(), &wanted).await.receipt;
    assert_eq!(receipt.counters.inserted, 1);

    // What the hint says can be pasted, and then the load works.
    client
        .batch_execute(
            "create schema \"Odd\";
             create table \"Odd\".\"no key\" (id text, doc jsonb not null);
             create table \"Odd\".\"late\" (id text primary key deferrable, doc jsonb not null)",
        )
        .await
        .unwrap();
    for table in ["no key", "late"] {
        let mut wanted = request(&format!("\"Odd\".\"{table}\""), "id", std::slice::from_ref(&file));
        wanted.adopt = true;
        let error = load(&wanted, &surroundings(&db.url()).0).await.expect_err(table);
        client.batch_execute(&error.hint().unwrap()).await.unwrap();
        assert_eq!(run(&db.url(), &wanted).await.receipt.counters.inserted, 1, "{table}");
    }
}

#[tokio::test]
async fn a_stream_that_is_named_twice_is_refused() {
    let db = database().await;
    let files = Files::new();
    let pipe = files.write("pipe", "");
    std::fs::remove_file(&pipe).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let link = format!("{pipe}-link");
    std::os::unix::fs::symlink(&pipe, &link).unwrap();
    let error = load(&request("piped", "id", &[pipe, link]), &surroundings(&db.url()).0).await.unwrap_err();
    assert!(error.to_string().contains("pipe-link is a stream that is named twice"), "{error}");
}

#[tokio::test]
async fn a_key_without_a_type_is_not_inferred_and_the_reason_is_said() {
    let db = database().await;
    let files = Files::new();
    for (name, text, reason) in [
        ("a.json", "[", "the JSON array is not closed"),
        ("a.csv", "id,n\n1\n1,2,3\n", "csv_fields: the record has 1 fields, the header 2"),
        ("b.csv", "id,n\n1,\"2", "the CSV record has an open quote"),
    ] {
        let wanted = request("unclear", "id", &[files.write(name, text)]);
        let error = load(&wanted, &surroundings(&db.url()).0).await.unwrap_err();
        assert!(error.to_string().contains(reason), "{name}: {error}");
    }
}

#[tokio::test]
async fn a_running_load_refuses_a_second_run() {
    let db = database().await;
    let files = Files::new();
    let mut rng = fastrand::Rng::with_seed(3);
    let stream = Stream::random(&mut rng, 20_000, 10_000);
    let mut wanted = request("busy", "id", &[files.write("none", "{\"id\":\"key-000000\"}\n")]);
    let url = db.url();
    run(&url, &wanted).await;
    // Nobody can write, so the first run still works when the second stops waiting for it.
    let other = db.client().await;
    other.batch_execute("begin; lock table public.busy in share mode").await.unwrap();
    wanted.sources = vec![files.write("a", &stream.text)];
    let (around, events) = surroundings(&url);
    let first = tokio::spawn({
        let wanted = wanted.clone();
        async move { load(&wanted, &around).await }
    });
    until("the first load begins", async || {
        assert!(!first.is_finished(), "it waits for the table");
        events.0.lock().unwrap().iter().any(|event| matches!(event, Event::Started { .. }))
    })
    .await;
    let second = load(&wanted, &surroundings(&url).0).await;
    assert!(matches!(second, Err(Error::Store(StoreError::LoadRunning { .. }))), "{second:?}");
    other.batch_execute("commit").await.unwrap();
    let outcome = first.await.unwrap().unwrap();
    assert_eq!(outcome.receipt.counters.read, 20_000);
    let mut expected = stream.last;
    expected.entry("key-000000".into()).or_insert(0);
    assert_eq!(stored(&db, "public.busy").await, expected);
}

#[tokio::test]
async fn our_schema_can_have_another_name_and_be_dropped_at_once() {
    let db = database().await;
    let (client, files) = (db.client().await, Files::new());
    let file = files.write("a", "{\"id\":1}\n");
    let quotes = ["$merge_deep$", "$distinct_walk$", "$distinct_values$", "$walk$", "$$", "$merge_deep_$ $merge_deep$"];
    for (n, name) in ["my \"own\"", "it's", "a\\b"].into_iter().chain(quotes).enumerate() {
        let (own, table) = (Schema::new(name), format!("named{n}"));
        for layout in ["table", "log"] {
            let mut wanted = request(&table, "id", std::slice::from_ref(&file));
            (wanted.schema, wanted.layout) = (Schema::new(name), Layout::by_name(layout).unwrap());
            assert!(run(&db.url(), &wanted).await.receipt.finished, "{name} {layout}");
        }
        assert!(own.exists(&client).await.unwrap());
        client.batch_execute(&format!("drop schema {own} cascade")).await.unwrap();
        let rows: i64 = client.query_one(&format!("select count(*) from {table}"), &[]).await.unwrap().get(0);
        assert_eq!(rows, 1);
    }
}
