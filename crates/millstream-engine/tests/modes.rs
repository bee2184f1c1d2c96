//! Every mode against plain Rust that lets one document take effect after the other.

mod oracle;
mod value;

use crate::scene::{Files, request, run, surroundings};
use fastrand::Rng;
use millstream_engine::{LoadRequest, StopReason, load};
use millstream_testkit::{Cases, TestDatabase, each_build};
use oracle::{Oracle, REFUSED};
use std::fmt::Write;
use std::time::Duration;
use value::{Json, Object};

const MODES: &[&str] =
    &["replace", "keep", "merge", "merge:deep", "newest:v", "newest:v:text", "sum:n", "sum:n,a.n,a.m"];
const KEYS: &[&str] = &["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"];

#[tokio::test]
async fn every_mode_equals_one_document_after_the_other() {
    each_build(async |db| {
        for mut rng in Cases::new(24) {
            for mode in MODES {
                Box::pin(case(&db, &mut rng, mode)).await;
            }
        }
    })
    .await;
}

/// A table, perhaps with rows and a constraint, and loads into it that may be stopped and run again.
async fn case(db: &TestDatabase, rng: &mut Rng, mode: &str) {
    // Qualified: the role of the tests has the name of our own schema.
    let table = format!("public.modes{}", rng.u32(..));
    let (refuses, deletes) = (rng.u8(..4) == 0, rng.bool());
    let mut oracle = Oracle::default();
    if refuses {
        let made = format!("create table {table} (id text collate \"C\" primary key, doc jsonb not null, {REFUSED})");
        db.client().await.batch_execute(&made).await.expect("the server answers");
    }
    for _ in 0..rng.usize(1..4) {
        let (files, mut text, before) = (Files::new(), String::new(), oracle.clone());
        let hot = rng.bool();
        let documents = rng.u64(1..120);
        for _ in 0..documents {
            let document = document(rng, mode, hot, deletes);
            oracle.apply(mode, deletes, refuses, &document);
            writeln!(text, "{}", Json::Object(document)).expect("a text grows");
        }
        let mut wanted = request(&table, "id:text", &[files.write("a", &text)]);
        wanted.mode = if mode.ends_with(":v") { format!("{mode}:bigint") } else { mode.to_owned() }.parse().unwrap();
        wanted.mode = wanted.mode.with_tombstone(deletes.then(|| "op=d".parse().unwrap()));
        wanted.adopt = refuses;
        wanted.batch_rows = rng.usize(1..60);
        wanted.lanes = Some(rng.u16(1..5));
        if rng.u8(..3) == 0 {
            stopped(&db.url(), &wanted, rng).await;
        }
        let outcome = run(&db.url(), &wanted).await;
        assert!(outcome.stopped.is_none(), "{mode}: {outcome:?}");
        let counters = outcome.receipt.counters;
        assert_eq!(counters.read, documents, "{counters:?}\n{text}");
        let described = format!("{mode}, {:?}, refusals {:?}", outcome.receipt, refusals(db).await);
        expect_rows(db, &table, &described, &oracle, &text).await;
        let grown = i128::from(counters.inserted) - i128::from(counters.deleted);
        assert_eq!(grown, oracle.rows.len() as i128 - before.rows.len() as i128, "{mode}: {counters:?}\n{text}");
        let rejected = oracle.rejected - before.rejected;
        match refuses {
            // What is folded into a later document is not judged.
            true => assert!(counters.rejected <= rejected, "{mode}: {counters:?}\n{text}"),
            false => assert_eq!(counters.rejected, rejected, "{mode}: {counters:?}\n{text}"),
        }
    }
}

/// A run of the load that is stopped somewhere.
async fn stopped(url: &str, wanted: &LoadRequest, rng: &mut Rng) {
    let (around, _) = surroundings(url);
    let (stop, wait) = (around.stop.clone(), Duration::from_micros(rng.u64(..30_000)));
    let stopping = async {
        tokio::time::sleep(wait).await;
        stop.stop(StopReason::Interrupted);
    };
    // It may have ended by then, not have begun, or be stopped in between.
    let _ = tokio::join!(Box::pin(load(wanted, &around)), stopping);
}

/// What the server said of documents that it refused.
async fn refusals(db: &TestDatabase) -> Vec<String> {
    let sql = "select distinct detail from millstream.reject where reason = 'refused_by_server' ";
    let rows = db.client().await.query(sql, &[]).await.expect("it answers");
    rows.iter().map(|row| row.get(0)).collect()
}

async fn expect_rows(db: &TestDatabase, table: &str, mode: &str, oracle: &Oracle, text: &str) {
    let client = db.client().await;
    let rows = client.query(&format!("select id, doc::text from {table} order by 1"), &[]).await.expect("it answers");
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

/// A document with a key, and most of the time with what the mode looks at.
fn document(rng: &mut Rng, mode: &str, hot: bool, deletes: bool) -> Object {
    let mut document = Object::new();
    let key = if hot { rng.usize(..2) } else { rng.usize(..KEYS.len()) };
    document.insert("id", Json::Text(KEYS[key]));
    match rng.u8(..12) {
        0 => {}
        1 => drop(document.insert("v", Json::Null)),
        2 => drop(document.insert("v", Json::Text("x"))),
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
