//! Keys of types that adopted tables have, and of types that say how documents spell them.

use crate::scene::{Files, adopting, appending, collection, equal, execute, request, run, schema, surroundings};
use millstream_engine::{Mode, compact, load};
use millstream_model::{CollectionName, KeyRequest};
use millstream_pg::{Explained, quote_name};
use millstream_store::{collections, documents};
use millstream_testkit::{TestDatabase, each_build};

/// Key as text and the number in the document, in the key's order.
async fn rows(db: &TestDatabase, table: &str) -> Vec<(String, i32)> {
    let sql = format!("select stored.k::text, (doc ->> 'n')::int from {table} as stored order by stored.k");
    let rows = db.client().await.query(&sql, &[]).await.expect("the table can be read");
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
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
            (
                "numeric",
                &[&["-0.5"], &["1", "1.0", "1.00", "\"1.000\""], &["1e2", "\"1e2\"", "\"0.1E+3\""]],
                &["\"NaN\"", "\"1e\"", "true"],
            ),
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
            // A verification does not know a domain's checks, so it reports the refused documents as missing.
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

/// Names and paths that look like the places of our templates, like quotes of PL/pgSQL, or like parameters.
#[tokio::test]
async fn names_may_hold_what_templates_do() {
    each_build(async |db| {
        let files = Files::new();
        let row = |n: u32, rest: &str| format!("{{\"k\":{n},\"s\":\"x\",\"{{table}}\":{n},\"ok\":1{rest}}}\n");
        let rows = |of: std::ops::Range<u32>, rest: &str| of.map(|n| row(n, rest)).collect::<String>();
        let names =
            [("{table}", "a{key}b"), ("{key}", "$key$"), ("pg_temp.millstream_stage", "{values}"), ("$1", "{}")];
        for (n, mode) in
            ["replace", "merge", "merge:deep", "keep", "newest:{table}:bigint", "sum:{table}"].into_iter().enumerate()
        {
            let (table, key) = names[n % names.len()];
            let name = CollectionName { schema: "{schema}".into(), table: format!("{table} {n}") };
            let quoted = quote_name(&name);
            execute(
                &db,
                &format!(
                    "create schema if not exists \"{{schema}}\";
                     create table {quoted} (\"{key}\" bigint, s text collate \"C\", doc jsonb not null,
                         primary key (\"{key}\", s), check (doc ->> 'ok' = '1'))"
                ),
            )
            .await;
            let load = async |text: &str, gone: bool| {
                let wanted_key = format!("{key}=k,s");
                let mut wanted = request("t", &wanted_key, &[files.write(&fastrand::u64(..).to_string(), text)]);
                (wanted.collection, wanted.adopt, wanted.lanes) = (name.clone(), true, Some(1));
                let tombstone = gone.then(|| "gone={key}".parse().expect("it says what deletes"));
                wanted.mode = mode.parse::<Mode>().expect("a mode").with_tombstone(tombstone);
                run(&db.url(), &wanted).await.receipt.counters
            };
            assert_eq!(load(&rows(0..300, ""), false).await.inserted, 300, "{mode}");
            assert_eq!(load(&rows(100..400, ",\"more\":1"), false).await.inserted, 100, "{mode}");
            // Refused documents, so that the function on the server writes.
            let refused = load(&(rows(300..500, "") + &rows(600..601, ",\"ok\":2")), false).await;
            assert_eq!((refused.inserted, refused.rejected), (100, 1), "{mode}");
            let deleted = load(&(rows(0..9, ",\"gone\":\"{key}\"") + &rows(500..501, ",\"ok\":3")), true).await;
            assert_eq!((deleted.deleted, deleted.rejected), (9, 1), "{mode}");
            let count = format!("select count(*) from {quoted}");
            assert_eq!(db.client().await.query_one(&count, &[]).await.unwrap().get::<_, i64>(0), 491, "{mode}");
        }
        let mut log = appending("t", &[files.write("log", rows(0..300, "") + &rows(100..400, ",\"more\":1"))], 70);
        log.key = KeyRequest::parse_list("{latest}=k:bigint,{range}=s:text").expect("a key");
        log.collection = CollectionName { schema: "{schema}".into(), table: "{values}".into() };
        run(&db.url(), &log).await;
        let client = db.client().await;
        let found = collections::find(&client, &schema(), &log.collection).await.unwrap().expect("it was loaded into");
        Box::pin(compact(&surroundings(&db.url()).0.db, &schema(), &found, Some(2))).await.expect("it is merged");
        let count = "select count(*), count(doc -> 'more') from \"{schema}\".\"{values}\"";
        let row = client.query_one(count, &[]).await.unwrap();
        assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (400, 300));
    })
    .await;
}

#[tokio::test]
async fn a_key_is_found_after_its_column_got_another_type() {
    each_build(async |db| {
        let files = Files::new();
        let mut wanted = request("altered", "a:bigint,b:text", &[files.write("a", "{\"a\":7,\"b\":\"x\"}\n")]);
        run(&db.url(), &wanted).await;
        let mut client = db.client().await;
        let found = collection(&client, "altered").await;
        let key = ["7".to_owned(), "x".to_owned()];
        for of in ["text", "varchar(9)", "numeric(5,0)", "bigint"] {
            let alter = format!("alter table public.altered alter column a type {of} using a::{of}");
            client.batch_execute(&alter).await.unwrap();
            let document = documents::document(&mut client, &schema(), &found, &key).await.unwrap();
            assert!(document.is_some_and(|text| text.contains("\"a\": 7")), "{of}");
            assert_eq!(documents::count(&mut client, &schema(), &found, &key[..1]).await.unwrap(), 1, "{of}");
        }
        wanted = appending("altered", &[files.write("b", "{\"a\":8,\"b\":\"x\"}\n")], 9);
        wanted.key = KeyRequest::parse_list("a,b").expect("a key");
        run(&db.url(), &wanted).await;
        client.batch_execute("alter table public.altered alter column a type text").await.unwrap();
        let error = documents::document(&mut client, &schema(), &found, &key).await.expect_err("segments have bigint");
        assert!(error.hint().is_some_and(|hint| hint.contains("alter column \"a\" type bigint")), "{error}");
        // The session is usable again.
        client.batch_execute("alter table public.altered alter column a type bigint using a::bigint").await.unwrap();
        assert!(documents::document(&mut client, &schema(), &found, &key).await.unwrap().is_some());
    })
    .await;
}
