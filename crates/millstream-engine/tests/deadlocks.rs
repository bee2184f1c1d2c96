//! Loads beside others that lock the same rows in another order: a deadlock costs only time, and not much of it.

use crate::scene::{Files, request, run, stored, surroundings, until_committed, until_held_up};
use fastrand::Rng;
use millstream_engine::limits::TURNS_BATCHES;
use millstream_engine::{LoadRequest, Mode, load};
use millstream_pg::advisory::{LockClass, WRITE};
use millstream_testkit::{Cases, TestDatabase, each_build, until};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use tokio_postgres::Client;

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

/// Documents whose member `e` is one of few values, so that two batches often have the same.
fn colliding(rng: &mut Rng, keys: std::ops::Range<u32>, values: u32) -> String {
    let mut ids: Vec<u32> = keys.collect();
    rng.shuffle(&mut ids);
    let mut text = String::new();
    for id in ids {
        writeln!(text, "{{\"id\":{id},\"e\":\"m{}\"}}", rng.u32(..values)).expect("a text grows");
    }
    text
}

/// A load in many small batches by several lanes.
fn by_lanes(table: &str, file: String) -> LoadRequest {
    let mut wanted = request(table, "id:bigint", &[file]);
    (wanted.adopt, wanted.rejects_max) = (true, 1_000_000);
    (wanted.lanes, wanted.batch_rows, wanted.chunk_bytes) = (Some(4), 200, 4_000);
    wanted
}

/// SQL that lets batches lock the same rows of the table `{t}`, and how the load names it.
const SHARED_LOCKS: &[(&str, &str)] = &[
    ("create unique index {t}_e on public.{t} ((doc ->> 'e'))", "index {t}_e"),
    ("alter table public.{t} add constraint {t}_e exclude ((doc ->> 'e') with =)", "index {t}_e"),
    (
        "create table public.{t}_count (n integer primary key, documents bigint not null);
         insert into public.{t}_count select n, 0 from generate_series(0, 49) n;
         create function public.{t}_add() returns trigger language plpgsql as
         $$begin update public.{t}_count set documents = documents + 1 where n = right(new.doc ->> 'e', 1)::integer;
         return null; end$$;
         create trigger {t}_adds after insert on public.{t} for each row execute function public.{t}_add()",
        "trigger {t}_adds",
    ),
];

#[tokio::test]
async fn lanes_that_deadlock_store_what_one_lane_stores() {
    each_build(async |db| {
        for mut rng in Cases::new(1) {
            for (locks, named) in SHARED_LOCKS {
                Box::pin(colliding_loads(&db, &mut rng, locks, named)).await;
            }
        }
    })
    .await;
}

async fn colliding_loads(db: &TestDatabase, rng: &mut Rng, locks: &str, named: &str) {
    let (client, table, files) = (db.client().await, format!("crossing{}", rng.u32(..)), Files::new());
    let made = format!("create table public.{table} (id bigint primary key, doc jsonb not null); {locks}");
    client.batch_execute(&made.replace("{t}", &table)).await.expect("the server answers");
    let texts = [colliding(rng, 0..2_000, 3_000), colliding(rng, 10_000..12_000, 3_000)];
    let [a, b] = [0_usize, 1].map(|n| by_lanes(&format!("public.{table}"), files.write(&n.to_string(), &texts[n])));
    let (url, (around, events)) = (db.url(), surroundings(&db.url()));
    let first = async { Box::pin(load(&a, &around)).await.expect("the load begins") };
    let (first, second) = tokio::join!(first, run(&url, &b));
    let [first, second] = [first, second].map(|outcome| outcome.receipt.counters);
    for counters in [first, second] {
        assert_eq!((counters.read, counters.inserted + counters.rejected), (2_000, 2_000), "{locks}: {counters:?}");
    }
    let rows = number(&client, &format!("select count(*) from public.{table}")).await;
    assert_eq!(u64::try_from(rows).expect("a number of rows"), first.inserted + second.inserted, "{locks}");
    if locks.contains("trigger") {
        let counted = number(&client, &format!("select sum(documents)::bigint from public.{table}_count")).await;
        assert_eq!((first.rejected, second.rejected, counted), (0, 0, rows), "{locks}");
    } else {
        // Of documents that exclude each other one stays, whichever that is.
        let values = texts.iter().flat_map(|text| text.lines()).filter_map(|line| line.split("\"e\":").nth(1));
        let values: BTreeSet<&str> = values.collect();
        let stored = number(&client, &format!("select count(distinct doc ->> 'e') from public.{table}")).await;
        assert_eq!((usize::try_from(stored).expect("a number of rows"), stored), (values.len(), rows), "{locks}");
    }
    // Whether batches deadlock is chance.
    let warned = events.warnings();
    assert!(!warned.contains("one at a time") || warned.contains(&named.replace("{t}", &table)), "{warned}");
    let held = "select count(*) from pg_locks where locktype = 'advisory' \
                and database = (select oid from pg_database where datname = current_database())";
    until("no lock is left", async || number(&client, held).await == 0).await;
}

async fn number(client: &Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).await.expect("the server answers").get(0)
}

/// A table with a trigger that reports as many deadlocks as the sequence is below zero, and then notes how each batch
/// holds that lock.
async fn noting(client: &Client, table: &str, deadlocks: i32) {
    let LockClass(class) = WRITE;
    let sql = format!(
        "create table public.{table} (id bigint primary key, doc jsonb not null);
         create table public.{table}_held (nth serial, mode text);
         create sequence public.{table}_tries minvalue -100 start -{deadlocks};
         create function public.{table}_note() returns trigger language plpgsql as
         $$begin
             if nextval('public.{table}_tries') < 0 then raise sqlstate '40P01' using message = 'deadlock detected'; end if;
             insert into public.{table}_held (mode) select mode from pg_locks
                 where locktype = 'advisory' and classid::bigint = {class} and pid = pg_backend_pid();
             return null;
         end$$;
         create trigger {table}_notes after insert on public.{table} for each statement execute function public.{table}_note()"
    );
    client.batch_execute(&sql).await.expect("the server makes it");
}

/// How the batches held the lock, in order.
async fn held(client: &Client, table: &str) -> Vec<String> {
    let rows = client.query(&format!("select mode from public.{table}_held order by nth"), &[]).await;
    rows.expect("it can be read").iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn after_its_second_deadlock_a_batch_is_written_alone_and_later_ones_together_again() {
    each_build(async |db| {
        let client = db.client().await;
        for deadlocks in [0, 1, 2, 5] {
            let (table, files) = (format!("noted{deadlocks}"), Files::new());
            noting(&client, &table, deadlocks).await;
            let (pipe, more) = files.pipe("stream");
            let mut wanted = request(&format!("public.{table}"), "id:bigint", &[pipe]);
            (wanted.adopt, wanted.format, wanted.lanes) = (true, "ndjson".into(), Some(1));
            let (around, events) = surroundings(&db.url());
            let sending = async {
                let mut sent = 0;
                until("batches are written together", async || {
                    more.send(format!("{{\"id\":{sent}}}\n")).expect("the pipe is read");
                    sent += 1;
                    until_committed(&around.tally, sent).await;
                    held(&client, &table).await.last().is_some_and(|mode| mode == "ShareLock")
                })
                .await;
                drop(more);
            };
            let (outcome, ()) = tokio::join!(async { Box::pin(load(&wanted, &around)).await }, sending);
            let receipt = outcome.expect("the load begins").receipt;
            // A batch that is written alone is not repeated for ever either.
            assert_eq!(receipt.deadlocks, u64::try_from(deadlocks).unwrap(), "{receipt:?}");
            let held = held(&client, &table).await;
            let alone = held.iter().take_while(|mode| *mode == "ExclusiveLock").count();
            assert_eq!(held.len(), alone + 1, "{held:?}");
            let warned = events.warnings();
            if deadlocks < 2 {
                assert!(alone == 0 && !warned.contains("one at a time"), "{alone}: {warned}");
            } else {
                assert!(alone >= TURNS_BATCHES as usize, "{alone}");
                assert!(warned.contains(&format!("because of trigger {table}_notes")), "{warned}");
                assert_eq!(warned.matches("one at a time").count(), 1, "{warned}");
            }
        }
    })
    .await;
}

/// A role that may not set `deadlock_timeout` loses that time with each deadlock.
#[tokio::test]
async fn one_deadlock_is_enough_for_a_role_that_cannot_have_them_found_soon() {
    each_build(async |db| {
        let (client, files, role) = (db.client().await, Files::new(), format!("late_{}", fastrand::u32(..)));
        noting(&client, "late", 1).await;
        let role_made = format!(
            "create role {role} login password 'x'; grant create on database {} to {role};
             grant all on all tables in schema public to {role};
             grant all on all sequences in schema public to {role}",
            db.name
        );
        client.batch_execute(&role_made).await.unwrap();
        let url = format!("postgres://{role}:x@127.0.0.1:{}/{}", db.server.port(), db.name);
        let mut wanted = request("public.late", "id:bigint", &[files.write("a", "{\"id\":1}\n")]);
        (wanted.adopt, wanted.lanes) = (true, Some(1));
        let receipt = run(&url, &wanted).await.receipt;
        assert_eq!((receipt.deadlocks, receipt.counters.inserted), (1, 1), "{receipt:?}");
        assert_eq!(held(&client, "late").await, ["ExclusiveLock"]);
    })
    .await;
}

#[tokio::test]
async fn a_load_takes_turns_while_another_one_does() {
    each_build(async |db| {
        let (client, other, files) = (db.client().await, db.client().await, Files::new());
        noting(&client, "turned", 0).await;
        let oid = number(&client, "select 'public.turned'::regclass::oid::bigint").await;
        let lock = WRITE.of_table(u32::try_from(oid).unwrap());
        lock.lock(&other).await.unwrap();
        let mut wanted = request("public.turned", "id:bigint", &[files.write("a", "{\"id\":1}\n")]);
        (wanted.adopt, wanted.lanes) = (true, Some(1));
        let url = db.url();
        let releasing = async {
            until_held_up(&db, "millstream lane 0").await;
            lock.unlock(&other).await.unwrap();
        };
        let (outcome, ()) = tokio::join!(run(&url, &wanted), releasing);
        assert_eq!(outcome.receipt.counters.inserted, 1);
        assert_eq!(held(&client, "turned").await, ["ExclusiveLock"], "it could not share the lock");
        wanted.sources = vec![files.write("b", "{\"id\":2}\n")];
        run(&url, &wanted).await;
        assert_eq!(held(&client, "turned").await[1..], ["ShareLock"]);
    })
    .await;
}
