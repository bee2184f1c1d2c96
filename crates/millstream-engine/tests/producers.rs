//! Documents that many tasks hand over at once.

use crate::scene::{Events, close, request, stored, surroundings, until_committed};
use millstream_engine::limits::{FLUSH_AFTER, MEMORY_BYTES_MIN, SEND_BYTES_MAX, SEND_LINES_MAX};
use millstream_engine::{Error, Event, LoadRequest, Producer, Stop, StopReason, Stream, Surroundings};
use millstream_pg::Explained;
use millstream_testkit::{Cases, Server, Settings, StopMode, database, dealt_builds, each_build, until, until_some};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

const PRODUCERS: i64 = 8;

fn streaming(into: &str) -> LoadRequest {
    request(into, "id:text", &[])
}

async fn open(url: &str, request: &LoadRequest) -> (Stream, Surroundings, Arc<Events>) {
    let (around, events) = surroundings(url);
    // Boxed, because the future is too large to lie in the futures of the tests.
    let stream = Box::pin(Stream::open(request, &around)).await.expect("the stream opens");
    (stream, around, events)
}

fn document(id: &str, value: i64) -> String {
    format!("{{\"id\":\"{id}\",\"value\":{value}}}\n")
}

/// The documents of one producer, in lots: most are of shared keys, and one in each lot is of a key of its own.
async fn produce(producer: Producer, number: i64, keys: usize, lots: i64, seed: u64) -> u64 {
    let mut rng = fastrand::Rng::with_seed(seed ^ number.unsigned_abs());
    let (mut commits, mut documents) = (Vec::new(), 0);
    for lot in 0..lots {
        let count = i64::from(rng.u16(0..400));
        let mut lines: String = (0..count)
            .map(|n| document(&format!("key-{}", rng.usize(0..keys)), (number * lots + lot) * 1_000 + n))
            .collect();
        lines += &document(&format!("own-{number}"), lot);
        documents += lines.lines().count() as u64;
        commits.push(producer.send(lines).await.expect("the stream is open"));
    }
    for commit in commits {
        assert_eq!(commit.committed().await.expect("the stream is open").rejected, 0);
    }
    documents
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn eight_producers_keep_their_order_per_key() {
    each_build(async |db| {
        for (name, keys) in [("one", 1), ("hundred", 100), ("uniform", 1_000_000)] {
            let mut wanted = streaming(name);
            wanted.lanes = Some(3);
            wanted.batch_rows = 700;
            let (stream, ..) = open(&db.url(), &wanted).await;
            let (lots, seed) = (60, fastrand::u64(..));
            let mut tasks = JoinSet::new();
            for number in 0..PRODUCERS {
                tasks.spawn(produce(stream.producer(), number, keys, lots, seed));
            }
            let documents: u64 = tasks.join_all().await.into_iter().sum();
            let table = stored(&db, &format!("public.{name}")).await;
            let outcome = close(stream).await;
            assert!(outcome.stopped.is_none() && outcome.receipt.finished, "{outcome:?}");
            let counters = outcome.receipt.counters;
            assert_eq!((counters.read, counters.rejected), (documents, 0), "seed {seed}");
            assert_eq!(counters.inserted, table.len() as u64);
            for number in 0..PRODUCERS {
                assert_eq!(table[&format!("own-{number}")], lots - 1, "seed {seed}");
            }
            assert!(table.len() <= keys + 8 && (keys > 100 || table.len() == keys + 8), "{}", table.len());
        }
    })
    .await;
}

/// The table ends as it would after a file of the same documents in the order of their positions.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn documents_of_producers_take_effect_in_position_order() {
    let db = database().await;
    for mut rng in Cases::new(4) {
        let into = format!("positions{}", rng.u32(..));
        let mut wanted = streaming(&into);
        (wanted.lanes, wanted.batch_rows) = (Some(rng.u16(1..5)), rng.usize(1..500));
        let (stream, ..) = open(&db.url(), &wanted).await;
        let keys = rng.usize(1..50);
        let mut tasks = JoinSet::new();
        for number in 0..PRODUCERS {
            let (producer, mut rng) = (stream.producer(), rng.fork());
            tasks.spawn(async move {
                let mut sent = Vec::new();
                for n in 0..rng.i64(0..200) {
                    let id = format!("key-{}", rng.usize(0..keys));
                    let value = number * 1_000 + n;
                    let commit = producer.send(document(&id, value)).await.expect("the stream is open");
                    sent.push((commit.position(), id, value));
                    if rng.u8(..) < 5 {
                        commit.committed().await.expect("the stream is open");
                    }
                }
                sent
            });
        }
        let mut sent = tasks.join_all().await.concat();
        sent.sort();
        assert!(sent.windows(2).all(|pair| pair[0].0 < pair[1].0), "every send has a position of its own");
        let outcome = close(stream).await;
        assert_eq!(outcome.receipt.counters.read, sent.len() as u64);
        let last: BTreeMap<String, i64> = sent.into_iter().map(|(_, id, value)| (id, value)).collect();
        assert_eq!(stored(&db, &format!("public.{into}")).await, last);
    }
}

#[tokio::test]
async fn an_awaited_commit_is_visible_to_other_sessions() {
    each_build(async |db| {
        let (stream, around, _) = open(&db.url(), &streaming("visible")).await;
        let client = db.client().await;
        let producer = stream.producer();
        for value in 1..4i64 {
            // Nothing follows the document, so only time can end its batch.
            let commit = producer.send(document("a", value).trim_end().to_owned()).await.unwrap();
            let committed = commit.committed().await.unwrap();
            assert_eq!((committed.documents, committed.rejected), (1, 0));
            let sql = "select (doc->>'value')::bigint from public.visible where id = 'a'";
            assert_eq!(client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0), value);
            assert_eq!(around.tally.documents(), value.unsigned_abs());
        }
        let nothing = producer.send(" \n\r\n").await.unwrap().committed().await.unwrap();
        assert_eq!((nothing.documents, nothing.rejected), (0, 0));
        let counters = close(stream).await.receipt.counters;
        assert_eq!((counters.read, counters.inserted, counters.updated), (3, 1, 2));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rejects_of_a_stream_have_the_position_of_their_send() {
    let db = database().await;
    let (stream, ..) = open(&db.url(), &streaming("flawed")).await;
    let mut tasks = JoinSet::new();
    for number in 0..PRODUCERS {
        let producer = stream.producer();
        tasks.spawn(async move {
            let mut flaws = Vec::new();
            for n in 0..20 {
                let good = document(&format!("{number}-{n}"), 1);
                let flaw = format!("{{\"no key\":\"{number}-{n}\"}}");
                let text = format!("{good}\n  {flaw}\r\n{}", good.trim_end());
                let at = text.find(&flaw).unwrap() as u64;
                let commit = producer.send(text).await.unwrap();
                let place = (i64::try_from(commit.position().offset + at).unwrap(), commit.line() + 2);
                flaws.push((place.0, i64::try_from(place.1).unwrap(), flaw));
                let committed = commit.committed().await.unwrap();
                assert_eq!((committed.documents, committed.rejected), (3, 1));
            }
            flaws
        });
    }
    let mut flaws = tasks.join_all().await.concat();
    flaws.sort();
    let sql = "select r.byte_offset, r.line, r.document, l.sources[r.source + 1]
               from millstream.reject r join millstream.load l using (load_id) order by 1";
    let rows = db.client().await.query(sql, &[]).await.unwrap();
    let found: Vec<(i64, i64, String)> = rows.iter().map(|r| (r.get(0), r.get(1), r.get(2))).collect();
    assert_eq!(found, flaws);
    assert!(rows.iter().all(|r| r.get::<_, String>(3) == "stream"));
    let counters = close(stream).await.receipt.counters;
    assert_eq!((counters.read, counters.rejected, counters.inserted), (480, 160, 160));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_producer_learns_which_of_its_documents_were_refused() {
    each_build(async |db| {
        let mut wanted = streaming("judged");
        let (stream, ..) = open(&db.url(), &wanted).await;
        close(stream).await;
        let sql = "alter table public.judged add check ((doc->>'value')::bigint % 7 <> 3)";
        db.client().await.batch_execute(sql).await.unwrap();
        wanted.lanes = Some(3);
        let (stream, ..) = open(&db.url(), &wanted).await;
        let mut tasks = JoinSet::new();
        for number in 0..PRODUCERS {
            let producer = stream.producer();
            tasks.spawn(async move {
                let mut commits = Vec::new();
                for lot in 0..20 {
                    let values = lot..lot + number;
                    let mut lines: String =
                        values.clone().map(|v| document(&format!("{number}-{lot}-{v}"), v)).collect();
                    lines += "no document";
                    let refused = values.filter(|v| v % 7 == 3).count() as u64;
                    commits.push((producer.send(lines).await.unwrap(), refused + 1));
                }
                let mut rejected = 0;
                for (commit, expected) in commits {
                    let committed = commit.committed().await.unwrap();
                    assert_eq!(committed.rejected, expected);
                    rejected += expected;
                }
                rejected
            });
        }
        let rejected: u64 = tasks.join_all().await.into_iter().sum();
        let outcome = close(stream).await;
        assert!(outcome.stopped.is_none(), "{outcome:?}");
        assert_eq!(outcome.receipt.counters.rejected, rejected);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn too_many_rejects_end_the_stream_for_every_producer() {
    let db = database().await;
    let mut wanted = streaming("spoiled");
    wanted.rejects_max = 50;
    let (stream, ..) = open(&db.url(), &wanted).await;
    let mut tasks = JoinSet::new();
    for number in 0..PRODUCERS {
        let producer = stream.producer();
        tasks.spawn(async move {
            for n in 0i64.. {
                let text = if number == 0 { "no document".into() } else { document(&format!("{number}"), n) };
                match producer.send(text).await {
                    Ok(commit) if n % 100 == 0 => drop(commit.committed().await),
                    Ok(_) => {}
                    Err(error) => return error,
                }
            }
            unreachable!("only an error ends it")
        });
    }
    for error in tasks.join_all().await {
        assert!(matches!(error, Error::StreamEnded(_)) && error.hint().is_some(), "{error:?}");
    }
    let outcome = close(stream).await;
    assert_eq!(outcome.stopped, Some(StopReason::Rejects));
    assert_eq!(outcome.receipt.counters.rejected, 50);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_failed_or_dropped_producer_does_not_block_others() {
    let db = database().await;
    let (stream, ..) = open(&db.url(), &streaming("abandoned")).await;
    let slow = stream.producer();
    let fast = tokio::spawn(produce(stream.producer(), 1, 500, 100, 1));
    let panicking = stream.producer();
    let failed = tokio::spawn(async move {
        // The futures of their commits are dropped, which does not take the documents back.
        panicking.send(document("left", 1)).await.unwrap();
        let dropped = panicking.send(document("dropped", 1));
        drop(dropped);
        let lines = usize::try_from(SEND_LINES_MAX).unwrap();
        panicking.send(vec![b'\n'; lines]).await.unwrap();
        let error = panicking.send(vec![b'\n'; lines + 1]).await.unwrap_err();
        assert!(error.hint().is_some_and(|hint| hint.contains("50000 lines at once")), "{error}");
        assert!(panicking.send(vec![b' '; SEND_BYTES_MAX + 1]).await.is_ok(), "more than one send takes");
    });
    assert!(failed.await.unwrap_err().is_panic());
    let mut slow_commits = Vec::new();
    for value in 0..5 {
        slow_commits.push(slow.send(document("slow", value)).await.unwrap());
        tokio::time::sleep(FLUSH_AFTER).await;
    }
    let documents = fast.await.unwrap();
    for commit in slow_commits {
        commit.committed().await.unwrap();
    }
    let outcome = close(stream).await;
    // The slow producer is still there.
    assert!(matches!(slow.send(document("slow", 9)).await, Err(Error::StreamEnded(_))));
    assert_eq!(outcome.receipt.counters.read, documents + 6);
    let table = stored(&db, "public.abandoned").await;
    assert_eq!((table["slow"], table["left"]), (4, 1));
    assert!(!table.contains_key("dropped"), "a send that is dropped hands over nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn memory_bounds_what_is_in_flight() {
    let server = Server::start(millstream_testkit::default_build().await, Settings::default()).await;
    let url = server.url("postgres");
    let mut wanted = streaming("bounded");
    wanted.memory_bytes = MEMORY_BYTES_MIN;
    let (stream, ..) = open(&url, &wanted).await;
    let client = millstream_testkit::connect(&url).await;
    // Nothing is committed while the table is locked, so no memory is released.
    client.batch_execute("begin; lock table public.bounded in exclusive mode").await.unwrap();
    let text: String = (0..10_000).map(|n| document(&format!("{n:05}-{}", "x".repeat(100)), n)).collect();
    let producer = stream.producer();
    let mut sent_bytes = 0;
    let waiting = loop {
        let mut send = Box::pin(producer.send(text.clone()));
        match tokio::time::timeout(Duration::from_secs(2), &mut send).await {
            Ok(commit) => drop(commit.unwrap()),
            Err(_) => break send,
        }
        sent_bytes += text.len();
        assert!(sent_bytes <= MEMORY_BYTES_MIN, "more is taken than the memory holds");
    };
    assert!(sent_bytes > 0);
    client.batch_execute("commit").await.unwrap();
    waiting.await.unwrap().committed().await.unwrap();
    let outcome = close(stream).await;
    assert_eq!(
        outcome.receipt.counters.bytes_read,
        ((sent_bytes + text.len()) - (sent_bytes / text.len() + 1) * 10_000) as u64
    );
    assert_eq!(outcome.receipt.counters.inserted, 10_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn closing_does_not_wait_for_unpolled_sends() {
    let db = database().await;
    let mut wanted = streaming("unpolled");
    wanted.memory_bytes = MEMORY_BYTES_MIN;
    let (stream, ..) = open(&db.url(), &wanted).await;
    let producer = stream.producer();
    let text: String = (0..1_000).map(|n| document(&n.to_string(), n)).collect();
    // Each is started and left waiting. They come faster than any server commits.
    let (mut waiting, mut taken) = (Vec::new(), 0);
    while waiting.len() < 10 {
        assert!(taken < 100_000, "some wait");
        let mut send = Box::pin(producer.send(text.clone()));
        match tokio::time::timeout(Duration::ZERO, &mut send).await {
            Ok(_) => taken += 1,
            Err(_) => waiting.push(send),
        }
    }
    let outcome = close(stream).await;
    assert_eq!(outcome.receipt.counters.read, taken * 1_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_restart_during_a_stream_loses_and_repeats_nothing() {
    for build in dealt_builds().await {
        for mode in [StopMode::Fast, StopMode::Kill] {
            let server = Server::start(build, Settings { durable: true, ..Settings::default() }).await;
            let url = server.url("postgres");
            let mut wanted = streaming("restarted");
            wanted.batch_rows = 500;
            let (stream, around, events) = open(&url, &wanted).await;
            let mut tasks = JoinSet::new();
            for number in 0..PRODUCERS {
                tasks.spawn(produce(stream.producer(), number, 100, 100, 3));
            }
            until_committed(&around.tally, 20_000).await;
            server.restart(mode).await;
            let documents: u64 = tasks.join_all().await.into_iter().sum();
            let outcome = close(stream).await;
            assert!(outcome.stopped.is_none(), "{mode:?}: {outcome:?}");
            assert!(
                events.0.lock().unwrap().iter().any(|e| matches!(e, Event::Retry { .. })),
                "the restart was noticed"
            );
            assert_eq!(outcome.receipt.counters.read, documents, "{mode:?}");
            let client = millstream_testkit::connect(&url).await;
            let sql = "select (doc->>'value')::bigint from public.restarted where id like 'own-%'";
            let own: Vec<i64> = client.query(sql, &[]).await.unwrap().iter().map(|r| r.get(0)).collect();
            assert_eq!(own, [99; 8], "{mode:?}");
        }
    }
}

#[tokio::test]
async fn a_quiet_stream_locks_its_load_again_after_a_server_restart() {
    for build in dealt_builds().await {
        let server = Server::start(build, Settings { durable: true, ..Settings::default() }).await;
        let url = server.url("postgres");
        let (stream, ..) = open(&url, &streaming("quiet")).await;
        let producer = stream.producer();
        producer.send(document("a", 1)).await.unwrap().committed().await.unwrap();
        server.restart(StopMode::Fast).await;
        let client = millstream_testkit::connect(&url).await;
        let held = "select exists (select from pg_locks where locktype = 'advisory' and objsubid = 2)";
        until("the stream locks its load again", async || client.query_one(held, &[]).await.unwrap().get(0)).await;
        producer.send(document("b", 1)).await.unwrap().committed().await.unwrap();
        assert_eq!(close(stream).await.receipt.counters.read, 2);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_permanent_error_reaches_every_send_and_commit() {
    let db = database().await;
    let (stream, ..) = open(&db.url(), &streaming("gone")).await;
    let producer = stream.producer();
    producer.send(document("a", 1)).await.unwrap().committed().await.unwrap();
    db.client().await.batch_execute("drop table public.gone").await.unwrap();
    let commit = producer.send(document("b", 1)).await.unwrap();
    let error = commit.committed().await.unwrap_err();
    assert!(matches!(error, Error::StreamEnded(_)), "{error:?}");
    stream.ended().await;
    let error = until_some("a send fails", async || producer.send(document("c", 1)).await.err()).await;
    assert!(matches!(error, Error::StreamEnded(_)), "{error:?}");
    let outcome = close(stream).await;
    assert_eq!(outcome.stopped, Some(StopReason::Failed));
    assert!(matches!(outcome.error, Some(Error::TableMoved { .. })), "{outcome:?}");
    assert_eq!(outcome.receipt.counters.read, 1);
}

#[tokio::test]
async fn a_stop_ends_sends_and_commits_accepted_documents() {
    let db = database().await;
    let (stream, around, _) = open(&db.url(), &streaming("stopped")).await;
    let producer = stream.producer();
    let commit = producer.send(document("a", 1)).await.unwrap();
    let stop: &Stop = &around.stop;
    stop.stop(StopReason::Interrupted);
    assert!(matches!(producer.send(document("b", 1)).await, Err(Error::StreamEnded(_))));
    let outcome = close(stream).await;
    assert_eq!(commit.committed().await.unwrap().documents, 1);
    assert_eq!(outcome.stopped, Some(StopReason::Interrupted));
    assert_eq!((outcome.receipt.counters.read, outcome.receipt.finished), (1, false));
}

#[tokio::test]
async fn a_stream_needs_key_types_only_for_a_new_table() {
    let db = database().await;
    let (around, _) = surroundings(&db.url());
    let untyped = request("typed", "id", &[]);
    let Err(error) = Box::pin(Stream::open(&untyped, &around)).await else { panic!("a key without types") };
    assert!(error.hint().is_some_and(|hint| hint.contains("id:text")), "{error}");
    let named = request("typed", "id:text", &["a.ndjson".to_owned()]);
    let Err(error) = Box::pin(Stream::open(&named, &around)).await else { panic!("a stream of files") };
    assert!(matches!(error, Error::Refused(_)), "{error}");
    let mut csv = streaming("typed");
    csv.format = "csv".into();
    assert!(Box::pin(Stream::open(&csv, &around)).await.is_err());
    let mut load_ids = Vec::new();
    for wanted in [streaming("typed"), untyped] {
        let (stream, ..) = open(&db.url(), &wanted).await;
        let commit = stream.producer().send(document("a", 1)).await.unwrap();
        commit.committed().await.unwrap();
        if load_ids.is_empty() {
            // Abandoned: nobody can resume it, and it blocks nobody.
            drop(stream);
            load_ids.push(0);
            continue;
        }
        load_ids.push(close(stream).await.receipt.load_id);
    }
    assert_eq!(load_ids, [0, 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sums_of_many_producers_add_up() {
    each_build(async |db| {
        let mut wanted = streaming("added");
        wanted.mode = "sum:value".parse().unwrap();
        (wanted.lanes, wanted.batch_rows) = (Some(2), 300);
        let (stream, ..) = open(&db.url(), &wanted).await;
        let mut tasks = JoinSet::new();
        for _ in 0..PRODUCERS {
            let producer = stream.producer();
            tasks.spawn(async move {
                for n in 0..500 {
                    producer.send(document(&format!("key-{}", n % 3), n)).await.unwrap();
                }
            });
        }
        tasks.join_all().await;
        let outcome = close(stream).await;
        assert!(outcome.stopped.is_none(), "{outcome:?}");
        let total: i64 = stored(&db, "public.added").await.values().sum();
        assert_eq!(total, PRODUCERS * 499 * 500 / 2);
    })
    .await;
}
