//! Loads that delete, beside others that write the same rows: a deadlock costs only time.

use crate::scene::{Files, request, run, stored};
use fastrand::Rng;
use millstream_engine::{LoadRequest, Mode};
use millstream_testkit::{Cases, TestDatabase, each_build, until};
use std::collections::BTreeMap;
use std::fmt::Write;

const MODES: &[&str] = &["sum:value", "replace"];
/// Keys that both loads write.
const SHARED: usize = 200;

fn deleting(table: &str, mode: &str, file: String) -> LoadRequest {
    let mut wanted = request(table, "id:text", &[file]);
    let mode: Mode = mode.parse().expect("a mode");
    wanted.mode = mode.with_tombstone(Some("op=d".parse().expect("a path and a value")));
    wanted
}

/// One load's documents, and the result for the keys that only this load writes.
#[derive(Default)]
struct Mixed {
    text: String,
    /// The sums, or the last values, of the keys that both write.
    shared: BTreeMap<String, i64>,
    own: BTreeMap<String, i64>,
}

impl Mixed {
    /// Every document of a shared key comes with two of this load's own keys, each put or deleted. In mode replace,
    /// each load first deletes its half of the shared keys, so that the two loads write them by different statements.
    fn new(rng: &mut Rng, name: &str, mode: &str, keys: impl Iterator<Item = usize>) -> Self {
        let (mut mixed, sums) = (Self::default(), mode != "replace");
        for n in keys {
            let value = rng.i64(1..1_000);
            let key = format!("{n:04}");
            if !sums && (n % 2 == 0) == (name == "a") {
                mixed.delete(&key);
            }
            mixed.put(&key, value);
            let last = mixed.shared.entry(key).or_default();
            *last = if sums { *last + value } else { value };
            for _ in 0..2 {
                let own = format!("{:04}-{name}", rng.usize(..SHARED));
                if rng.u8(..3) == 0 {
                    mixed.delete(&own);
                    mixed.own.remove(&own);
                } else {
                    mixed.put(&own, value);
                    let last = mixed.own.entry(own).or_default();
                    *last = if sums { *last + value } else { value };
                }
            }
        }
        mixed
    }

    fn put(&mut self, key: &str, value: i64) {
        writeln!(self.text, "{{\"id\":\"{key}\",\"value\":{value}}}").expect("a text grows");
    }

    fn delete(&mut self, key: &str) {
        writeln!(self.text, "{{\"id\":\"{key}\",\"op\":\"d\"}}").expect("a text grows");
    }
}

#[tokio::test]
async fn loads_that_delete_in_opposite_orders_lose_and_repeat_nothing() {
    each_build(async |db| {
        for mut rng in Cases::new(3) {
            for mode in MODES {
                opposite(&db, &mut rng, mode).await;
            }
        }
    })
    .await;
}

async fn opposite(db: &TestDatabase, rng: &mut Rng, mode: &str) {
    let (table, files) = (format!("public.opposite{}", rng.u32(..)), Files::new());
    // The table exists already, so that both begin at once.
    run(&db.url(), &deleting(&table, mode, files.write("none", "{\"id\":\"none\",\"value\":0}\n"))).await;
    let up: Vec<usize> = (0..4 * SHARED).map(|n| n % SHARED).collect();
    let loads = [Mixed::new(rng, "a", mode, up.iter().copied()), Mixed::new(rng, "b", mode, up.iter().rev().copied())];
    let [a, b] = ["a", "b"].map(|name| {
        let mut wanted = deleting(&table, mode, files.write(name, &loads[usize::from(name == "b")].text));
        (wanted.lanes, wanted.batch_rows, wanted.chunk_bytes) = (Some(2), rng.usize(20..400), 2_000);
        wanted
    });
    let url = db.url();
    let (a, b) = tokio::join!(run(&url, &a), run(&url, &b));
    for outcome in [&a, &b] {
        assert!(outcome.stopped.is_none(), "{mode}: {outcome:?}");
    }
    let mut found = stored(db, &table).await;
    assert_eq!(found.remove("none"), Some(0));
    for (key, value) in &loads[0].shared {
        let (found, other) = (found.remove(key), loads[1].shared[key]);
        let right = if mode == "replace" { [*value, other] } else { [value + other; 2] };
        assert!(found.is_some_and(|found| right.contains(&found)), "{mode}: {found:?} of {right:?} for {key}");
    }
    let own: BTreeMap<_, _> = loads.into_iter().flat_map(|load| load.own).collect();
    assert!(found == own, "{mode}: a key that one load alone writes");
}

#[tokio::test]
async fn a_deleting_batch_ended_by_a_deadlock_counts_once() {
    each_build(async |db| {
        let other = db.client().await;
        // It looks for a deadlock once, after this time. Until then the other session must wait, too.
        other.batch_execute(&format!("alter database {} set deadlock_timeout = '3s'", db.name)).await.unwrap();
        for (mode, sums) in [("sum:value", [11, 1_102]), ("replace", [10, 100])] {
            let (table, files) = (format!("public.cycle{}", fastrand::u32(..)), Files::new());
            let first = "{\"id\":\"5\",\"value\":2}\n{\"id\":\"9\",\"value\":3}\n";
            run(&db.url(), &deleting(&table, mode, files.write("first", first))).await;
            // This session holds a key that the batch inserts, and waits for one that the batch has locked. The batch
            // detects the deadlock.
            let begin = format!(
                "set deadlock_timeout = '1h'; begin; insert into {table} (id, doc) values ('3', '{{\"value\": 1}}')"
            );
            other.batch_execute(&begin).await.unwrap();
            let crossing = async {
                let waits =
                    "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
                let watcher = db.client().await;
                until("the batch waits for the key", async || !watcher.query(waits, &[]).await.unwrap().is_empty())
                    .await;
                let update = format!("update {table} set doc = '{{\"value\": 1002}}' where id = '5'; commit");
                other.batch_execute(&update).await.expect("the other one gives way");
            };
            let text = "{\"id\":\"9\",\"op\":\"d\"}\n{\"id\":\"5\",\"value\":100}\n{\"id\":\"3\",\"value\":10}\n";
            let mut wanted = deleting(&table, mode, files.write("second", text));
            wanted.lanes = Some(1);
            let url = db.url();
            let (outcome, ()) = tokio::join!(run(&url, &wanted), crossing);
            let receipt = outcome.receipt;
            // The batch may be back before the other session has its lock: then they meet once more.
            assert!(receipt.deadlocks > 0 && receipt.retries == receipt.deadlocks, "{mode}: {receipt:?}");
            assert_eq!((receipt.counters.updated, receipt.counters.deleted), (2, 1), "{mode}: {receipt:?}");
            let expected = BTreeMap::from([("3".to_owned(), sums[0]), ("5".to_owned(), sums[1])]);
            assert_eq!(stored(&db, &table).await, expected, "{mode}");
        }
    })
    .await;
}
