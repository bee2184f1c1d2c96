//! A collection that is frozen in place takes no writes, survives crashes, and keeps its models as they are.

use crate::freeze::{documents, freeze_at, promising, publish_at, refresh_at, summing, sums};
use crate::publish::session;
use crate::republish::number;
use crate::scene::{Files, appending, collection, run, schema, surroundings};
use millstream_engine::Error as EngineError;
use millstream_engine::load;
use millstream_pg::Explained;
use millstream_publish::{
    Error, Frozen, InPlaceEstimate, freeze_estimate, freeze_in_place, freeze_in_place_estimate, unfreeze, unpublish,
};
use millstream_store::{Error as StoreError, collections, load_lock_keys, refuse_frozen, refuse_writes};
use millstream_testkit::{Server, Settings, StopMode, connect, database, dealt_builds, each_build};
use tokio_postgres::Client;

/// Each is refused, whether or not it would change a row.
const WRITES: &[&str] = &[
    "insert into public.sums values ('z', '{}')",
    "insert into public.sums select id, doc from public.sums where false",
    "insert into public.sums values ('z', '{}') on conflict do nothing",
    "update public.sums set doc = doc",
    "delete from public.sums where false",
    "truncate public.sums",
    "copy public.sums from '/dev/null'",
    "merge into public.sums s using (select 'z' as id) n on s.id = n.id when not matched then insert values ('z', '{}')",
    "set session_replication_role = replica; insert into public.sums values ('z', '{}')",
];

async fn freeze_in_place_at(url: &str) -> Result<Frozen, Error> {
    let mut connection = session(url).await;
    let found = collection(&connection.client, "sums").await;
    freeze_in_place(&mut connection.client, &schema(), &found).await
}

async fn unfreeze_at(url: &str) -> Result<bool, Error> {
    let mut connection = session(url).await;
    let found = collection(&connection.client, "sums").await;
    unfreeze(&mut connection.client, &schema(), &found).await
}

async fn estimated_at(url: &str) -> Result<InPlaceEstimate, Error> {
    let client = connect(url).await;
    let found = collection(&client, "sums").await;
    freeze_in_place_estimate(&client, &schema(), &found).await
}

/// The files of the models' tables and indexes, and of the change record.
async fn files_of_models(client: &Client) -> String {
    let sql = "select string_agg(format('%s %s', oid::regclass, pg_relation_filenode(oid)), ', ' order by oid) from pg_class
               where relnamespace = 'millstream'::regnamespace and relname ~ '^(model|change)_[0-9]' and relkind in ('r', 'i')";
    client.query_one(sql, &[]).await.expect("the server answers").get(0)
}

async fn assert_takes_no_writes(client: &Client) {
    for write in WRITES {
        let error = client.batch_execute(write).await.expect_err(write);
        let refused = error.as_db_error().unwrap_or_else(|| panic!("{write}: {error}"));
        let said = (refused.code().code(), refused.message());
        assert_eq!(said, ("55000", "public.sums is frozen: it takes no writes"), "{write}");
        assert!(refused.hint().is_some_and(|hint| hint.contains("millstream freeze NAME --undo")), "{write}");
    }
}

/// Whether a crash would empty the collection, and how many triggers and functions keep writes from it.
async fn state(client: &Client) -> (bool, i64, i64) {
    let unlogged = "select (relpersistence = 'u')::int::bigint from pg_class where oid = 'public.sums'::regclass";
    let triggers = "select count(*) from pg_trigger where tgname = 'millstream_frozen'";
    let functions = "select count(*) from pg_proc where proname ~ '^millstream_frozen'";
    (number(client, unlogged).await == 1, number(client, triggers).await, number(client, functions).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_table_takes_no_writes_and_outlives_a_crash_with_a_model_that_was_not_rewritten() {
    for build in dealt_builds().await {
        let server = Server::start(build, Settings { durable: true, ..Settings::default() }).await;
        let (url, files) = (server.url("postgres"), Files::new());
        let (text, whole) = documents(2_000);
        let mut wanted = summing(files.write("a", &text));
        assert!(run(&url, &wanted).await.receipt.finished);
        publish_at(&url).await;
        assert_eq!(refresh_at(&url).await[0].way, "swap");
        let client = connect(&url).await;
        client.batch_execute("create unlogged table public.control as select 1").await.unwrap();
        let models = files_of_models(&client).await;

        let estimate = estimated_at(&url).await.unwrap();
        assert_eq!((estimate.rewritten.tables, estimate.left, estimate.read_only), (1, 2, false), "{estimate:?}");
        let all = freeze_estimate(&client, &schema(), &collection(&client, "sums").await).await.unwrap();
        assert_eq!((all.tables, all.bytes), (3, estimate.rewritten.bytes + estimate.left_bytes));
        assert_eq!(freeze_in_place_at(&url).await.unwrap(), Frozen { tables: 1, loads: 1, lost: 0 });
        assert_eq!(state(&client).await, (false, 1, 1));
        assert_takes_no_writes(&client).await;
        assert_eq!(files_of_models(&client).await, models, "they are as they were");
        let shown = async || (sums(&url, "public.sums").await, sums(&url, "public.model").await);
        assert_eq!(shown().await, (whole.clone(), whole.clone()));
        let refreshed = refresh_at(&url).await;
        assert_eq!((refreshed[0].way, refreshed[0].rows), ("incremental", 0));
        assert!(refreshed[0].warnings.is_empty(), "{refreshed:?}");
        assert_eq!(files_of_models(&client).await, models, "nor did the refresh rewrite them");
        assert_eq!(freeze_in_place_at(&url).await.unwrap(), Frozen { tables: 0, loads: 0, lost: 0 });
        assert!(estimated_at(&url).await.unwrap().read_only);

        server.restart(StopMode::Kill).await;
        let client = connect(&url).await;
        assert_eq!(number(&client, "select count(*) from public.control").await, 0, "an unlogged table is empty now");
        assert_eq!(sums(&url, "public.sums").await, whole);
        assert_takes_no_writes(&client).await;
        assert!(sums(&url, "public.model").await.is_empty(), "it stayed unlogged");
        assert_eq!(refresh_at(&url).await[0].way, "swap");
        assert_eq!(shown().await, (whole.clone(), whole.clone()));
        server.restart(StopMode::Kill).await;
        assert_eq!(shown().await, (whole.clone(), whole.clone()), "the model is logged now");

        wanted = summing(files.write("b", "{\"id\":\"later\",\"n\":1}\n"));
        wanted.durability = promising("durable");
        let refused = Box::pin(load(&wanted, &surroundings(&url).0)).await.expect_err("it is frozen");
        assert!(matches!(refused, EngineError::Collection { .. }), "{refused}");
        assert!(refused.to_string().contains("it is frozen and takes no writes"), "{refused}");
        assert!(refused.hint().is_some_and(|hint| hint.ends_with("millstream freeze sums --undo")), "{refused:?}");
        assert!(unfreeze_at(&url).await.unwrap());
        assert!(!unfreeze_at(&url).await.unwrap(), "once is enough");
        assert_eq!(state(&connect(&url).await).await, (false, 0, 0));
        assert_eq!(run(&url, &wanted).await.receipt.counters.inserted, 1);
        refresh_at(&url).await;
        let (stored, shown) = shown().await;
        assert!(stored.len() == whole.len() + 1 && shown == stored);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_frozen_in_place_is_refused_and_unchanged() {
    each_build(async |db| {
        let (url, files) = (db.url(), Files::new());
        let (text, _) = documents(100);
        let mut wanted = summing(files.write("a", format!("{text}{{\n")));
        wanted.rejects_max = 1;
        let stopped = run(&url, &wanted).await.receipt;
        let client = db.client().await;
        let refusal = async |url: &str| {
            let error = freeze_in_place_at(url).await.expect_err("it cannot be frozen");
            assert!(matches!(error, Error::Refused(_)), "{error:?}");
            let foreseen = estimated_at(url).await.expect_err("nor is it foreseen otherwise");
            assert_eq!(foreseen.to_string(), error.to_string());
            format!("{error}; {}", error.hint().unwrap_or_default())
        };

        let name: String = client.query_one("select current_database()::text", &[]).await.unwrap().get(0);
        let guest = format!("{name}_guest");
        let roles = format!(
            "create role {guest} login password 'one'; grant usage on schema millstream to {guest};
             grant all on all tables in schema millstream to {guest}; grant all on public.sums to {guest}"
        );
        client.batch_execute(&roles).await.unwrap();
        let address = url.rsplit_once('@').expect("it names a user").1;
        let as_guest = format!("postgres://{guest}:one@{address}");
        let refused = refusal(&as_guest).await;
        assert!(refused.contains("who owns the table of sums") && refused.contains("; connect as "), "{refused}");
        client.batch_execute(&format!("alter table public.sums owner to {guest}")).await.unwrap();
        let refused = refusal(&as_guest).await;
        assert!(refused.contains("may not create the trigger's function in the schema millstream"), "{refused}");
        assert!(refused.ends_with(&format!("grant create on schema \"millstream\" to \"{guest}\"")), "{refused}");
        client
            .batch_execute(&format!(
                "alter table public.sums owner to current_user; drop owned by {guest}; drop role {guest}"
            ))
            .await
            .unwrap();

        client.batch_execute("create table public.child () inherits (public.sums)").await.unwrap();
        let refused = refusal(&url).await;
        assert!(refused.contains("it has partitions or child tables, or is one"), "{refused}");
        client.batch_execute("drop table public.child").await.unwrap();

        let (class, id) = load_lock_keys(&schema(), stopped.load_id);
        client.execute("select pg_advisory_lock($1, $2)", &[&class, &id]).await.unwrap();
        let error = freeze_in_place_at(&url).await.expect_err("its load runs");
        assert!(matches!(error, Error::Store(StoreError::LoadRunning { .. })), "{error}");
        client.batch_execute("select pg_advisory_unlock_all()").await.unwrap();
        assert_eq!(state(&client).await, (true, 0, 0), "a refused freeze changes nothing");

        run(&url, &appending("waits", &[files.write("w", "{\"id\":\"a\",\"value\":1}\n")], 10)).await;
        let (mut other, waits) = (db.client().await, collection(&client, "waits").await);
        let error = freeze_in_place(&mut other, &schema(), &waits).await.expect_err("documents wait");
        assert!(error.to_string().contains("wait in 1 segments"), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.ends_with("millstream compact waits")), "{error:?}");

        assert_eq!(freeze_in_place_at(&url).await.unwrap(), Frozen { tables: 1, loads: 1, lost: 0 });
    })
    .await;
}

#[tokio::test]
async fn what_a_crash_has_emptied_is_loaded_again_before_it_is_frozen_in_place() {
    for build in dealt_builds().await {
        let server = Server::start(build, Settings { durable: true, ..Settings::default() }).await;
        let (url, files) = (server.url("postgres"), Files::new());
        let (text, whole) = documents(2_000);
        let wanted = summing(files.write("a", &text));
        let first = run(&url, &wanted).await.receipt;
        server.restart(StopMode::Kill).await;
        let refused = freeze_in_place_at(&url).await.expect_err("it has no document");
        let said = format!("a crash of the server emptied it after load {}", first.load_id);
        assert!(refused.to_string().ends_with(&said), "{refused}");
        assert_eq!(state(&connect(&url).await).await, (true, 0, 0));
        run(&url, &wanted).await;
        assert_eq!(freeze_in_place_at(&url).await.unwrap(), Frozen { tables: 1, loads: 1, lost: 0 });
        server.restart(StopMode::Kill).await;
        assert_eq!(sums(&url, "public.sums").await, whole);
    }
}

#[tokio::test]
async fn a_load_that_was_planned_before_does_not_begin_after_the_freeze() {
    each_build(async |db| {
        let (url, files) = (db.url(), Files::new());
        let (text, _) = documents(100);
        let mut wanted = summing(files.write("a", &text));
        wanted.durability = promising("durable");
        run(&url, &wanted).await;
        let (client, other) = (db.client().await, db.client().await);
        let oid = collection(&client, "sums").await.table_oid;
        let begins = async || refuse_frozen(&client, oid, "sums", false).await;
        begins().await.expect("nobody freezes it");

        // The lock that a freeze holds.
        other
            .batch_execute("select pg_advisory_lock(x'6d736c66'::int, 'public.sums'::regclass::oid::int)")
            .await
            .unwrap();
        let error = begins().await.expect_err("it is being frozen");
        assert!(matches!(error, StoreError::Frozen { .. }), "{error}");
        other.batch_execute("select pg_advisory_unlock_all()").await.unwrap();
        refuse_writes(&other, &schema(), oid, "public.sums").await.unwrap();
        let error = begins().await.expect_err("it is frozen");
        assert_eq!(error.to_string(), "sums is frozen: it takes no writes");
        assert!(error.hint().is_some_and(|hint| hint.ends_with("millstream freeze sums --undo")), "{error:?}");
        assert_takes_no_writes(&client).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_freeze_of_everything_follows_and_a_drop_leaves_a_table_that_takes_writes() {
    let db = database().await;
    let (url, files) = (db.url(), Files::new());
    let (text, whole) = documents(100);
    run(&url, &summing(files.write("a", &text))).await;
    publish_at(&url).await;
    refresh_at(&url).await;
    freeze_in_place_at(&url).await.unwrap();
    assert_eq!(freeze_at(&url).await.unwrap(), Frozen { tables: 2, loads: 0, lost: 0 });
    let mut client = db.client().await;
    assert_takes_no_writes(&client).await;
    let refreshed = refresh_at(&url).await;
    assert_eq!((refreshed[0].way, refreshed[0].rows), ("incremental", 0));
    assert_eq!(sums(&url, "public.model").await, whole);

    unpublish(&mut session(&url).await, &schema(), &"model".parse().unwrap()).await.unwrap();
    let found = collection(&client, "sums").await;
    collections::drop(&mut client, &schema(), &found, false).await.unwrap();
    assert_eq!(state(&client).await, (false, 0, 0));
    client.batch_execute("insert into public.sums values ('z', '{}')").await.unwrap();
}
