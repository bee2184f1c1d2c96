//! What each durability guarantees when the server crashes.

use crate::scene::{Events, Files, Stream, request, run, schema, surroundings, until_committed};
use millstream_engine::{DURABILITIES, Durability, Error, Event, LoadRequest, Outcome, dry_run, load};
use millstream_pg::Explained;
use millstream_store::{collections, loads};
use millstream_testkit::{Build, Server, Settings, StopMode, database, dealt_builds, each_build};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How a server crashes.
const CRASHES: [StopMode; 2] = [StopMode::Immediate, StopMode::Kill];

/// Crashes to try until one takes a batch.
const CRASHES_MAX: usize = 20;

fn promising(name: &str) -> &'static Durability {
    Durability::by_name(name).expect("a promise")
}

async fn stored(server: &Server, table: &str) -> BTreeMap<String, i64> {
    let client = millstream_testkit::connect(&server.url("postgres")).await;
    let rows = client.query(&format!("select id, (doc->>'value')::bigint from {table}"), &[]).await;
    let rows = rows.expect("the table can be read");
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// Runs a load and crashes its server once some documents are committed.
async fn crashed_in_mid_load(server: &Server, wanted: &LoadRequest, crash: StopMode) -> (Outcome, Arc<Events>) {
    let (around, events) = surroundings(&server.url("postgres"));
    let crashing = async {
        until_committed(&around.tally, 20_000).await;
        server.restart(crash).await;
    };
    let (outcome, ()) = tokio::join!(Box::pin(load(wanted, &around)), crashing);
    (outcome.expect("the load begins"), events)
}

fn lost(events: &Events) -> usize {
    let events = events.0.lock().expect("no test panics while it holds this");
    events.iter().map(|event| if let Event::Lost { batches, .. } = event { *batches } else { 0 }).sum()
}

#[tokio::test]
async fn durable_and_async_loads_are_complete_after_a_crash() {
    for build in dealt_builds().await {
        let mut lost_in_all = 0;
        for (n, crash) in (0..).zip(CRASHES.into_iter().cycle()).take(CRASHES_MAX) {
            // Every kind of crash is tried. PostgreSQL 15 wakes its WAL writer at every commit, so one crash may lose
            // nothing.
            if n >= CRASHES.len() as u64 && lost_in_all > 0 {
                break;
            }
            for name in ["durable", "async"] {
                let server = Server::start(build, Settings::forgetful()).await;
                let stream = Stream::random(&mut fastrand::Rng::with_seed(n), 150_000, 90_000);
                let files = Files::new();
                let mut wanted = request("crashed", "id", &[files.write("a", &stream.text)]);
                (wanted.batch_rows, wanted.lanes, wanted.durability) = (1_000, Some(2), promising(name));
                let (outcome, events) = crashed_in_mid_load(&server, &wanted, crash).await;
                assert!(outcome.stopped.is_none(), "{name} {crash:?}: {outcome:?}");
                assert_eq!(stored(&server, "crashed").await, stream.last, "{name} {crash:?}");
                let counters = outcome.receipt.counters;
                assert_eq!((counters.read, counters.inserted), (stream.documents, stream.last.len() as u64));
                assert_eq!(outcome.receipt.durability, name);
                if name == "durable" {
                    assert_eq!(lost(&events), 0, "{crash:?}");
                } else {
                    lost_in_all += lost(&events);
                }
            }
        }
        assert!(lost_in_all > 0, "no crash took a batch, so nothing was repaired");
    }
}

#[tokio::test]
async fn a_printed_receipt_is_durable() {
    for build in dealt_builds().await {
        for crash in CRASHES {
            for name in ["durable", "async"] {
                let server = Server::start(build, Settings::forgetful()).await;
                let stream = Stream::random(&mut fastrand::Rng::with_seed(3), 20_000, 20_000);
                let files = Files::new();
                let mut wanted = request("receipted", "id", &[files.write("a", &stream.text)]);
                (wanted.batch_rows, wanted.durability) = (1_000, promising(name));
                let receipt = run(&server.url("postgres"), &wanted).await.receipt;
                server.restart(crash).await;
                assert_eq!(stored(&server, "receipted").await, stream.last, "{name} {crash:?}: {receipt:?}");
            }
        }
    }
}

#[tokio::test]
async fn acknowledged_documents_of_a_durable_load_survive_a_crash() {
    for build in dealt_builds().await {
        let server = Server::start(build, Settings::forgetful()).await;
        let stream = Stream::random(&mut fastrand::Rng::with_seed(4), 100_000, 100_000);
        let files = Files::new();
        for crash in CRASHES {
            let table = format!("acknowledged_{crash:?}").to_lowercase();
            let mut wanted = request(&table, "id", &[files.write("a", &stream.text)]);
            (wanted.batch_rows, wanted.lanes) = (500, Some(2));
            let (around, _) = surroundings(&server.url("postgres"));
            let acknowledged = {
                let mut loading = Box::pin(load(&wanted, &around));
                tokio::select! {
                    outcome = &mut loading => panic!("it ended too soon: {outcome:?}"),
                    () = until_committed(&around.tally, 10_000) => {}
                }
                let acknowledged = around.tally.documents();
                server.stop(crash).await;
                acknowledged
            };
            server.start_again().await;
            let sql = "select sum(l.read + n.read)::bigint, sum(l.rejected + n.rejected)::bigint \
                       from millstream.load l join (select load_id, sum(read) as read, sum(rejected) as rejected \
                       from millstream.lane group by 1) n using (load_id) where collection = $1";
            let client = millstream_testkit::connect(&server.url("postgres")).await;
            let row = client.query_one(sql, &[&table]).await.unwrap();
            let kept = u64::try_from(row.get::<_, i64>(0)).unwrap();
            assert!(kept >= acknowledged && acknowledged >= 10_000, "{kept} of {acknowledged} acknowledged");
            let receipt = run(&server.url("postgres"), &wanted).await.receipt;
            assert_eq!(receipt.resumed_from, Some(kept));
            assert_eq!(stored(&server, &table).await, stream.last);
        }
    }
}

#[tokio::test]
async fn a_server_that_does_not_flush_is_refused_for_durable_loads() {
    for build in dealt_builds().await {
        for setting in ["fsync", "full_page_writes"] {
            let server = Server::start(build, Settings::with(&[&format!("{setting} = off")])).await;
            let files = Files::new();
            let (around, events) = surroundings(&server.url("postgres"));
            let mut wanted = request("flushed", "id", &[files.write("a", "{\"id\":1}\n")]);
            for refused in [
                Box::pin(load(&wanted, &around)).await.map(drop).expect_err("it cannot be kept"),
                dry_run(&wanted, &around.db).await.map(drop).expect_err("nor promised"),
            ] {
                assert!(refused.to_string().contains(&format!("{setting} off")), "{refused}");
                let hint = refused.hint().expect("there are ways out");
                assert!(hint.contains("alter system") && hint.contains("--durability async"), "{hint}");
            }
            wanted.durability = promising("async");
            let outcome = Box::pin(load(&wanted, &around)).await.unwrap();
            assert_eq!(outcome.receipt.counters.inserted, 1);
            let events = events.0.lock().unwrap();
            assert!(events.iter().any(|event| matches!(event, Event::Warning(text) if text.contains(setting))));
        }
    }
}

#[tokio::test]
async fn a_table_that_cannot_keep_the_promise_is_refused() {
    let db = database().await;
    let client = db.client().await;
    client
        .batch_execute(
            "create table logged (id text collate \"C\" primary key, doc jsonb not null);
             create unlogged table unlogged (id text collate \"C\" primary key, doc jsonb not null)",
        )
        .await
        .unwrap();
    let files = Files::new();
    let file = files.write("a", "{\"id\":\"x\"}\n");
    for durability in DURABILITIES {
        let (unfit, fit) = if durability.unlogged { ("logged", "unlogged") } else { ("unlogged", "logged") };
        let mut wanted = request(unfit, "id", std::slice::from_ref(&file));
        (wanted.adopt, wanted.durability) = (true, durability);
        let error = Box::pin(load(&wanted, &surroundings(&db.url()).0)).await.expect_err(durability.name);
        assert!(matches!(error, Error::Collection { .. }), "{error}");
        let hint = error.hint().expect("there are ways out");
        assert!(hint.contains("--durability unlogged") && hint.contains("alter table"), "{hint}");
        wanted.collection = fit.parse().unwrap();
        assert_eq!(run(&db.url(), &wanted).await.receipt.durability, durability.name);
    }
}

#[tokio::test]
async fn synchronous_commit_of_the_server_is_kept_unless_off() {
    each_build(async |db| {
        let client = db.client().await;
        let name: String = client.query_one("select current_database()", &[]).await.unwrap().get(0);
        client
            .batch_execute(
                "create table seen (level text);
                 create table levels (id text collate \"C\" primary key, doc jsonb not null);
                 create function see() returns trigger language plpgsql as $$begin
                 insert into seen values (current_setting('synchronous_commit')); return null; end$$;
                 create trigger see after insert or update on levels execute function see()",
            )
            .await
            .unwrap();
        let files = Files::new();
        for (durability, server, seen) in [
            ("durable", "off", "on"),
            ("durable", "local", "local"),
            ("durable", "remote_apply", "remote_apply"),
            ("async", "on", "off"),
        ] {
            let set = format!("truncate seen; alter database {name} set synchronous_commit = {server}");
            client.batch_execute(&set).await.unwrap();
            let mut wanted = request("levels", "id", &[files.write(server, "{\"id\":\"x\"}\n")]);
            (wanted.adopt, wanted.durability) = (true, promising(durability));
            run(&db.url(), &wanted).await;
            let levels: Vec<String> =
                client.query("select distinct level from seen", &[]).await.unwrap().iter().map(|r| r.get(0)).collect();
            assert_eq!(levels, [seen], "{durability} on a server with {server}");
        }
    })
    .await;
}

/// A server, a stream of documents in a file, and the request to load it into an unlogged collection.
async fn unlogged(build: &'static Build, files: &Files) -> (Server, Stream, LoadRequest) {
    let server = Server::start(build, Settings { durable: true, ..Settings::default() }).await;
    let stream = Stream::random(&mut fastrand::Rng::with_seed(6), 100_000, 60_000);
    let mut wanted = request("fleeting", "id", &[files.write("a", &stream.text)]);
    (wanted.batch_rows, wanted.lanes, wanted.durability) = (1_000, Some(2), promising("unlogged"));
    (server, stream, wanted)
}

fn warned(events: &Events, words: &str) -> bool {
    events
        .0
        .lock()
        .expect("no test panics while it holds this")
        .iter()
        .any(|event| matches!(event, Event::Warning(text) if text.contains(words)))
}

#[tokio::test]
async fn an_unlogged_load_from_files_starts_over_after_a_crash() {
    for build in dealt_builds().await {
        for crash in CRASHES {
            let files = Files::new();
            let (server, stream, mut wanted) = unlogged(build, &files).await;
            wanted.resume = false;
            let (outcome, events) = crashed_in_mid_load(&server, &wanted, crash).await;
            assert!(outcome.stopped.is_none(), "{crash:?}: {outcome:?}");
            assert!(warned(&events, "has emptied the collection"));
            assert_eq!(stored(&server, "fleeting").await, stream.last);
            let receipt = outcome.receipt;
            assert_eq!((receipt.counters.read, receipt.counters.inserted), (100_000, stream.last.len() as u64));
            assert_eq!((receipt.durability.as_str(), receipt.resumed_from), ("unlogged", None));
            let client = millstream_testkit::connect(&server.url("postgres")).await;
            let loads: i64 = client.query_one("select count(*) from millstream.load", &[]).await.unwrap().get(0);
            assert_eq!(loads, 1);
        }
    }
}

#[tokio::test]
async fn a_crash_resets_the_watermarks_of_an_unlogged_collection() {
    for build in dealt_builds().await {
        for (restart, emptied) in [(StopMode::Fast, false), (StopMode::Immediate, true), (StopMode::Kill, true)] {
            let files = Files::new();
            let (server, mut stream, mut wanted) = unlogged(build, &files).await;
            // A reject ends the first run before its source does.
            let good = stream.text.clone();
            stream.text = good.replacen("\n{", "\n{\"id\":\n{", 1);
            wanted.sources = vec![files.write("a", &stream.text)];
            wanted.rejects_max = 1;
            let first = run(&server.url("postgres"), &wanted).await.receipt;
            assert!(!first.finished && first.counters.read > 0, "{first:?}");
            server.restart(restart).await;
            wanted.rejects_max = 10;
            let (around, events) = surroundings(&server.url("postgres"));
            let again = Box::pin(load(&wanted, &around)).await.unwrap().receipt;
            assert_eq!(again.load_id, first.load_id);
            assert_eq!(again.resumed_from, (!emptied).then_some(first.counters.read), "{restart:?}");
            assert_eq!(warned(&events, "has emptied the collection"), emptied, "{restart:?}");
            assert_eq!((again.counters.read, again.counters.rejected), (100_001, 1));
            assert_eq!(stored(&server, "fleeting").await, stream.last);
            server.restart(restart).await;
            let rows = stored(&server, "fleeting").await.len();
            assert_eq!(rows, if emptied { 0 } else { stream.last.len() });
            let renewed = run(&server.url("postgres"), &wanted).await.receipt;
            assert_ne!(renewed.load_id, first.load_id, "a finished load runs again as a new one");
            assert_eq!(stored(&server, "fleeting").await, stream.last);
        }
    }
}

#[tokio::test]
async fn a_stream_into_an_emptied_collection_stops_and_counts_losses() {
    for build in dealt_builds().await {
        let files = Files::new();
        let (server, stream, mut wanted) = unlogged(build, &files).await;
        let pipe = format!("{}.pipe", wanted.sources[0]);
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let writing = std::thread::spawn({
            let (pipe, text) = (pipe.clone(), stream.text.clone());
            // The load may or may not have read all of it.
            move || drop(std::fs::write(pipe, text))
        });
        wanted.sources = vec![pipe];
        let (around, _) = surroundings(&server.url("postgres"));
        let crashing = async {
            until_committed(&around.tally, 20_000).await;
            server.restart(StopMode::Kill).await;
        };
        let (outcome, ()) = tokio::join!(Box::pin(load(&wanted, &around)), crashing);
        let error = outcome.map(drop).expect_err("it cannot be read again");
        assert!(matches!(error, Error::Emptied { documents, .. } if documents >= 20_000), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("from its start")), "{error}");
        writing.join().unwrap();
        let client = millstream_testkit::connect(&server.url("postgres")).await;
        let sql = "select l.state, l.read + coalesce((select sum(read) from millstream.lane), 0)::bigint \
                   from millstream.load l";
        let row = client.query_one(sql, &[]).await.unwrap();
        assert_eq!((row.get::<_, &str>(0), row.get::<_, i64>(1)), ("stopped", 0));
        assert_eq!(stored(&server, "fleeting").await.len(), 0);
    }
}

#[tokio::test]
async fn the_durability_is_shown_before_and_recorded_after_a_load() {
    let db = database().await;
    let files = Files::new();
    let file = files.write("a", "{\"id\":1}\n");
    for durability in DURABILITIES {
        let mut wanted = request(&format!("shown_{}", durability.name), "id", std::slice::from_ref(&file));
        wanted.durability = durability;
        let (around, _) = surroundings(&db.url());
        let ddl = dry_run(&wanted, &around.db).await.unwrap().ddl.unwrap();
        assert_eq!(ddl.starts_with("create unlogged table"), durability.unlogged, "{ddl}");
        run(&db.url(), &wanted).await;
        let (client, schema) = (db.client().await, schema());
        assert_eq!(loads::list(&client, &schema, 100).await.unwrap()[0].durability, durability.name);
        let found = collections::list(&client, &schema).await.unwrap();
        let found = found.iter().find(|one| one.name == wanted.collection).unwrap();
        assert_eq!(found.unlogged, Some(durability.unlogged));
    }
}

#[tokio::test]
async fn a_table_made_unlogged_by_hand_does_not_count_as_emptied() {
    for build in dealt_builds().await {
        let files = Files::new();
        let server = Server::start(build, Settings { durable: true, ..Settings::default() }).await;
        let url = server.url("postgres");
        let text = "{\"id\":\"a\",\"n\":1}\n{\"id\":}\n{\"id\":\"a\",\"n\":1}\n";
        let mut wanted = request("summed", "id:text", &[files.write("a", text)]);
        (wanted.mode, wanted.rejects_max, wanted.chunk_bytes) = ("sum:n".parse().unwrap(), 1, 16);
        let first = run(&url, &wanted).await.receipt;
        assert!(!first.finished && first.counters.inserted == 1, "{first:?}");
        let client = millstream_testkit::connect(&url).await;
        client.batch_execute("alter table summed set unlogged").await.unwrap();
        (wanted.rejects_max, wanted.durability) = (10, promising("unlogged"));
        let done = run(&url, &wanted).await.receipt;
        assert_eq!((done.load_id, done.resumed_from), (first.load_id, Some(first.counters.read)));
        let sum: String = client.query_one("select doc ->> 'n' from summed", &[]).await.unwrap().get(0);
        assert_eq!(sum, "2");
    }
}
