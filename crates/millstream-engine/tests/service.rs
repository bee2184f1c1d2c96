//! Streams of one process: each is a load of its own, is resumed where it stood, and shares a session and the memory.

use crate::scene::{Events, close, execute, request, schema, stored, surroundings, until_event};
use millstream_engine::limits::{MEMORY_BYTES_MIN, SERVICE_LOADS_MAX};
use millstream_engine::{Error, Event, LoadRequest, Placed, Service, StopReason, Stream, Surroundings, Watermark};
use millstream_model::{Fault, Reason};
use millstream_pg::Explained;
use millstream_store::load_lock_keys;
use millstream_testkit::{
    Cases, Server, Settings, StopMode, TestDatabase, database, dealt_builds, each_build, until, until_some,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::Client;

pub(crate) async fn open(url: &str, request: &LoadRequest, streams: u16) -> (Service, Surroundings, Arc<Events>) {
    let (around, events) = surroundings(url);
    let service = Box::pin(Service::open(request, &around, streams)).await.expect("the service opens");
    (service, around, events)
}

pub(crate) async fn stream(service: &Service, name: &str) -> Stream {
    Box::pin(service.stream(name)).await.expect("the stream opens")
}

pub(crate) fn document(id: &str, value: i64) -> String {
    format!("{{\"id\":\"{id}\",\"value\":{value}}}")
}

/// Documents at these places: document n is of key n modulo `keys`, has the value n, and the hash n + 1.
pub(crate) fn placed(places: impl IntoIterator<Item = u64>, keys: u64) -> Placed {
    let mut placed = Placed::at(0, 0);
    for place in places {
        let value = i64::try_from(place).expect("few documents");
        placed.push(place, document(&format!("key-{}", place % keys), value).as_bytes(), u128::from(place) + 1);
    }
    placed
}

/// How many loads are locked in this database, and by how many sessions.
async fn locked(client: &Client) -> (i64, i64) {
    let sql = "select count(*), count(distinct pid) from pg_locks where locktype = 'advisory' and objsubid = 2 and granted
                      and classid::bigint = $1 and database = (select oid from pg_database where datname = current_database())";
    let class = i64::from(load_lock_keys(&schema(), 1).0.cast_unsigned());
    let row = client.query_one(sql, &[&class]).await.expect("locks can be listed");
    (row.get(0), row.get(1))
}

async fn states(db: &TestDatabase) -> Vec<(i64, String, String, Vec<String>)> {
    let sql = "select load_id, state, coalesce(stop_reason, ''), sources from millstream.load order by load_id";
    let rows = db.client().await.query(sql, &[]).await.expect("loads can be listed");
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stream_of_a_name_is_resumed_behind_its_last_committed_document() {
    each_build(async |db| {
        let wanted = request("resumed", "id:text", &[]);
        let (service, ..) = open(&db.url(), &wanted, 2).await;
        let (a, b) = (stream(&service, "a").await, stream(&service, "b").await);
        assert_eq!((a.watermark(), b.watermark()), (None, None));
        assert_ne!(a.load_id(), b.load_id());
        a.producer().send_placed(placed([3, 4, 9], 100)).await.unwrap();
        b.producer().send_placed(placed([20], 100)).await.unwrap();
        for (stream, load_id) in [(a, 1), (b, 2)] {
            let outcome = close(stream).await;
            assert_eq!((outcome.stopped, outcome.receipt.load_id), (Some(StopReason::Suspended), load_id));
            assert!(!outcome.receipt.finished && outcome.error.is_none());
        }
        drop(service);
        let stopped = |load_id, name: &str| (load_id, "stopped".into(), "suspended".into(), vec![name.to_owned()]);
        assert_eq!(states(&db).await, [stopped(1, "a"), stopped(2, "b")]);

        let (service, _, events) = open(&db.url(), &wanted, 2).await;
        let (b, a) = (stream(&service, "b").await, stream(&service, "a").await);
        assert_eq!(a.watermark(), Some(Watermark { offset: 10, hash: Some(10) }));
        assert_eq!(b.watermark(), Some(Watermark { offset: 21, hash: Some(21) }));
        let refused = a.producer().send_placed(placed([9], 100)).await.unwrap_err();
        assert!(refused.to_string().contains("place 9 is before place 10") && refused.hint().is_some(), "{refused}");
        let commit = a.producer().send_placed(placed([10, 15], 100)).await.unwrap();
        assert_eq!((commit.position().offset, commit.committed().await.unwrap().documents), (10, 2));
        assert_eq!(close(a).await.receipt.counters.read, 5);
        assert_eq!(close(b).await.receipt.counters.read, 1);
        assert_eq!(stored(&db, "public.resumed").await.into_values().sum::<i64>(), 3 + 4 + 9 + 20 + 10 + 15);
        let keys = events.0.lock().unwrap().iter().filter(|event| matches!(event, Event::Key(_))).count();
        assert_eq!(keys, 1, "what both find at the table is reported once");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stream_without_documents_keeps_where_it_begins() {
    each_build(async |db| {
        let wanted = request("begun", "id:text", &[]);
        for read in [0, 1] {
            let (service, around, _) = open(&db.url(), &wanted, 1).await;
            let begun = stream(&service, "a").await;
            if read == 0 {
                assert_eq!(begun.watermark(), None);
                begun.producer().send_placed(Placed::at(70, 5)).await.unwrap();
            } else {
                assert_eq!(begun.watermark(), Some(Watermark { offset: 70, hash: Some(5) }));
                begun.producer().send_placed(placed([70], 9)).await.unwrap();
            }
            // Also if it is interrupted before it has read anything.
            around.stop.stop(StopReason::Interrupted);
            assert_eq!(close(begun).await.receipt.counters.read, read);
        }
        assert_eq!(states(&db).await.len(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rejects_have_the_places_of_their_producer() {
    each_build(async |db| {
        let (service, ..) = open(&db.url(), &request("bad", "id:text", &[]), 1).await;
        let one = stream(&service, "log").await;
        let mut sent = Placed::at(0, 0);
        sent.push(1_000, document("a", 1).as_bytes(), 1);
        sent.push(1_007, b"no document", 2);
        sent.push_bad(1_008, b"\x00\x01", Fault::new(Reason::NotJson, "another frame"), 3);
        let committed = one.producer().send_placed(sent).await.unwrap().committed().await.unwrap();
        assert_eq!((committed.documents, committed.rejected), (3, 2));
        let sql = "select byte_offset, line, reason from millstream.reject order by byte_offset";
        let rows = db.client().await.query(sql, &[]).await.unwrap();
        let found: Vec<(i64, i64, String)> = rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
        assert_eq!(found, [(1_007, 1_007, "not_json".to_owned()), (1_008, 1_008, "not_json".to_owned())]);
        close(one).await;
    })
    .await;
}

/// Sums in `streams` streams, whose service is dropped again and again as if its process were killed. Each document
/// counts once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sums_of_services_that_are_killed_count_each_document_once() {
    let db = database().await;
    for mut rng in Cases::new(3) {
        let into = format!("summed{}", rng.u32(..));
        let mut wanted = request(&into, "id:text", &[]);
        wanted.mode = "sum:value".parse().unwrap();
        wanted.batch_rows = 200;
        let (streams, documents) = (rng.u16(1..4), 3_000u64);
        let names: Vec<String> = (0..streams).map(|n| format!("{into}-{n}")).collect();
        let kills = rng.u32(1..4);
        for run in 0..=kills {
            let (service, around, _) = open(&db.url(), &wanted, streams).await;
            let (until_killed, mut left) = (rng.u64(..documents), 0);
            let mut running = Vec::new();
            for name in &names {
                let one = stream(&service, name).await;
                let begin = one.watermark().map_or(0, |watermark| watermark.offset);
                left += documents - begin;
                assert!(one.watermark().is_none_or(|watermark| watermark.hash == Some(u128::from(watermark.offset))));
                let producer = one.producer();
                let lot = rng.u64(1..300);
                let feeding = tokio::spawn(async move {
                    let mut place = begin;
                    while place < documents {
                        let end = documents.min(place + lot);
                        if producer.send_placed(placed(place..end, 7)).await.is_err() {
                            return;
                        }
                        place = end;
                    }
                });
                running.push((one, feeding));
            }
            if run < kills {
                until("some are committed", async || around.tally.documents() >= until_killed.min(left)).await;
                running.iter().for_each(|(_, feeding)| feeding.abort());
                drop((running, service));
                continue;
            }
            for (one, feeding) in running {
                feeding.await.unwrap();
                assert_eq!(close(one).await.receipt.counters.read, documents, "seed {}", rng.get_seed());
            }
        }
        let sum: i64 = stored(&db, &format!("public.{into}")).await.into_values().sum();
        let of_one = i64::try_from(documents * (documents - 1) / 2).unwrap();
        assert_eq!(sum, of_one * i64::from(streams));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn streams_share_one_control_session() {
    let server = Server::start(millstream_testkit::default_build().await, Settings::default()).await;
    let url = server.url("postgres");
    let client = millstream_testkit::connect(&url).await;
    let (service, ..) = open(&url, &request("shared", "id:text", &[]), 5).await;
    let mut streams = Vec::new();
    for name in ["a", "b", "c", "d", "e"] {
        streams.push(stream(&service, name).await);
    }
    let count = async |name: &str| {
        let sql = "select count(*) from pg_stat_activity where application_name like $1";
        client.query_one(sql, &[&name]).await.unwrap().get::<_, i64>(0)
    };
    assert_eq!((count("millstream control").await, count("millstream lane%").await), (1, 5));
    assert_eq!(locked(&client).await, (5, 1));
    close(streams.remove(0)).await;
    assert_eq!(locked(&client).await, (4, 1), "a load that is closed may run elsewhere");
    drop((streams, service));
    until("no session is left", async || count("millstream %").await == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn streams_share_one_memory() {
    let server = Server::start(millstream_testkit::default_build().await, Settings::default()).await;
    let url = server.url("postgres");
    let mut wanted = request("bounded", "id:text", &[]);
    wanted.memory_bytes = MEMORY_BYTES_MIN;
    let (service, ..) = open(&url, &wanted, 4).await;
    let client = millstream_testkit::connect(&url).await;
    let mut streams = Vec::new();
    for name in ["a", "b", "c", "d"] {
        streams.push(stream(&service, name).await);
    }
    // Nothing is committed while the table is locked, so no memory is released.
    client.batch_execute("begin; lock table public.bounded in exclusive mode").await.unwrap();
    let text = "x".repeat(1 << 20);
    let (mut sent_bytes, mut place, mut waiting) = (0, 0, Vec::new());
    while waiting.is_empty() {
        for one in &streams {
            let mut large = Placed::at(0, 0);
            large.push(place, format!("{{\"id\":\"{place}\",\"text\":\"{text}\"}}").as_bytes(), 0);
            let (producer, bytes) = (one.producer(), large.bytes());
            let mut send = Box::pin(async move { producer.send_placed(large).await });
            match tokio::time::timeout(Duration::from_secs(2), &mut send).await {
                Ok(commit) => {
                    commit.unwrap();
                    sent_bytes += bytes;
                }
                Err(_) => waiting.push(send),
            }
            place += 1;
            assert!(sent_bytes <= MEMORY_BYTES_MIN, "all streams together take more than the memory");
        }
    }
    assert!(sent_bytes > 0);
    client.batch_execute("commit").await.unwrap();
    for send in waiting {
        send.await.unwrap().committed().await.unwrap();
    }
    let mut read = 0;
    for one in streams {
        read += close(one).await.receipt.counters.read;
    }
    assert_eq!(read, place);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn streams_lock_their_loads_again_after_a_server_restart() {
    for build in dealt_builds().await {
        let server = Server::start(build, Settings { durable: true, ..Settings::default() }).await;
        let url = server.url("postgres");
        let (service, ..) = open(&url, &request("restarted", "id:text", &[]), 3).await;
        let mut streams = Vec::new();
        for name in ["a", "b", "c"] {
            streams.push(stream(&service, name).await);
        }
        server.restart(StopMode::Fast).await;
        let client = millstream_testkit::connect(&url).await;
        until("the loads are locked again, by one session", async || locked(&client).await == (3, 1)).await;
        for (n, one) in (0..).zip(streams) {
            one.producer().send_placed(placed([n], 100)).await.unwrap().committed().await.unwrap();
            assert_eq!(close(one).await.receipt.counters.read, 1);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stream_that_runs_elsewhere_is_refused_and_the_others_go_on() {
    each_build(async |db| {
        let wanted = request("held", "id:text", &[]);
        let (service, ..) = open(&db.url(), &wanted, 2).await;
        let a = stream(&service, "a").await;
        let Err(twice) = Box::pin(service.stream("a")).await else { panic!("it is open") };
        assert!(twice.to_string().contains("a stream named a is open") && twice.hint().is_some(), "{twice}");

        let (other, ..) = open(&db.url(), &wanted, 2).await;
        let b = stream(&other, "b").await;
        let Err(running) = Box::pin(other.stream("a")).await else { panic!("it runs elsewhere") };
        let of_store = |error: &Error| matches!(error, Error::Store(store) if store.to_string().contains("load 1"));
        assert!(of_store(&running) && running.hint().is_some(), "{running}");
        let backend = async || {
            let sql = "select pid from pg_stat_activity where application_name = 'millstream control' and \
                       datname = current_database() order by backend_start desc limit 1";
            db.client().await.query_one(sql, &[]).await.unwrap().get::<_, i32>(0)
        };
        let before = backend().await;
        b.producer().send_placed(placed([1], 9)).await.unwrap().committed().await.unwrap();
        assert_eq!(backend().await, before, "its session goes on");
        close(a).await;
        // Closed there, it opens here.
        let a = stream(&other, "a").await;
        a.producer().send_placed(placed([2], 9)).await.unwrap();
        assert_eq!(close(a).await.receipt.load_id, 1);
        close(b).await;
    })
    .await;
}

/// What a member of a group must give back in so many seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stream_that_is_closed_within_a_time_releases_its_load_and_keeps_what_is_committed() {
    each_build(async |db| {
        let wanted = request("released", "id:text", &[]);
        let (service, ..) = open(&db.url(), &wanted, 2).await;
        let (a, b) = (stream(&service, "a").await, stream(&service, "b").await);
        a.producer().send_placed(placed([1, 2], 9)).await.unwrap().committed().await.unwrap();
        // What takes less than the time is committed.
        b.producer().send_placed(placed([7], 9)).await.unwrap();
        let outcome = Box::pin(b.close_within(Duration::from_secs(60))).await.expect("there is a receipt");
        assert_eq!((outcome.stopped, outcome.receipt.counters.read), (Some(StopReason::Suspended), 1));

        let client = db.client().await;
        client.batch_execute("begin; lock table public.released in exclusive mode").await.unwrap();
        let commit = a.producer().send_placed(placed([3, 4], 9)).await.unwrap();
        let outcome = Box::pin(a.close_within(Duration::ZERO)).await.expect("there is a receipt");
        assert!(outcome.error.is_none() && !outcome.receipt.finished, "{outcome:?}");
        assert_eq!((outcome.stopped, outcome.receipt.counters.read), (Some(StopReason::Suspended), 2));
        assert!(commit.committed().await.is_err(), "it is rolled back");
        assert_eq!(locked(&client).await.0, 0, "the load may run elsewhere");
        client.batch_execute("commit").await.unwrap();

        let (other, ..) = open(&db.url(), &wanted, 1).await;
        let a = stream(&other, "a").await;
        assert_eq!(a.watermark(), Some(Watermark { offset: 3, hash: Some(3) }));
        close(a).await;
        assert_eq!(stored(&db, "public.released").await.into_values().sum::<i64>(), 1 + 2 + 7);
    })
    .await;
}

async fn open_in_group(url: &str, request: &LoadRequest, group: &str) -> Service {
    let (around, _) = surroundings(url);
    Box::pin(Service::open_in_group(request, &around, 2, group)).await.expect("the service opens")
}

/// A process that was stopped keeps its sessions, and so its locks, for as long as it sleeps.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_load_is_taken_over_from_a_process_of_the_group_and_its_other_streams_go_on() {
    Box::pin(each_build(async |db| {
        let mut wanted = request("taken", "id:text", &[]);
        wanted.mode = "sum:value".parse().unwrap();
        wanted.lock_wait = Duration::ZERO;
        let sleeper = open_in_group(&db.url(), &wanted, "g").await;
        let (a, b) = (stream(&sleeper, "a").await, stream(&sleeper, "b").await);
        a.producer().send_placed(placed([1, 2], 1)).await.unwrap().committed().await.unwrap();

        let stranger = open_in_group(&db.url(), &wanted, "h").await;
        let of_stranger = stranger.holder("a").await.unwrap().expect("somebody runs it");
        assert!(!of_stranger.of_group && of_stranger.application == "millstream control", "{of_stranger:?}");
        let member = open_in_group(&db.url(), &wanted, "g").await;
        assert_eq!(member.holder("nobody").await.unwrap(), None);
        let holder = member.holder("a").await.unwrap().expect("somebody runs it");
        assert!(holder.of_group && holder.load_id == a.load_id(), "{holder:?}");
        assert!(Box::pin(member.stream("a")).await.is_err_and(|error| error.runs_elsewhere()));

        member.take_over(&holder).await.unwrap();
        let taken = until_some("the load is free", async || Box::pin(member.stream("a")).await.ok()).await;
        assert_eq!(taken.watermark(), Some(Watermark { offset: 3, hash: Some(3) }));
        taken.producer().send_placed(placed([3], 1)).await.unwrap().committed().await.unwrap();
        // The sleeper wakes: its batch fails as a whole.
        let commit = a.producer().send_placed(placed([3, 4], 1)).await.unwrap();
        assert!(commit.committed().await.is_err());
        let fenced = match Box::pin(a.close()).await {
            Err(error) => error,
            Ok(outcome) => outcome.error.expect("it is fenced"),
        };
        assert!(fenced.is_fenced(), "{fenced}");
        // Its other load is its own, in a new session.
        b.producer().send_placed(placed([10], 1)).await.unwrap().committed().await.unwrap();
        let client = db.client().await;
        until("both are locked, by two sessions", async || locked(&client).await == (2, 2)).await;
        close(b).await;
        close(taken).await;
        assert_eq!(locked(&client).await.0, 0, "the fenced load keeps no lock");
        let back = stream(&sleeper, "a").await;
        assert_eq!(back.watermark(), Some(Watermark { offset: 4, hash: Some(4) }));
        close(back).await;
        assert_eq!(stored(&db, "public.taken").await.into_values().sum::<i64>(), 1 + 2 + 3 + 10);
    }))
    .await;
}

/// A load that cannot be opened leaves the session half-way. The others take their locks in another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stream_that_cannot_be_opened_does_not_end_the_others() {
    each_build(async |db| {
        let wanted = request("shifting", "id:text", &[]);
        let (service, ..) = open(&db.url(), &wanted, 3).await;
        let a = stream(&service, "a").await;
        execute(&db, "alter table public.shifting rename to elsewhere; create view public.shifting as select 1 as id")
            .await;
        assert!(Box::pin(service.stream("b")).await.is_err());
        execute(&db, "drop view public.shifting; alter table public.elsewhere rename to shifting").await;
        let b = until_some("another stream opens", async || Box::pin(service.stream("b")).await.ok()).await;
        for (place, one) in [(1, &a), (2, &b)] {
            one.producer().send_placed(placed([place], 9)).await.unwrap().committed().await.unwrap();
        }
        let client = db.client().await;
        until("both are locked", async || locked(&client).await == (2, 1)).await;
        close(a).await;
        close(b).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_types_of_a_new_collection_come_from_a_sample() {
    each_build(async |db| {
        let mut wanted = request("sampled", "id", &[]);
        wanted.mode = "newest:at".parse().unwrap();
        let (service, ..) = open(&db.url(), &wanted, 2).await;
        let Err(untyped) = Box::pin(service.stream("a")).await else { panic!("nothing says what type it is") };
        assert!(untyped.hint().is_some_and(|hint| hint.contains("newest:at:TYPE")), "{untyped}");
        let service = service.with_sample("{\"id\":7,\"at\":1}\n{\"id\":8,\"at\":2}\n");
        let a = stream(&service, "a").await;
        let mut sent = Placed::at(0, 0);
        sent.push(0, br#"{"id":1,"at":5,"value":1}"#, 0);
        sent.push(1, br#"{"id":1,"at":10,"value":2}"#, 0);
        a.producer().send_placed(sent).await.unwrap();
        assert_eq!(close(a).await.receipt.counters.read, 2, "the sample is not loaded");
        let sql = "select id, (doc->>'value')::bigint from public.sampled";
        let rows = db.client().await.query(sql, &[]).await.unwrap();
        let found: BTreeMap<i64, i64> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        assert_eq!(found, BTreeMap::from([(1, 2)]));
    })
    .await;
}

/// Each counts its own rejects, and all of them count for a progress bar.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn too_many_rejects_end_one_stream_and_not_the_others() {
    let db = database().await;
    let mut wanted = request("spoiled", "id:text", &[]);
    wanted.rejects_max = 5;
    let (service, around, events) = open(&db.url(), &wanted, 2).await;
    let (good, bad) = (stream(&service, "good").await, stream(&service, "bad").await);
    let mut spoiled = Placed::at(0, 0);
    (0..10).for_each(|place| spoiled.push(place, b"no document", 0));
    bad.producer().send_placed(spoiled).await.unwrap();
    bad.ended().await;
    assert_eq!(close(bad).await.stopped, Some(StopReason::Rejects));
    let mut some = placed([1, 2], 9);
    some.push(3, b"no document", 0);
    let committed = good.producer().send_placed(some).await.unwrap().committed().await.unwrap();
    assert_eq!((committed.documents, committed.rejected), (3, 1));
    assert_eq!(close(good).await.stopped, Some(StopReason::Suspended));
    assert!(around.tally.rejects() >= 6 && around.tally.documents() >= 3, "{:?}", around.tally);
    until_event(&events, "both have begun", |event| matches!(event, Event::Started { load_id: 2, .. })).await;
}

#[tokio::test]
async fn what_a_service_cannot_do_is_refused() {
    let db = database().await;
    let (around, _) = surroundings(&db.url());
    let fits = request("refused", "id:text", &[]);
    let mut log = fits.clone();
    log.layout = millstream_engine::Layout::by_name("log").unwrap();
    let file = request("refused", "id:text", &["a.ndjson".to_owned()]);
    for (wanted, streams) in [(&fits, 0), (&fits, SERVICE_LOADS_MAX + 1), (&log, 1), (&file, 1)] {
        let Err(refused) = Box::pin(Service::open(wanted, &around, streams)).await else { panic!("{streams}") };
        assert!(matches!(refused, Error::Refused(_)) && refused.hint().is_some(), "{refused}");
    }
}
