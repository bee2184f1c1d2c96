//! The type by which versions in mode `newest` are compared, from the first load on.

use crate::scene::{Files, request, run, schema, surroundings, until_committed};
use millstream_engine::{Error, Event, LoadRequest, Mode, Observer, Silent, Stream, VerifyRequest, load, verify};
use millstream_model::Counters;
use millstream_pg::{ConnInfo, Environment, Explained};
use millstream_store::load_lock_keys;
use millstream_testkit::{TestDatabase, database, each_build};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

/// Longest wait for a load that has no reason to wait at all.
const PATIENCE: Duration = Duration::from_secs(60);

/// A load of these lines in a mode that compares versions, with tombstones where `op` is `d`.
fn lines(files: &Files, table: &str, mode: &str, text: &str) -> LoadRequest {
    let mut wanted = request(table, "id:text", &[files.write(&fastrand::u64(..).to_string(), text)]);
    wanted.mode = mode.parse::<Mode>().expect("a mode").with_tombstone(Some("op=d".parse().expect("a tombstone")));
    wanted
}

async fn counted(db: &TestDatabase, wanted: &LoadRequest) -> Counters {
    run(&db.url(), wanted).await.receipt.counters
}

/// What a load reported about its versions.
async fn reported(db: &TestDatabase, wanted: &LoadRequest) -> String {
    let (around, events) = surroundings(&db.url());
    Box::pin(load(wanted, &around)).await.expect("the load begins");
    let events = events.0.lock().expect("no test panics while it holds this");
    let text = events.iter().find_map(|event| if let Event::Version(text) = event { Some(text.clone()) } else { None });
    text.expect("it compares versions")
}

#[tokio::test]
async fn fractions_are_compared_as_numbers() {
    each_build(async |db| {
        let files = Files::new();
        let load = async |version: &str| {
            let text = format!("{{\"id\":\"a\",\"v\":{version}}}\n");
            counted(&db, &lines(&files, "public.fractions", "newest:v", &text)).await
        };
        assert_eq!(load("9.5").await.inserted, 1);
        for (version, stale) in
            [("10.5", 0), ("9.75", 1), ("\"10.50\"", 0), ("1049e-2", 1), ("1.0500e1", 0), ("\"1.06e1\"", 0)]
        {
            let counters = load(version).await;
            assert_eq!((counters.updated, counters.stale), (1 - stale, stale), "{version}: {counters:?}");
        }
        assert_eq!(load("\"later\"").await.rejected, 1);
    })
    .await;
}

/// Ends a stream once the load of it has begun.
struct Ending(Mutex<Option<mpsc::Sender<String>>>);

impl Observer for Ending {
    fn event(&self, event: Event) {
        if matches!(event, Event::Started { .. }) {
            drop(self.0.lock().expect("no test panics while it holds this").take());
        }
    }
}

#[tokio::test]
async fn the_types_of_version_and_key_are_inferred_from_one_sample_of_a_stream() {
    each_build(async |db| {
        let files = Files::new();
        let (pipe, more) = files.pipe("stream");
        more.send((0..1_500).map(|n| format!("{{\"id\":{n},\"v\":{n}}}\n")).collect()).expect("the pipe is read");
        let mut wanted = request("public.sampled", "id", &[pipe]);
        (wanted.format, wanted.mode) = ("ndjson".into(), "newest:v".parse().expect("a mode"));
        let (mut around, _) = surroundings(&db.url());
        around.observer = Arc::new(Ending(Mutex::new(Some(more))));
        let loading = Box::pin(load(&wanted, &around));
        let outcome = tokio::time::timeout(PATIENCE, loading).await.expect("it begins").expect("it loads");
        assert_eq!(outcome.receipt.counters.inserted, 1_500, "{outcome:?}");
    })
    .await;
}

#[tokio::test]
async fn versions_compared_as_text_raise_a_warning() {
    each_build(async |db| {
        let files = Files::new();
        let loaded = async |table: &str, mode: &str, versions: [&str; 2]| {
            let line = |v: &str| format!("{{\"id\":\"a\",\"v\":\"{v}\"}}\n");
            let wanted = lines(&files, table, mode, &versions.map(line).concat());
            let (around, events) = surroundings(&db.url());
            let outcome = Box::pin(load(&wanted, &around)).await.expect("the load begins");
            let events = events.0.lock().expect("no test panics while it holds this");
            let warnings =
                events.iter().filter_map(|e| if let Event::Warning(text) = e { Some(text.clone()) } else { None });
            (outcome.receipt.counters.stale, warnings.collect::<Vec<_>>().concat())
        };
        let (stale, warned) = loaded("public.dotted", "newest:v", ["1.9.0", "1.10.0"]).await;
        assert_eq!(stale, 1);
        assert!(warned.contains("1.9.0 is newer than 1.10.0") && warned.contains("newest:v:TYPE"), "{warned}");
        assert_eq!(loaded("public.said", "newest:v:text", ["1.9.0", "1.10.0"]).await, (1, String::new()));
        // Two documents of one moment, of which the later wins, and an older one.
        let noon = "2026-01-01T12:00:00Z";
        assert_eq!(loaded("public.zoned", "newest:v", [noon, "2026-01-01T14:00:00+02:00"]).await, (0, String::new()));
        assert_eq!(loaded("public.zoned", "newest:v", [noon, "2026-01-01T13:00:00+02:00"]).await, (1, String::new()));
    })
    .await;
}

#[tokio::test]
async fn the_first_load_decides_the_version_type() {
    each_build(async |db| {
        let files = Files::new();
        let load = |mode: &str, text: &str| lines(&files, "public.typed", mode, text);
        let empty = load("newest:v", "");
        assert_eq!(reported(&db, &empty).await, "v (there is no document)");
        let mut broken = load("newest:v", "id,v\na\n");
        broken.format = "csv".into();
        let error = Box::pin(run_error(&db, &broken)).await;
        assert!(error.to_string().contains("csv_fields: the record has 1 fields, the header 2"), "{error}");
        let first = load("newest:v", "{\"id\":\"a\",\"v\":10,\"op\":\"d\"}\n{\"id\":\"b\",\"v\":9}\n");
        assert_eq!(reported(&db, &first).await, "bigint from v (2 whole numbers)");

        // As texts, 9 would sort after 10, and the tombstone would not be found.
        let mixed = load("newest:v", "{\"id\":\"a\",\"v\":9}\n{\"id\":\"b\",\"v\":10}\n{\"id\":\"c\",\"v\":\"x\"}\n");
        let counters = counted(&db, &mixed).await;
        assert_eq!((counters.stale, counters.updated, counters.rejected), (1, 1, 1), "{counters:?}");

        let mut other = load("newest:v:integer", "{\"id\":\"a\",\"v\":9}\n");
        let error = Box::pin(run_error(&db, &other)).await;
        assert!(error.to_string().contains("versions at v are compared as bigint, not as integer"), "{error}");
        let hint = error.hint().unwrap_or_default();
        assert!(hint.contains("newest:v;") && hint.contains("--forget-deletes 0s"), "{hint}");
        other.forget_deletes = Some(Duration::ZERO);
        assert_eq!(counted(&db, &other).await.inserted, 1, "it is forgotten that a was deleted");
        let again = load("newest:v", "{\"id\":\"a\",\"v\":8}\n");
        assert_eq!(reported(&db, &again).await, "integer from v (the collection's own type)");
        let client = db.client().await;
        counted(&db, &load("newest:v", "{\"id\":\"d\",\"v\":5,\"op\":\"d\"}\n")).await;
        let sql =
            "update millstream.load set state = 'running' where load_id = (select min(load_id) from millstream.load)
                   returning load_id";
        let (class, id) = load_lock_keys(&schema(), client.query_one(sql, &[]).await.unwrap().get(0));
        client.execute("select pg_advisory_lock($1, $2)", &[&class, &id]).await.unwrap();
        let mut forgetful = load("newest:v:numeric", "{\"id\":\"a\",\"v\":8.5}\n");
        forgetful.forget_deletes = Some(Duration::ZERO);
        let error = Box::pin(run_error(&db, &forgetful)).await;
        assert!(error.to_string().ends_with("into it runs"), "{error}");
        let tombstones = client.query_one("select count(*) from millstream.tombstone", &[]).await.unwrap();
        assert_eq!(tombstones.get::<_, i64>(0), 1, "a load that is refused forgets nothing");
        client.execute("select pg_advisory_unlock($1, $2)", &[&class, &id]).await.unwrap();
        assert_eq!(reported(&db, &forgetful).await, "numeric from v (as given)");
        let other_path = load("newest:w", "{\"id\":\"a\",\"w\":\"2024-01-01\"}\n");
        assert_eq!(reported(&db, &other_path).await, "text from w (1 string)");
    })
    .await;
}

async fn run_error(db: &TestDatabase, wanted: &LoadRequest) -> Error {
    load(wanted, &surroundings(&db.url()).0).await.expect_err("it is refused")
}

#[tokio::test]
async fn verify_compares_by_the_collections_version_type() {
    let db = database().await;
    let files = Files::new();
    let wanted = lines(&files, "public.agreed", "newest:v:text", "{\"id\":\"a\",\"v\":9}\n{\"id\":\"a\",\"v\":10}\n");
    assert_eq!(counted(&db, &wanted).await.stale, 1);
    let mut verified = VerifyRequest::new(wanted, std::env::temp_dir());
    verified.load.mode = "newest:v".parse().unwrap();
    let conn = ConnInfo::parse(&db.url(), &Environment::default()).unwrap();
    let found = Box::pin(verify(&verified, &conn, Arc::default(), &Silent)).await.unwrap();
    assert_eq!((found.equal, found.differences()), (1, 0), "{found:?}");
    verified.load.mode = "newest:v:bigint".parse().unwrap();
    let found = Box::pin(verify(&verified, &conn, Arc::default(), &Silent)).await.unwrap();
    assert_eq!(found.different, 1, "{found:?}");
}

#[tokio::test]
async fn a_stream_needs_a_version_type_only_for_a_new_collection() {
    let db = database().await;
    let mut wanted = request("public.streamed", "id:text", &[]);
    let (around, _) = surroundings(&db.url());
    wanted.mode = "newest:v".parse().unwrap();
    let error = Box::pin(Stream::open(&wanted, &around)).await.err().expect("there is no document yet");
    assert!(error.hint().is_some_and(|hint| hint.contains("newest:v:TYPE")), "{error}");
    for (mode, version, stale) in [("newest:v:numeric", "9.5", 0), ("newest:v", "10.5", 0), ("newest:v", "10.25", 1)] {
        wanted.mode = mode.parse().unwrap();
        let stream = Box::pin(Stream::open(&wanted, &around)).await.expect("the type is known");
        stream.producer().send(format!("{{\"id\":\"a\",\"v\":{version}}}\n")).await.expect("it is open");
        let counters = Box::pin(stream.close()).await.expect("there is a receipt").receipt.counters;
        assert_eq!((counters.read, counters.stale), (1, stale), "{version}");
    }
}

#[tokio::test]
async fn the_first_deleting_load_is_refused_beside_a_running_one() {
    each_build(async |db| {
        let files = Files::new();
        // A running load without deletions that holds an older document of a key.
        let (path, more) = files.pipe("pipe");
        let mut running = request("public.mixed", "id:text", &[path]);
        running.mode = "newest:v:bigint".parse().unwrap();
        running.format = "ndjson".into();
        let (around, _) = surroundings(&db.url());
        let tally = Arc::clone(&around.tally);
        let loading = tokio::spawn(async move { Box::pin(load(&running, &around)).await });
        more.send("{\"id\":\"first\",\"v\":1}\n".into()).unwrap();
        until_committed(&tally, 1).await;
        let deleting = lines(&files, "public.mixed", "newest:v:bigint", "{\"id\":\"a\",\"v\":9,\"op\":\"d\"}\n");
        let refused = Box::pin(load(&deleting, &surroundings(&db.url()).0)).await.expect_err("it would be forgotten");
        assert!(refused.to_string().contains("without --delete-when"), "{refused}");
        more.send("{\"id\":\"a\",\"v\":5}\n".into()).unwrap();
        drop(more);
        loading.await.unwrap().expect("it ends");
        counted(&db, &deleting).await;

        // From now on they may run together, because the other load checks for tombstones.
        let (path, more) = files.pipe("again");
        let mut running = request("public.mixed", "id:text", &[path]);
        running.mode = "newest:v:bigint".parse().unwrap();
        running.format = "ndjson".into();
        let (around, _) = surroundings(&db.url());
        let loading = tokio::spawn(async move { Box::pin(load(&running, &around)).await });
        let deleting = lines(&files, "public.mixed", "newest:v:bigint", "{\"id\":\"b\",\"v\":9,\"op\":\"d\"}\n");
        counted(&db, &deleting).await;
        more.send("{\"id\":\"b\",\"v\":5}\n".into()).unwrap();
        drop(more);
        let receipt = loading.await.unwrap().expect("it ends").receipt;
        assert_eq!((receipt.counters.stale, receipt.counters.inserted), (1, 0), "{receipt:?}");
    })
    .await;
}
