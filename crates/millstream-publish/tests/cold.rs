//! A collection that is rewritten in the order of its key keeps its rows, its loads and its models.

use crate::freeze::promising;
use crate::publish::{publish_on, refresh_on, session, wanted};
use crate::republish::{number, until_unlocked};
use crate::scene::{Files, Stream, adopting, appending, collection, request, run, schema, stored, surroundings};
use millstream_engine::load;
use millstream_model::DocumentForm;
use millstream_pg::Explained;
use millstream_publish::{
    Cold, ColdEstimate, Error, cold_estimate, freeze_cold, freeze_in_place, unfreeze, vacuum_cold,
};
use millstream_store::{Error as StoreError, load_lock_keys};
use millstream_testkit::{TestDatabase, connect, each_build, every_build};
use std::sync::Mutex;
use tokio_postgres::Client;

/// Rewrites a collection. Also returns the warnings.
async fn cold(url: &str, name: &str) -> (Result<Cold, Error>, Vec<String>) {
    let mut connection = session(url).await;
    let (found, lz4) = (collection(&connection.client, name).await, connection.server.lz4);
    let heard = Mutex::new(Vec::new());
    let warn = |text: &str| heard.lock().expect("no test panics while it holds this").push(text.to_owned());
    let done = Box::pin(freeze_cold(&mut connection.client, &schema(), &found, lz4, &warn)).await;
    if done.is_ok() {
        vacuum_cold(&connection.client, &found).await.expect("it is vacuumed");
    }
    (done, heard.into_inner().expect("no test panics while it holds this"))
}

async fn estimated(url: &str, name: &str) -> Result<ColdEstimate, Error> {
    let client = connect(url).await;
    cold_estimate(&client, &schema(), &collection(&client, name).await).await
}

/// All rows of a table as one text.
async fn rows(client: &Client, table: &str) -> String {
    let sql = format!("select md5(string_agg(t::text, E'\\n' order by id)) || ' ' || count(*) from {table} t");
    client.query_one(&sql, &[]).await.expect("the server answers").get(0)
}

/// Rows that stand before one with a smaller key.
async fn unsorted(client: &Client, table: &str) -> i64 {
    let sql = format!(
        "select count(*) from (select id, lead(id) over (order by ctid) as next from {table}) t where id > next"
    );
    number(client, &sql).await
}

/// The storage options of a table and of the index of its key, and by which index it is marked as clustered.
async fn options(client: &Client, table: &str) -> String {
    let sql = format!(
        "select concat_ws('; ', t.reloptions::text, x.reloptions::text,
                          (select indexrelid::regclass::text from pg_index where indrelid = t.oid and indisclustered))
         from pg_class t
         join pg_index i on i.indrelid = t.oid and i.indisprimary
         join pg_class x on x.oid = i.indexrelid
         where t.oid = '{table}'::regclass"
    );
    client.query_one(&sql, &[]).await.expect("the server answers").get(0)
}

/// Loads random documents twice into `things`, so that its rows are in no order and its pages have room.
async fn two_waves(db: &TestDatabase, files: &Files, form: DocumentForm) -> Client {
    for seed in [1, 2] {
        let stream = Stream::random(&mut fastrand::Rng::with_seed(seed), 6_000, 4_000);
        let mut wanted = request("things", "id", &[files.write(&format!("wave {seed}"), stream.text)]);
        (wanted.doc, wanted.batch_rows) = (Some(form), 1_000);
        run(&db.url(), &wanted).await;
    }
    let client = db.client().await;
    client.batch_execute("vacuum (analyze) public.things").await.expect("the server answers");
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_stay_the_same_in_the_order_of_the_key_and_take_less() {
    every_build(async |db| {
        let (url, files) = (db.url(), Files::new());
        let client = two_waves(&db, &files, DocumentForm::Whole).await;
        client.batch_execute("create index things_note on public.things ((doc->>'note'))").await.unwrap();
        let oid = "select 'public.things'::regclass::oid::bigint";
        let size = "select pg_total_relation_size('public.things')";
        let before = (rows(&client, "public.things").await, number(&client, oid).await);
        let bytes = u64::try_from(number(&client, size).await).unwrap();
        assert!(unsorted(&client, "public.things").await > 0, "the test would not notice the order");
        assert_eq!(options(&client, "public.things").await, "{fillfactor=90}");

        let estimate = estimated(&url, "things").await.unwrap();
        assert_eq!((estimate.bytes, estimate.index.as_str()), (bytes, "things_pkey"));
        assert!(estimate.heap_bytes + estimate.toast_bytes + estimate.index_bytes <= bytes, "{estimate:?}");
        assert_eq!(estimate.needs_bytes, bytes + estimate.heap_bytes.max(estimate.index_bytes));
        let (done, warned) = cold(&url, "things").await;
        let done = done.unwrap();
        assert_eq!((done.bytes_before, warned), (bytes, Vec::<String>::new()));
        assert_eq!((rows(&client, "public.things").await, number(&client, oid).await), before);
        assert_eq!(unsorted(&client, "public.things").await, 0);
        assert!(done.bytes_after < bytes - bytes / 20, "{done:?}");
        assert_eq!(options(&client, "public.things").await, "{fillfactor=100}; {fillfactor=100}");
        let visible = "select relallvisible::bigint - relpages from pg_class where oid = 'public.things'::regclass";
        assert_eq!(number(&client, visible).await, 0, "it was vacuumed");
        let lz4 = "select (attcompression = 'l')::int::bigint from pg_attribute
                   where attrelid = 'public.things'::regclass and attname = 'doc'";
        assert_eq!(number(&client, lz4).await == 1, session(&url).await.server.lz4);

        // Once more changes nothing, and the way back is still known.
        let again = cold(&url, "things").await.0.unwrap();
        assert_eq!((&again.undo, again.bytes_after), (&done.undo, done.bytes_after));
        client.batch_execute(&done.undo).await.unwrap();
        assert_eq!(options(&client, "public.things").await, "{fillfactor=90}");
        let file = files.write("more", Stream::random(&mut fastrand::Rng::with_seed(3), 500, 4_000).text);
        let (around, events) = surroundings(&url);
        let outcome = Box::pin(load(&request("things", "id", &[file]), &around)).await.unwrap();
        assert!(outcome.receipt.finished && !events.warnings().contains("another file"), "{}", events.warnings());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn models_stay_and_see_only_what_changes_afterwards() {
    every_build(async |db| {
        let (url, files) = (db.url(), Files::new());
        for form in [DocumentForm::Whole, DocumentForm::WithoutKey] {
            let client = two_waves(&db, &files, form).await;
            publish_on(&db, &wanted("things", "model", &["value:int=value"], &["value"], None)).await.unwrap();
            refresh_on(&db, &["model"], None).await.unwrap();
            let shown = rows(&client, "public.model").await;
            cold(&url, "things").await.0.unwrap();
            assert_eq!(rows(&client, "public.model").await, shown);
            let refreshed = refresh_on(&db, &["model"], None).await.unwrap();
            assert_eq!((refreshed[0].way, refreshed[0].rows), ("incremental", 0));
            let file = files.write("one", "{\"id\":\"key-000001\",\"value\":7,\"note\":\"n\"}\n");
            run(&url, &request("things", "id", &[file])).await;
            let refreshed = refresh_on(&db, &["model"], None).await.unwrap();
            assert_eq!((refreshed[0].way, refreshed[0].rows), ("incremental", 1));
            let whole = "select count(*) from public.model where doc->>'id' = id";
            let all = number(&client, "select count(*) from public.things").await;
            assert_eq!(number(&client, whole).await, all);
            let drop = "drop schema millstream cascade; drop table public.things; drop view if exists public.model";
            client.batch_execute(drop).await.unwrap();
        }
    })
    .await;
}

/// A table of somebody else's compresses as the server does. To change that would let a model count everything as changed.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_of_an_adopted_table_sees_no_change_either() {
    every_build(async |db| {
        let (url, files, client) = (db.url(), Files::new(), db.client().await);
        let made = "create table public.own (id varchar(20) collate \"C\" primary key, doc jsonb not null)";
        client.batch_execute(made).await.unwrap();
        let text = Stream::random(&mut fastrand::Rng::with_seed(6), 500, 400).text;
        run(&url, &adopting("own", "id", &files, &text)).await;
        publish_on(&db, &wanted("own", "model", &["value:int=value"], &["value"], None)).await.unwrap();
        refresh_on(&db, &["model"], None).await.unwrap();
        cold(&url, "own").await.0.unwrap();
        let refreshed = refresh_on(&db, &["model"], None).await.unwrap();
        assert_eq!((refreshed[0].way, refreshed[0].rows), ("incremental", 0));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_stopped_resumes_afterwards_and_one_that_was_truncated_starts_over() {
    every_build(async |db| {
        let (url, files) = (db.url(), Files::new());
        let stream = Stream::random(&mut fastrand::Rng::with_seed(4), 3_000, 2_000);
        let half = stream.text[..stream.text.len() / 2].rfind('\n').expect("lines") + 1;
        let broken = format!("{}{{\"id\":\n{}", &stream.text[..half], &stream.text[half..]);
        for truncated in [false, true] {
            let name = if truncated { "emptied" } else { "things" };
            let mut wanted = request(name, "id", &[files.write("broken", &broken)]);
            (wanted.rejects_max, wanted.batch_rows, wanted.lanes) = (1, 200, Some(2));
            let first = run(&url, &wanted).await.receipt;
            assert!(!first.finished && first.counters.read > 0, "{first:?}");
            let client = db.client().await;
            until_unlocked(&client).await;
            if truncated {
                client.batch_execute("truncate public.emptied").await.unwrap();
            }
            let (done, warned) = cold(&url, name).await;
            done.unwrap();
            assert_eq!(warned.join("; ").contains("was truncated"), truncated, "{warned:?}");
            wanted.rejects_max = 10;
            let again = run(&url, &wanted).await.receipt;
            assert_eq!((again.counters.read, again.counters.rejected), (3_001, 1), "{name}");
            assert_eq!(again.resumed_from, (!truncated).then_some(first.counters.read), "{name}");
            assert_eq!(stored(&db, &format!("public.{name}")).await, stream.last, "{name}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_rewritten_is_refused_and_unchanged() {
    each_build(async |db| {
        let (url, files, client) = (db.url(), Files::new(), db.client().await);
        let text = "{\"id\":\"a\",\"n\":1}\n";
        client
            .batch_execute(
                "create table public.parted (id varchar(20) collate \"C\" primary key, doc jsonb not null) partition by hash (id);
                 create table public.parted_0 partition of public.parted for values with (modulus 1, remainder 0)",
            )
            .await
            .unwrap();
        run(&url, &adopting("parted", "id", &files, text)).await;
        run(&url, &appending("waiting", &[files.write("waiting", text)], 10)).await;
        for name in ["bare", "things"] {
            run(&url, &request(name, "id", &[files.write(name, text)])).await;
        }
        client.batch_execute("alter table public.bare drop constraint bare_pkey").await.unwrap();
        let refused = async |name: &str| {
            let error = cold(&url, name).await.0.expect_err(name);
            let foreseen = estimated(&url, name).await.expect_err("nor is it foreseen otherwise");
            assert_eq!(foreseen.to_string(), error.to_string());
            assert!(matches!(error, Error::Refused(_)), "{error:?}");
            format!("{error}; {}", error.hint().unwrap_or_default())
        };
        for (name, problem, hint) in [
            ("parted", "it has partitions or child tables", "cluster PARTITION using INDEX"),
            ("bare", "no unique index of the key's columns", "create unique index on \"public\".\"bare\" (\"id\")"),
            ("waiting", "documents wait in 1 segments", "millstream compact waiting"),
        ] {
            let said = refused(name).await;
            assert!(said.contains(problem) && said.contains(hint), "{said}");
        }
        // With the index that the hint names, it can be rewritten.
        client.batch_execute("create unique index on \"public\".\"bare\" (\"id\")").await.unwrap();
        cold(&url, "bare").await.0.unwrap();

        let role = format!("cold_guest_{:08x}", fastrand::u32(..));
        client.batch_execute(&format!("create role {role}")).await.unwrap();
        let guest = session(&url).await;
        let found = collection(&guest.client, "things").await;
        guest.client.batch_execute(&format!("set role {role}")).await.unwrap();
        let error = cold_estimate(&guest.client, &schema(), &found).await.expect_err("another role owns it");
        assert!(error.to_string().contains("who owns its table, may do that"), "{error}");
        guest.client.batch_execute("reset role").await.unwrap();
        client.batch_execute(&format!("drop role {role}")).await.unwrap();

        let mut wanted = request("things", "id", &[files.write("stops", format!("{text}{{\n"))]);
        wanted.rejects_max = 1;
        let stopped = run(&url, &wanted).await.receipt;
        let (class, id) = load_lock_keys(&schema(), stopped.load_id);
        client.execute("select pg_advisory_lock($1, $2)", &[&class, &id]).await.unwrap();
        let error = cold(&url, "things").await.0.expect_err("its load runs");
        assert!(matches!(error, Error::Store(StoreError::LoadRunning { .. })), "{error}");
        client.batch_execute("select pg_advisory_unlock_all(); begin; select 1 from public.things").await.unwrap();
        let error = cold(&url, "things").await.0.expect_err("it is read");
        assert!(error.to_string().contains("things could not be locked"), "{error}");
        client.batch_execute("commit").await.unwrap();
        assert_eq!(options(&client, "public.things").await, "{fillfactor=90}", "a refused rewrite changes nothing");
        cold(&url, "things").await.0.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_others_and_frozen_and_unlogged_ones_keep_what_they_are() {
    every_build(async |db| {
        let (url, files, client) = (db.url(), Files::new(), db.client().await);
        client
            .batch_execute(
                "create table public.own (id varchar(20) collate \"C\", doc jsonb not null, n int default 3,
                                          constraint \"Own key\" primary key (id)) with (fillfactor = 70);
                 create index own_n on public.own (n);
                 alter table public.own cluster on own_n",
            )
            .await
            .unwrap();
        let text = Stream::random(&mut fastrand::Rng::with_seed(5), 500, 400).text;
        run(&url, &adopting("own", "id", &files, &text)).await;
        let before = rows(&client, "public.own").await;
        let done = cold(&url, "own").await.0.unwrap();
        assert_eq!((rows(&client, "public.own").await, unsorted(&client, "public.own").await), (before, 0));
        assert_eq!(options(&client, "public.own").await, "{fillfactor=100}; {fillfactor=100}; own_n");
        client.batch_execute(&done.undo).await.unwrap();
        assert_eq!(options(&client, "public.own").await, "{fillfactor=70}; own_n");

        let mut brief = request("brief", "id", &[files.write("brief", &text)]);
        brief.durability = promising("unlogged");
        run(&url, &brief).await;
        assert_eq!(estimated(&url, "brief").await.unwrap().wal_bytes, 0);
        cold(&url, "brief").await.0.unwrap();
        let unlogged = "select (relpersistence = 'u')::int::bigint from pg_class where oid = 'public.brief'::regclass";
        assert_eq!(number(&client, unlogged).await, 1, "it stays unlogged");

        run(&url, &request("still", "id", &[files.write("still", &text)])).await;
        let mut connection = session(&url).await;
        let found = collection(&connection.client, "still").await;
        freeze_in_place(&mut connection.client, &schema(), &found).await.unwrap();
        let before = rows(&client, "public.still").await;
        cold(&url, "still").await.0.unwrap();
        assert_eq!(rows(&client, "public.still").await, before);
        client.batch_execute("delete from public.still").await.expect_err("it still takes no writes");
        assert!(unfreeze(&mut connection.client, &schema(), &found).await.unwrap());
    })
    .await;
}
