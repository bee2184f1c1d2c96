//! A frozen collection survives crashes together with its records.

use crate::publish::{session, wanted};
use crate::republish::{number, until_unlocked};
use crate::scene::{Files, request, run, schema, surroundings};
use millstream_engine::Error as EngineError;
use millstream_engine::{Durability, LoadRequest, load};
use millstream_pg::Explained;
use millstream_publish::{Error, RefreshRequest, Refreshed, publish, refresh};
use millstream_publish::{Frozen, freeze, freeze_estimate};
use millstream_store::Error as StoreError;
use millstream_store::{collections, load_lock_keys, loads};
use millstream_testkit::{Server, Settings, StopMode, connect, dealt_builds, each_build, until};
use std::collections::BTreeMap;
use std::fmt::Write;

/// How the server crashes, with its wal_level. With `minimal`, what is on disk is all there is.
const CRASHES: [(StopMode, &str); 2] = [(StopMode::Kill, "replica"), (StopMode::Immediate, "minimal")];

pub(crate) fn promising(name: &str) -> &'static Durability {
    Durability::by_name(name).expect("a promise")
}

/// Documents to sum, and the sums.
pub(crate) fn documents(count: usize) -> (String, BTreeMap<String, i64>) {
    let mut rng = fastrand::Rng::with_seed(8);
    let (mut text, mut sums) = (String::new(), BTreeMap::new());
    for n in 0..count {
        let id = format!("key-{:05}", rng.usize(..count / 2));
        let _ = writeln!(text, "{{\"id\":\"{id}\",\"n\":{n},\"note\":\"document {n} of {id} with some more text\"}}");
        *sums.entry(id).or_insert(0) += i64::try_from(n).expect("few documents");
    }
    (text, sums)
}

/// A load that sums into the unlogged collection `sums`.
pub(crate) fn summing(source: String) -> LoadRequest {
    let mut wanted = request("sums", "id", &[source]);
    (wanted.mode, wanted.durability) = ("sum:n".parse().expect("a mode"), promising("unlogged"));
    (wanted.batch_rows, wanted.lanes) = (1_000, Some(2));
    wanted
}

pub(crate) async fn sums(url: &str, table: &str) -> BTreeMap<String, i64> {
    let rows = connect(url).await.query(&format!("select id, (doc->>'n')::bigint from {table}"), &[]).await;
    rows.expect("the table can be read").iter().map(|row| (row.get(0), row.get(1))).collect()
}

pub(crate) async fn freeze_at(url: &str) -> Result<Frozen, Error> {
    let mut connection = session(url).await;
    let name = "sums".parse().expect("a name");
    let found = collections::find(&connection.client, &schema(), &name).await?;
    freeze(&mut connection.client, &schema(), &found.expect("it was loaded into")).await
}

/// Bytes of WAL that freezing is expected to write, and bytes of the tables.
async fn estimated(url: &str) -> (u64, u64) {
    let connection = session(url).await;
    let client = &connection.client;
    let found =
        collections::find(client, &schema(), &"sums".parse().expect("a name")).await.expect("the server answers");
    let estimate =
        freeze_estimate(client, &schema(), &found.expect("it was loaded into")).await.expect("the server answers");
    assert!(["replica", "minimal"].contains(&estimate.wal_level.as_str()), "{estimate:?}");
    (estimate.wal_bytes, estimate.bytes)
}

pub(crate) async fn publish_at(url: &str) {
    let request = wanted("sums", "model", &["n:bigint=n"], &[], None);
    publish(&mut session(url).await, &schema(), &request).await.expect("the server answers");
}

pub(crate) async fn refresh_at(url: &str) -> Vec<Refreshed> {
    let request = RefreshRequest { workers: Some(1), ..RefreshRequest::new(vec!["model".parse().expect("a name")]) };
    Box::pin(refresh(&surroundings(url).0.db, &schema(), &request)).await.expect("the server answers")
}

const UNLOGGED: &str = "select count(*) from pg_class where relpersistence = 'u' and relname <> 'unlogged_load' \
                        and relnamespace in ('public'::regnamespace, 'millstream'::regnamespace) and relkind in ('r', 'S')";

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_collection_survives_a_crash_and_its_sum_resumes() {
    for build in dealt_builds().await {
        for (crash, wal_level) in CRASHES {
            let settings = Settings::with(&[&format!("wal_level = {wal_level}"), "max_wal_senders = 0"]);
            let server = Server::start(build, Settings { durable: true, ..settings }).await;
            let url = server.url("postgres");
            let (text, whole) = documents(60_000);
            let files = Files::new();
            // A reject ends the first run before its source does.
            let half = text[..text.len() / 2].rfind('\n').expect("lines") + 1;
            let broken = format!("{}{{\"id\":\n{}", &text[..half], &text[half..]);
            let mut wanted = summing(files.write("a", &broken));
            wanted.rejects_max = 1;
            let first = run(&url, &wanted).await.receipt;
            assert!(!first.finished && first.counters.read > 0, "{first:?}");
            publish_at(&url).await;
            assert_eq!(refresh_at(&url).await[0].way, "swap");
            let before = sums(&url, "public.sums").await;

            let (wal_bytes, bytes) = estimated(&url).await;
            let client = connect(&url).await;
            let lsn = "select (pg_current_wal_insert_lsn() - '0/0')::bigint";
            let begun = number(&client, lsn).await;
            let frozen = freeze_at(&url).await.unwrap();
            let written = u64::try_from(number(&client, lsn).await - begun).unwrap();
            assert_eq!(frozen, Frozen { tables: 3, loads: 1, lost: 0 });
            println!("{wal_level}: {bytes} bytes, {wal_bytes} of WAL expected, {written} written");
            assert!(written < wal_bytes * 2 + bytes / 4 && written > wal_bytes / 2, "{written} for {bytes}");
            server.stop(crash).await;
            server.start_again().await;

            assert_eq!(sums(&url, "public.sums").await, before, "{crash:?}");
            assert_eq!(sums(&url, "public.model").await, before, "{crash:?}");
            let client = connect(&url).await;
            assert_eq!(number(&client, UNLOGGED).await, 0);
            assert_eq!(freeze_at(&url).await.unwrap(), Frozen { tables: 0, loads: 0, lost: 0 });
            // The change record knows that only this row has changed.
            client.batch_execute("insert into public.sums values ('z', '{\"n\": 7}')").await.unwrap();
            let refreshed = refresh_at(&url).await;
            assert_eq!((refreshed[0].way, refreshed[0].rows), ("incremental", 1));

            assert!(matches!(
                Box::pin(load(&wanted, &surroundings(&url).0)).await,
                Err(EngineError::Collection { .. })
            ));
            (wanted.rejects_max, wanted.durability) = (10, promising("durable"));
            let again = run(&url, &wanted).await.receipt;
            assert_eq!((again.load_id, again.resumed_from), (first.load_id, Some(first.counters.read)));
            assert_eq!((again.counters.read, again.counters.rejected), (60_001, 1));
            client.batch_execute("delete from public.sums where id = 'z'").await.unwrap();
            assert_eq!(sums(&url, "public.sums").await, whole);
            assert_eq!(run(&url, &wanted).await.receipt.load_id, first.load_id, "it is finished for good");
        }
    }
}

#[tokio::test]
async fn a_collection_emptied_by_a_crash_is_loaded_again() {
    for build in dealt_builds().await {
        for frozen in [true, false] {
            let server = Server::start(build, Settings { durable: true, ..Settings::default() }).await;
            let url = server.url("postgres");
            let (text, whole) = documents(2_000);
            let files = Files::new();
            let mut wanted = summing(files.write("a", &text));
            assert!(run(&url, &wanted).await.receipt.finished);
            assert_eq!(sums(&url, "public.sums").await, whole);
            server.restart(StopMode::Immediate).await;
            if frozen {
                assert_eq!(freeze_at(&url).await.unwrap(), Frozen { tables: 1, loads: 1, lost: 1 });
                wanted.durability = promising("durable");
                server.restart(StopMode::Kill).await;
            }
            let again = run(&url, &wanted).await.receipt;
            assert_eq!((again.counters.read, again.resumed_from), (2_000, None), "frozen: {frozen}");
            assert_eq!(sums(&url, "public.sums").await, whole, "frozen: {frozen}");
            assert_eq!(run(&url, &wanted).await.receipt.load_id, again.load_id, "and only once");
            assert_eq!(sums(&url, "public.sums").await, whole, "frozen: {frozen}");
        }
    }
}

#[tokio::test]
async fn a_reloaded_sum_is_not_added_again_after_freeze() {
    for build in dealt_builds().await {
        let server = Server::start(build, Settings { durable: true, ..Settings::default() }).await;
        let url = server.url("postgres");
        let (text, whole) = documents(2_000);
        let files = Files::new();
        let mut wanted = summing(files.write("a", &text));
        let first = run(&url, &wanted).await.receipt;
        server.restart(StopMode::Immediate).await;
        let second = run(&url, &wanted).await.receipt;
        assert!(second.load_id != first.load_id && sums(&url, "public.sums").await == whole);
        assert_eq!(freeze_at(&url).await.unwrap(), Frozen { tables: 1, loads: 1, lost: 0 });
        wanted.durability = promising("durable");
        assert_eq!(run(&url, &wanted).await.receipt.load_id, second.load_id, "its receipt is told again");
        assert_eq!(sums(&url, "public.sums").await, whole);
    }
}

#[tokio::test]
async fn sums_stay_correct_if_the_tables_persistence_is_changed_by_hand() {
    // A table that was made logged keeps its rows in the crash, and the marker row of its load is lost. A table that
    // was made unlogged loses its rows.
    const WAYS: [(&str, &str, bool); 2] = [("unlogged", "logged", true), ("durable", "unlogged", false)];
    for build in dealt_builds().await {
        for ((promise, by_hand, stays), finished) in WAYS.iter().flat_map(|way| [(way, false), (way, true)]) {
            let server = Server::start(build, Settings { durable: true, ..Settings::default() }).await;
            let (url, files) = (server.url("postgres"), Files::new());
            let (text, whole) = documents(2_000);
            let mut wanted = summing(files.write("a", format!("{text}{{\n")));
            (wanted.durability, wanted.rejects_max) = (promising(promise), if finished { 10 } else { 1 });
            let first = run(&url, &wanted).await.receipt;
            assert_eq!(first.finished, finished);
            let client = connect(&url).await;
            client.batch_execute(&format!("alter table public.sums set {by_hand}")).await.unwrap();
            server.restart(StopMode::Kill).await;
            let now = if *by_hand == "logged" { "durable" } else { "unlogged" };
            (wanted.durability, wanted.rejects_max) = (promising(now), 10);
            let again = run(&url, &wanted).await.receipt;
            assert_eq!((again.counters.read, again.counters.rejected), (2_001, 1), "{by_hand}, {finished}");
            assert_eq!(again.load_id == first.load_id, *stays || !finished, "{by_hand}, {finished}");
            assert_eq!(again.resumed_from.is_some(), *stays && !finished, "{by_hand}, {finished}");
            assert!(sums(&url, "public.sums").await == whole, "{by_hand}, {finished}");
        }
    }
}

#[tokio::test]
async fn freeze_closes_runs_without_a_session() {
    each_build(async |db| {
        let url = db.url();
        let (text, _) = documents(100);
        let files = Files::new();
        let load_id = run(&url, &summing(files.write("a", &text))).await.receipt.load_id;
        let client = connect(&url).await;
        until_unlocked(&client).await;
        let lost = "update millstream.load set state = 'running';
                    insert into millstream.lane (load_id, lane, run, epoch, slot_first, slot_end)
                    select load_id, 0, runs, epoch, 0, 256 from millstream.load";
        client.batch_execute(lost).await.unwrap();
        freeze_at(&url).await.unwrap();
        let load = &loads::list(&client, &schema(), 100).await.unwrap()[0];
        assert_eq!((load.load_id, load.state.as_str()), (load_id, "stopped"));
        assert_eq!(load.stop_reason.as_deref(), Some("its sessions were lost, and the collection was frozen"));
        assert_eq!(number(&client, "select count(*) from millstream.lane").await, 0, "none can be taken over");
    })
    .await;
}

#[tokio::test]
async fn a_collection_in_use_is_not_frozen() {
    each_build(async |db| {
        let url = db.url();
        let (text, _) = documents(100);
        let files = Files::new();
        let mut wanted = summing(files.write("a", format!("{text}{{\n")));
        wanted.rejects_max = 1;
        let stopped = run(&url, &wanted).await.receipt;
        assert!(!stopped.finished);
        let client = connect(&url).await;
        let (class, id) = load_lock_keys(&schema(), stopped.load_id);
        client.execute("select pg_advisory_lock($1, $2)", &[&class, &id]).await.unwrap();
        let error = freeze_at(&url).await.expect_err("its load runs");
        assert!(
            matches!(error, Error::Store(StoreError::LoadRunning { load_id, .. }) if load_id == stopped.load_id),
            "{error}"
        );
        client.batch_execute("select pg_advisory_unlock_all(); begin; select 1 from public.sums").await.unwrap();
        let error = freeze_at(&url).await.expect_err("it is read");
        assert!(matches!(error, Error::InUse { .. }), "{error}");
        assert!(error.to_string().contains("sums could not be locked"), "{error}");
        client.batch_execute("commit").await.unwrap();
        assert_eq!(number(&client, UNLOGGED).await, 1, "a refused freeze changes nothing");
        let loads = loads::list(&client, &schema(), 100).await.unwrap();
        assert_eq!((loads[0].state.as_str(), loads[0].durability.as_str()), ("stopped", "unlogged"));
        assert_eq!(freeze_at(&url).await.unwrap(), Frozen { tables: 1, loads: 1, lost: 0 });
    })
    .await;
}

#[tokio::test]
async fn a_load_planned_before_the_freeze_does_not_begin_after_it() {
    each_build(async |db| {
        let url = db.url();
        let (text, _) = documents(100);
        let files = Files::new();
        run(&url, &summing(files.write("a", &text))).await;
        let wanted = summing(files.write("b", &text));
        let client = connect(&url).await;

        // The locks that a freeze holds, and that a load takes when it begins.
        let freezing = "select pg_advisory_lock(x'6d736c66'::int, 'public.sums'::regclass::oid::int)";
        client.batch_execute(freezing).await.unwrap();
        let error = Box::pin(load(&wanted, &surroundings(&url).0)).await.expect_err("it is being frozen");
        assert!(matches!(error, EngineError::Store(StoreError::Frozen { .. })), "{error}");
        client.batch_execute("select pg_advisory_unlock_all()").await.unwrap();

        client.batch_execute("select pg_advisory_lock(x'6d736c646f70656e'::bigint)").await.unwrap();
        let around = surroundings(&url).0;
        let beginning = async {
            let waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted \
                           and database = (select oid from pg_database where datname = current_database())";
            until("the load waits for the lock", async || number(&client, waiting).await > 0).await;
            client.batch_execute("alter table public.sums set logged").await.unwrap();
            client.batch_execute("select pg_advisory_unlock_all()").await.unwrap();
        };
        let (outcome, ()) = tokio::join!(Box::pin(load(&wanted, &around)), beginning);
        let error = outcome.map(drop).expect_err("it was planned for an unlogged table");
        assert!(matches!(error, EngineError::Store(StoreError::Frozen { .. })), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("without --durability unlogged")), "{error}");
        assert_eq!(number(&client, "select count(*) from millstream.load").await, 1, "nothing is on record of it");
        // The load before it is then frozen as well.
        assert_eq!(freeze_at(&url).await.unwrap(), Frozen { tables: 0, loads: 1, lost: 0 });
    })
    .await;
}

#[tokio::test]
async fn a_sum_is_refused_if_a_crash_may_have_taken_it() {
    for build in dealt_builds().await {
        let server = Server::start(build, Settings { durable: true, ..Settings::default() }).await;
        let (url, files) = (server.url("postgres"), Files::new());
        let (text, _) = documents(2_000);
        let mut wanted = summing(files.write("a", format!("{text}{{\n")));
        (wanted.durability, wanted.rejects_max) = (promising("unlogged"), 1);
        assert!(!run(&url, &wanted).await.receipt.finished);
        let mut other = summing(files.write("b", "{\"id\":\"other\",\"n\":1}\n"));
        other.durability = promising("unlogged");
        run(&url, &other).await;
        connect(&url).await.batch_execute("alter table public.sums set logged").await.unwrap();
        server.restart(StopMode::Kill).await;
        let before = sums(&url, "public.sums").await;
        (wanted.durability, wanted.rejects_max) = (promising("durable"), 10);
        let refused = Box::pin(load(&wanted, &surroundings(&url).0)).await.expect_err("it could count twice");
        assert!(matches!(refused, EngineError::Store(StoreError::AddedUp { .. })), "{refused}");
        assert!(sums(&url, "public.sums").await == before, "nothing is added");
    }
}
