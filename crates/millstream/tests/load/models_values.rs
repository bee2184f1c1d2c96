//! Values and columns that a read model must take as they are: words that follow the clock, types that raise, columns of the
//! table under the name of a published one, keys of another type.

use crate::process::{Run, millstream};
use millstream_testkit::{TestDatabase, every_build};
use tokio_postgres::Client;

/// Values for a column `at`, and whether they have a time of their own.
const TIMES: &[(&str, bool)] = &[
    ("now", false),
    (" NOW ", false),
    ("today", false),
    ("Tomorrow", false),
    ("yesterday", false),
    ("today allballs", false),
    ("10:00 tomorrow", false),
    ("(now)", false),
    ("2026-01-02T03:04:05Z", true),
    ("epoch", true),
    ("infinity", true),
    ("maybe", false),
];

/// Types that hold times, and how a text for them is written.
const CLOCKED: &[(&str, &str, &str)] = &[
    ("timestamptz", "", ""),
    ("timestamp(0)", "", ""),
    ("public.stamp", "", ""),
    ("timestamptz[]", "{", "}"),
    ("tstzrange", "[", ",]"),
    ("public.event", "(1,", ")"),
];

fn load(url: &str, text: &str, more: &[&str]) -> Run {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.ndjson");
    std::fs::write(&file, text).unwrap();
    let load = ["load", file.to_str().unwrap(), "--into", "things", "--key", "id:bigint", "--db", url];
    millstream(&[&load, more].concat())
}

fn publish(db: &TestDatabase, more: &[&str]) -> Run {
    millstream(&[&["publish", "things", "--as", "model", "--db", &db.url()], more].concat())
}

fn refresh(db: &TestDatabase, more: &[&str]) -> Run {
    millstream(&[&["refresh", "model", "--db", &db.url()], more].concat()).ends(0)
}

async fn text(client: &Client, sql: &str) -> String {
    client.query_one(&format!("select ({sql})::text"), &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn words_that_follow_the_clock_are_null_in_every_type_and_way() {
    every_build(async |db| {
        let client = db.client().await;
        let types = "create domain public.stamp as timestamptz; create type public.event as (n int, at timestamptz)";
        client.batch_execute(types).await.unwrap();
        for (kind, before, after) in CLOCKED {
            // A range and an array may have escapes in the word.
            let escaped = if before.is_empty() { "now".to_owned() } else { "n\\\\ow".to_owned() };
            let times = TIMES.iter().copied().chain([(escaped.as_str(), false)]);
            let (mut documents, mut own) = (String::new(), 0);
            for (n, (time, is_own)) in times.enumerate() {
                documents.push_str(&format!("{{\"id\":{n},\"at\":\"{before}{time}{after}\"}}\n"));
                own += i64::from(is_own);
            }
            load(&db.url(), &documents, &[]).ends(0);
            let all = TIMES.len() as i64 + 1;
            let shown = publish(&db, &["--column", &format!("at:{kind}=at")]).ends(0).stdout;
            assert!(shown.contains(&format!("at: null for {} documents", all - own)), "{kind}: {shown}");
            let known = "select count(at) from public.model";
            assert_eq!(text(&client, known).await, own.to_string(), "{kind}");
            let state = "select string_agg(concat_ws(' ', id, at), ', ' order by id) from public.model";
            let first = text(&client, state).await;
            // Every document is written again, as another one.
            client.batch_execute("update public.things set doc = doc || '{\"again\": 1}'").await.unwrap();
            for way in ["incremental", "swap"] {
                refresh(&db, &["--way", way]);
                assert_eq!(text(&client, state).await, first, "{kind} {way}");
            }
            millstream(&["unpublish", "model", "--db", &db.url()]).ends(0);
            publish(&db, &["--column", &format!("at:{kind}=at"), "--materialized"]).ends(0);
            assert_eq!(text(&client, known).await, own.to_string(), "{kind} materialized");
            millstream(&["unpublish", "model", "--db", &db.url()]).ends(0);
            millstream(&["drop", "things", "--yes", "--db", &db.url()]).ends(0);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_is_searched_for_such_words_only_where_a_type_has_a_clock() {
    every_build(async |db| {
        let client = db.client().await;
        client.batch_execute("create domain public.word as text").await.unwrap();
        load(&db.url(), "{\"id\":1,\"at\":\"now\"}\n", &[]).ends(0);
        for kind in ["text", "public.word", "varchar(3)", "tsvector", "text[]"] {
            let at = if kind == "text[]" { "both" } else { "at" };
            load(&db.url(), "{\"id\":1,\"at\":\"now\",\"both\":\"{now,today}\"}\n", &[]).ends(0);
            publish(&db, &["--column", &format!("at:{kind}={at}")]).ends(0);
            assert_eq!(text(&client, "select count(at) from public.model").await, "1", "{kind}");
            millstream(&["unpublish", "model", "--db", &db.url()]).ends(0);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_a_type_raises_a_refresh_goes_on() {
    every_build(async |db| {
        let client = db.client().await;
        client.batch_execute(include_str!("models_values.sql")).await.unwrap();
        load(&db.url(), "{\"id\":1,\"s\":\"a\"}\n{\"id\":2,\"s\":\"bb\"}\n", &[]).ends(0);
        for kind in ["raising", "asserting", "internal", "paired"] {
            let value = if kind == "paired" { "p" } else { "s" };
            let documents = "{\"id\":1,\"s\":\"a\",\"p\":\"(a,a)\"}\n{\"id\":2,\"s\":\"bb\",\"p\":\"(a,bb)\"}\n";
            load(&db.url(), documents, &[]).ends(0);
            let shown = publish(&db, &["--column", &format!("s:public.{kind}={value}")]).ends(0).stdout;
            assert!(
                shown.contains(&format!("s: null for 1 document whose value does not fit public.{kind}")),
                "{shown}"
            );
            let more = "{\"id\":3,\"s\":\"ccc\",\"p\":\"(a,ccc)\"}\n";
            load(&db.url(), more, &["--publish", "model"]).ends(0);
            for way in ["incremental", "swap"] {
                refresh(&db, &["--way", way]);
                let state = "select string_agg(concat_ws(' ', id, s), ', ' order by id) from public.model";
                let known = if kind == "paired" { "1 (a,a), 2, 3" } else { "1 a, 2, 3" };
                assert_eq!(text(&client, state).await, known, "{kind} {way}");
            }
            millstream(&["unpublish", "model", "--db", &db.url()]).ends(0);
            client.batch_execute("delete from public.things where id = 3").await.unwrap();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_column_of_the_table_does_not_hide_a_published_one() {
    every_build(async |db| {
        let client = db.client().await;
        load(&db.url(), "{\"id\":1,\"price\":2.5}\n{\"id\":2,\"price\":7}\n", &[]).ends(0);
        let column = ["--column", "price:numeric=price", "--where", "price > 1"];
        publish(&db, &column).ends(0);
        client.batch_execute("alter table public.things add column price int default 0").await.unwrap();
        let sum = "select sum(price) from public.model";
        for way in ["incremental", "swap"] {
            client.batch_execute("update public.things set doc = doc || '{\"again\": 1}'").await.unwrap();
            refresh(&db, &["--way", way]);
            assert_eq!(text(&client, sum).await, "9.5", "{way}");
        }
        // Publishing it again, and another one.
        publish(&db, &[&column[..], &["--index", "price"]].concat()).ends(0);
        publish(&db, &["--column", "price:numeric=price", "--where", "price > 3 and stored.id > 0"]).ends(0);
        assert_eq!(text(&client, sum).await, "7");
        client.batch_execute("alter table public.things drop column price").await.unwrap();
        refresh(&db, &["--way", "swap"]);
        assert_eq!(text(&client, sum).await, "7");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_another_type_is_refused_until_a_load_records_it() {
    every_build(async |db| {
        let client = db.client().await;
        load(&db.url(), "{\"id\":1}\n{\"id\":2}\n", &[]).ends(0);
        client.batch_execute("alter table public.things alter id type text").await.unwrap();
        let refused = publish(&db, &[]).ends(2).stderr;
        assert!(refused.contains("the column id of the key of things is of type text now, and bigint is"), "{refused}");
        assert!(refused.contains("hint: load a document into it"), "{refused}");
        assert_eq!(text(&client, "select count(*) from pg_trigger where tgname like 'millstream%'").await, "0");
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("b.ndjson");
        std::fs::write(&file, "{\"id\":\"3\"}\n").unwrap();
        millstream(&["load", file.to_str().unwrap(), "--into", "things", "--key", "id", "--db", &db.url()]).ends(0);
        publish(&db, &[]).ends(0);
        client.batch_execute("update public.things set doc = '{\"v\": 1}' where id = '3'").await.unwrap();
        refresh(&db, &["--way", "incremental"]);
        assert_eq!(text(&client, "select count(*) from public.model where doc ? 'v'").await, "1");
    })
    .await;
}

/// Definitions, and the type that the warning of casts that follow the clock names.
const CASTS: &[(&[&str], Option<&str>)] = &[
    (&["--select", "(doc->>'at')::timestamptz as at"], Some("timestamp with time zone")),
    (&["--select", "(doc->>'at')::timestamp(0) as at"], Some("timestamp without time zone")),
    (&["--select", "(doc->>'list')::date[] as at"], Some("date[]")),
    (&["--select", "(doc->>'range')::tstzrange as at"], Some("tstzrange")),
    (&["--select", "(doc->>'at')::public.stamp as at"], Some("timestamp with time zone")),
    (&["--select", "(jsonb_populate_record(null::public.event, doc)).at as at"], Some("event")),
    (&["--select", "(select r.at from jsonb_to_record(doc) as r (at date)) as at"], Some("date")),
    (&["--where", "coalesce((doc->>'at')::date, '2026-01-01') > '2020-01-01'"], Some("date")),
    (&["--column", "at:timestamptz=at", "--where", "(doc->>'at')::time is null"], Some("time without time zone")),
    (&["--materialized", "--query", "select id, (doc->>'at')::date as at from things"], Some("date")),
    (&["--materialized", "--select", "(doc->>'at')::date as at"], Some("date")),
    (&["--column", "at:timestamptz=at"], None),
    (&["--column", "at:timestamptz=at", "--where", "at is null or at > '2020-01-01'"], None),
    (&["--select", "(doc->>'n')::int as n, (doc->>'wait')::interval as wait, id::text as text"], None),
    (&["--materialized", "--query", "select id, (doc->>'n')::int as n from things"], None),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_cast_that_follows_the_clock_is_named() {
    every_build(async |db| {
        let client = db.client().await;
        let types = "create domain public.stamp as timestamptz; create type public.event as (n int, at timestamptz)";
        client.batch_execute(types).await.unwrap();
        load(&db.url(), "{\"id\":1,\"n\":2}\n", &[]).ends(0);
        for (args, expected) in CASTS {
            let told = publish(&db, args).ends(0).stderr;
            assert_eq!(told.contains("casts text to "), expected.is_some(), "{args:?}: {told}");
            assert!(expected.is_none_or(|kind| told.contains(&format!("{kind}; the words"))), "{args:?}: {told}");
            assert_eq!(told.contains("--column NAME:TYPE=PATH"), expected.is_some() && !args.contains(&"--query"));
            millstream(&["unpublish", "model", "--db", &db.url()]).ends(0);
        }
    })
    .await;
}
