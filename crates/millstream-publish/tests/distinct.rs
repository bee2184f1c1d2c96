//! Distinct values of a key column: the skip scan finds the same values as `select distinct`.

use crate::scene::{Files, request, run, schema};
use futures_util::TryStreamExt;
use millstream_publish::{DistinctRequest, Error, distinct};
use millstream_store::collections;
use millstream_testkit::{TestDatabase, each_build};
use tokio_postgres::{Client, SimpleQueryMessage};

/// Tables with keys of many types, some with names that need quotes.
const TABLES: &str = r#"
    create table public."Odd ""name" ("Device 'x" text collate "C", at timestamptz, n bigint, doc jsonb,
        primary key ("Device 'x", at, n));
    insert into public."Odd ""name"
        select (array['', 'a,b', 'it''s', E'back\\slash', 'ü'])[n % 5 + 1], timestamptz '2026-01-01Z' + n % 3 * interval '1 day', n
        from generate_series(1, 3000) n;
    create table public.flags (flag boolean, day date, id uuid, doc jsonb, primary key (flag, day, id));
    insert into public.flags
        select n % 2 = 0, date '2026-01-01' + n % 7, md5(n::text)::uuid from generate_series(1, 100) n;
    create table public.empty (n integer primary key, doc jsonb);
    create table public.other (name varchar(9), kind "char", bits bpchar(4), primary key (name, kind, bits));
    insert into public.other select 'n' || n % 3, 'k', 'b' || n from generate_series(1, 30) n;
    create type public.colour as enum ('red', 'blue');
    create table public.coloured (id integer, colour public.colour, n integer, primary key (id, colour, n));
    insert into public.coloured values (1, 'red', 1), (1, 'blue', 2), (2, 'red', 3);
    create table public.walk (value integer, rows integer, walk text, doc jsonb, primary key (value, rows, walk));
    insert into public.walk select n % 3, n % 4, 'w' || n from generate_series(1, 30) n;
    create table public.keyless (n integer);
"#;

/// A table, the columns of its key up to the one that is scanned, and the values given for those before it.
const WALKS: &[(&str, &[&str], &[&str])] = &[
    (r#"public."Odd ""name""#, &["Device 'x"], &[]),
    (r#"public."Odd ""name""#, &["Device 'x", "at"], &["it's"]),
    (r#"public."Odd ""name""#, &["Device 'x", "at", "n"], &[r"back\slash", "2026-01-02 01:00+01"]),
    (r#"public."Odd ""name""#, &["Device 'x", "at"], &["nobody"]),
    ("public.flags", &["flag"], &[]),
    ("public.flags", &["flag", "day"], &["true"]),
    ("public.flags", &["flag", "day", "id"], &["f", "2026-01-02"]),
    ("public.empty", &["n"], &[]),
    ("public.other", &["name"], &[]),
    ("public.other", &["name", "kind", "bits"], &["n1", "k"]),
    ("public.coloured", &["id"], &[]),
    // With the names that the skip scan uses itself.
    ("public.walk", &["value"], &[]),
    ("public.walk", &["value", "rows"], &["1"]),
    ("public.walk", &["value", "rows", "walk"], &["1", "2"]),
];

async fn texts(client: &Client, sql: &str, parameters: &[&(dyn tokio_postgres::types::ToSql + Sync)]) -> Vec<String> {
    let rows = client.query(sql, parameters).await.expect("the server answers");
    rows.iter().map(|row| row.get(0)).collect()
}

async fn made(db: &TestDatabase) -> Client {
    let mut client = db.client().await;
    schema().ensure(&mut client).await.expect("our tables can be made");
    client.batch_execute(TABLES).await.expect("the tables can be made");
    client
}

#[tokio::test]
async fn distinct_values_equals_select_distinct() {
    each_build(async |db| {
        let client = made(&db).await;
        // Operators of another schema, which are found first if a name is not qualified.
        client
            .batch_execute(
                "create schema trap; create function trap.never(text, text) returns boolean language sql return false;
                 create operator trap.= (leftarg = text, rightarg = text, function = trap.never);
                 create operator trap.> (leftarg = text, rightarg = text, function = trap.never);
                 set search_path = trap, pg_catalog, public",
            )
            .await
            .unwrap();
        for (table, columns, prefix) in WALKS {
            let column = columns[columns.len() - 1];
            let quoted: Vec<String> = columns.iter().map(|name| millstream_pg::quote_identifier(name)).collect();
            let conditions = quoted
                .iter()
                .zip(*prefix)
                .map(|(name, value)| format!("{name} operator(pg_catalog.=) {}", millstream_pg::quote_literal(value)));
            let conditions: Vec<String> = std::iter::once("true".to_owned()).chain(conditions).collect();
            let sql = format!(
                "select value::text from (select distinct {} as value from {table} where {}) d order by d.value",
                quoted[columns.len() - 1],
                conditions.join(" and ")
            );
            let expected = texts(&client, &sql, &[]).await;
            let scan = "select millstream.distinct_values($1::text::regclass, $2, $3, $4)";
            for (at_most, count) in [(None, usize::MAX), (Some(2_i64), 2)] {
                let found = texts(&client, scan, &[table, &column, prefix, &at_most]).await;
                let expected = &expected[..expected.len().min(count)];
                assert_eq!(found, expected, "{table} {columns:?} {prefix:?} {at_most:?}");
            }
            let statement = "select millstream.distinct_walk($1::text::regclass, $2, $3, true)";
            let counting = &texts(&client, statement, &[table, &column, prefix]).await[0];
            let counted = texts(&client, &format!("select rows || ' ' || value::text from ({counting}) w"), &[]).await;
            let sql = format!(
                "select count(*) || ' ' || {0}::text from {table} where {1} group by {0} order by {0}",
                quoted[columns.len() - 1],
                conditions.join(" and ")
            );
            assert_eq!(counted, texts(&client, &sql, &[]).await, "{table} {columns:?} {prefix:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn distinct_values_refuses_other_columns_and_types() {
    each_build(async |db| {
        let client = made(&db).await;
        for (call, code, message) in [
            ("'public.keyless', 'n'", "22023", "public.keyless has no primary key"),
            ("'public.flags', 'day'", "22023", "'day' is not column 1 of the key of public.flags (flag, day, id)"),
            ("'public.flags', null", "22023", "NULL is not column 1 of"),
            ("'public.flags', 'flag', '{true}'", "22023", "'flag' is not column 2 of"),
            ("'public.empty', 'n', '{1}'", "22023", "'n' is not column 2 of"),
            ("'public.coloured', 'colour', '{1}'", "0A000", "the key column colour of public.coloured is of a type"),
            ("'public.coloured', 'n', '{1,red}'", "0A000", "the key column colour of public.coloured is of a type"),
            ("'public.flags', 'day', '{perhaps}'", "22P02", "invalid input syntax for type boolean"),
        ] {
            let error = client.query(&format!("select millstream.distinct_values({call})"), &[]).await.unwrap_err();
            let error = error.as_db_error().expect("the server refuses");
            assert_eq!(error.code().code(), code, "{call}: {error:?}");
            assert!(error.message().starts_with(message), "{call}: {error:?}");
        }
    })
    .await;
}

async fn explained(client: &Client, sql: &str) -> serde_json::Value {
    let answer = client.simple_query(sql).await.expect("the server answers");
    let plan = answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    serde_json::from_str(plan.expect("a plan")).expect("it is JSON")
}

/// How often tables were visited, and by which kinds of nodes.
fn visits(plan: &serde_json::Value, found: &mut (f64, Vec<String>)) {
    if plan.get("Relation Name").is_some() {
        found.0 += plan["Actual Loops"].as_f64().unwrap_or(0.0);
        found.1.push(plan["Node Type"].as_str().unwrap_or_default().to_owned());
    }
    for part in plan["Plans"].as_array().into_iter().flatten() {
        visits(part, found);
    }
}

#[tokio::test]
async fn a_skip_scan_descends_once_per_value_on_demand() {
    each_build(async |db| {
        let client = made(&db).await;
        client
            .batch_execute("set enable_seqscan = off; set enable_bitmapscan = off; set enable_sort = off")
            .await
            .unwrap();
        for analyzed in [false, true] {
            if analyzed {
                client.batch_execute("vacuum analyze").await.unwrap();
            }
            for (table, column, prefix, values) in [
                ("public.\"Odd \"\"name\"", "Device 'x", vec![], 5.0),
                ("public.\"Odd \"\"name\"", "at", vec!["it's"], 3.0),
                ("public.flags", "flag", vec![], 2.0),
            ] {
                let scan = "select millstream.distinct_walk($1::text::regclass, $2, $3)";
                let scan = &texts(&client, scan, &[&table, &column, &prefix]).await[0];
                // The last visit finds that there are no more values.
                for (limit, expected) in [("all", values + 1.0), ("1", 1.0), ("2", 2.0)] {
                    let sql = format!("explain (analyze, format json) select value from ({scan}) w limit {limit}");
                    let plan = explained(&client, &sql).await;
                    let mut found = (0.0, Vec::new());
                    visits(&plan[0]["Plan"], &mut found);
                    assert_eq!(found.0, expected, "{table} {column} limit {limit}: {plan}");
                    assert!(found.1.iter().all(|node| node.starts_with("Index")), "{plan}");
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn the_values_of_a_collection_are_streamed() {
    each_build(async |db| {
        let files = Files::new();
        let documents: String =
            (0..3000).map(|n| format!("{{\"device\":\"d{:03}\",\"n\":{}}}\n", n % 700, n)).collect();
        run(&db.url(), &request("pings", "device,n:bigint", &[files.write("a", documents)])).await;
        let mut client = db.client().await;
        let schema = schema();
        let collection = collections::find(&client, &schema, &"pings".parse().unwrap()).await.unwrap().unwrap();
        let asked = |column: &str, prefix: &[&str], json, limit| DistinctRequest {
            column: column.into(),
            prefix: prefix.iter().map(|&value| value.into()).collect(),
            json,
            limit,
            ..DistinctRequest::default()
        };
        let mut scan = async |request: DistinctRequest| -> Result<Vec<String>, Error> {
            distinct(&mut client, &collection, &request).await?.try_collect().await
        };
        let all: Vec<String> = (0..700).map(|n| format!("d{n:03}")).collect();
        assert_eq!(scan(asked("device", &[], false, None)).await.unwrap(), all);
        assert_eq!(scan(asked("device", &[], true, Some(2))).await.unwrap(), ["\"d000\"", "\"d001\""]);
        assert_eq!(scan(asked("device", &[], false, Some(0))).await.unwrap(), [""; 0]);
        assert_eq!(scan(asked("n", &["d699"], true, None)).await.unwrap(), ["699", "1399", "2099", "2799"]);
        let counted = DistinctRequest { count: true, ..asked("device", &[], false, Some(1)) };
        assert_eq!(scan(counted).await.unwrap(), ["5\td000"]);
        let counted = DistinctRequest { count: true, ..asked("n", &["d001"], true, Some(1)) };
        assert_eq!(scan(counted).await.unwrap(), [r#"{"count": 1, "value": 1}"#]);
        assert!(matches!(scan(asked("n", &[], false, None)).await, Err(Error::Refused(_))));
        // The session is as it was before.
        let seqscan = texts(&client, "show enable_seqscan", &[]).await;
        assert_eq!(seqscan, ["on"]);
    })
    .await;
}
