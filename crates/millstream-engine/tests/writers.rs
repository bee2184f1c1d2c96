//! Streams of a service share its memory and write in turn: one that waits holds up no other, and none waits for ever.

use crate::scene::{close, execute, request, stored, until_held_up};
use crate::service::{document, open, placed, stream};
use millstream_engine::limits::{
    MEMORY_BYTES_MIN, SERVICE_WRITERS_MAX, SERVICE_WRITERS_MIN, SERVICE_WRITERS_PER_PROCESSOR,
};
use millstream_engine::{Commit, Placed, StopReason};
use millstream_testkit::{each_build, until, until_some};
use std::collections::BTreeMap;
use std::time::Duration;

/// Bytes of the text of a long document.
const LONG: usize = 256 << 10;

/// A long document.
fn long(place: u64, id: &str) -> Placed {
    let mut sent = Placed::at(place, 0);
    let text = "x".repeat(LONG);
    sent.push(place, format!("{{\"id\":\"{id}\",\"value\":{place},\"text\":\"{text}\"}}").as_bytes(), 0);
    sent
}

/// How many streams write at once on this machine.
fn writers() -> u16 {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let wanted = u16::try_from(processors).unwrap_or(u16::MAX).saturating_mul(SERVICE_WRITERS_PER_PROCESSOR);
    wanted.clamp(SERVICE_WRITERS_MIN, SERVICE_WRITERS_MAX)
}

/// If one partition of a topic could fill the memory, a lock on one row would stop all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stream_whose_batch_waits_leaves_memory_to_the_others() {
    each_build(async |db| {
        let mut wanted = request("lagging", "id:text", &[]);
        (wanted.memory_bytes, wanted.batch_rows) = (MEMORY_BYTES_MIN, 4);
        let (service, ..) = open(&db.url(), &wanted, 2).await;
        let (slow, quick) = (stream(&service, "slow").await, stream(&service, "quick").await);
        let client = db.client().await;
        client.batch_execute("begin; insert into public.lagging values ('held', '{}')").await.unwrap();
        let first = slow.producer().send_placed(long(0, "held")).await.unwrap();
        until_held_up(&db, "millstream lane 0").await;
        let producer = slow.producer();
        let feeding = tokio::spawn(async move {
            for place in 1.. {
                if producer.send_placed(long(place, "held")).await.is_err() {
                    return;
                }
            }
        });
        // Several times the memory, while the other one takes of it what it gets.
        let documents = u64::try_from(3 * MEMORY_BYTES_MIN / LONG).unwrap();
        let mut commits: Vec<Commit> = Vec::new();
        for place in 0..documents {
            commits.push(quick.producer().send_placed(long(place, &format!("quick-{place}"))).await.unwrap());
        }
        for commit in commits {
            assert_eq!(commit.committed().await.unwrap().rejected, 0);
        }
        assert_eq!(close(quick).await.receipt.counters.read, documents);
        feeding.abort();
        client.batch_execute("rollback").await.unwrap();
        assert_eq!(first.committed().await.unwrap().documents, 1);
        let outcome = close(slow).await;
        assert!(outcome.error.is_none() && outcome.receipt.counters.read > 0, "{outcome:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stream_that_waits_for_its_turn_can_be_closed_and_the_others_get_theirs() {
    each_build(async |db| {
        let (writers, held) = (i64::from(writers()), writers() + 3);
        let (service, ..) = open(&db.url(), &request("waiting", "id:text", &[]), held + 1).await;
        let last = stream(&service, "last").await;
        let client = db.client().await;
        let rows = format!("select 'held-' || n, '{{}}'::jsonb from generate_series(0, {held}) n");
        client.batch_execute(&format!("begin; insert into public.waiting {rows}")).await.unwrap();
        let (mut streams, mut commits) = (Vec::new(), Vec::new());
        for n in 0..held {
            let one = stream(&service, &n.to_string()).await;
            let mut sent = Placed::at(0, 0);
            sent.push(0, document(&format!("held-{n}"), i64::from(n)).as_bytes(), 0);
            commits.push(one.producer().send_placed(sent).await.unwrap());
            streams.push(one);
        }
        let other = db.client().await;
        let at_work = async || {
            let sql = "select count(*) from pg_stat_activity where application_name = 'millstream lane 0'
                       and wait_event_type = 'Lock' and datname = current_database()";
            other.query_one(sql, &[]).await.unwrap().get::<_, i64>(0)
        };
        until("as many write as may", async || {
            let found = at_work().await;
            assert!(found <= writers, "{found} streams write at once");
            found == writers
        })
        .await;
        // Nothing holds it up but its turn.
        let commit = last.producer().send_placed(placed([1], 9)).await.unwrap();
        let outcome = Box::pin(last.close_within(Duration::ZERO)).await.expect("there is a receipt");
        assert!(outcome.error.is_none() && outcome.stopped == Some(StopReason::Suspended), "{outcome:?}");
        assert_eq!(outcome.receipt.counters.read, 0);
        assert!(commit.committed().await.is_err(), "it is rolled back");
        assert_eq!(at_work().await, writers);
        client.batch_execute("rollback").await.unwrap();
        for commit in commits {
            assert_eq!(commit.committed().await.unwrap().rejected, 0);
        }
        for one in streams {
            assert_eq!(close(one).await.receipt.counters.inserted, 1);
        }
        let expected: BTreeMap<String, i64> = (0..held).map(|n| (format!("held-{n}"), i64::from(n))).collect();
        assert_eq!(stored(&db, "public.waiting").await, expected);
    })
    .await;
}

/// What one stream has found out about the table is used for the next one only if it still holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stream_notices_what_has_become_of_the_table_since_another_one_was_opened() {
    each_build(async |db| {
        let (service, _, events) = open(&db.url(), &request("known", "id:text", &[]), 2).await;
        let a = stream(&service, "a").await;
        a.producer().send_placed(placed([1, 2], 9)).await.unwrap();
        close(a).await;
        execute(&db, "truncate public.known").await;
        let a = stream(&service, "a").await;
        assert_eq!(a.watermark().map_or(0, |watermark| watermark.offset), 0, "it starts over");
        assert!(events.warnings().contains("starts over"), "{}", events.warnings());
        a.producer().send_placed(placed([1, 2], 9)).await.unwrap();
        close(a).await;
        // The same table: it continues.
        let a = stream(&service, "a").await;
        assert_eq!(a.watermark().map(|watermark| watermark.offset), Some(3));
        close(a).await;
        execute(&db, "alter table public.known rename column id to other").await;
        assert!(Box::pin(service.stream("b")).await.is_err(), "its key is gone");
        execute(&db, "drop table public.known").await;
        let b = until_some("another stream opens", async || Box::pin(service.stream("b")).await.ok()).await;
        b.producer().send_placed(placed([7], 9)).await.unwrap();
        close(b).await;
        assert_eq!(stored(&db, "public.known").await, BTreeMap::from([("key-7".to_owned(), 7)]));
    })
    .await;
}
