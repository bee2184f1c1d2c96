//! Every change reaches a model: by every writer, in every mode, with every key type and name, in any order of commits.

use crate::publish::{asked, publish_on, refresh_on, wanted};
use crate::republish::{number, things};
use crate::scene::{Files, Stream, request, run, schema, surroundings};
use bytes::Bytes;
use fastrand::Rng;
use futures_util::SinkExt;
use millstream_engine::{LoadRequest, Mode, SkipUnchanged, writers};
use millstream_publish::limits::{CHANGE_BYTES_MAX, CHANGE_ROW_KEYS};
use millstream_publish::{Estimate, estimate};
use millstream_store::limits::CHANGE_KEYS_MAX;
use millstream_testkit::{Cases, TestDatabase, every_build, until};
use std::collections::BTreeSet;
use std::fmt::Write;
use tokio_postgres::Client;

/// Rows of a collection before its writer is tried.
const ROWS: i64 = 600;
/// Sessions whose transactions run at the same time.
const SESSIONS: usize = 4;
/// Steps of one case: statements, ends of transactions, refreshes.
const STEPS: usize = 60;

/// Creates a collection of `ROWS` documents, whose keys are `k` and a number, and a model that shows them.
async fn published(db: &TestDatabase, collection: &str, model: &str) {
    let files = Files::new();
    let seed: String = (0..ROWS).fold(String::new(), |mut text, n| {
        writeln!(text, "{{\"id\":\"k{n:05}\",\"value\":{}}}", n % 2).expect("a text grows");
        text
    });
    run(&db.url(), &request(collection, "id:text", &[files.write("seed", seed)])).await;
    publish_on(db, &wanted(collection, model, &["value:int=value"], &["value"], Some("value <> 7")))
        .await
        .expect("it is published");
    refresh_on(db, &[model], None).await.expect("it is built");
}

/// Rows in which a model and what it is derived from differ.
async fn differences(client: &Client, collection: &str, model: &str) -> i64 {
    let sql = format!(
        "with derived as (select id, (doc->>'value')::int as value, doc from {collection}
                          where (doc->>'value')::int <> 7)
         select (select count(*) from (table derived except table {model}) d)
              + (select count(*) from (table {model} except table derived) d)"
    );
    client.query_one(&sql, &[]).await.expect("the server answers").get(0)
}

async fn estimated(db: &TestDatabase, model: &str) -> Estimate {
    let conninfo = surroundings(&db.url()).0.db;
    Box::pin(estimate(&conninfo, &schema(), &asked(&[model], None))).await.expect("a model").remove(0)
}

/// Documents that one writer writes.
struct Case {
    writer: &'static str,
    /// Where the keys begin; stored ones end at `ROWS`.
    first: i64,
    /// The value of a document. The stored value is whether its number is odd.
    value: fn(i64) -> i64,
    change: fn(&mut LoadRequest),
    more: &'static str,
}

/// Makes small batches go the way of large ones.
const AS_LARGE: fn(&mut LoadRequest) = |wanted| wanted.arrays_rows_max = 0;
const COMPARED: fn(&mut LoadRequest) =
    |wanted| (wanted.arrays_rows_max, wanted.skip_unchanged) = (0, SkipUnchanged::On);
const DELETING: fn(&mut LoadRequest) = |wanted| {
    let mode: Mode = "newest:value:bigint".parse().expect("a mode");
    wanted.mode = mode.with_tombstone(Some("op=d".parse().expect("a path and a value")));
};

const CASES: &[Case] = &[
    Case { writer: "copy", first: 1_000, value: |n| n, change: AS_LARGE, more: "" },
    Case { writer: "divided", first: 400, value: |n| n, change: AS_LARGE, more: "" },
    Case { writer: "staged", first: 0, value: |n| n + 10, change: AS_LARGE, more: "" },
    Case { writer: "upsert", first: 400, value: |n| n, change: AS_LARGE, more: "" },
    Case { writer: "compared", first: 0, value: |n| n + 10, change: COMPARED, more: "" },
    Case {
        writer: "compared",
        first: 0,
        value: |n| if n % 50 == 0 { n + 10 } else { n % 2 },
        // Many documents to compare, few that differ.
        change: |wanted| (wanted.arrays_rows_max, wanted.skip_unchanged) = (100, SkipUnchanged::On),
        more: "",
    },
    Case {
        writer: "deletes",
        first: 0,
        value: |n| n + 10,
        change: DELETING,
        more: "{\"id\":\"k00003\",\"value\":99,\"op\":\"d\"}\n",
    },
    Case { writer: "arrays", first: 400, value: |n| n, change: |_| {}, more: "" },
];

#[tokio::test(flavor = "multi_thread")]
async fn the_changes_of_every_writer_reach_the_model() {
    let tried: BTreeSet<&str> = CASES.iter().map(|case| case.writer).collect();
    assert_eq!(tried, writers().collect());
    every_build(async |db| {
        let client = db.client().await;
        for (n, case) in CASES.iter().enumerate() {
            let (collection, model) = (format!("public.written_{n}"), format!("public.model_{n}"));
            published(&db, &collection, &model).await;
            if case.writer == "upsert" {
                let sql = format!(
                    "create function public.none() returns trigger language plpgsql as 'begin return null; end';
                     create trigger none after insert on {collection} for each statement execute function public.none()"
                );
                client.batch_execute(&sql).await.expect("the server answers");
            }
            let files = Files::new();
            let batches: Vec<String> = (0..2)
                .map(|batch| {
                    let mut text = String::new();
                    for n in (0..300).map(|n| case.first + batch * 300 + n) {
                        writeln!(text, "{{\"id\":\"k{n:05}\",\"value\":{}}}\n{}", (case.value)(n), case.more)
                            .expect("a text grows");
                    }
                    files.write(&format!("{batch}"), text)
                })
                .collect();
            let mut wanted = request(&collection, "id:text", &batches);
            (wanted.lanes, wanted.batch_rows) = (Some(1), 1);
            (case.change)(&mut wanted);
            let receipt = run(&db.url(), &wanted).await.receipt;
            assert!(receipt.writers.get(case.writer).is_some_and(|n| *n > 0), "{}: {receipt:?}", case.writer);
            assert!(differences(&client, &collection, &model).await > 0, "{}", case.writer);
            let done = refresh_on(&db, &[&model], Some("incremental")).await.unwrap();
            assert_eq!((done[0].way, done[0].lag_seconds), ("incremental", None), "{}", case.writer);
            assert_eq!(differences(&client, &collection, &model).await, 0, "{}", case.writer);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_a_replication_reach_the_model() {
    every_build(async |db| {
        let client = db.client().await;
        published(&db, "public.replicated", "public.model").await;
        let replicated = "set session_replication_role = replica;
             insert into public.replicated values ('new', '{\"value\": 1}'), ('other', '{\"value\": 2}');
             update public.replicated set id = 'newer' where id = 'new'; reset session_replication_role";
        client.batch_execute(replicated).await.expect("the server answers");
        let done = refresh_on(&db, &["public.model"], Some("incremental")).await.unwrap();
        assert_eq!(done[0].way, "incremental");
        assert_eq!(differences(&client, "public.replicated", "public.model").await, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_every_mode_reach_the_model() {
    every_build(async |db| {
        let client = db.client().await;
        let modes = ["replace", "keep", "merge", "merge:deep", "newest:value:bigint", "sum:value"];
        for (n, mode) in modes.iter().enumerate() {
            let (collection, model) = (format!("public.merged_{n}"), format!("public.model_{n}"));
            published(&db, &collection, &model).await;
            for deletes in [false, true] {
                let (files, mut text) = (Files::new(), String::new());
                for n in 0..400 {
                    let more = if deletes && n % 5 == 0 { ",\"op\":\"d\"" } else { "" };
                    writeln!(text, "{{\"id\":\"k{:05}\",\"value\":{},\"b\":{n}{more}}}", n * 2, n % 9).expect("a text");
                }
                let mut wanted = request(&collection, "id:text", &[files.write("a", text)]);
                wanted.mode = mode.parse().expect("a mode");
                wanted.mode = wanted.mode.with_tombstone(deletes.then(|| "op=d".parse().expect("a path and a value")));
                wanted.batch_rows = 50;
                run(&db.url(), &wanted).await;
                assert!(differences(&client, &collection, &model).await > 0, "{mode} {deletes}");
                refresh_on(&db, &[&model], Some("incremental")).await.unwrap();
                assert_eq!(differences(&client, &collection, &model).await, 0, "{mode} {deletes}");
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rewriting_a_table_records_no_changes() {
    every_build(async |db| {
        let client = db.client().await;
        published(&db, "public.things", "public.model").await;
        for statement in ["vacuum full public.things", "cluster public.things using things_pkey"] {
            client.batch_execute(statement).await.unwrap();
            let estimate = estimated(&db, "public.model").await;
            assert_eq!((estimate.way, estimate.changed_keys), ("incremental", Some(0)), "{statement}: {estimate:?}");
        }
        client.batch_execute("update public.things set doc = '{\"value\": 5}' where id < 'k00010'").await.unwrap();
        assert_eq!(estimated(&db, "public.model").await.changed_keys, Some(10));
        assert_eq!(refresh_on(&db, &["model"], None).await.unwrap()[0].way, "incremental");
        assert_eq!(differences(&client, "public.things", "public.model").await, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_and_merges_by_plain_sql_reach_the_model() {
    every_build(async |db| {
        let client = db.client().await;
        published(&db, "public.things", "public.model").await;
        let sink = client.copy_in("copy public.things (id, doc) from stdin").await.unwrap();
        let mut sink = std::pin::pin!(sink);
        sink.send(Bytes::from_static(b"copied\t{\"value\": 3}\nanother\t{\"value\": 4}\n")).await.unwrap();
        assert_eq!(sink.finish().await.unwrap(), 2);
        assert_eq!(estimated(&db, "public.model").await.changed_keys, Some(2));
        refresh_on(&db, &["model"], Some("incremental")).await.unwrap();
        assert_eq!(differences(&client, "public.things", "public.model").await, 0);
        let merged = client.execute(MERGE, &[]).await.unwrap();
        assert_eq!((merged, differences(&client, "public.things", "public.model").await), (15, 20));
        refresh_on(&db, &["model"], Some("incremental")).await.unwrap();
        assert_eq!(differences(&client, "public.things", "public.model").await, 0);
    })
    .await;
}

/// Deletes five rows, updates five and inserts five.
const MERGE: &str = "
    merge into public.things as stored
    using (select 'k' || lpad(n::text, 5, '0') as id, n from generate_series(590, 604) as n) as new
    on stored.id = new.id
    when matched and new.n < 595 then delete
    when matched then update set doc = '{\"value\": 30}'
    when not matched then insert (id, doc) values (new.id, '{\"value\": 40}')";

/// Lowers a limit in the trigger functions, which are the only place that has it.
async fn lower(client: &Client, limit: u64, to: u64) {
    let limit = limit.to_string();
    let functions = "select pg_get_functiondef(oid) from pg_proc where prosrc like '%' || $1 || '%'";
    let functions = client.query(functions, &[&limit]).await.expect("the server answers");
    assert!(!functions.is_empty(), "the triggers have it");
    for function in functions {
        let function: String = function.get(0);
        client.batch_execute(&function.replace(&limit, &to.to_string())).await.expect("the server answers");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn past_its_limits_the_record_marks_everything_as_changed() {
    every_build(async |db| {
        let client = db.client().await;
        for (n, (limit, to, some, many)) in [
            (CHANGE_KEYS_MAX, 20, "< 'k00020'", "< 'k00021'"),
            // The record is larger than that from the first change on.
            (CHANGE_BYTES_MAX, 1, "", "= 'k00001'"),
        ]
        .into_iter()
        .enumerate()
        {
            let (collection, model) = (format!("public.things_{n}"), format!("public.model_{n}"));
            published(&db, &collection, &model).await;
            let change = async |keys: &str| {
                let update = format!("update {collection} set doc = jsonb_build_object('value', 50) where id {keys}");
                client.batch_execute(&update).await.unwrap();
                estimated(&db, &model).await.changed_keys
            };
            assert_eq!(change("< 'k00030'").await, Some(30), "{limit}");
            lower(&client, limit, to).await;
            if !some.is_empty() {
                // The keys then take rows of their own.
                lower(&client, CHANGE_ROW_KEYS, to / 2).await;
                assert_eq!(change(some).await, Some(50), "{limit}");
            }
            assert_eq!(change(many).await, None, "{limit}");
            assert_eq!(refresh_on(&db, &[&model], None).await.unwrap()[0].way, "swap");
            assert_eq!(differences(&client, &collection, &model).await, 0, "{limit}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_keys_reach_the_model() {
    every_build(async |db| {
        let client = db.client().await;
        published(&db, "public.things", "public.model").await;
        // The statement names no column of the key.
        let rename = "create function public.rename() returns trigger language plpgsql as
                          $$ begin new.id = 'n' || new.id; return new; end $$;
                      create trigger rename before update on public.things
                          for each row execute function public.rename();
                      update public.things set doc = '{\"value\": 3}' where id = 'k00007';
                      drop trigger rename on public.things";
        client.batch_execute(rename).await.unwrap();
        assert_eq!(refresh_on(&db, &["public.model"], None).await.unwrap()[0].way, "incremental");
        assert_eq!(differences(&client, "public.things", "public.model").await, 0);

        lower(&client, CHANGE_BYTES_MAX, 1).await;
        let oid = "select 'public.things'::regclass::oid::text";
        let oid: String = client.query_one(oid, &[]).await.unwrap().get(0);
        let lines = format!("select count(*) from millstream.change_{oid}");
        let lines = async || client.query_one(&lines, &[]).await.unwrap().get::<_, i64>(0);
        let before = lines().await;
        client.batch_execute("update public.things set id = 'm' || id").await.unwrap();
        assert_eq!(lines().await - before, 2, "one of the keys before, one of those after");
        assert_eq!(estimated(&db, "public.model").await.changed_keys, None);
        refresh_on(&db, &["public.model"], None).await.unwrap();
        assert_eq!(differences(&client, "public.things", "public.model").await, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_vacuums_a_model_only_when_it_is_bloated() {
    every_build(async |db| {
        let client = db.client().await;
        published(&db, "public.things", "public.model").await;
        let vacuums = async || -> i64 {
            let sql = "select sum(vacuum_count)::bigint from pg_stat_all_tables
                       where schemaname = 'millstream' and relname ~ '^model_[0-9]+_[12]$'";
            client.query_one(sql, &[]).await.unwrap().get(0)
        };
        for (value, (keys, cleaned)) in [("k00010", 0), ("k00100", 1), ("k00005", 0)].into_iter().enumerate() {
            let before = vacuums().await;
            let update = format!("update public.things set doc = '{{\"value\": 6{value}}}' where id < '{keys}'");
            client.batch_execute(&update).await.unwrap();
            let done = refresh_on(&db, &["model"], Some("incremental")).await.unwrap();
            assert_eq!(vacuums().await, before + cleaned, "{keys}");
            assert_eq!(done[0].bloat_bytes == 0, cleaned > 0, "{keys}: {done:?}");
        }
        // A row that does not change is skipped.
        client.batch_execute("update public.things set doc = doc where id < 'k00005'").await.unwrap();
        assert_eq!(estimated(&db, "model").await.changed_keys, Some(5));
        assert_eq!(refresh_on(&db, &["model"], Some("incremental")).await.unwrap()[0].rows, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lane_that_commits_after_a_refresh_is_in_the_next() {
    every_build(async |db| {
        let client = db.client().await;
        published(&db, "public.things", "public.model").await;
        client
            .batch_execute(
                "create function public.wait() returns trigger language plpgsql as
                     'begin perform pg_advisory_xact_lock(7); return null; end';
                 create constraint trigger at_commit after insert or update on public.things
                     deferrable initially deferred for each row execute function public.wait();
                 select pg_advisory_lock(7)",
            )
            .await
            .unwrap();
        let files = Files::new();
        let stream = Stream::random(&mut Rng::with_seed(5), 200, 150);
        let mut wanted = request("things", "id:text", &[files.write("a", stream.text)]);
        wanted.lanes = Some(1);
        let url = db.url();
        let load = tokio::spawn(async move { run(&url, &wanted).await.receipt });
        let waits = "select exists (select from pg_stat_activity where datname = current_database()
                         and application_name like 'millstream lane%' and wait_event = 'advisory')";
        until("a lane waits in its commit", async || {
            assert!(!load.is_finished(), "its commit is held");
            client.query_one(waits, &[]).await.unwrap().get(0)
        })
        .await;
        let held = refresh_on(&db, &["model"], Some("incremental")).await.unwrap();
        assert_eq!((held[0].rows, held[0].lag_seconds), (0, None), "nobody sees it");
        client.batch_execute("select pg_advisory_unlock(7)").await.unwrap();
        let keys = load.await.unwrap().counters.inserted;
        assert_eq!(keys, stream.last.len() as u64);
        assert!(differences(&client, "public.things", "public.model").await > 0);
        let next = refresh_on(&db, &["model"], Some("incremental")).await.unwrap();
        assert!(next[0].rows > 0);
        assert_eq!(differences(&client, "public.things", "public.model").await, 0);
    })
    .await;
}

/// Every key type, in columns that need quotes.
const KEY: &str = "\"Te xt\"=a:text,\"sel\"\"ect\"=b:bigint,\"from\"=c:integer,\u{fc}uid=d:uuid,\"T.z\"=e:timestamptz,\
                   \"'d'\"=f:date,changed=g:boolean";

fn odd_document(n: i64, value: i64) -> String {
    format!(
        "{{\"a\":\"it's \\\"{n}\\\" \\\\ \u{1f980}\",\"b\":{},\"c\":{},\"d\":\"00000000-0000-0000-0000-{n:012}\",\
         \"e\":\"2024-02-29T23:59:{:02}.5+01:00\",\"f\":\"19{:02}-01-31\",\"g\":{},\"value\":{value}}}\n",
        n << 40,
        -n,
        n % 60,
        n % 100,
        n % 2 == 0
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_every_type_and_names_of_every_kind_reach_the_model() {
    every_build(async |db| {
        let client = db.client().await;
        let long = "\u{e9}".repeat(31);
        let (collection, model) = (format!("\"Odd \"\"one\"\"\".\"{long}\""), format!("\"it's\".\"{long}x\""));
        client.batch_execute("create schema \"Odd \"\"one\"\"\"; create schema \"it's\"").await.unwrap();
        let files = Files::new();
        let file = |name: &str, from: i64, to: i64, value: i64| {
            files.write(name, (from..to).map(|n| odd_document(n, value)).collect::<String>())
        };
        run(&db.url(), &request(&collection, KEY, &[file("a", 0, 200, 1)])).await;
        let definition = wanted(&collection, &model, &["value:int=value"], &["\"T.z\", \"sel\"\"ect\""], None);
        publish_on(&db, &definition).await.unwrap();
        refresh_on(&db, &[&model], None).await.unwrap();
        let columns = "\"Te xt\", \"sel\"\"ect\", \"from\", \u{fc}uid, \"T.z\", \"'d'\", changed";
        let differ = format!(
            "with derived as (select {columns}, (doc->>'value')::int as value, doc from {collection})
             select (select count(*) from (table derived except table {model}) d)
                  + (select count(*) from (table {model} except table derived) d), (select count(*) from {model})"
        );
        let look = async || {
            let row = client.query_one(&differ, &[]).await.unwrap();
            (row.get::<_, i64>(0), row.get::<_, i64>(1))
        };
        assert_eq!(look().await, (0, 200));
        run(&db.url(), &request(&collection, KEY, &[file("b", 190, 230, 2)])).await;
        assert_eq!(look().await.0, 50, "30 new rows, and 10 in which both differ");
        for (statement, rows) in [
            ("select", 230),
            ("delete from {} where \"from\" > -10", 220),
            ("update {} set changed = not changed, \"'d'\" = \"'d'\" + 1 where \"from\" = -20", 220),
            ("update {} set doc = '{}' where \u{fc}uid::text like '%9'", 220),
        ] {
            client.batch_execute(&statement.replacen("{}", &collection, 1)).await.unwrap();
            let done = refresh_on(&db, &[&model], Some("incremental")).await.unwrap();
            assert_eq!((done[0].way, look().await), ("incremental", (0, rows)), "{statement}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_equals_its_collection_after_transactions_in_any_order() {
    every_build(async |db| {
        let client = db.client().await;
        let mut n = 0;
        for mut rng in Cases::new(3) {
            n += 1;
            let (collection, model) = (format!("public.mixed_{n}"), format!("public.model_{n}"));
            published(&db, &collection, &model).await;
            let mut sessions = Vec::new();
            for _ in 0..SESSIONS {
                sessions.push((db.client().await, 0));
            }
            for step in 0..STEPS {
                if rng.u8(..5) == 0 {
                    let way = [None, Some("incremental"), Some("swap")][rng.usize(..3)];
                    refresh_on(&db, &[&model], way).await.unwrap();
                    let differ = differences(&client, &collection, &model).await;
                    assert_eq!(differ, 0, "step {step}, {way:?}");
                } else {
                    let session = rng.usize(..SESSIONS);
                    let (client, depth) = &mut sessions[session];
                    let statement = statement(&mut rng, &collection, session, depth);
                    client.batch_execute(&statement).await.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
                }
            }
            for (session, _) in sessions.iter().filter(|(_, depth)| *depth > 0) {
                session.batch_execute("commit").await.unwrap();
            }
            refresh_on(&db, &[&model], Some("incremental")).await.unwrap();
            assert_eq!(differences(&client, &collection, &model).await, 0);
        }
    })
    .await;
}

/// The next step of a session: begin or end of its transaction, a savepoint, or a change of its own rows, so that no
/// session waits for another. The depth of a transaction is 1 without savepoints.
fn statement(rng: &mut Rng, collection: &str, session: usize, depth: &mut usize) -> String {
    // The last digit of a key is the number of the session.
    let mine = |rng: &mut Rng| format!("k{:05}", rng.usize(..40) * 10 + session);
    let value = rng.u8(..10);
    match (rng.u8(..10), *depth) {
        (0, 0) | (1, 0) => {
            *depth = 1;
            "begin".into()
        }
        (0, _) => {
            *depth = 0;
            ["commit", "rollback"][rng.usize(..2)].into()
        }
        (1, _) => {
            *depth += 1;
            format!("savepoint s{depth}")
        }
        (2, 2..) => {
            *depth -= 1;
            format!("{} savepoint s{}", ["rollback to", "release"][rng.usize(..2)], *depth + 1)
        }
        (3 | 4, _) => format!("delete from {collection} where id = '{}'", mine(rng)),
        (5, _) => format!("update {collection} set id = id || 'x' || '{}' where id = '{}'", rng.u32(..), mine(rng)),
        (6, _) => format!("update {collection} set doc = '{{\"value\": {value}}}' where id like '%{session}'"),
        _ => format!(
            "insert into {collection} values ('{}', '{{\"value\": {value}}}')
             on conflict (id) do update set doc = excluded.doc",
            mine(rng)
        ),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_a_column_that_a_later_model_uses_is_noticed() {
    every_build(async |db| {
        let client = things(&db).await;
        publish_on(&db, &wanted("things", "first", &[], &[], None)).await.unwrap();
        client.batch_execute("alter table public.things add n int, add m int").await.unwrap();
        let mut second = wanted("things", "second", &[], &[], None);
        second.definition.select = Some("n, doc".into());
        publish_on(&db, &second).await.unwrap();
        refresh_on(&db, &["first", "second"], None).await.unwrap();
        client.batch_execute("alter table public.things alter n type int using 7").await.unwrap();
        assert_eq!(refresh_on(&db, &["second"], None).await.unwrap()[0].way, "swap");
        let not_seven = "select count(*) from public.second where n is distinct from 7";
        assert_eq!(number(&client, not_seven).await, 0);
        // The same for a model that gets the column when it is published again.
        client.batch_execute("alter table public.things add k int").await.unwrap();
        second.definition.select = Some("n, doc, k".into());
        publish_on(&db, &second).await.unwrap();
        refresh_on(&db, &["second"], None).await.unwrap();
        client.batch_execute("alter table public.things alter k type int using 8").await.unwrap();
        refresh_on(&db, &["second"], None).await.unwrap();
        assert_eq!(number(&client, "select count(*) from public.second where k is distinct from 8").await, 0);
    })
    .await;
}
