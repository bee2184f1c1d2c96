//! Keys of types that tables bring along, and of types that say how documents spell them.

use crate::log::{appending, collection, compacted};
use crate::publish::{publish_on, refresh_on, wanted};
use crate::scene::{Files, request, run, schema, surroundings};
use futures_util::TryStreamExt;
use millstream_engine::store::documents;
use millstream_engine::{DistinctRequest, Event, LoadRequest, VerifyRequest, distinct, load, verify};
use millstream_testkit::{TestDatabase, each_build};
use std::sync::Arc;

async fn execute(db: &TestDatabase, sql: &str) {
    db.client().await.batch_execute(sql).await.expect("the statements succeed");
}

fn adopting(table: &str, key: &str, files: &Files, text: &str) -> LoadRequest {
    let mut wanted = request(table, key, &[files.write(&fastrand::u64(..).to_string(), text)]);
    wanted.adopt = true;
    wanted
}

/// Key as text and the number in the document, in the key's order.
async fn rows(db: &TestDatabase, table: &str) -> Vec<(String, i32)> {
    let sql = format!("select stored.k::text, (doc ->> 'n')::int from {table} as stored order by stored.k");
    let rows = db.client().await.query(&sql, &[]).await.expect("the table can be read");
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

async fn equal(db: &TestDatabase, load: &LoadRequest) -> u64 {
    let db = surroundings(&db.url()).0.db;
    let mut request = VerifyRequest::new(load.clone(), std::env::temp_dir());
    request.exact = true;
    let found = Box::pin(verify(&request, &db, Arc::default())).await.expect("it can be verified");
    assert_eq!((found.differences(), found.extra), (0, Some(0)), "{found:?}");
    found.equal
}

/// A column's type, values in ascending order with equal ones together, and what is refused.
type Case = (&'static str, &'static [&'static [&'static str]], &'static [&'static str]);

#[tokio::test]
async fn adopted_tables_keep_their_types() {
    each_build(async |db| {
        let files = Files::new();
        execute(
            &db,
            "create domain public.small_code as varchar(3) collate \"C\" check (value <> 'no');
             create domain public.code as public.small_code;
             create domain public.positive as bigint check (value > 0);",
        )
        .await;
        // Values as JSON in ascending order of the column, equal ones together, and what is refused.
        let cases: &[Case] = &[
            ("numeric", &[&["-0.5"], &["1", "1.0", "1.00", "\"1.000\""], &["1e2"]], &["\"NaN\"", "\"1e2\"", "true"]),
            ("smallint", &[&["-1"], &["7", "7.0", "\"7\""], &["32767"]], &["32768", "7.5"]),
            ("bigint", &[&["1", "1.0", "1e0", "0.1e1"]], &["1.5", "\"1.0\""]),
            ("varchar(3) collate \"C\"", &[&["\"a\""], &["\"a  \""], &["\"äöü\""]], &["\"abcd\"", "\"a   \""]),
            ("varchar collate \"C\"", &[&["\"abcd\""]], &["null"]),
            (
                "timestamp",
                &[&["\"2026-01-01T00:00:00\"", "\"2026-01-01 00:00:00.000\""]],
                &["\"2026-01-01T00:00:00Z\""],
            ),
            ("public.code", &[&["\"a\""], &["\"abc\""]], &["\"no\"", "\"abcd\""]),
            ("public.positive", &[&["1", "1.0"], &["2"]], &["0", "-5"]),
        ];
        for (n, (column, values, refused)) in cases.iter().enumerate() {
            let table = format!("public.adopted_{n}");
            execute(&db, &format!("create table {table} (k {column} primary key, doc jsonb not null)")).await;
            let mut text = String::new();
            for (n, spelled) in values.iter().enumerate() {
                text.extend(spelled.iter().map(|value| format!("{{\"k\":{value},\"n\":{n}}}\n")));
            }
            text.extend(refused.iter().map(|value| format!("{{\"k\":{value},\"n\":-1}}\n")));
            let wanted = adopting(&table, "k", &files, &text);
            let outcome = run(&db.url(), &wanted).await.receipt.counters;
            assert_eq!((outcome.inserted, outcome.rejected), (values.len() as u64, refused.len() as u64), "{column}");
            let again = run(&db.url(), &adopting(&table, "k", &files, &text)).await.receipt.counters;
            assert_eq!((again.inserted, again.rejected), (0, refused.len() as u64), "{column}: {again:?}");
            let order: Vec<i32> = rows(&db, &table).await.into_iter().map(|(_, n)| n).collect();
            assert_eq!(order, (0..).take(values.len()).collect::<Vec<_>>(), "{column}");
            // A verification knows of no domain's checks, and finds what they refuse missing.
            if !column.contains("public.") {
                assert_eq!(equal(&db, &wanted).await, values.len() as u64, "{column}");
            }
        }
        execute(&db, "create table public.rounding (k numeric(10,2) primary key, doc jsonb not null)").await;
        let wanted = adopting("public.rounding", "k", &files, "{\"k\":1}\n");
        let error = Box::pin(load(&wanted, &surroundings(&db.url()).0)).await.expect_err("it rounds");
        assert!(error.to_string().contains("is of type numeric(10,2), which rounds"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_collection_remembers_how_documents_spell_its_key() {
    each_build(async |db| {
        let files = Files::new();
        for (n, (of, first, second, utc)) in [
            ("timestamptz:epoch", "1700000000", "\"1700000000.000\"", "2023-11-14 22:13:20+00"),
            ("timestamptz:epoch_ms", "1700000000000", "1.7e12", "2023-11-14 22:13:20+00"),
            ("timestamptz:lenient", "\"2026-01-01 12:00+0530\"", "\"2026-01-01T06:30Z\"", "2026-01-01 06:30:00+00"),
        ]
        .into_iter()
        .enumerate()
        {
            let table = format!("public.spelled_{n}");
            let line = |value: &str, n: usize| format!("{{\"k\":{value},\"n\":{n}}}\n");
            let load =
                |key: &str, text: &str| request(&table, key, &[files.write(&fastrand::u64(..).to_string(), text)]);
            assert_eq!(run(&db.url(), &load(&format!("k:{of}"), &line(first, 1))).await.receipt.counters.inserted, 1);
            let again = load("k", &(line(first, 2) + &line(second, 3)));
            let counters = run(&db.url(), &again).await.receipt.counters;
            assert_eq!((counters.updated, counters.superseded), (1, 1), "{of}: {counters:?}");
            let client = db.client().await;
            client.batch_execute("set timezone = 'UTC'").await.unwrap();
            let sql = format!("select k::text from {table}");
            assert_eq!(client.query_one(&sql, &[]).await.unwrap().get::<_, &str>(0), utc);
            assert_eq!(equal(&db, &again).await, 1);
            let mut client = db.client().await;
            let found = collection(&client, &table).await;
            for part in [first.trim_matches('"'), utc] {
                let document = documents::document(&mut client, &schema(), &found, &[part.to_owned()]).await.unwrap();
                assert!(document.is_some_and(|text| text.contains("\"n\": 3")), "{of} {part}");
            }
            // Another spelling, for this load only.
            let strict = load("k:timestamptz", &line("\"2027-01-01T00:00:00Z\"", 4));
            assert_eq!(run(&db.url(), &strict).await.receipt.counters.inserted, 1);
            assert_eq!(run(&db.url(), &load("k", &line(first, 5))).await.receipt.counters.updated, 1);
            let wrong = load("k:date", &line(first, 1));
            assert!(Box::pin(millstream_engine::load(&wrong, &surroundings(&db.url()).0)).await.is_err());
        }
    })
    .await;
}

#[tokio::test]
async fn new_key_types_reach_segments_models_and_distinct() {
    each_build(async |db| {
        let files = Files::new();
        let numbers: String = (0..500).map(|n| format!("{{\"id\":{}.50,\"n\":{n}}}\n", n % 400)).collect();
        let times: String = (0..500).map(|n| format!("{{\"id\":{},\"n\":{n}}}\n", n % 400)).collect();
        let local = |n: i32| format!("2026-01-01T00:{:02}:{:02}", n % 400 / 60, n % 400 % 60);
        let locals: String = (0..500).map(|n| format!("{{\"id\":\"{}\",\"n\":{n}}}\n", local(n))).collect();
        for (n, (of, text)) in [
            ("numeric", &numbers),
            ("smallint", &times),
            ("varchar(5)", &times),
            ("timestamptz:epoch", &times),
            ("timestamp", &locals),
        ]
        .into_iter()
        .enumerate()
        {
            let table = format!("public.typed_{n}");
            let mut wanted_load = appending(&table, &[files.write(&format!("t{n}"), text)], 90);
            wanted_load.key = request(&table, &format!("id:{of}"), &[]).key;
            run(&db.url(), &wanted_load).await;
            assert_eq!(equal(&db, &wanted_load).await, 400, "{of}");
            compacted(&db, &table, 3).await.expect("it is merged");
            let mut client = db.client().await;
            let count = format!("select count(*) from {table}");
            assert_eq!(client.query_one(&count, &[]).await.unwrap().get::<_, i64>(0), 400, "{of}");
            let model = format!("typed_model_{n}");
            publish_on(&db, &wanted(&table, &model, &["n:int=n"], &["n"], None)).await.expect("it is published");
            refresh_on(&db, &[model.as_str()], None).await.expect("it is built");
            let changed =
                text.lines().take(20).map(|line| line.replace("\"n\":", "\"n\":1000")).collect::<Vec<_>>().join("\n");
            run(&db.url(), &request(&table, "id", &[files.write(&format!("c{n}"), &changed)])).await;
            let oid = collection(&client, &table).await.table_oid;
            let named = format!("select sum(keys)::bigint from millstream.change_{oid}");
            assert_eq!(client.query_one(&named, &[]).await.unwrap().get::<_, i64>(0), 20, "{of}");
            refresh_on(&db, &[model.as_str()], None).await.expect("it is refreshed");
            let shown = format!("select count(*) from {model} where n >= 1000");
            assert_eq!(client.query_one(&shown, &[]).await.unwrap().get::<_, i64>(0), 20, "{of}");
            let found = collection(&client, &table).await;
            let asked = DistinctRequest { column: "id".into(), ..DistinctRequest::default() };
            let values: Vec<String> = distinct(&mut client, &found, &asked).await.unwrap().try_collect().await.unwrap();
            assert_eq!(values.len(), 400, "{of}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_model_follows_a_key_of_a_domain() {
    each_build(async |db| {
        let files = Files::new();
        execute(
            &db,
            "create domain public.positive as bigint check (value > 0);
             create table public.kept (k public.positive primary key, doc jsonb not null)",
        )
        .await;
        let wanted_load = adopting("public.kept", "k", &files, "{\"k\":1,\"n\":1}\n{\"k\":2,\"n\":2}\n{\"k\":-1}\n");
        let (around, told) = surroundings(&db.url());
        Box::pin(load(&wanted_load, &around)).await.expect("the load begins");
        {
            let events = told.0.lock().expect("no test panics while it holds this");
            let warned = |part: &str| events.iter().any(|e| matches!(e, Event::Warning(text) if text.contains(part)));
            assert!(warned("key column k is of domain"), "{events:?}");
        }
        publish_on(&db, &wanted("public.kept", "kept_model", &["n:int=n"], &["n"], None))
            .await
            .expect("it is published");
        refresh_on(&db, &["kept_model"], None).await.expect("it is built");
        run(&db.url(), &adopting("public.kept", "k", &files, "{\"k\":2,\"n\":22}\n")).await;
        let client = db.client().await;
        let oid = collection(&client, "public.kept").await.table_oid;
        let record = format!("select count(*), count(*) filter (where keys = 1) from millstream.change_{oid}");
        let row = client.query_one(&record, &[]).await.unwrap();
        assert_eq!(row.get::<_, i64>(1), 1, "the record names the key");
        refresh_on(&db, &["kept_model"], None).await.expect("it is refreshed");
        let shown = "select string_agg(n::text, ',' order by n) from kept_model";
        assert_eq!(client.query_one(shown, &[]).await.unwrap().get::<_, &str>(0), "1,22");
    })
    .await;
}
