//! A topic is loaded, and loaded again, whatever happens to it meanwhile. Many cases are public bug reports about other
//! sinks, made small.

use crate::fake::{Fake, Questions};
use crate::scene::{End, interrupted, is_stopped, keyed, loaded, rejects, request, run, stored, surroundings};
use millstream_engine::StopReason;
use millstream_kafka::limits::ASK_TRIES_MAX;
use millstream_kafka::{Begin, ClientError, Error, Lot, Messages, Until, load};
use millstream_model::KeyRequest;
use millstream_pg::Explained;
use millstream_testkit::{Cases, database, each_build, until};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

const KEY: &str = "id:text";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_partition_is_a_load_and_continues_where_it_was() {
    each_build(async |db| {
        let topic = Arc::new(Fake::new(3));
        let wanted = request("orders", KEY, "replace");
        for n in 0..30 {
            topic.document(n % 3, &format!("key-{n}"), i64::from(n));
        }
        let first = loaded(&db, &wanted, &topic).await.account;
        let offsets: Vec<(i32, u64)> = first.partitions.iter().map(|one| (one.partition, one.offset)).collect();
        assert_eq!((first.counters.read, first.counters.inserted, offsets), (30, 30, vec![(0, 10), (1, 10), (2, 10)]));
        let load_ids: BTreeSet<i64> = first.partitions.iter().map(|one| one.receipt.load_id).collect();
        assert_eq!(load_ids.len(), 3);
        // Nothing is new.
        assert_eq!(loaded(&db, &wanted, &topic).await.account.counters.read, 30);
        topic.document(1, "key-1", 100);
        let again = loaded(&db, &wanted, &topic).await.account;
        assert_eq!((again.counters.read, again.counters.updated), (31, 1));
        let known: BTreeSet<i64> = again.partitions.iter().map(|one| one.receipt.load_id).collect();
        assert_eq!(known, load_ids, "the same loads go on");
        assert_eq!(stored(&db, "orders").await["key-1"], 100);
        assert_eq!(topic.told(), BTreeMap::from([(0, 10), (1, 11), (2, 10)]));
    })
    .await;
}

/// If offsets were not written together with the rows, a restart would count a sum twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sums_of_killed_and_stopped_runs_count_each_message_once() {
    let db = database().await;
    for mut rng in Cases::new(3) {
        let into = format!("sums{}", rng.u32(..));
        let partitions = rng.i32(1..4);
        let topic = Arc::new(Fake::new(partitions));
        topic.lots_of(rng.usize(1..300));
        let mut wanted = request(&into, KEY, "sum:value");
        wanted.name = Some(into.clone());
        wanted.load.batch_rows = 200;
        let mut sum = 0;
        for _ in 0..rng.u32(1..4) {
            for n in 0..rng.i64(1..2_000) {
                let partition = rng.i32(0..partitions);
                topic.document(partition, &format!("key-{}", rng.u8(0..20)), n);
                sum += n;
                if rng.u8(..) < 20 {
                    topic.hidden(partition, rng.u64(1..4));
                }
            }
            let end = if rng.bool() { End::Kill } else { End::Stop };
            interrupted(&db, &wanted, &topic, rng.u64(0..2), end).await;
        }
        let account = loaded(&db, &wanted, &topic).await.account;
        assert_eq!(stored(&db, &into).await.into_values().sum::<i64>(), sum, "seed {}", rng.get_seed());
        for one in &account.partitions {
            assert!(one.offset <= topic.end(one.partition), "{account:?}");
        }
    }
}

/// A topic may end with a transaction's control record: reading to the end must end there, and lag must be zero.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn offsets_without_a_record_are_passed() {
    each_build(async |db| {
        let topic = Arc::new(Fake::new(2));
        topic.hidden(0, 3);
        topic.document(0, "a", 1);
        topic.hidden(0, 1);
        // A transaction that was aborted, and nothing else.
        topic.hidden(1, 7);
        let wanted = request("hidden", KEY, "sum:value");
        for read in [1, 1, 2] {
            let account = loaded(&db, &wanted, &topic).await.account;
            assert_eq!(account.counters.read, read);
            assert_eq!(topic.told()[&0], topic.end(0), "tools see no lag");
            assert_eq!(topic.told()[&1], 7);
            if read == 1 && topic.end(0) > 5 {
                topic.document(0, "a", 5);
            }
            topic.hidden(0, 1);
        }
        assert_eq!(stored(&db, "hidden").await, BTreeMap::from([("a".to_owned(), 6)]));
    })
    .await;
}

/// A topic that nobody writes to any more loses all that it holds. If it ended with a control record, that is gone before it
/// was loaded, but no message is.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_no_client_sees_is_not_missed_when_it_is_removed() {
    each_build(async |db| {
        for (name, before, hidden) in [("control", 3, 1), ("aborted", 3, 500), ("many", 1, 70_000), ("nothing", 0, 9)] {
            let topic = Arc::new(Fake::new(1));
            (0..before).for_each(|n| topic.document(0, "a", n));
            topic.hidden(0, hidden);
            let mut wanted = request(&format!("idle_{name}"), KEY, "sum:value");
            wanted.name = Some(name.to_owned());
            let account = loaded(&db, &wanted, &topic).await.account;
            assert_eq!(account.partitions[0].offset, topic.end(0), "{name}");
            topic.retain_from(0, topic.end(0));
            for read in [before, before + 1] {
                let account = loaded(&db, &wanted, &topic).await.account;
                let found = (account.counters.read, account.partitions[0].gap);
                assert_eq!(found, (u64::try_from(read).unwrap(), 0), "{name}");
                topic.document(0, "a", 7);
            }
        }
    })
    .await;
}

/// The last record is compared although offsets without one follow it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_log_that_was_cut_off_before_its_control_records_is_refused() {
    let db = database().await;
    let topic = Arc::new(Fake::new(1));
    (0..5).for_each(|n| topic.document(0, "a", n));
    topic.hidden(0, 2);
    let wanted = request("shortened", KEY, "sum:value");
    loaded(&db, &wanted, &topic).await;
    // The next run passes more of them, and remembers the record.
    topic.hidden(0, 3);
    loaded(&db, &wanted, &topic).await;
    topic.cut_off(0, 4);
    (0..9).for_each(|_| topic.document(0, "a", 100));
    let outcome = run(&db, &wanted, &topic).await.unwrap();
    assert!(matches!(outcome.error, Some(Error::Replaced { .. })), "{outcome:?}");
    assert_eq!(stored(&db, "shortened").await["a"], 10, "nothing of it was added");
}

/// One message that is not JSON must neither stop the load nor take its batch along.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn bad_messages_are_rejects_at_their_offsets() {
    each_build(async |db| {
        let topic = Arc::new(Fake::new(2));
        topic.document(0, "a", 1);
        topic.push(0, Some("k"), Some(b"{\"id\":"));
        topic.push(0, Some("k"), Some(b"\x00\x00\x00\x00\x07\x02\x06abc"));
        topic.push(0, Some("k"), Some(b"\x00\x00\x00\x00\x07{\"id\":\"framed\",\"value\":2}"));
        topic.push(0, None, None);
        topic.push(0, None, Some(b"{\"id\":\"a\\u0000\"}"));
        topic.push(0, None, Some(b"{\"id\":\"\xff\"}"));
        topic.push(0, None, Some(b"{\"id\":\"two\",\n \"value\":3}\r\n"));
        topic.hidden(1, 1);
        topic.push(1, None, Some(b"[]"));
        let account = loaded(&db, &request("bad", KEY, "replace"), &topic).await.account;
        assert_eq!((account.counters.read, account.counters.rejected), (9, 6));
        let found = rejects(&db).await;
        let places: Vec<(&str, i64, &str)> =
            found.iter().map(|(source, offset, reason, _)| (source.as_str(), *offset, reason.as_str())).collect();
        let expected = [
            ("kafka:orders/0", 1, "not_json"),
            ("kafka:orders/0", 2, "not_json"),
            ("kafka:orders/0", 4, "not_json"),
            ("kafka:orders/0", 5, "nul_character"),
            ("kafka:orders/0", 6, "invalid_utf8"),
            ("kafka:orders/1", 1, "not_object"),
        ];
        assert_eq!(places, expected);
        assert!(found[1].3.contains("Avro or Protobuf") && found[2].3.contains("--message-key"), "{found:?}");
        let table = BTreeMap::from([("a".to_owned(), 1), ("framed".to_owned(), 2), ("two".to_owned(), 3)]);
        assert_eq!(stored(&db, "bad").await, table);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn too_many_bad_messages_stop_all_partitions_and_say_which() {
    let db = database().await;
    let topic = Arc::new(Fake::new(2));
    topic.document(0, "a", 1);
    (0..20).for_each(|_| topic.push(1, None, Some(b"no json")));
    let mut wanted = request("spoiled", KEY, "replace");
    wanted.load.rejects_max = 5;
    let outcome = run(&db, &wanted, &topic).await.unwrap();
    assert_eq!((outcome.stopped, outcome.error.is_none()), (Some(StopReason::Rejects), true));
    let rejected: Vec<u64> = outcome.account.partitions.iter().map(|one| one.receipt.counters.rejected).collect();
    assert!(rejected[0] == 0 && rejected[1] >= 5, "{rejected:?}");
}

/// A message without a value deletes: it must not be ignored in silence, nor fail.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn empty_messages_delete_by_the_key_of_the_message() {
    each_build(async |db| {
        for mode in ["replace", "merge", "sum:value"] {
            let into = format!("emptied_{}", &mode[..3]);
            let topic = Arc::new(Fake::new(1));
            topic.push(0, Some("a"), Some(b"{\"value\":1}"));
            topic.push(0, Some("b"), Some(b"{\"value\":2}"));
            topic.push(0, Some("c"), Some(b"{\"value\":3}"));
            let mut wanted = keyed(&into, KEY, mode, &["id"]);
            wanted.name = Some(into.clone());
            loaded(&db, &wanted, &topic).await;
            topic.push(0, Some("a"), None);
            topic.push(0, Some("b"), Some(b""));
            topic.push(0, Some("absent"), None);
            // Deleted and written again in one batch, and the other way round.
            topic.push(0, Some("c"), None);
            topic.push(0, Some("c"), Some(b"{\"value\":30}"));
            topic.push(0, Some("d"), Some(b"{\"value\":4}"));
            topic.push(0, Some("d"), None);
            // There is nothing to delete.
            topic.push(0, None, None);
            let counters = loaded(&db, &wanted, &topic).await.account.counters;
            assert_eq!((counters.read, counters.rejected), (11, 1), "{mode}");
            assert_eq!(stored(&db, &into).await, BTreeMap::from([("c".to_owned(), 30)]), "{mode}");
        }
    })
    .await;
}

/// Keys of messages are text, quoted text, objects, or objects with their schema.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn keys_of_messages_are_read_as_text_and_as_json() {
    each_build(async |db| {
        let topic = Arc::new(Fake::new(1));
        for (value, key) in (1..).zip(["7", "\"8\"", "{\"id\":9}", "{\"schema\":{},\"payload\":{\"id\":10}}"]) {
            let value: i32 = value;
            topic.push(0, Some(key), Some(format!("{{\"value\":{value},\"id\":0}}").as_bytes()));
        }
        topic.push(0, Some("no number"), Some(b"{\"value\":5}"));
        let account = loaded(&db, &keyed("keys", "id:bigint", "replace", &["id"]), &topic).await.account;
        assert_eq!((account.counters.inserted, account.counters.rejected), (4, 1));
        let table = [("7", 1), ("8", 2), ("9", 3), ("10", 4)].map(|(id, value)| (id.to_owned(), value));
        assert_eq!(stored(&db, "keys").await, BTreeMap::from(table));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_known_of_a_message_can_be_the_version_of_its_document() {
    let db = database().await;
    let topic = Arc::new(Fake::new(1));
    topic.document(0, "a", 1);
    topic.document(0, "a", 2);
    // Keys may be binary numbers, which are not stored as text.
    topic.push(0, Some("\0\0\0\u{5}"), Some(b"{\"id\":\"five\"}"));
    let mut wanted = request("versions", KEY, "newest:kafka.offset");
    let key = KeyRequest::parse_list(KEY).unwrap();
    wanted.messages = Messages::new("orders", &key, &[], Some("kafka"), None).unwrap();
    let counters = loaded(&db, &wanted, &topic).await.account.counters;
    assert_eq!((counters.read, counters.rejected), (3, 0));
    let sql = "select ((doc->'kafka') - 'timestamp')::text from public.versions where id = 'a'";
    let row = db.client().await.query_one(sql, &[]).await.unwrap();
    let about: serde_json::Value = serde_json::from_str(row.get(0)).unwrap();
    let expected = serde_json::json!({
        "topic": "orders", "partition": 0, "offset": 1, "key": "a", "headers": [],
    });
    assert_eq!(about, expected);
}

/// Offsets of a topic that was made again name other messages: going on would skip the first ones in silence.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_topic_that_was_made_again_is_refused() {
    each_build(async |db| {
        // Whether the brokers say which topic it is, and how many messages the new one has.
        for (known, messages) in [(true, 1), (true, 3), (true, 9), (false, 1), (false, 3), (false, 9)] {
            let into = format!("again_{known}_{messages}");
            let topic = Arc::new(Fake::new(1));
            (0..3).for_each(|n| topic.document(0, "a", n));
            let mut wanted = request(&into, KEY, "sum:value");
            wanted.name = Some(into.clone());
            loaded(&db, &wanted, &topic).await;
            topic.make_again(known);
            (0..messages).for_each(|n| topic.document(0, "a", 100 + n));
            let refused = match run(&db, &wanted, &topic).await {
                Err(error) => error,
                Ok(outcome) => outcome.error.expect("it is refused"),
            };
            assert!(matches!(refused, Error::Replaced { partition: 0, .. }), "{known} {messages}: {refused}");
            assert!(refused.hint().is_some_and(|hint| hint.contains("--source-name")) && refused.load_id().is_some());
            assert_eq!(stored(&db, &into).await["a"], 3, "nothing of it was added");
            wanted.load.resume = false;
            let account = loaded(&db, &wanted, &topic).await.account;
            assert_eq!(account.counters.read, u64::try_from(messages).unwrap());
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_record_that_compaction_removed_is_no_obstacle() {
    each_build(async |db| {
        let topic = Arc::new(Fake::new(1));
        (0..5).for_each(|n| topic.document(0, "a", n));
        let wanted = request("compacted", KEY, "replace");
        loaded(&db, &wanted, &topic).await;
        // The last that was loaded, after newer ones came.
        topic.document(0, "a", 5);
        topic.document(0, "b", 6);
        (0..5).for_each(|offset| topic.compact(0, offset));
        let account = loaded(&db, &wanted, &topic).await.account;
        assert_eq!(account.counters.read, 7);
        assert_eq!(stored(&db, "compacted").await, BTreeMap::from([("a".to_owned(), 5), ("b".to_owned(), 6)]));
        // Nothing at all is left behind it.
        topic.hidden(0, 2);
        (5..7).for_each(|offset| topic.compact(0, offset));
        assert_eq!(loaded(&db, &wanted, &topic).await.account.counters.read, 7);
    })
    .await;
}

/// If records were removed, reading must not go on somewhere else: you learn how many are lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn removed_records_are_an_error_with_their_number() {
    each_build(async |db| {
        let topic = Arc::new(Fake::new(1));
        (0..10).for_each(|n| topic.document(0, "a", n));
        let mut wanted = request("removed", KEY, "sum:value");
        loaded(&db, &wanted, &topic).await;
        (10..40).for_each(|n| topic.document(0, "a", n));
        // All that was loaded is gone, and nothing else.
        topic.retain_from(0, 10);
        let (around, _) = surroundings(&db);
        around.stop.stop(StopReason::Terminated);
        assert!(is_stopped(&Box::pin(load(&wanted, Arc::clone(&topic), &around)).await.unwrap_err()));
        topic.retain_from(0, 25);
        let error = run(&db, &wanted, &topic).await.unwrap_err();
        assert!(matches!(error, Error::Gap { next: 10, first: 25, .. }), "{error}");
        assert!(error.to_string().contains("up to 15 records"), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("--allow-gap")), "{error}");
        wanted.allow_gap = true;
        let account = loaded(&db, &wanted, &topic).await.account;
        assert_eq!((account.partitions[0].gap, account.counters.read), (15, 25));
        assert_eq!(stored(&db, "removed").await["a"], (0..10).sum::<i64>() + (25..40).sum::<i64>());
        wanted.allow_gap = false;
        assert_eq!(loaded(&db, &wanted, &topic).await.account.partitions[0].gap, 0, "it is behind the gap");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn records_that_are_removed_while_the_load_runs_are_noticed() {
    let db = database().await;
    for allow_gap in [false, true] {
        let topic = Arc::new(Fake::new(1));
        topic.document(0, "a", 1);
        let mut wanted = request(&format!("late_{allow_gap}"), KEY, "sum:value");
        (wanted.name, wanted.until, wanted.allow_gap) = (Some(format!("late {allow_gap}")), Until::Stopped, allow_gap);
        let (around, warnings) = surroundings(&db);
        let mut loading = Box::pin(load(&wanted, Arc::clone(&topic), &around));
        let outrun = async {
            until("the first is committed", async || around.tally.documents() == 1).await;
            topic.outrun(0, 10);
            topic.document(0, "a", 7);
            until("the last is committed", async || around.tally.documents() == 2).await;
        };
        let outcome = tokio::select! {
            ended = &mut loading => ended.unwrap(),
            () = outrun => {
                around.stop.stop(StopReason::Terminated);
                loading.await.unwrap()
            }
        };
        match outcome.error {
            Some(error) => assert!(!allow_gap && matches!(error, Error::Gap { next: 1, first: 11, .. }), "{error}"),
            None => {
                assert!(allow_gap && warnings.text().contains("up to 10 records"), "{}", warnings.text());
                assert_eq!((outcome.account.counters.read, outcome.account.partitions[0].gap), (2, 10));
            }
        }
    }
}

/// After a broker took over that had not copied all, other records come at offsets that were read.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_log_that_was_cut_off_is_noticed() {
    let db = database().await;
    let topic = Arc::new(Fake::new(1));
    (0..5).for_each(|n| topic.document(0, "a", n));
    let mut wanted = request("cut", KEY, "sum:value");
    wanted.until = Until::Stopped;
    let (around, _) = surroundings(&db);
    let loading = Box::pin(load(&wanted, Arc::clone(&topic), &around));
    let cut = async {
        until("all are committed", async || around.tally.documents() == 5).await;
        topic.cut_off(0, 3);
        topic.document(0, "a", 100);
    };
    let (outcome, ()) = tokio::join!(loading, cut);
    let outcome = outcome.unwrap();
    assert!(matches!(outcome.error, Some(Error::Replaced { .. })), "{outcome:?}");
    assert_eq!(stored(&db, "cut").await["a"], 10, "nothing of it was added");
    assert!(matches!(run(&db, &wanted, &topic).await, Err(Error::Replaced { .. })), "and the next run knows it too");
}

/// What a client says of an offset may be out of date when it is heard, and so may be what is on its way.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_offset_that_is_there_after_all_is_read_anew() {
    let db = database().await;
    let topic = Arc::new(Fake::new(1));
    topic.document(0, "a", 1);
    let mut wanted = request("anew", KEY, "sum:value");
    wanted.until = Until::Stopped;
    let (around, _) = surroundings(&db);
    let loading = Box::pin(load(&wanted, Arc::clone(&topic), &around));
    let failing = async {
        until("the first is committed", async || around.tally.documents() == 1).await;
        let reading = topic.reading(0).expect("it is read");
        (0..2).for_each(|_| topic.fail(ClientError::OutOfRange { partition: 0 }));
        until("it is read anew", async || topic.reading(0) != Some(reading)).await;
        topic.leave_over(Lot { partition: 0, reading, records: Vec::new(), next: 1_000 });
        topic.document(0, "a", 2);
        until("the second is committed", async || around.tally.documents() == 2).await;
        around.stop.stop(StopReason::Terminated);
    };
    let (outcome, ()) = tokio::join!(loading, failing);
    let outcome = outcome.unwrap();
    assert!(outcome.error.is_none(), "{outcome:?}");
    assert_eq!(outcome.account.partitions[0].offset, 2);
    assert_eq!(stored(&db, "anew").await["a"], 3);
}

/// A broker that does not answer must delay neither other partitions nor the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_question_that_is_not_answered_holds_up_nothing_else() {
    let db = database().await;
    let topic = Arc::new(Fake::new(2));
    topic.withhold(Some(1));
    topic.document(1, "b", 1);
    let mut wanted = request("unanswered", KEY, "sum:value");
    (wanted.until, wanted.topic_every) = (Until::Stopped, Duration::from_millis(20));
    let (around, _) = surroundings(&db);
    let loading = Box::pin(load(&wanted, Arc::clone(&topic), &around));
    let waiting = async {
        until("the client reads", async || topic.polls() > 0).await;
        topic.questions(Questions::Unanswered);
        until("the marks of the one that stands are asked for", async || topic.asked(1) > 0).await;
        topic.document(0, "a", 2);
        until("the other one is loaded", async || around.tally.documents() == 1).await;
        topic.add_partition(2);
        until("the marks of the new one are asked for", async || topic.asked(2) > 0).await;
        around.stop.stop(StopReason::Terminated);
    };
    let (outcome, ()) = tokio::join!(loading, waiting);
    let outcome = outcome.unwrap();
    assert!(outcome.error.is_none() && outcome.stopped == Some(StopReason::Terminated), "{outcome:?}");
    assert_eq!(outcome.account.counters.read, 1);
    // Nor must it delay the end of a load that has not begun yet.
    topic.questions(Questions::Unanswered);
    let (around, _) = surroundings(&db);
    let loading = Box::pin(load(&wanted, Arc::clone(&topic), &around));
    let stopping = async {
        until("the marks are asked for", async || topic.asked(0) > 0).await;
        around.stop.stop(StopReason::Terminated);
    };
    let (outcome, ()) = tokio::join!(loading, stopping);
    assert!(is_stopped(&outcome.unwrap_err()));
}

/// The broker of a new partition may be away when the partition is seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_partition_that_is_added_waits_for_a_broker_that_is_away() {
    let db = database().await;
    let topic = Arc::new(Fake::new(1));
    let mut wanted = request("away", KEY, "sum:value");
    (wanted.until, wanted.topic_every) = (Until::Stopped, Duration::from_millis(20));
    let (around, _) = surroundings(&db);
    let loading = Box::pin(load(&wanted, Arc::clone(&topic), &around));
    let waiting = async {
        until("the client reads", async || topic.polls() > 0).await;
        topic.questions(Questions::Failed(ClientError::Passing("the broker is away".into())));
        topic.add_partition(1);
        topic.document(1, "new", 1);
        topic.document(0, "old", 2);
        until("more questions have failed than before a load begins", async || {
            topic.asked(1) > u64::from(ASK_TRIES_MAX)
        })
        .await;
        topic.questions(Questions::Answered);
        until("it is loaded", async || around.tally.documents() == 2).await;
        around.stop.stop(StopReason::Terminated);
    };
    let (outcome, ()) = tokio::join!(loading, waiting);
    assert!(outcome.unwrap().error.is_none());
    assert_eq!(stored(&db, "away").await.into_values().sum::<i64>(), 3);
}

/// A partition is seen a while after it was added, and then has messages already.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_partition_that_is_added_is_read_from_its_start() {
    let db = database().await;
    let topic = Arc::new(Fake::new(1));
    topic.document(0, "old", 1);
    let mut wanted = request("added", KEY, "replace");
    (wanted.from, wanted.until, wanted.topic_every) = (Begin::End, Until::Stopped, Duration::from_millis(20));
    let (around, warnings) = surroundings(&db);
    let loading = Box::pin(load(&wanted, Arc::clone(&topic), &around));
    let adding = async {
        until("the client reads", async || topic.polls() > 0).await;
        topic.add_partition(1);
        topic.document(1, "new", 2);
        topic.document(0, "new too", 3);
        until("both are committed", async || around.tally.documents() == 2).await;
        around.stop.stop(StopReason::Terminated);
    };
    let (outcome, ()) = tokio::join!(loading, adding);
    assert_eq!(outcome.unwrap().account.partitions.len(), 2);
    assert!(warnings.text().contains("a new partition, which is loaded too: 1"), "{}", warnings.text());
    let table = BTreeMap::from([("new".to_owned(), 2), ("new too".to_owned(), 3)]);
    assert_eq!(stored(&db, "added").await, table);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_partition_begins_where_it_is_asked_to_and_keeps_that() {
    each_build(async |db| {
        for (name, from, expected) in [
            ("start", Begin::Start, 0..10),
            ("end", Begin::End, 10..10),
            ("time", Begin::Time(35), 4..10),
            ("late", Begin::Time(1_000_000), 10..10),
        ] {
            let topic = Arc::new(Fake::new(1));
            (0..10).for_each(|n| topic.document(0, &n.to_string(), n));
            let mut wanted = request(&format!("from_{name}"), KEY, "replace");
            (wanted.name, wanted.from) = (Some(name.to_owned()), from);
            let read = u64::try_from(expected.clone().count()).unwrap();
            assert_eq!(loaded(&db, &wanted, &topic).await.account.counters.read, read, "{name}");
            // What came later is read, also if the first run has read nothing.
            topic.document(0, "10", 10);
            let table: BTreeMap<String, i64> = expected.chain(10..11).map(|n| (n.to_string(), n)).collect();
            assert_eq!(loaded(&db, &wanted, &topic).await.account.counters.read, read + 1, "{name}");
            assert_eq!(stored(&db, &format!("from_{name}")).await, table, "{name}");
        }
    })
    .await;
}

/// Messages of a partition that is added between two runs are new, whatever the command says about the first run.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_partition_that_is_added_between_two_runs_is_read_from_its_start() {
    let db = database().await;
    let topic = Arc::new(Fake::new(2));
    (0..2).for_each(|partition| topic.document(partition, "old", 1));
    let mut wanted = request("between", KEY, "replace");
    wanted.from = Begin::End;
    assert_eq!(loaded(&db, &wanted, &topic).await.account.counters.read, 0);
    topic.add_partition(2);
    topic.document(2, "new", 2);
    topic.document(0, "new too", 3);
    let (around, warnings) = surroundings(&db);
    let outcome = Box::pin(load(&wanted, Arc::clone(&topic), &around)).await.unwrap();
    assert_eq!(outcome.account.counters.read, 2);
    assert!(warnings.text().contains("partition 2 of orders has not begun yet"), "{}", warnings.text());
    let table = BTreeMap::from([("new".to_owned(), 2), ("new too".to_owned(), 3)]);
    assert_eq!(stored(&db, "between").await, table);
    // Partitions that are named begin where the command says.
    topic.add_partition(3);
    topic.document(3, "skipped", 4);
    wanted.partitions = Some(BTreeSet::from([0, 3]));
    assert_eq!(loaded(&db, &wanted, &topic).await.account.counters.read, 1);
    assert_eq!(stored(&db, "between").await, table);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn types_of_a_new_collection_come_from_the_first_messages() {
    each_build(async |db| {
        let topic = Arc::new(Fake::new(2));
        topic.push(0, None, Some(b"no json"));
        topic.push(0, None, Some(b"{\"id\":\n 7,\"value\":1}"));
        topic.push(1, None, Some(b"{\"id\":8,\"value\":2}"));
        let account = loaded(&db, &request("inferred", "id", "replace"), &topic).await.account;
        assert_eq!((account.counters.read, account.counters.inserted), (3, 2));
        let sql = "select pg_typeof(id)::text from public.inferred limit 1";
        assert_eq!(db.client().await.query_one(sql, &[]).await.unwrap().get::<_, String>(0), "bigint");
        let empty = Arc::new(Fake::new(1));
        let error = run(&db, &request("nothing", "id", "replace"), &empty).await.unwrap_err();
        assert!(error.hint().is_some_and(|hint| hint.contains("id:text")), "{error}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn errors_that_pass_do_not_end_a_load_and_others_do() {
    let db = database().await;
    let topic = Arc::new(Fake::new(1));
    topic.document(0, "a", 1);
    let wanted = request("failing", KEY, "sum:value");
    (0..2).for_each(|_| topic.fail(ClientError::Passing("the broker is away".into())));
    let account = loaded(&db, &wanted, &topic).await.account;
    assert_eq!((account.counters.read, topic.polls() > 2), (1, true));
    topic.document(0, "a", 2);
    topic.fail(ClientError::Final("not allowed".into()));
    let outcome = run(&db, &wanted, &topic).await.unwrap();
    let error = outcome.error.expect("it has failed");
    assert!(error.to_string().contains("not allowed") && error.hint().is_some(), "{error}");
    topic.fail(ClientError::Undecodable("a batch at orders-0 offset 1: its checksum is wrong".into()));
    let error = run(&db, &wanted, &topic).await.unwrap().error.expect("it has failed");
    assert!(error.to_string().contains("offset 1") && error.hint().unwrap().contains("--allow-gap"), "{error}");
    assert_eq!(loaded(&db, &wanted, &topic).await.account.counters.read, 2);
    assert_eq!(stored(&db, "failing").await["a"], 3);
}

/// Without a leader, or without the right to read, a partition looks as if nobody wrote to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_partition_whose_records_do_not_come_is_named() {
    let db = database().await;
    let topic = Arc::new(Fake::new(2));
    topic.withhold(Some(1));
    topic.document(0, "a", 1);
    topic.document(1, "b", 2);
    let mut wanted = request("withheld", KEY, "replace");
    wanted.topic_every = Duration::from_millis(20);
    let (around, warnings) = surroundings(&db);
    let loading = Box::pin(load(&wanted, Arc::clone(&topic), &around));
    let waiting = async {
        until("it is named", async || {
            warnings
                .text()
                .contains("partition 1 of orders has records from offset 0 to 1, and the brokers return none")
        })
        .await;
        topic.withhold(None);
    };
    let (outcome, ()) = tokio::join!(loading, waiting);
    assert_eq!(outcome.unwrap().account.counters.read, 2);
    assert!(!warnings.text().contains("partition 0 of"), "{}", warnings.text());
}

/// A topic that is deleted must not look like one that nobody writes to.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_topic_that_is_gone_ends_the_load_and_one_that_is_not_seen_for_a_while_does_not() {
    let db = database().await;
    let topic = Arc::new(Fake::new(1));
    let mut wanted = request("unseen", KEY, "replace");
    (wanted.until, wanted.topic_every) = (Until::Stopped, Duration::from_millis(20));
    let (around, warnings) = surroundings(&db);
    let loading = Box::pin(load(&wanted, Arc::clone(&topic), &around));
    let hiding = async {
        until("the client reads", async || topic.polls() > 0).await;
        topic.hide(Some(ClientError::Passing("the broker is away".into())));
        until("it is said", async || warnings.text().contains("cannot be looked at")).await;
        topic.hide(None);
        topic.document(0, "a", 1);
        until("it is committed", async || around.tally.documents() == 1).await;
        topic.hide(Some(ClientError::Final("there is no topic orders".into())));
    };
    let (outcome, ()) = tokio::join!(loading, hiding);
    let outcome = outcome.unwrap();
    let error = outcome.error.expect("it has ended");
    assert!(error.to_string().contains("there is no topic orders") && error.hint().is_some(), "{error}");
    assert_eq!(outcome.account.counters.read, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lost_table_ends_the_load_and_says_why() {
    let db = database().await;
    let topic = Arc::new(Fake::new(2));
    topic.document(0, "a", 1);
    let mut wanted = request("lost", KEY, "replace");
    wanted.until = Until::Stopped;
    let (around, _) = surroundings(&db);
    let loading = Box::pin(load(&wanted, Arc::clone(&topic), &around));
    let lose = async {
        until("the first is committed", async || around.tally.documents() == 1).await;
        db.client().await.batch_execute("drop table public.lost").await.unwrap();
        topic.document(1, "b", 2);
    };
    let (outcome, ()) = tokio::join!(loading, lose);
    let outcome = outcome.unwrap();
    let error = outcome.error.expect("it has failed");
    assert!(error.to_string().contains("renamed, replaced or dropped"), "{error}");
    assert_eq!(outcome.stopped, Some(StopReason::Failed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_partition_that_another_process_loads_is_refused() {
    let db = database().await;
    let topic = Arc::new(Fake::new(1));
    topic.document(0, "a", 1);
    let mut wanted = request("busy", KEY, "replace");
    wanted.until = Until::Stopped;
    let (around, _) = surroundings(&db);
    let loading = Box::pin(load(&wanted, Arc::clone(&topic), &around));
    let other = async {
        until("the first is committed", async || around.tally.documents() == 1).await;
        let error = run(&db, &wanted, &topic).await.unwrap_err();
        around.stop.stop(StopReason::Terminated);
        error
    };
    let (outcome, error) = tokio::join!(loading, other);
    assert_eq!(outcome.unwrap().stopped, Some(StopReason::Terminated));
    assert!(error.load_id().is_some() && error.hint().is_some(), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_slow_partition_is_paused_and_loses_nothing() {
    let db = database().await;
    let topic = Arc::new(Fake::new(3));
    topic.lots_of(5);
    let mut wanted = request("slow", KEY, "sum:value");
    wanted.load.memory_bytes = millstream_engine::limits::MEMORY_BYTES_MIN;
    let long = "x".repeat(100_000);
    let mut sum = 0;
    for n in 0..600 {
        let document = format!("{{\"id\":\"a\",\"value\":{n},\"text\":\"{long}\"}}");
        topic.push(n % 3, None, Some(document.as_bytes()));
        sum += i64::from(n);
    }
    let account = loaded(&db, &wanted, &topic).await.account;
    assert_eq!(account.counters.read, 600);
    assert_eq!(stored(&db, "slow").await["a"], sum);
}

/// Most sinks write each partition by itself, and become slow with many of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_partitions_are_opened_at_once_and_each_continues_as_its_own_load() {
    each_build(async |db| {
        let topic = Arc::new(Fake::new(24));
        let mut wanted = request("many", KEY, "sum:value");
        let mut sum = 0;
        let mut known: BTreeMap<i32, i64> = BTreeMap::new();
        for run in 1..=3u64 {
            for n in 0..240 {
                topic.document(n % 24, &format!("key-{}", n % 7), i64::from(n));
                sum += i64::from(n);
            }
            let account = loaded(&db, &wanted, &topic).await.account;
            assert_eq!((account.partitions.len(), account.counters.read), (24, 240 * run));
            let loads: BTreeMap<i32, i64> =
                account.partitions.iter().map(|one| (one.partition, one.receipt.load_id)).collect();
            assert_eq!(loads.values().collect::<BTreeSet<_>>().len(), 24);
            assert!(known.is_empty() || known == loads, "the same loads go on");
            assert!(account.partitions.iter().all(|one| one.offset == 10 * run), "{account:?}");
            known = loads;
        }
        assert_eq!(stored(&db, "many").await.into_values().sum::<i64>(), sum);
        // One that cannot be opened ends the load, and those that are being opened beside it are released.
        (240..480).for_each(|n| topic.document(n % 24, "key-0", 0));
        topic.retain_from(5, 35);
        assert!(matches!(run(&db, &wanted, &topic).await, Err(Error::Gap { partition: 5, next: 30, first: 35, .. })));
        wanted.allow_gap = true;
        let account = loaded(&db, &wanted, &topic).await.account;
        assert_eq!((account.counters.read, account.partitions[5].gap), (240 * 4 - 5, 5));
        assert_eq!(stored(&db, "many").await.into_values().sum::<i64>(), sum);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn some_partitions_can_be_loaded_here_and_others_elsewhere() {
    let db = database().await;
    let topic = Arc::new(Fake::new(4));
    let elsewhere = Arc::new(Fake::new(4));
    for n in 0..40 {
        for one in [&topic, &elsewhere] {
            one.document(n % 4, &format!("key-{n}"), i64::from(n));
        }
    }
    let mut wanted = request("divided", KEY, "sum:value");
    let mut others = wanted.clone();
    wanted.partitions = Some(BTreeSet::from([0, 3]));
    others.partitions = Some(BTreeSet::from([1, 2]));
    let (here, there) = tokio::join!(loaded(&db, &wanted, &topic), loaded(&db, &others, &elsewhere));
    assert_eq!((here.account.counters.read, there.account.counters.read), (20, 20));
    assert_eq!(stored(&db, "divided").await.len(), 40);
    wanted.partitions = Some(BTreeSet::from([4]));
    assert!(run(&db, &wanted, &topic).await.unwrap_err().to_string().contains("no partition 4"));
}
