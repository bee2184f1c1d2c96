//! The log layout: documents appended to segments, read behind the table, and merged into it.

use crate::scene::{Files, Stream, request, run, stored, surroundings};
use millstream_engine::store::collections::{self, Collection};
use millstream_engine::store::{Schema, documents, segments};
use millstream_engine::{
    Compacted, Definition, Durability, Error, Layout, LoadRequest, PublishRequest, RefreshRequest, SkipUnchanged,
    VerifyRequest, compact, load, publish, refresh, verify,
};
use millstream_pg::SessionSettings;
use millstream_testkit::{Cases, TestDatabase, connect, database, each_build};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio_postgres::Client;

fn schema() -> Schema {
    Schema::new("millstream")
}

/// A load in the log layout, in segments of so many documents.
fn appending(into: &str, sources: &[String], rows: usize) -> LoadRequest {
    let mut wanted = request(into, "id", sources);
    wanted.layout = Layout::by_name("log").expect("a layout");
    wanted.segment_rows_max = rows;
    wanted
}

async fn collection(client: &Client, name: &str) -> Collection {
    let name = name.parse().expect("a name");
    collections::find(client, &schema(), &name).await.expect("it can be looked up").expect("it was loaded into")
}

async fn waiting(db: &TestDatabase, name: &str) -> usize {
    let client = db.client().await;
    let found = collection(&client, name).await;
    segments::count(&client, &schema(), &found).await.expect("segments can be counted")
}

async fn compacted(db: &TestDatabase, name: &str, workers: usize) -> Result<Compacted, Error> {
    let found = collection(&db.client().await, name).await;
    Box::pin(compact(&surroundings(&db.url()).0.db, &schema(), &found, Some(workers))).await
}

/// A stream of documents of which some delete, folded into what came before.
fn wave(rng: &mut fastrand::Rng, from: i64, expected: &mut BTreeMap<String, i64>) -> Stream {
    let mut stream = Stream::default();
    // Every so often one key has most documents of a wave.
    let hot = rng.u8(..4) == 0;
    let keys = rng.usize(1..3_000);
    for n in 0..rng.i64(0..4_000) {
        let id = if hot && rng.bool() { "hot".to_owned() } else { format!("key-{:05}", rng.usize(..keys)) };
        if rng.u8(..10) == 0 {
            stream.text.push_str(&format!("{{\"id\":\"{id}\",\"op\":\"d\",\"value\":{}}}\n", from + n));
            expected.remove(&id);
            stream.documents += 1;
        } else {
            stream.push(&id, from + n);
            expected.insert(id, from + n);
        }
    }
    stream
}

/// What a reader by key and a verification find is what the loads said.
async fn reads_as(db: &TestDatabase, name: &str, expected: &BTreeMap<String, i64>, rng: &mut fastrand::Rng) {
    let mut client = db.client().await;
    let found = collection(&client, name).await;
    let mut keys: Vec<String> = (0..10).map(|_| format!("key-{:05}", rng.usize(..3_000))).collect();
    keys.push("hot".into());
    for key in keys {
        let document = documents::document(&mut client, &schema(), &found, std::slice::from_ref(&key)).await;
        let document: Option<serde_json::Value> =
            document.expect("a key can be looked up").map(|text| serde_json::from_str(&text).expect("JSON"));
        assert_eq!(document.map(|d| d["value"].as_i64().expect("a number")), expected.get(&key).copied(), "{key}");
    }
    let files = Files::new();
    let mut whole = Stream::default();
    for (id, value) in expected {
        whole.push(id, *value);
    }
    let wanted = request(name, "id", &[files.write("whole", whole.text)]);
    let directory = tempfile::tempdir().expect("a directory");
    let wanted = VerifyRequest { exact: true, ..VerifyRequest::new(wanted, directory.path().to_owned()) };
    let verified =
        Box::pin(verify(&wanted, &surroundings(&db.url()).0.db, Arc::default())).await.expect("it is compared");
    assert_eq!((verified.differences(), verified.equal), (0, expected.len() as u64), "{verified:?}");
}

#[tokio::test]
async fn segments_and_table_together_are_what_the_loads_said() {
    each_build(async |db| {
        for mut rng in Cases::new(4) {
            let table = format!("t{}", rng.u32(..));
            let (files, mut expected, mut from) = (Files::new(), BTreeMap::new(), 0);
            for load in 0..rng.usize(2..6) {
                let sources: Vec<String> = (0..rng.usize(1..4))
                    .map(|n| {
                        let stream = wave(&mut rng, from, &mut expected);
                        from += 10_000;
                        files.write(&format!("{load}-{n}"), stream.text)
                    })
                    .collect();
                let appends = load == 0 || rng.u8(..4) > 0;
                let mut wanted = appending(&table, &sources, rng.usize(1..3_000));
                wanted.lanes = Some(rng.u16(1..5));
                wanted.mode = wanted.mode.with_tombstone(Some("op=d".parse().expect("a tombstone")));
                if !appends {
                    compacted(&db, &table, rng.usize(1..4)).await.expect("it is merged");
                    wanted.layout = Layout::by_name("table").expect("a layout");
                }
                let receipt = run(&db.url(), &wanted).await.receipt;
                assert!(receipt.finished, "{receipt:?}");
                if appends {
                    assert_eq!((receipt.counters.appended, receipt.layout.as_str()), (receipt.counters.read, "log"));
                }
                reads_as(&db, &table, &expected, &mut rng).await;
                if rng.bool() {
                    let done = compacted(&db, &table, rng.usize(1..4)).await.expect("it is merged");
                    assert_eq!((done.left, waiting(&db, &table).await), (0, 0));
                    assert!(stored(&db, &table).await == expected, "after load {load}");
                }
            }
            compacted(&db, &table, 2).await.expect("it is merged");
            assert!(stored(&db, &table).await == expected);
            reads_as(&db, &table, &expected, &mut rng).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_segment_is_one_table_for_all_that_fits() {
    each_build(async |db| {
        let mut rng = fastrand::Rng::with_seed(4);
        let files = Files::new();
        let stream = Stream::random(&mut rng, 20_000, 8_000);
        let bad = format!("{}{{\"id\":\n{{\"id\":\"last\",\"value\":7}}\n", stream.text);
        let mut wanted = appending("few", &[files.write("a", bad)], usize::MAX);
        wanted.lanes = Some(2);
        let receipt = run(&db.url(), &wanted).await.receipt;
        assert_eq!((receipt.counters.appended, receipt.counters.rejected), (20_001, 1));
        assert_eq!((receipt.writers["segment"], waiting(&db, "few").await), (2, 2));
        let client = db.client().await;
        let frozen: i64 = client
            .query_one("select count(*) from pg_class where relname ~ '^segment_\\d+$' and relallvisible = 0", &[])
            .await
            .unwrap()
            .get(0);
        assert_eq!(frozen, 2, "no vacuum has touched them");
        let tables: Vec<u64> =
            collections::list(&client, &schema()).await.unwrap().iter().map(|c| c.segments).collect();
        assert_eq!(tables, [2]);
        let done = compacted(&db, "few", 2).await.unwrap();
        assert_eq!((done.segments, done.documents, done.keys), (2, 20_001, stream.last.len() as u64 + 1));
        let left: i64 = client
            .query_one("select count(*) from pg_class where relname ~ '^segment_\\d+$'", &[])
            .await
            .unwrap()
            .get(0);
        assert_eq!(left, 0);
    })
    .await;
}

#[tokio::test]
async fn a_table_load_is_refused_while_documents_wait_and_says_the_way_out() {
    let db = database().await;
    let files = Files::new();
    let file = files.write("a", "{\"id\":\"a\",\"value\":1}\n");
    run(&db.url(), &appending("waits", &[file], 10)).await;
    let other = files.write("b", "{\"id\":\"a\",\"value\":2}\n");
    let wanted = request("waits", "id", std::slice::from_ref(&other));
    let refused = Box::pin(load(&wanted, &surroundings(&db.url()).0)).await.expect_err("documents wait");
    assert!(matches!(refused, Error::Appended { segments: 1, .. }), "{refused}");
    assert!(refused.hint().is_some_and(|hint| hint.contains("millstream compact waits")), "{refused:?}");
    compacted(&db, "waits", 1).await.unwrap();
    run(&db.url(), &wanted).await;
    assert_eq!(stored(&db, "waits").await["a"], 2);
}

#[tokio::test]
async fn what_would_have_to_look_at_stored_documents_is_refused_by_name() {
    let db = database().await;
    let files = Files::new();
    let file = files.write("a", "{\"id\":\"a\",\"value\":1}\n");
    for mode in ["keep", "merge", "merge:deep", "newest:value", "sum:value"] {
        let mut wanted = appending("modes", std::slice::from_ref(&file), 10);
        wanted.mode = mode.parse().unwrap();
        let refused = wanted.check().expect_err(mode).to_string();
        assert!(refused.contains(mode.split(':').next().unwrap()), "{refused}");
    }
    let mut wanted = appending("modes", std::slice::from_ref(&file), 10);
    wanted.skip_unchanged = SkipUnchanged::On;
    assert!(wanted.check().expect_err("nothing is compared").to_string().contains("--skip-unchanged"));
    let sql = "create table judged (id text collate \"C\" primary key, doc jsonb not null check (doc ? 'value'))";
    db.client().await.batch_execute(sql).await.unwrap();
    let mut wanted = appending("judged", &[file], 10);
    wanted.adopt = true;
    let refused = Box::pin(load(&wanted, &surroundings(&db.url()).0)).await.expect_err("a constraint judges");
    assert!(matches!(refused, Error::Collection { .. }), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lane_that_is_cut_off_is_begun_again_from_what_is_committed() {
    each_build(async |db| {
        let mut rng = fastrand::Rng::with_seed(31);
        let files = Files::new();
        let stream = Stream::random(&mut rng, 150_000, 60_000);
        let file = files.write("a", &stream.text);
        // What comes through a pipe comes once, so that its segments are held in memory.
        let pipe = format!("{file}.pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for (table, source) in [("cut", &file), ("held", &pipe)] {
            let mut wanted = appending(table, std::slice::from_ref(source), 2_000);
            (wanted.lanes, wanted.resume) = (Some(2), table == "cut");
            let (text, into) = (stream.text.clone(), pipe.clone());
            let writing = tokio::task::spawn_blocking(move || {
                if table == "held" {
                    std::fs::write(into, text).unwrap()
                }
            });
            let (ender, cuts_min) = (connect(&db.url()).await, if table == "held" { 20 } else { 3 });
            let cutting = tokio::spawn(async move {
                let sql = "select count(pg_terminate_backend(pid)) from pg_stat_activity
                           where application_name like 'millstream lane%' and datname = current_database()
                             and (query like 'COPY%' or query like 'copy%')";
                let mut cut = 0;
                while cut < cuts_min {
                    cut += ender.query_one(sql, &[]).await.unwrap().get::<_, i64>(0);
                    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                }
            });
            let receipt = run(&db.url(), &wanted).await.receipt;
            assert!(cutting.is_finished(), "{table}: it ended before its lanes were cut off");
            writing.await.unwrap();
            assert!(receipt.finished && receipt.retries > 0, "{receipt:?}");
            assert_eq!(receipt.counters.read, stream.documents, "{table}");
            compacted(&db, table, 2).await.unwrap();
            assert!(stored(&db, table).await == stream.last, "{table}");
        }
    })
    .await;
}

#[tokio::test]
async fn segments_of_a_run_wait_for_an_older_run_at_work() {
    let db = database().await;
    let files = Files::new();
    let older = files.write("a", "{\"id\":\"a\",\"value\":1}\n");
    run(&db.url(), &appending("turns", &[older], 10)).await;
    let client = db.client().await;
    // The older run is at work again, as its lock says.
    let sql = "update millstream.load set state = 'running' returning load_id";
    let load_id: i64 = client.query_one(sql, &[]).await.unwrap().get(0);
    let (class, id) = millstream_engine::store::load_lock_keys(load_id);
    client.execute("select pg_advisory_lock($1, $2)", &[&class, &id]).await.unwrap();
    let newer = files.write("b", "{\"id\":\"a\",\"value\":2}\n");
    run(&db.url(), &appending("turns", &[newer], 10)).await;
    let done = compacted(&db, "turns", 1).await.unwrap();
    assert_eq!((done.segments, done.left, done.waits_for), (1, 1, Some(load_id)));
    assert_eq!(stored(&db, "turns").await["a"], 1);
    client.execute("select pg_advisory_unlock($1, $2)", &[&class, &id]).await.unwrap();
    assert_eq!(compacted(&db, "turns", 1).await.unwrap().left, 0);
    assert_eq!(stored(&db, "turns").await["a"], 2);
}

#[tokio::test]
async fn a_model_shows_what_waited_and_a_drop_leaves_nothing() {
    each_build(async |db| {
        let files = Files::new();
        let mut stream = Stream::default();
        for n in 0..500 {
            stream.push(&format!("{n:04}"), n);
        }
        run(&db.url(), &appending("shown", &[files.write("a", &stream.text)], 100)).await;
        let around = surroundings(&db.url()).0;
        let mut connection = millstream_pg::connect(&around.db, &SessionSettings::control()).await.unwrap();
        let definition = Definition { indexes: vec!["(doc)".into()], ..Definition::default() };
        let model: millstream_model::CollectionName = "shown_read".parse().unwrap();
        let wanted = PublishRequest { collection: "shown".parse().unwrap(), model: model.clone(), definition };
        publish(&mut connection, &schema(), &wanted).await.unwrap();
        let models = RefreshRequest { models: vec![model.clone()], way: None, workers: Some(2) };
        for (wave, value) in [1_000, 2_000].into_iter().enumerate() {
            for n in 0..200 {
                stream.push(&format!("{n:04}"), value + n);
            }
            let file = files.write(&format!("wave {wave}"), &stream.text);
            run(&db.url(), &appending("shown", &[file], 100)).await;
            Box::pin(refresh(&around.db, &schema(), &models)).await.unwrap();
            assert!(stored(&db, "shown_read").await == stream.last);
        }
        millstream_engine::unpublish(&mut connection, &schema(), &model).await.unwrap();
        run(&db.url(), &appending("shown", &[files.write("last", &stream.text)], 100)).await;
        let mut client = db.client().await;
        let found = collection(&client, "shown").await;
        collections::drop(&mut client, &schema(), &found, true).await.unwrap();
        let left = "select count(*) from pg_class where relname ~ '^segment_\\d+$'";
        assert_eq!(client.query_one(left, &[]).await.unwrap().get::<_, i64>(0), 0);
    })
    .await;
}

#[tokio::test]
async fn unlogged_segments_are_frozen_with_their_collection() {
    let db = database().await;
    let files = Files::new();
    let mut wanted = appending("soft", &[files.write("a", "{\"id\":\"a\",\"value\":1}\n")], 10);
    wanted.durability = Durability::by_name("unlogged").unwrap();
    run(&db.url(), &wanted).await;
    let mut client = db.client().await;
    let kinds = "select string_agg(relpersistence::text, '' order by relname) from pg_class
                 where relname ~ '^segment_\\d+$' or oid = 'public.soft'::regclass";
    assert_eq!(client.query_one(kinds, &[]).await.unwrap().get::<_, &str>(0), "uu");
    let found = collection(&client, "soft").await;
    millstream_engine::store::freeze(&mut client, &schema(), &found).await.unwrap();
    assert_eq!(client.query_one(kinds, &[]).await.unwrap().get::<_, &str>(0), "pp");
    compacted(&db, "soft", 1).await.unwrap();
    assert_eq!(stored(&db, "soft").await["a"], 1);
}

#[tokio::test]
async fn keys_of_every_type_are_parted_into_ranges() {
    each_build(async |db| {
        let files = Files::new();
        let mut lines: Vec<String> = Vec::new();
        for n in 0..3_000 {
            let n = n % 2_000;
            let (day, odd) = (1 + n % 28, n % 2 == 1);
            let uuid = format!("00000000-0000-4000-8000-{n:012}");
            lines.push(format!(
                "{{\"t\":\"it's \\\\ {n}\",\"b\":{n},\"i\":{},\"u\":\"{uuid}\",\"z\":\"2026-01-{day:02}T00:00:00.25Z\",\"d\":\"2026-01-{day:02}\",\"o\":{odd}}}\n",
                -n
            ));
        }
        let file = files.write("a", lines.concat());
        let types = ["t:text", "b:bigint", "i:integer", "u:uuid", "z:timestamptz", "d:date", "o:boolean"];
        assert_eq!(types.len(), millstream_model::KEY_TYPES.len(), "every type is tried");
        for (n, first) in types.iter().enumerate() {
            // A type by itself, where its values are of one document each, and before all others.
            let rest: Vec<&str> = types.iter().copied().filter(|other| other != first).collect();
            let mut wanted = request(&format!("typed_{n}"), &[&[*first], &rest[..]].concat().join(","), std::slice::from_ref(&file));
            wanted.layout = Layout::by_name("log").expect("a layout");
            run(&db.url(), &wanted).await;
            let done = compacted(&db, &format!("typed_{n}"), 4).await.expect("it is merged");
            assert_eq!((done.documents, done.keys), (3_000, 2_000), "{first}");
        }
    })
    .await;
}
