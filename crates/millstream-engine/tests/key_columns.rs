//! Keys of types that adopted tables have, and of types that say how documents spell them.

use crate::scene::{Files, adopting, collection, equal, execute, request, run, schema, surroundings};
use millstream_engine::load;
use millstream_store::documents;
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
