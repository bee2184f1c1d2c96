//! Verifying finds every difference between files and tables, whatever program loaded them.

mod equality;

use crate::scene::{Files, Stream, request, run};
use millstream_engine::{Difference, Error, LoadRequest, Mode, Silent, Verification, VerifyRequest, verify};
use millstream_model::{KEY_TYPES, KeyType};
use millstream_pg::{ConnInfo, Environment, Explained};
use millstream_testkit::{TestDatabase, database, each_build, every_build, skip};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use tokio_postgres::error::SqlState;

/// A request to verify a table as [`request`] would load it.
fn wanted(into: &str, key: &str, sources: &[String]) -> VerifyRequest {
    let mut wanted = VerifyRequest::new(request(into, key, sources), std::env::temp_dir());
    wanted.exact = true;
    wanted.findings_max = 1_000;
    wanted
}

async fn result(url: &str, wanted: &VerifyRequest) -> Result<Verification, Error> {
    let db = ConnInfo::parse(url, &Environment::default()).expect("a connection string");
    Box::pin(verify(wanted, &db, Arc::default(), &Silent)).await
}

async fn verified(url: &str, wanted: &VerifyRequest) -> Verification {
    let found = result(url, wanted).await.expect("the verification ends");
    assert!(found.read - found.rejected >= found.keys, "{found:?}");
    assert!(found.findings.len() <= wanted.findings_max);
    found
}

/// The listed keys of a kind, their values joined.
fn keys(found: &Verification, difference: Difference) -> Vec<String> {
    let of_kind = found.findings.iter().filter(|finding| finding.difference == difference);
    of_kind.map(|f| f.key.iter().map(|v| v.as_deref().unwrap_or("null")).collect::<Vec<_>>().join(",")).collect()
}

/// Loads all of it.
async fn loaded(url: &str, load: &LoadRequest) {
    let outcome = run(url, load).await;
    assert!(outcome.stopped.is_none(), "{outcome:?}");
}

async fn execute(db: &TestDatabase, sql: &str) {
    db.client().await.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
}

#[tokio::test]
async fn verify_finds_every_difference_in_many_runs() {
    each_build(async |db| {
        let files = Files::new();
        let stream = Stream::random(&mut fastrand::Rng::with_seed(5), 60_000, 40_000);
        let file = files.write("a", &stream.text);
        loaded(&db.url(), &request("events", "id", std::slice::from_ref(&file))).await;
        // The least memory: some 30 runs of which four are merged at once, in several levels.
        let mut wanted = wanted("events", "id", std::slice::from_ref(&file));
        wanted.memory_bytes = millstream_engine::limits::VERIFY_MEMORY_BYTES_MIN;
        let found = verified(&db.url(), &wanted).await;
        assert_eq!((found.read, found.keys), (60_000, stream.last.len() as u64));
        assert_eq!((found.equal, found.differences(), found.extra), (found.keys, 0, Some(0)));
        wanted.load.mode = "keep".parse().expect("a mode");
        let several = stream.first.iter().filter(|(id, value)| stream.last[*id] != **value).count() as u64;
        assert_eq!(verified(&db.url(), &wanted).await.different, several);

        wanted.load.mode = "replace".parse().expect("a mode");
        let id = |n: usize| stream.last.keys().nth(n).expect("a key").clone();
        let (changed, gone, spelled) = (id(17_000), id(0), id(3));
        let sql = format!(
            "update events set doc = overlay(doc::text placing 'D' from position('document' in doc::text))::jsonb
              where id = '{changed}';
             delete from events where id = '{gone}';
             update events set doc = jsonb_set(doc, '{{value}}', to_jsonb((doc ->> 'value')::numeric + 0.00))
              where id = '{spelled}';
             insert into events values ('', '{{}}'), ('zzz', '{{\"id\":\"zzz\"}}')"
        );
        execute(&db, &sql).await;
        let found = verified(&db.url(), &wanted).await;
        assert_eq!((found.equal, found.missing, found.different, found.extra), (found.keys - 2, 1, 1, Some(2)));
        assert_eq!(keys(&found, Difference::Missing), [gone]);
        assert_eq!(keys(&found, Difference::Different), std::slice::from_ref(&changed));
        assert_eq!(keys(&found, Difference::Extra), ["", "zzz"]);
        // The line is that of the document which should be stored.
        let finding = found.findings.iter().find(|f| f.difference == Difference::Different).expect("found");
        assert_eq!(finding.source.as_deref(), Some(file.as_str()));
        let line = usize::try_from(finding.line.expect("a line")).unwrap();
        let value = stream.last[&changed];
        assert!(stream.text.lines().nth(line - 1).unwrap().contains(&format!("\"value\":{value},")));

        wanted.exact = false;
        wanted.findings_max = 1;
        let found = verified(&db.url(), &wanted).await;
        assert_eq!((found.differences(), found.extra, found.findings.len()), (2, None, 1));
    })
    .await;
}

/// Values of a key type as JSON and as SQL, from the least to the greatest, and some that a table
/// may hold and no document can have.
fn values(key_type: KeyType) -> (&'static [&'static str], &'static [&'static str]) {
    match key_type {
        KeyType::Text => (&["", "B", "a", "a\u{1}", "a-", "aa", "a b", "ab", "z", "ä", "é", "ﬀ", "😀"], &[]),
        KeyType::Varchar(_) => (&["", "a", "a ", "é"], &[]),
        KeyType::Smallint => (&["-32768", "-1", "0", "32767"], &[]),
        KeyType::Numeric => (
            &["-100000000000000000000", "-1.5", "-0.00001", "0", "0.5", "1", "10", "123456789.123456789"],
            &["Infinity", "NaN", "-Infinity"],
        ),
        KeyType::TimestamptzEpoch | KeyType::TimestamptzEpochMs => (&["-1.5", "0", "1700000000.123"], &[]),
        KeyType::TimestamptzLenient => (&["0001-01-02 00:00+05", "2026-02-03T04:05Z", "2026-02-03 04:05-0030"], &[]),
        KeyType::Timestamp => (&["0001-01-01T00:00:00", "2026-02-03T04:05:06.5"], &["infinity", "-infinity"]),
        KeyType::Bigint => (&["-9223372036854775808", "-1", "0", "7", "9223372036854775807"], &[]),
        KeyType::Integer => (&["-2147483648", "-1", "0", "2147483647"], &[]),
        KeyType::Uuid => (&["00000000-0000-0000-0000-000000000000", "80000000-0000-0000-0000-00000000000a"], &[]),
        KeyType::Timestamptz => (
            &["0001-01-01T00:00:00Z", "1999-12-31T23:59:59.999999Z", "2026-02-03T04:05:06.5Z", "9999-12-31T23:59:59Z"],
            &["infinity", "-infinity"],
        ),
        KeyType::Date => (&["0001-01-01", "1999-12-31", "2026-02-03", "9999-12-31"], &["infinity", "-infinity"]),
        KeyType::Boolean => (&["false", "true"], &[]),
    }
}

fn text_of(key_type: KeyType, value: &str) -> String {
    let mut key = Vec::new();
    millstream_model::put_literal(key_type, value.as_bytes(), &mut key).expect("a literal of the type");
    millstream_model::key_bytes::key_texts(&[key_type], &key).concat()
}

#[tokio::test]
async fn every_key_type_is_compared_in_order_and_printed_as_text() {
    each_build(async |db| {
        let client = db.client().await;
        let files = Files::new();
        for key_type in KEY_TYPES {
            let ((values, beyond), of) = (values(*key_type), key_type.to_string());
            let name = &*format!("of_{}", of.replace(':', "_"));
            let mut text = String::new();
            for (n, value) in values.iter().rev().enumerate() {
                let _ = writeln!(text, "{}", serde_json::json!({"n": n, "k": value, "g": n % 2 == 0}));
            }
            let file = files.write(name, &text);
            loaded(&db.url(), &request(name, &format!("k:{of},g:boolean"), std::slice::from_ref(&file))).await;
            // Keys in the other order than the table's.
            let wanted = wanted(name, "g,k", &[file]);
            let found = verified(&db.url(), &wanted).await;
            assert_eq!((found.equal, found.differences()), (values.len() as u64, 0), "{found:?}");
            for value in beyond {
                let sql =
                    format!("insert into {name} (k, g, doc) values ($1::text::{}, true, '{{}}')", key_type.sql_name());
                client.execute(&sql, &[value]).await.unwrap();
            }
            client.execute(&format!("update {name} set doc = '{{}}'"), &[]).await.unwrap();
            let found = verified(&db.url(), &wanted).await;
            let mut listed = keys(&found, Difference::Different);
            // As the column spells them.
            let texts: Vec<String> = values.iter().map(|value| text_of(*key_type, value)).collect();
            listed.sort_by_key(|key| texts.iter().position(|v| key.starts_with(&format!("{v},"))));
            let expected = texts.iter().rev().enumerate().map(|(n, value)| format!("{value},{}", n % 2 == 0));
            let mut expected: Vec<String> = expected.collect();
            expected.reverse();
            assert_eq!(listed, expected, "{name}");
            let mut listed = keys(&found, Difference::Extra);
            listed.sort_by_key(|key| key.starts_with('-'));
            assert_eq!(listed, beyond.iter().map(|value| format!("{value},true")).collect::<Vec<_>>());
        }
    })
    .await;
}

#[tokio::test]
async fn a_role_that_may_only_select_verifies_a_table_of_somebody_else() {
    each_build(async |db| {
        execute(
            &db,
            "create schema \"Their own\";
             create domain short as varchar(20) check (value <> 'no');
             create table \"Their own\".\"T\" (other int not null, \"Id\" short, part smallint, doc jsonb);
             insert into \"Their own\".\"T\" values
               (1, 'b', 1, '{\"i\":\"b\",\"p\":1}'), (1, 'B', 2, '{\"i\":\"B\",\"p\":2}'),
               (1, 'é', 1, '{\"i\":\"é\",\"p\":1}'), (1, 'z', 1, '{\"i\":\"z\",\"p\":1.0}'),
               (1, null, 1, '{}'), (1, 'z', null, '{}'), (1, 'z', 9, '{}'), (1, 'a', 3, null);
             create role reader login password 'reader';
             revoke create on schema public from public;
             grant usage on schema \"Their own\" to reader;
             grant select (\"Id\", part, doc) on \"Their own\".\"T\" to reader",
        )
        .await;
        let url = db.url().replacen("postgres:", "postgresql:", 1);
        let at = url.rfind('@').expect("an URL with a role");
        let url = format!("postgresql://reader:reader{}", &url[at..]);
        let text = "{\"i\":\"z\",\"p\":1}\n{\"i\":\"é\",\"p\":1}\n{\"i\":\"B\",\"p\":2}\n{\"i\":\"b\",\"p\":1}\n{\"i\":\"a\",\"p\":3}\n";
        let files = Files::new();
        let wanted = wanted("public.x", "Id=i,part=p", &[files.write("a", text)]);
        let mut wanted = VerifyRequest { exact: true, ..wanted };
        wanted.load.collection = millstream_model::CollectionName { schema: "Their own".into(), table: "T".into() };
        let found = verified(&url, &wanted).await;
        assert_eq!((found.equal, found.missing, found.different, found.extra), (4, 0, 1, Some(3)), "{found:?}");
        assert_eq!(keys(&found, Difference::Different), ["a,3"]);
        let mut extra = keys(&found, Difference::Extra);
        extra.sort();
        assert_eq!(extra, ["null,1", "z,9", "z,null"]);
        let schemas: i64 = db
            .client()
            .await
            .query_one("select count(*) from pg_namespace where nspname = 'millstream'", &[])
            .await
            .unwrap()
            .get(0);
        assert_eq!(schemas, 0);
        // A second row of a key is extra, whether it is right or wrong.
        execute(&db, "insert into \"Their own\".\"T\" select * from \"Their own\".\"T\" where part in (1, 3)").await;
        let found = verified(&url, &wanted).await;
        assert_eq!((found.equal, found.missing, found.different, found.extra), (4, 0, 2, Some(7)), "{found:?}");
        execute(&db, "drop owned by reader; drop role reader").await;
    })
    .await;
}

#[tokio::test]
async fn a_table_in_another_collation_is_read_in_byte_order() {
    let mut compared = 0;
    every_build(async |db| {
        let collation =
            "create collation backwards (provider = icu, locale = 'und-u-kf-upper-kn', deterministic = true)";
        if let Err(error) = db.client().await.batch_execute(collation).await {
            assert_eq!(error.code(), Some(&SqlState::FEATURE_NOT_SUPPORTED), "a build without ICU: {error:?}");
            return;
        }
        compared += 1;
        execute(&db, "create table words (id text collate backwards primary key, doc jsonb not null)").await;
        let files = Files::new();
        let words = ["a", "B", "b", "a10", "a9", "Ä", "z", "a-b", "ab", "_", "é"];
        let text: String = words.iter().map(|word| format!("{{\"id\":\"{word}\"}}\n")).collect();
        let mut load = request("words", "id", &[files.write("a", text)]);
        load.adopt = true;
        loaded(&db.url(), &load).await;
        let found = verified(&db.url(), &wanted("words", "id", &load.sources)).await;
        assert_eq!((found.equal, found.differences()), (words.len() as u64, 0), "{found:?}");
    })
    .await;
    if compared == 0 {
        skip("no build of PostgreSQL here has ICU");
    }
}

#[tokio::test]
async fn an_empty_table_an_empty_file_and_a_view_are_compared() {
    let db = database().await;
    execute(
        &db,
        "create table t (id int primary key, doc jsonb); create view v as select * from t;
         create table p (id int primary key, doc jsonb) partition by range (id);
         create table p1 partition of p for values from (0) to (2);
         create table p2 partition of p for values from (2) to (9)",
    )
    .await;
    let files = Files::new();
    let (empty, two) = (files.write("empty", ""), files.write("two", "{\"id\":1}\n\n{\"id\":2}\n"));
    let found = verified(&db.url(), &wanted("t", "id", std::slice::from_ref(&empty))).await;
    assert_eq!((found.read, found.differences()), (0, 0));
    let found = verified(&db.url(), &wanted("t", "id", std::slice::from_ref(&two))).await;
    assert_eq!((found.missing, keys(&found, Difference::Missing)), (2, vec!["1".to_owned(), "2".to_owned()]));
    execute(&db, "insert into t values (2, '{\"id\":2}'), (1, '{\"id\":1}'); insert into p select * from t").await;
    for table in ["v", "p"] {
        let found = verified(&db.url(), &wanted(table, "id", std::slice::from_ref(&two))).await;
        assert_eq!((found.equal, found.differences()), (2, 0), "{table}");
        let found = verified(&db.url(), &wanted(table, "id", std::slice::from_ref(&empty))).await;
        assert_eq!(keys(&found, Difference::Extra), ["1", "2"]);
    }
}

#[tokio::test]
async fn rejected_documents_are_counted_and_not_compared() {
    let db = database().await;
    let files = Files::new();
    let text = "{\"id\":1}\n{\"id\":2,\n{\"id\":null}\n{\"id\":\"x\"}\n{\"id\":1,\"a\":[1,{\"b\":2}]}\n";
    let load = request("mixed", "id:bigint", &[files.write("a", text)]);
    loaded(&db.url(), &load).await;
    let found = verified(&db.url(), &wanted("mixed", "id", &load.sources)).await;
    assert_eq!((found.read, found.rejected, found.keys, found.equal), (5, 3, 1, 1));
    assert_eq!(found.differences(), 0);
}

#[tokio::test]
async fn what_cannot_be_verified_is_refused_with_a_hint() {
    let db = database().await;
    execute(
        &db,
        "create table good (id int primary key, doc jsonb); create table text_doc (id int primary key, doc text);
         create table bare (id int primary key); create table odd (id real primary key, doc jsonb);
         create sequence counter; create table hidden (id int primary key, doc jsonb);
         create role blind login password 'blind'",
    )
    .await;
    let files = Files::new();
    let file = files.write("a", "{\"id\":1}\n");
    let damaged = files.write("b", "[{\"id\":1},{\"id\":2} {\"id\":3}]");
    let refused = async |url: &str, wanted: &VerifyRequest, words: &str| {
        let error = result(url, wanted).await.expect_err(words);
        let message = format!("{error} {:?}", std::error::Error::source(&error));
        assert!(message.contains(words), "{words}: {message}");
        assert!(error.hint().is_some(), "{words}");
    };
    for (table, key, words) in [
        ("nowhere", "id", "there is no such table"),
        ("counter", "id", "it is not a table"),
        ("text_doc", "id", "its column doc is of type text"),
        ("bare", "id", "it has no column doc"),
        ("odd", "id", "its column id is of type real"),
        ("good", "other", "it has no column other"),
        ("good", "id:bigint", "its column id is of type integer"),
    ] {
        refused(&db.url(), &wanted(table, key, std::slice::from_ref(&file)), words).await;
    }
    refused(&db.url(), &wanted("good", "id", &[damaged]), "is damaged at line 1").await;
    let mut full = wanted("good", "id", std::slice::from_ref(&file));
    full.directory = Path::new("/nowhere/at/all").to_owned();
    refused(&db.url(), &full, "cannot keep sorted documents in /nowhere/at/all").await;
    let mut small = wanted("good", "id", std::slice::from_ref(&file));
    small.memory_bytes = 1;
    refused(&db.url(), &small, "--memory takes").await;
    let at = db.url().rfind('@').expect("an URL with a role");
    let blind = format!("postgresql://blind:blind{}", &db.url()[at..]);
    let error = result(&blind, &wanted("hidden", "id", &[file])).await.expect_err("no right");
    assert!(error.to_string().contains("permission denied"), "{error}");
}

#[tokio::test]
async fn verify_agrees_with_every_mode() {
    each_build(async |db| {
        let files = Files::new();
        let mut rng = fastrand::Rng::with_seed(8);
        let document = |rng: &mut fastrand::Rng| {
            let (id, n, v, name) = (rng.u8(..50), rng.i16(..), rng.u8(..20), rng.char('a'..'d'));
            let op = if rng.u8(..10) == 0 { "delete" } else { "put" };
            format!("{{\"id\":{id},\"n\":{n}.50,\"v\":{v},\"op\":\"{op}\",\"{name}\":{{\"{name}{v}\":{n}}}}}\n")
        };
        let text: String = (0..3_000).map(|_| document(&mut rng)).collect();
        let file = files.write("a", &text);
        for (n, kind) in millstream_engine::MODES.iter().enumerate() {
            let arguments = if kind.arguments.is_empty() {
                ""
            } else if kind.name == "newest" {
                ":v"
            } else {
                ":n"
            };
            for tombstone in [None, Some("op=delete")] {
                let mode: Mode = format!("{}{arguments}", kind.name).parse().expect("a mode");
                let table = format!("mode_{n}_{}", u8::from(tombstone.is_some()));
                let mut load = request(&table, "id:integer", std::slice::from_ref(&file));
                load.mode = mode.with_tombstone(tombstone.map(|t| t.parse().expect("a tombstone")));
                load.batch_rows = 100;
                loaded(&db.url(), &load).await;
                let mut wanted = wanted(&table, "id", &load.sources);
                wanted.load.mode = load.mode;
                let found = verified(&db.url(), &wanted).await;
                assert_eq!((found.differences(), found.equal), (0, found.keys), "{found:?}");
                assert!(found.keys > 20, "{found:?}");
            }
        }
    })
    .await;
}
