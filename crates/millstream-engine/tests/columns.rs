//! Typed columns: which values fit them, what becomes of those that do not, and which tables have them.

use crate::scene::{Files, equal, execute, request, run, surroundings};
use millstream_engine::{AskedColumns, Error, Event, LoadRequest, dry_run, load};
use millstream_pg::Explained;
use millstream_store::collections;
use millstream_testkit::{TestDatabase, each_build, every_build};
use std::fmt::Write;
use tokio_postgres::Client;

/// A type, values of documents that fit it, and values that do not.
type Values = (&'static str, &'static [&'static str], &'static [&'static str]);

const TYPES: &[Values] = &[
    ("text", &["\"x\"", "\"\"", "1.50", "true", "[1, {}]", "{\"a\":1}"], &[]),
    (
        "bigint",
        &["0", "-9223372036854775808", "1e3", "\"12\"", "\"007\""],
        &["1.0", "1.5", "9223372036854775808", "\"\"", "\"x\"", "true", "[1]", "{}"],
    ),
    ("integer", &["2147483647", "-0"], &["2147483648", "\"1e3\""]),
    ("numeric", &["1.50", "1e400", "\"NaN\"", "\"-1e-3\""], &["\"x\"", "\"\"", "true", "[]"]),
    ("double precision", &["1.5", "1e308", "\"-Infinity\""], &["1e309", "\"x\"", "false"]),
    ("boolean", &["true", "false", "\"yes\"", "1", "\"f\""], &["2", "\"maybe\"", "1.0", "[]"]),
    ("uuid", &["\"6f1c0e0a-7d3b-4a52-9f0e-3c1f5f0b9a11\"", "\"6F1C0E0A7D3B4A529F0E3C1F5F0B9A11\""], &["\"6f1c\"", "1"]),
    ("jsonb", &["[1, 1.0]", "{\"a\":[null]}", "1.0", "true", "\"\\\"x\\\"\""], &["\"x\"", "\"\""]),
    (
        "timestamptz",
        &[
            "\"2024-02-29T12:00:00Z\"",
            "\"2024-02-29 12:00:00.123456+05:30\"",
            "\"2024-01-01t00:00:00z\"",
            "\"2024-01-01T00:00:00.1234565Z\"",
            "\"2024-01-01T00:00:59.9999999-00:30\"",
            "\"2016-12-31T12:59:60Z\"",
            "\"2016-12-31T12:59:60.5Z\"",
            "\"2016-12-31T23:58:60.5-01:00\"",
            "\"2016-12-31T23:59:60.000000000Z\"",
            "\"2016-12-31T23:59:60.0000004-01:00\"",
            "\"2016-12-31T23:59:60.0000005Z\"",
            "\"0001-01-01T00:00:00Z\"",
            "\"9999-12-31T23:59:59.999999-15:59\"",
        ],
        &[
            "\"now\"",
            "\"infinity\"",
            "\"2024-02-30T00:00:00Z\"",
            "\"2024-13-01T00:00:00Z\"",
            "\"0000-01-01T00:00:00Z\"",
            "\"2024-01-01T24:00:00Z\"",
            // Later than 24:00:00.
            "\"2016-12-31T23:59:60.5Z\"",
            "\"2016-12-31T23:59:60.00000051Z\"",
            "\"2016-12-31T23:59:60.000001+01:00\"",
            "\"2024-01-01T00:00:00+16:00\"",
            "\"2024-01-01T00:00:00\"",
            "\"2024-01-01T00:00Z\"",
            "\"2024-1-1T00:00:00Z\"",
            "\"2024- 1-01T00:00:00Z\"",
            "\"-024-01-01T00:00:00Z\"",
            "\"20-4-01-01T00:00:00Z\"",
            "\"2024--1-01T00:00:00Z\"",
            "\"2024-01-+1T00:00:00Z\"",
            "\"2024-01-01T-0:00:00Z\"",
            "\"2024-01-01T00:0:000Z\"",
            "\"2024-01-01T00:00:.5Z\"",
            "\"2024-01-01T00:00: 5Z\"",
            "\"2024-01-01T00:00:61Z\"",
            "\"2024-01-01T00:60:00Z\"",
            "\"0x24-01-01T00:00:00Z\"",
            "\"2_24-01-01T00:00:00Z\"",
            "\"20٢4-01-01T00:00:00Z\"",
            "\"01/02/2024\"",
            "\"2024-01-01\"",
            "\"2024-01-01T00:00:00Z\\n\"",
            "\"\"",
            "1704067200",
        ],
    ),
    (
        "timestamp",
        &[
            "\"2024-02-29T12:00:00\"",
            "\"2024-02-29 23:59:59.9999995\"",
            "\"0001-01-01T00:00:00\"",
            "\"2016-12-31T23:59:60.0\"",
        ],
        &[
            "\"2024-02-29T12:00:00Z\"",
            "\"2023-02-29T12:00:00\"",
            "\"2024-02-29\"",
            "\"2024-02-29T24:00:00\"",
            "\"2024-02-29T12:-1:00\"",
            "\"2016-12-31T23:59:60.5\"",
            "\"today\"",
        ],
    ),
    (
        "date",
        &["\"2024-02-29\"", "\"0001-01-01\"", "\"9999-12-31\""],
        &[
            "\"2023-02-29\"",
            "\"0000-01-01\"",
            "\"-024-01-01\"",
            "\"2024--1-01\"",
            "\"2024-01-1 \"",
            "\"2024-01-01T00:00:00Z\"",
            "\"20240101\"",
            "\"tomorrow\"",
            "20240101",
        ],
    ),
];

const MODES: &[&str] = &["replace", "keep", "merge", "merge:deep", "newest:v:bigint", "sum:n"];

/// With other offsets, another calendar day, and summer times.
const ZONES: &[&str] = &["UTC", "Asia/Kathmandu", "America/St_Johns", "Pacific/Kiritimati", "Europe/Berlin"];

fn column(text: &str) -> millstream_store::TypedColumn {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn typed(table: &str, file: String, columns: &[&str]) -> LoadRequest {
    let mut wanted = request(table, "id:text", &[file]);
    wanted.columns = AskedColumns::Named(columns.iter().map(|text| column(text)).collect());
    (wanted.lanes, wanted.resume) = (Some(2), false);
    wanted
}

/// Path of the value of a type in the documents of this test: of every second one in another object.
fn path(n: usize) -> String {
    if n.is_multiple_of(2) { format!("c{n}") } else { format!("o.c{n}") }
}

/// A column for each type, and documents with one value each. Returns the columns, the documents, and for each bad line the
/// column that it does not fit.
fn everything() -> (Vec<String>, String, Vec<(i64, usize)>) {
    let columns = TYPES.iter().enumerate().map(|(n, (name, ..))| format!("c{n}:{name}={}", path(n))).collect();
    let (mut text, mut bad, mut line) = (String::new(), Vec::new(), 0);
    for (n, (_, fits, unfit)) in TYPES.iter().enumerate() {
        for value in fits.iter().chain(*unfit).chain(&["null"]) {
            line += 1;
            let member = format!("\"c{n}\":{value}");
            let member = if n.is_multiple_of(2) { member } else { format!("\"o\":{{{member}}}") };
            let _ = writeln!(text, "{{\"id\":\"k{line}\",\"v\":1,\"n\":1,{member}}}");
            if unfit.contains(value) {
                bad.push((line, n));
            }
        }
    }
    let _ = writeln!(text, "{{\"id\":\"none\",\"v\":1,\"n\":1}}");
    (columns, text, bad)
}

/// Line, reason and detail of the documents that a load rejected.
async fn rejects(client: &Client, load_id: i64) -> Vec<(i64, String, String)> {
    let sql = "select line, reason, detail from millstream.reject where load_id = $1 order by 1";
    let rows = client.query(sql, &[&load_id]).await.expect("the rejects can be read");
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

/// What the rejects of [`everything`] say.
fn expected(bad: &[(i64, usize)]) -> Vec<(i64, String, String)> {
    let one = |&(line, n): &(i64, usize)| {
        let (name, at) = (TYPES[n].0, path(n));
        let detail = format!("column \"c{n}\": expected {name}, but the value at {at} is not one");
        (line, "column_type".to_owned(), detail)
    };
    bad.iter().map(one).collect()
}

/// Asserts that the columns of a table hold what the server's own casts give, in every time zone.
async fn assert_cast(client: &Client, table: &str, about: &str) {
    for zone in ZONES {
        for (n, (name, fits, _)) in TYPES.iter().enumerate() {
            let names = path(n).replace('.', ",");
            let sql = format!(
                "select count(c{n}), count(*) filter (where c{n} is distinct from (doc #>> '{{{names}}}')::{name}) \
                 from {table}"
            );
            client.batch_execute(&format!("set timezone = '{zone}'")).await.expect("the zone is known");
            let row = client.query_one(&sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
            let held = i64::try_from(fits.len()).expect("few values");
            assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (held, 0), "{about}: {name} in {zone}");
        }
    }
}

#[tokio::test]
async fn every_type_holds_what_the_servers_own_cast_gives() {
    every_build(async |db| {
        let (client, files) = (db.client().await, Files::new());
        let (columns, text, bad) = everything();
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let file = files.write("a", &text);
        for (n, mode) in MODES.iter().enumerate() {
            let table = format!("public.all_{n}");
            let mut wanted = typed(&table, file.clone(), &columns);
            wanted.mode = mode.parse().expect("a mode");
            // The second load finds the stored rows, and the columns that the table has.
            for again in [false, true] {
                if again {
                    wanted.columns = AskedColumns::Any;
                }
                let receipt = run(&db.url(), &wanted).await.receipt;
                assert_eq!(rejects(&client, receipt.load_id).await, expected(&bad), "{mode}, again: {again}");
                assert_cast(&client, &table, mode).await;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn adopted_and_partitioned_tables_may_have_them() {
    every_build(async |db| {
        let (client, files) = (db.client().await, Files::new());
        let (columns, text, bad) = everything();
        let file = files.write("a", &text);
        let generated: Vec<String> =
            columns.iter().map(|text| format!("add column {}", column(text).generated())).collect();
        let generated = generated.join(", ");
        for (table, made) in [
            ("public.adopted", "create table public.adopted (id text collate \"C\" primary key, doc jsonb not null)"),
            (
                "public.parts",
                "create table public.parts (id text collate \"C\" primary key, doc jsonb not null) partition by hash (id);
                 create table public.parts_0 partition of public.parts for values with (modulus 2, remainder 0);
                 create table public.parts_1 partition of public.parts for values with (modulus 2, remainder 1)",
            ),
        ] {
            execute(&db, &format!("{made}; alter table {table} {generated}")).await;
            let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
            for mode in ["replace", "merge"] {
                let mut wanted = typed(table, file.clone(), &columns);
                (wanted.adopt, wanted.mode) = (true, mode.parse().expect("a mode"));
                let receipt = run(&db.url(), &wanted).await.receipt;
                assert_eq!(rejects(&client, receipt.load_id).await, expected(&bad), "{table}, {mode}");
                assert_cast(&client, table, &format!("{table}, {mode}")).await;
            }
        }
        let good: String = text
            .lines()
            .enumerate()
            .filter(|(n, _)| bad.iter().all(|(line, _)| *line != i64::try_from(n + 1).expect("few lines")))
            .map(|(_, line)| format!("{line}\n"))
            .collect();
        let verified = request("public.adopted", "id:text", &[files.write("good", &good)]);
        assert_eq!(equal(&db, &verified).await, good.lines().count() as u64);
    })
    .await;
}

#[tokio::test]
async fn the_columns_outlive_our_schema() {
    each_build(async |db| {
        let (client, files) = (db.client().await, Files::new());
        let (columns, text, bad) = everything();
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let mut wanted = typed("public.lasting", files.write("a", &text), &columns);
        run(&db.url(), &wanted).await;
        execute(&db, "drop schema millstream cascade").await;
        execute(&db, "insert into public.lasting (id, doc) values ('by hand', '{\"c0\": \"x\"}')").await;
        wanted.adopt = true;
        let receipt = run(&db.url(), &wanted).await.receipt;
        assert_eq!(rejects(&client, receipt.load_id).await, expected(&bad));
        assert_eq!(
            receipt.counters.updated + receipt.counters.unchanged + receipt.counters.rejected,
            receipt.counters.read
        );
    })
    .await;
}

#[tokio::test]
async fn a_dry_run_finds_what_does_not_fit() {
    every_build(async |db| {
        let files = Files::new();
        let (columns, text, bad) = everything();
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        // A broken line among them, and a document that deletes.
        let text = format!("{{\n{text}{{\"id\":\"k1\",\"c1\":\"x\",\"o\":{{\"c1\":\"x\"}},\"op\":\"d\"}}\n");
        let mut wanted = typed("public.never", files.write("a", &text), &columns);
        wanted.mode = wanted.mode.with_tombstone(Some("op=d".parse().expect("a tombstone")));
        wanted.format = "ndjson".to_owned();
        let dry = Box::pin(dry_run(&wanted, &surroundings(&db.url()).0.db)).await.expect("it runs");
        assert_eq!(dry.rejected, bad.len() as u64 + 1, "{dry:?}");
        let found: Vec<(u64, &str)> = dry.first_rejects.iter().map(|reject| (reject.line, reject.reason)).collect();
        let mut expected = vec![(1, "not_json")];
        expected.extend(bad.iter().map(|(line, _)| (u64::try_from(line + 1).expect("a line"), "column_type")));
        expected.truncate(found.len());
        assert_eq!(found, expected);
        assert!(dry.first_rejects[1].detail.starts_with("column \"c"), "{dry:?}");
        assert_eq!(dry.columns.len(), TYPES.len(), "{dry:?}");
        let made: bool =
            db.client().await.query_one("select to_regclass('public.never') is not null", &[]).await.unwrap().get(0);
        assert!(!made);
    })
    .await;
}

#[tokio::test]
async fn a_row_that_documents_make_together_must_fit_too() {
    each_build(async |db| {
        let (client, files) = (db.client().await, Files::new());
        let text = "{\"id\":\"a\",\"n\":2147483000}\n{\"id\":\"a\",\"n\":900}\n{\"id\":\"a\",\"n\":-1000}\n";
        for (batch_rows, chunk_bytes) in [(1, 1), (100_000, 1 << 20)] {
            let table = format!("public.sums_{batch_rows}");
            let mut wanted = typed(&table, files.write("a", text), &["n:integer=n"]);
            wanted.mode = "sum:n".parse().expect("a mode");
            (wanted.batch_rows, wanted.chunk_bytes) = (batch_rows, chunk_bytes);
            let receipt = run(&db.url(), &wanted).await.receipt;
            let detail = "column \"n\": expected integer, but the value at n is not one".to_owned();
            assert_eq!(rejects(&client, receipt.load_id).await, [(2, "column_type".to_owned(), detail)], "{receipt:?}");
            let n: i32 = client.query_one(&format!("select n from {table}"), &[]).await.unwrap().get(0);
            assert_eq!(n, 2_147_482_000);
        }
    })
    .await;
}

/// Values that fit are folded, and one that does not is rejected whatever the batches are.
#[tokio::test]
async fn documents_of_hot_keys_are_folded_beside_typed_columns() {
    every_build(async |db| {
        let (client, files) = (db.client().await, Files::new());
        let columns = ["b:bigint=b", "n:numeric=n", "at:timestamptz=at", "t:text=t", "d:double precision=d", "j:jsonb=j"];
        for (mode, bad) in [("sum:n", false), ("sum:n", true), ("merge", false), ("merge:deep", true)] {
            let mut text = String::new();
            for n in 0..2_000 {
                let b = if bad && n == 777 { "\"x\"".to_owned() } else { n.to_string() };
                let _ = writeln!(
                    text,
                    "{{\"id\":\"k{}\",\"b\":{b},\"n\":{n},\"at\":\"2026-01-02T03:04:05.{n:03}Z\",\"t\":[{n}],\"d\":{n}.5,\"j\":{{}}}}",
                    n % 5
                );
            }
            let table = format!("public.hot_{}_{bad}", mode.replace(':', "_"));
            let mut wanted = typed(&table, files.write("a", &text), &columns);
            (wanted.mode, wanted.lanes) = (mode.parse().expect("a mode"), Some(1));
            let receipt = run(&db.url(), &wanted).await.receipt;
            let rejected = rejects(&client, receipt.load_id).await;
            assert_eq!(rejected.iter().map(|(line, ..)| *line).collect::<Vec<_>>(), if bad { vec![778] } else { vec![] });
            assert!(bad || receipt.counters.superseded > 0, "{mode}: nothing is folded: {receipt:?}");
            let sql = format!("select sum(n)::bigint, max(b), count(at) from {table}");
            let row = client.query_one(&sql, &[]).await.unwrap();
            let sum: i64 = match (mode, bad) {
                ("sum:n", false) => (0..2_000).sum(),
                ("sum:n", true) => (0..2_000).sum::<i64>() - 777,
                _ => (1_995..2_000).sum(),
            };
            assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1), row.get::<_, i64>(2)), (sum, 1_999, 5), "{mode}");
        }
    })
    .await;
}

/// A sum may leave the range of every type but numeric, and what may do so is slow.
#[tokio::test]
async fn members_that_are_added_up_become_numeric() {
    each_build(async |db| {
        let (client, files) = (db.client().await, Files::new());
        let source =
            files.write("a", "{\"id\":\"a\",\"n\":1,\"m\":1}\n{\"id\":\"a\",\"n\":9223372036854775807,\"m\":2}\n");
        let mut wanted = typed("public.added", source, &[]);
        (wanted.columns, wanted.mode) = (AskedColumns::All, "sum:n".parse().expect("a mode"));
        let (around, events) = surroundings(&db.url());
        let outcome = Box::pin(load(&wanted, &around)).await.expect("the load begins");
        assert_eq!((outcome.receipt.counters.rejected, events.warnings().as_str()), (0, ""));
        let row = client.query_one("select n::text, m from public.added", &[]).await.unwrap();
        assert_eq!((row.get::<_, &str>(0), row.get::<_, i64>(1)), ("9223372036854775808", 2));

        let mut slow = typed("public.slow", wanted.sources[0].clone(), &["n:bigint=n"]);
        slow.mode = wanted.mode;
        for existed in [false, true] {
            let (around, events) = surroundings(&db.url());
            let outcome = Box::pin(load(&slow, &around)).await.expect("the load begins");
            assert!(events.warnings().contains("column n: a sum may not fit it"), "{existed}: {}", events.warnings());
            assert!(outcome.receipt.counters.rejected > 0, "{outcome:?}");
        }
    })
    .await;
}

async fn refused(db: &TestDatabase, wanted: &LoadRequest) -> Error {
    Box::pin(load(wanted, &surroundings(&db.url()).0)).await.expect_err("the load does not begin")
}

/// The statement that a hint names.
fn statement(error: &Error) -> String {
    let hint = error.hint().expect("there is a way out");
    let at = hint.find("alter table ").unwrap_or_else(|| panic!("{hint}"));
    hint[at..].to_owned()
}

#[tokio::test]
async fn a_load_that_names_other_columns_is_refused_with_the_statement() {
    every_build(async |db| {
        let (client, files) = (db.client().await, Files::new());
        let file = files.write("a", "{\"id\":\"a\",\"p\":\"1.5\",\"q\":\"2026-01-31\"}\n");
        run(&db.url(), &typed("public.other", file.clone(), &["p:text=p"])).await;
        for (columns, problem) in [
            (&["p:text=p", "q:date=q"][..], "it has no typed column \"q\""),
            (&["p:numeric=p"], "its column p is not p:numeric=p: it is p:text=p"),
            (&["p:numeric=q.r"], "its column p is not p:numeric=q.r: it is p:numeric=p"),
        ] {
            let wanted = typed("public.other", file.clone(), columns);
            let error = refused(&db, &wanted).await;
            assert!(error.to_string().contains(problem), "{error}");
            client.batch_execute(&statement(&error)).await.expect("the statement can be run");
            run(&db.url(), &wanted).await;
        }
        // Fewer columns than the table has are no other ones.
        run(&db.url(), &typed("public.other", file.clone(), &["q:date=q"])).await;

        execute(&db, "alter table public.other add column own text generated always as (upper(doc ->> 'p')) stored")
            .await;
        let error = refused(&db, &typed("public.other", file.clone(), &["own:text=p"])).await;
        assert!(error.to_string().contains("it is generated by another expression"), "{error}");
        let (around, events) = surroundings(&db.url());
        Box::pin(load(&typed("public.other", file.clone(), &[]), &around)).await.expect("the load begins");
        assert!(events.warnings().contains("column own is generated by an expression"), "{}", events.warnings());

        let version = client.query_one("select current_setting('server_version_num')::integer", &[]).await.unwrap();
        if version.get::<_, i32>(0) < 180_000 {
            return;
        }
        execute(&db, "alter table public.other add column seen text generated always as (doc ->> 'p') virtual").await;
        let error = refused(&db, &typed("public.other", file.clone(), &["seen:text=p"])).await;
        assert!(error.to_string().contains("its column seen is not seen:text=p: it is virtual"), "{error}");
        assert!(statement(&error).contains("drop column \"seen\", add column \"seen\" text"), "{error}");
        let (around, events) = surroundings(&db.url());
        Box::pin(load(&typed("public.other", file, &[]), &around)).await.expect("the load begins");
        assert!(events.warnings().contains("column seen is virtual"), "{}", events.warnings());
    })
    .await;
}

#[tokio::test]
async fn members_become_columns() {
    each_build(async |db| {
        let (client, files) = (db.client().await, Files::new());
        let long = "n".repeat(64);
        // Each member is a case that some loader got wrong.
        let text = format!(
            "{{\"id\":\"a\",\"Id\":\"A\",\"zip\":\"02134\",\"big\":9223372036854775808,\"n\":1,\"x\":1.0,\"doc\":1,\"xmin\":1,\
             \"{long}\":1,\"{long}m\":2,\"none\":null,\"at\":\"2026-01-02T03:04:05.123456789+05:30\",\"day\":\"2026-01-02\",\
             \"o\":{{\"a\":1}},\"mix\":1,\"it's\":true}}\n{{\"id\":\"b\",\"mix\":\"4px\"}}\n"
        );
        let mut wanted = typed("public.members", files.write("a", &text), &[]);
        wanted.columns = AskedColumns::All;
        let (around, events) = surroundings(&db.url());
        Box::pin(load(&wanted, &around)).await.expect("the load begins");
        let found = collections::list(&client, &crate::scene::schema()).await.expect("they are listed");
        let listed: Vec<String> = found[0].columns.iter().map(ToString::to_string).collect();
        let expected = [
            "Id:text=Id",
            "zip:text=zip",
            "big:numeric=big",
            "n:bigint=n",
            "x:numeric=x",
            "at:timestamptz=at",
            "day:text=day",
            "o:jsonb=o",
            "mix:text=mix",
            "it's:boolean=it's",
        ];
        assert_eq!(listed, expected);
        assert!(found[0].columns.iter().all(|column| column.path.is_some()), "{found:?}");
        let said = events.0.lock().expect("no test panics while it holds this").clone();
        let chosen = said.iter().find_map(|event| if let Event::Columns(lines) = event { Some(lines) } else { None });
        assert_eq!(chosen.expect("the choice is printed")[1], "zip:text=zip (1 string, 1 document without it)");
        for name in ["doc", "xmin", "none", &long] {
            assert!(events.warnings().contains(&format!("member \"{name}\" gets no column")), "{name}: {}", events.warnings());
        }

        // What comes after the sample is stored as PostgreSQL casts it, or becomes a reject.
        let text = "{\"id\":\"c\",\"n\":\"007\"}\n{\"id\":\"d\",\"n\":1.5}\n{\"id\":\"e\",\"n\":true}\n{\"id\":\"f\",\"n\":\"\"}\n\
                    {\"id\":\"g\",\"new\":1}\n";
        wanted.sources = vec![files.write("b", text)];
        let receipt = run(&db.url(), &wanted).await.receipt;
        let lines: Vec<i64> = rejects(&client, receipt.load_id).await.iter().map(|reject| reject.0).collect();
        assert_eq!(lines, [2, 3, 4]);
        let row = client.query_one("select n, doc ->> 'n' from public.members where id = 'c'", &[]).await.unwrap();
        assert_eq!((row.get::<_, i64>(0), row.get::<_, String>(1)), (7, "007".to_owned()));

        // A collection without columns gets none by itself.
        let mut plain = request("public.plain", "id:text", &wanted.sources);
        run(&db.url(), &plain).await;
        plain.columns = AskedColumns::All;
        let error = refused(&db, &plain).await;
        assert!(error.to_string().contains("it has no typed column \"n\""), "{error}");
        plain.sources = vec![files.write("none", "")];
        plain.collection = "public.empty".parse().expect("a name");
        let error = refused(&db, &plain).await;
        assert!(error.hint().is_some_and(|hint| hint.contains("--column NAME:TYPE=PATH")), "{error}");
        let ids: String = (0..251).map(|n| format!(",\"m{n}\":1")).collect();
        plain.sources = vec![files.write("map", format!("{{\"id\":\"a\"{ids}}}\n"))];
        let error = refused(&db, &plain).await;
        assert!(error.to_string().contains("more than 250 members"), "{error}");
    })
    .await;
}
