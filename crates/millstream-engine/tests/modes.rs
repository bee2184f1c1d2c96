//! Every mode against plain Rust that lets one document take effect after the other.

mod oracle;
mod value;

use crate::scene::{Files, request, run, stopped};
use fastrand::Rng;
use millstream_model::limits::NESTING_MAX;
use millstream_model::{DocumentForm, KeyColumn, KeyType, Receipt};
use millstream_store::whole_document;
use millstream_testkit::{Cases, TestDatabase, each_build};
use oracle::{CHECKED, DECIMAL, Oracle};
use std::fmt::Write;
use std::time::Duration;
use tokio_postgres::Row;
use value::{Json, Object};

const MODES: &[&str] = &[
    "replace",
    "keep",
    "merge",
    "merge:deep",
    "newest:v",
    "newest:v:text",
    "newest:v:numeric",
    "sum:n",
    "sum:n,a.n,a.m",
];
/// Thousandths of versions that are compared as numbers. As texts they sort in another order.
const FRACTIONS: &[i64] = &[-10_500, -9_500, -9_050, -500, 0, 9_050, 9_500, 9_501, 10_000, 10_500, 100_000];
const KEYS: &[&str] = &["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"];

#[tokio::test]
async fn every_mode_equals_single_documents_in_order() {
    each_build(async |db| {
        for mut rng in Cases::new(2) {
            let (mut batches, mut lanes) = (0, 0);
            for mode in MODES {
                for receipt in Box::pin(case(&db, &mut rng, mode)).await {
                    batches += receipt.writers.values().sum::<u64>();
                    lanes += u64::from(receipt.lanes);
                }
            }
            assert!(batches > 2 * lanes, "{batches} batches of {lanes} lanes leave most orders of them untried");
        }
    })
    .await;
}

/// Loads into a table, each of which may be stopped and run again. The table may have rows and a constraint; it is
/// created here or by the first load. Returns the receipts.
async fn case(db: &TestDatabase, rng: &mut Rng, mode: &str) -> Vec<Receipt> {
    let mut receipts = Vec::new();
    // Qualified, because the test role has the name of our own schema.
    let table = format!("public.modes{}", rng.u32(..));
    let (refuses, adopts, deletes) = (rng.u8(..4) == 0, rng.bool(), rng.bool());
    let form = if rng.bool() { DocumentForm::WithoutKey } else { DocumentForm::Whole };
    let mut oracle = Oracle::default();
    if refuses && adopts {
        let made =
            format!("create table {table} (id text collate \"C\" primary key, doc jsonb not null, check ({CHECKED}))");
        db.client().await.batch_execute(&made).await.expect("the server answers");
    }
    for _ in 0..rng.usize(1..4) {
        let (files, mut text, before) = (Files::new(), String::new(), oracle.clone());
        let hot = rng.bool();
        let documents = rng.u64(1..300);
        for _ in 0..documents {
            let document = document(rng, mode, hot, deletes);
            oracle.apply(mode, deletes, refuses, &document);
            writeln!(text, "{}", Json::Object(document)).expect("a text grows");
        }
        let mut wanted = request(&table, "id:text", &[files.write("a", &text)]);
        wanted.mode =
            if mode.ends_with(":v") { format!("{mode}:bigint") } else { mode.to_owned() }.parse().expect("a mode");
        wanted.mode = wanted.mode.with_tombstone(deletes.then(|| "op=d".parse().expect("a path and a value")));
        wanted.adopt = refuses && adopts;
        wanted.doc = Some(form);
        wanted.checks.extend((refuses && !adopts).then(|| CHECKED.to_owned()));
        // Chunks of a few documents, so that a lane writes many batches.
        wanted.chunk_bytes = rng.usize(1..1_000);
        wanted.batch_rows = rng.usize(1..20);
        wanted.arrays_rows_max = [0, 10, 500][rng.usize(..3)];
        wanted.lanes = Some(rng.u16(1..5));
        let ended = if rng.u8(..3) == 0 { stopped(&db.url(), &wanted, documents, rng).await } else { None };
        // A resumed load may have another number of lanes.
        wanted.lanes = Some(rng.u16(1..5));
        let outcome = match ended {
            Some(outcome) => outcome,
            None => run(&db.url(), &wanted).await,
        };
        assert!(outcome.stopped.is_none(), "{mode}: {outcome:?}");
        let counters = outcome.receipt.counters;
        assert_eq!(counters.read, documents, "{counters:?}\n{text}");
        let described = format!("{mode}, {form:?}, {:?}, refusals {:?}", outcome.receipt, refusals(db).await);
        expect_rows(db, (&table, form), &described, &oracle, &text).await;
        let grown = i128::from(counters.inserted) - i128::from(counters.deleted);
        assert_eq!(grown, oracle.rows.len() as i128 - before.rows.len() as i128, "{mode}: {counters:?}\n{text}");
        let rejected = oracle.rejected - before.rejected;
        match refuses {
            // A document that is folded into a later one is not checked.
            true => assert!(counters.rejected <= rejected, "{mode}: {counters:?}\n{text}"),
            false => assert_eq!(counters.rejected, rejected, "{mode}: {counters:?}\n{text}"),
        }
        receipts.push(outcome.receipt);
    }
    receipts
}

/// The server's reasons for refused documents.
async fn refusals(db: &TestDatabase) -> Vec<String> {
    let sql = "select distinct detail from millstream.reject where reason in ('breaks_check', 'refused_by_server')";
    let rows = db.client().await.query(sql, &[]).await.expect("it answers");
    rows.iter().map(|row| row.get(0)).collect()
}

async fn expect_rows(db: &TestDatabase, (table, form): (&str, DocumentForm), mode: &str, oracle: &Oracle, text: &str) {
    let client = db.client().await;
    let id = KeyColumn { name: "id".into(), path: vec!["id".into()], key_type: KeyType::Text };
    let whole = whole_document(form, &[id], "t");
    let sql = format!("select id, {whole}::text, doc ? 'id' from {table} as t order by 1");
    let rows = client.query(&sql, &[]).await.expect("it answers");
    let has_key = |row: &Row| row.get::<_, bool>(2);
    assert!(rows.iter().all(|row| has_key(row) == (form == DocumentForm::Whole)), "{mode}\n{text}{mode}");
    let found: Vec<String> = rows.iter().map(|row| row.get::<_, String>(0)).collect();
    let keys: Vec<&str> = oracle.rows.keys().copied().collect();
    assert_eq!(found, keys, "{mode}\n{text}{mode}");
    for row in &rows {
        let (key, stored): (String, String) = (row.get(0), row.get(1));
        let wanted = Json::Object(oracle.rows[key.as_str()].clone()).to_string();
        let sql = "select $1::text::jsonb = $2::text::jsonb";
        let equal: bool = client.query_one(sql, &[&stored, &wanted]).await.expect("it answers").get(0);
        assert!(equal, "{mode}: {stored} is stored for {wanted}\n{text}");
    }
}

/// A document with a key and usually with the members that the mode reads.
fn document(rng: &mut Rng, mode: &str, hot: bool, deletes: bool) -> Object {
    let mut document = Object::new();
    let key = if hot { rng.usize(..2) } else { rng.usize(..KEYS.len()) };
    document.insert("id", Json::Text(KEYS[key]));
    match rng.u8(..12) {
        0 => {}
        1 => drop(document.insert("v", Json::Null)),
        2 => drop(document.insert("v", Json::Text("x"))),
        3 if mode.ends_with("numeric") => drop(document.insert("v", Json::Text(DECIMAL.0))),
        _ if mode.ends_with("numeric") => {
            drop(document.insert("v", Json::Number(*rng.choice(FRACTIONS).expect("some"))))
        }
        _ => drop(document.insert("v", Json::Number(1000 * rng.i64(0..6)))),
    }
    for name in ["n", "m", "a"] {
        if rng.u8(..3) > 0 {
            document.insert(name, value(rng, 2));
        }
    }
    if deletes && rng.u8(..4) == 0 {
        document.insert("op", Json::Text("d"));
    }
    if rng.u8(..6) == 0 {
        document.insert("bad", Json::Text(if rng.bool() { "bad" } else { "good" }));
    }
    if mode.starts_with("sum") && rng.u8(..5) > 0 {
        for name in ["n", "m"] {
            document.insert(name, Json::Number(rng.i64(-5000..5000)));
        }
        let inner = [("n", Json::Number(rng.i64(-5000..5000))), ("q", Json::Null)];
        document.insert("a", if rng.bool() { Json::Object(inner.into()) } else { Json::Null });
    }
    document
}

fn value(rng: &mut Rng, depth: usize) -> Json {
    match rng.u8(..9) {
        0 => Json::Null,
        1 => Json::Text("x"),
        2 => Json::List(vec![Json::Number(1000), Json::Object(Object::new())]),
        3 | 4 => Json::Number(rng.i64(-3000..3000)),
        _ if depth == 0 => Json::Object(Object::new()),
        _ => {
            let mut members = Object::new();
            for name in ["n", "m", "q"] {
                if rng.bool() {
                    members.insert(name, value(rng, depth - 1));
                }
            }
            Json::Object(members)
        }
    }
}

#[tokio::test]
async fn the_deepest_documents_are_merged_by_the_server() {
    each_build(async |db| {
        let files = Files::new();
        let nested = |member: &str| {
            let levels = NESTING_MAX - 2;
            format!("{{\"id\":\"a\",\"in\":{}{{{member}}}{}}}\n", "{\"in\":".repeat(levels), "}".repeat(levels))
        };
        for arrays_rows_max in [0, 500] {
            let table = format!("public.deepest{arrays_rows_max}");
            let mut wanted = request(&table, "id:text", &[files.write("stored", nested("\"stored\":1"))]);
            (wanted.mode, wanted.arrays_rows_max) = ("merge:deep".parse().expect("a mode"), arrays_rows_max);
            run(&db.url(), &wanted).await;
            wanted.sources = vec![files.write("new", nested("\"new\":2"))];
            let receipt = run(&db.url(), &wanted).await.receipt;
            assert_eq!((receipt.counters.updated, receipt.counters.rejected), (1, 0), "{:?}", refusals(&db).await);
            let inner = format!("select doc #> array_fill('in'::text, array[{}]) = $1::text::jsonb", NESTING_MAX - 1);
            let sql = format!("{inner} from {table}");
            let row = db.client().await.query_one(&sql, &[&"{\"stored\":1,\"new\":2}"]).await.expect("it answers");
            assert!(row.get::<_, bool>(0));
        }
    })
    .await;
}

#[tokio::test]
async fn a_sum_is_added_once_unless_resume_is_off() {
    each_build(async |db| {
        let files = Files::new();
        let text = "{\"id\":\"a\",\"n\":0.1}\n{\"id\":\"a\",\"n\":0.2}\n{\"id\":\"b\"}\n{\"id\":\"c\",\"n\":\"1\"}\n";
        let mut wanted = request("added", "id:text", &[files.write("a", text)]);
        wanted.mode = "sum:n".parse().unwrap();
        let first = run(&db.url(), &wanted).await.receipt;
        assert_eq!((first.counters.inserted, first.counters.superseded, first.counters.rejected), (2, 1, 1));
        let again = run(&db.url(), &wanted).await.receipt;
        assert_eq!((again.load_id, again.counters, again.writers), (first.load_id, first.counters, first.writers));
        let client = db.client().await;
        let number = async |key: &str| -> String {
            let sql = "select doc ->> 'n' from public.added where id = $1";
            client.query_one(sql, &[&key]).await.unwrap().get::<_, Option<String>>(0).unwrap_or_default()
        };
        assert_eq!((number("a").await, number("b").await), ("0.3".to_owned(), String::new()));
        wanted.resume = false;
        let anew = run(&db.url(), &wanted).await.receipt;
        assert_ne!(anew.load_id, first.load_id);
        assert_eq!((number("a").await, number("b").await), ("0.6".to_owned(), "0".to_owned()));

        client.batch_execute("update public.added set doc = '{\"n\": \"many\"}' where id = 'a'").await.unwrap();
        let refused = run(&db.url(), &wanted).await.receipt.counters;
        assert_eq!((refused.updated, refused.rejected), (1, 3), "{refused:?}");
        assert_eq!(number("a").await, "many");
    })
    .await;
}

#[tokio::test]
async fn a_deleted_key_keeps_its_version_until_tombstones_expire() {
    each_build(async |db| {
        let files = Files::new();
        let load = async |name: &str, text: &str, deletes: bool, forget: Option<u64>| {
            let mut wanted = request("versions", "id:text", &[files.write(name, text)]);
            let tombstone = deletes.then(|| "op=d".parse().unwrap());
            wanted.mode = "newest:v:bigint".parse::<millstream_engine::Mode>().unwrap().with_tombstone(tombstone);
            wanted.forget_deletes = forget.map(Duration::from_secs);
            Box::pin(run(&db.url(), &wanted)).await.receipt.counters
        };
        let (put, put_4) = ("{\"id\":\"a\",\"v\":3}\n", "{\"id\":\"a\",\"v\":4}\n");
        let tombstones = "{\"id\":\"a\",\"v\":5,\"op\":\"d\"}\n{\"id\":\"b\",\"v\":7,\"op\":\"d\"}\n";
        assert_eq!(load("1", put, true, None).await.inserted, 1);
        let late = load("2", "{\"id\":\"a\",\"v\":2,\"op\":\"d\"}\n", true, None).await;
        assert_eq!((late.deleted, late.stale), (0, 1), "the stored document is newer");
        let gone = load("3", tombstones, true, None).await;
        assert_eq!((gone.deleted, gone.unchanged), (1, 1));
        for (deletes, forget) in [(true, None), (false, None), (false, Some(3_600))] {
            let late = load("4", put_4, deletes, forget).await;
            assert_eq!((late.inserted, late.stale), (0, 1));
        }
        let late = load("5", "{\"id\":\"b\",\"v\":6,\"op\":\"d\"}\n", true, None).await;
        assert_eq!((late.unchanged, late.stale), (0, 1), "the known tombstone is newer");
        assert_eq!(load("6", put_4, false, Some(0)).await.inserted, 1);
        let back = load("7", "{\"id\":\"b\",\"v\":1}\n{\"id\":\"a\",\"v\":4}\n", true, None).await;
        assert_eq!((back.inserted, back.updated), (1, 1), "of equal versions the last wins");
    })
    .await;
}
