//! What happens to a cluster in the middle of a load: nodes are killed, and shards are rebalanced. By itself, or when it is run
//! again, the load makes the table that it makes on one server.

use super::{distributing, require_placed};
use crate::scene::{Events, Files, Stream, request, run, surroundings, until_committed, until_event};
use millstream_engine::{Event, LoadRequest, Outcome, StopReason, Surroundings, load};
use millstream_pg::Explained;
use millstream_testkit::{CitusCluster, StopMode, connect, database, until};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::Client;

const SHARDS: usize = 4;
const DOCUMENTS: i64 = 20_000;
const KEYS: usize = 4_000;

/// A load of a file into an empty distributed table. Others have inserted some of the keys that come in the middle of the file,
/// and have not committed. So the load stands there, with a batch of each of these shards in an open transaction.
struct Middle {
    wanted: LoadRequest,
    documents: u64,
    /// The sessions of the others, all at one worker.
    others: Vec<Client>,
    /// The number of that worker.
    worker: usize,
    _files: Files,
}

impl Middle {
    /// The load alone, which makes its table. These keys come in the middle of its file.
    fn new(table: &str, keys: &[String]) -> Self {
        let (files, stream) = (Files::new(), stream(keys));
        let wanted = distributing(table, &[files.write("a", &stream.text)]);
        Self { wanted, documents: stream.documents, others: Vec::new(), worker: 0, _files: files }
    }

    /// Makes the table, and holds so many of its shards, which must be at one worker.
    async fn of(cluster: &CitusCluster, table: &str, held: usize) -> Self {
        let client = cluster.client().await;
        let make = format!(
            "create table public.{table} (id text collate \"C\" primary key, doc jsonb not null);
             select create_distributed_table('{table}', 'id', shard_count => {SHARDS}, colocate_with => 'none')"
        );
        client.batch_execute(&make).await.expect("the table is made");
        let (mut keys, mut others, mut worker) = (Vec::new(), Vec::new(), 0);
        for (shard, port) in cluster.shards(table).await.into_iter().take(held) {
            let sql = "select 'held-' || n from generate_series(1, 1000) n
                       where get_shard_id_for_distribution_column($1::text::regclass, 'held-' || n) = $2 limit 1";
            let row = client.query_one(sql, &[&table, &shard]).await.expect("each shard has some of many keys");
            let key: String = row.get(0);
            worker = cluster.workers.iter().position(|worker| worker.port() == port).expect("a worker has the shard");
            let other = connect(&cluster.workers[worker].url("postgres")).await;
            let sets = "set citus.enable_manual_changes_to_shards = on; set citus.override_table_visibility = off";
            other.batch_execute(sets).await.expect("a session may see shards");
            let insert = format!("begin; insert into {table}_{shard} values ('{key}', '{{}}')");
            other.batch_execute(&insert).await.expect("the shard is a table of the worker");
            others.push(other);
            keys.push(key);
        }
        let mut middle = Self { others, worker, ..Self::new(table, &keys) };
        (middle.wanted.distribute, middle.wanted.adopt) = (false, true);
        middle
    }

    /// Waits until the load can do no more, as far as the held shards are concerned.
    async fn until_stuck(&self, cluster: &CitusCluster) {
        let worker = connect(&cluster.workers[self.worker].url("postgres")).await;
        let sql = "select count(*) from pg_stat_activity where wait_event = 'transactionid'
                   and application_name like 'millstream lane%'";
        let held = i64::try_from(self.others.len()).expect("few shards");
        until("the lanes of the held shards wait", async || {
            worker.query_one(sql, &[]).await.expect("sessions can be listed").get::<_, i64>(0) == held
        })
        .await;
    }

    async fn release(&self) {
        for other in &self.others {
            other.batch_execute("rollback").await.expect("its session is there");
        }
    }

    /// Requires that the load has ended well, with the table of one server.
    async fn require_whole(&self, cluster: &CitusCluster, outcome: &Outcome, events: &Events) {
        assert!(outcome.error.is_none() && outcome.receipt.finished, "{outcome:?}; {}", events.warnings());
        assert_eq!(outcome.receipt.counters.read, self.documents, "{outcome:?}");
        let (table, one) = (self.wanted.collection.table.as_str(), database().await);
        run(&one.url(), &request(table, "id", &self.wanted.sources)).await;
        assert!(rows(&cluster.client().await, table).await == rows(&one.client().await, table).await, "{table}");
        require_placed(cluster, table).await;
    }
}

/// Documents, in whose middle these keys come.
fn stream(keys: &[String]) -> Stream {
    let (mut rng, mut stream) = (fastrand::Rng::with_seed(9), Stream::default());
    for n in 0..DOCUMENTS {
        if n == DOCUMENTS / 2 {
            keys.iter().for_each(|key| stream.push(key, -1));
        }
        stream.push(&format!("key-{:06}", rng.usize(..KEYS)), n);
    }
    stream
}

/// Waits until this query, which asks whether something is so, says yes.
async fn until_so(client: &Client, what: &str, sql: &str) {
    until(what, async || client.query_one(sql, &[]).await.expect("the server answers").get(0)).await;
}

async fn rows(client: &Client, table: &str) -> BTreeMap<String, String> {
    let rows = client.query(&format!("select id, doc::text from {table}"), &[]).await.expect("the table can be read");
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// Runs the load, while something else happens.
async fn loaded(
    wanted: &LoadRequest,
    cluster: &CitusCluster,
    meanwhile: impl AsyncFnOnce(&Surroundings, &Events),
) -> (Outcome, Arc<Events>) {
    let (around, events) = surroundings(&cluster.url());
    // A panic here ends the wait for what can never come then.
    let loading = Box::pin(async {
        let ended = load(wanted, &around).await;
        ended.unwrap_or_else(|error| panic!("the load does not begin: {error}; {}", events.warnings()))
    });
    let (outcome, ()) = tokio::join!(loading, Box::pin(meanwhile(&around, events.as_ref())));
    (outcome, events)
}

/// Waits for a warning with these words.
async fn until_warned(events: &Events, words: &str) {
    let is_it = |event: &Event| matches!(event, Event::Warning(warning) if warning.contains(words));
    until_event(events, &format!("a warning says: {words}"), is_it).await;
}

#[tokio::test]
async fn a_worker_that_is_killed_in_the_middle_of_a_batch_and_comes_back_loses_nothing() {
    let Some(cluster) = CitusCluster::start(2).await else { return };
    for (table, mode) in [("ended", StopMode::Immediate), ("killed", StopMode::Kill)] {
        let middle = Middle::of(&cluster, table, 1).await;
        let (outcome, events) = loaded(&middle.wanted, &cluster, async |_, _| {
            middle.until_stuck(&cluster).await;
            cluster.workers[middle.worker].restart(mode).await;
        })
        .await;
        let noticed = events.0.lock().unwrap().iter().any(|event| matches!(event, Event::Retry { .. }));
        assert!(noticed, "{mode:?}: {outcome:?}");
        middle.require_whole(&cluster, &outcome, &events).await;
    }
}

#[tokio::test]
async fn a_worker_that_is_killed_while_a_load_is_recorded_as_finished_loses_nothing() {
    let Some(cluster) = CitusCluster::start(2).await else { return };
    let middle = Middle::of(&cluster, "closed", 1).await;
    let (outcome, events) = loaded(&middle.wanted, &cluster, async |_, _| {
        middle.until_stuck(&cluster).await;
        let worker = &cluster.workers[middle.worker];
        let [recorder, observer] = [connect(&worker.url("postgres")).await, connect(&worker.url("postgres")).await];
        recorder.batch_execute("begin; select from millstream.load for update").await.unwrap();
        middle.release().await;
        let sql = "select exists (select from pg_stat_activity where wait_event_type = 'Lock'
                                  and application_name = 'millstream control')";
        until_so(&observer, "the record of a load is to be closed", sql).await;
        worker.restart(StopMode::Immediate).await;
    })
    .await;
    middle.require_whole(&cluster, &outcome, &events).await;
}

#[tokio::test]
async fn a_killed_load_names_the_worker_that_is_away_and_resumes_when_it_is_back() {
    let Some(cluster) = CitusCluster::start(2).await else { return };
    let middle = Middle::of(&cluster, "away", 1).await;
    let worker = &cluster.workers[middle.worker];
    let (around, events) = surroundings(&cluster.url());
    let stopping = async {
        middle.until_stuck(&cluster).await;
        worker.stop(StopMode::Immediate).await;
    };
    tokio::select! {
        ended = Box::pin(load(&middle.wanted, &around)) => panic!("{ended:?}"),
        // Its load is dropped as if its process were killed.
        () = stopping => {}
    }
    let error = Box::pin(load(&middle.wanted, &surroundings(&cluster.url()).0)).await.expect_err("a worker is away");
    let address = format!("127.0.0.1:{}", worker.port());
    assert!(error.to_string().contains(&address), "{error}");
    assert!(error.hint().is_some(), "{error}");
    worker.start_again().await;
    let again = run(&cluster.url(), &middle.wanted).await;
    assert!(again.receipt.resumed_from > Some(0), "{again:?}");
    middle.require_whole(&cluster, &again, &events).await;
}

#[tokio::test]
async fn a_load_that_makes_its_table_while_a_worker_is_away_says_so_and_begins_when_it_is_back() {
    let Some(cluster) = CitusCluster::start(2).await else { return };
    let (late, worker) = (Middle::new("late", &[]), &cluster.workers[1]);
    worker.stop(StopMode::Fast).await;
    let (outcome, events) = loaded(&late.wanted, &cluster, async |_, events| {
        until_warned(events, "the load cannot begin yet, and tries again").await;
        worker.start_again().await;
    })
    .await;
    late.require_whole(&cluster, &outcome, &events).await;
}

#[tokio::test]
async fn a_coordinator_that_is_killed_in_the_middle_of_a_load_loses_nothing() {
    let Some(cluster) = CitusCluster::start(2).await else { return };
    let middle = Middle::of(&cluster, "led", 1).await;
    let (outcome, events) = loaded(&middle.wanted, &cluster, async |_, events| {
        middle.until_stuck(&cluster).await;
        cluster.coordinator.stop(StopMode::Immediate).await;
        middle.release().await;
        // The workers take the rest without it.
        until_warned(events, "the load waits for the coordinator").await;
        cluster.coordinator.start_again().await;
    })
    .await;
    middle.require_whole(&cluster, &outcome, &events).await;

    // While the load asks it, at the end, whether the shards are those of the table.
    let middle = Middle::of(&cluster, "asked", 0).await;
    let other = cluster.client().await;
    other.batch_execute("begin; lock table only asked in exclusive mode").await.unwrap();
    let (outcome, events) = loaded(&middle.wanted, &cluster, async |around, _| {
        until_committed(&around.tally, middle.documents).await;
        // Citus takes the lock at the workers, and only then at the coordinator. So a worker knows who waits.
        let observer = cluster.client().await;
        let sql = "select exists (select from pg_stat_activity where state = 'active' and query like 'begin; lock table only %')";
        until_so(&observer, "the load asks for the shards", sql).await;
        cluster.coordinator.restart(StopMode::Kill).await;
    })
    .await;
    middle.require_whole(&cluster, &outcome, &events).await;
}

#[tokio::test]
async fn a_load_that_is_stopped_while_its_coordinator_is_away_is_complete_when_it_is_run_again() {
    let Some(cluster) = CitusCluster::start(2).await else { return };
    let mut middle = Middle::of(&cluster, "unled", 1).await;
    middle.wanted.stop_wait = Duration::from_millis(10);
    let (outcome, events) = loaded(&middle.wanted, &cluster, async |around, events| {
        middle.until_stuck(&cluster).await;
        cluster.coordinator.stop(StopMode::Immediate).await;
        middle.release().await;
        until_warned(events, "the load waits for the coordinator").await;
        around.stop.stop(StopReason::Interrupted);
    })
    .await;
    assert_eq!(outcome.stopped, Some(StopReason::Interrupted), "{outcome:?}");
    assert!(!outcome.receipt.finished && outcome.receipt.counters.read == middle.documents, "{outcome:?}");
    cluster.coordinator.start_again().await;
    let again = run(&cluster.url(), &middle.wanted).await;
    assert_eq!(again.receipt.resumed_from, Some(middle.documents), "nothing is read again: {again:?}");
    middle.require_whole(&cluster, &again, &events).await;
}

/// All shards are at one worker, and each has a batch under way, when the rebalance begins. It is made again if the coordinator
/// is killed in it.
#[tokio::test]
async fn a_rebalance_under_a_load_loses_nothing_even_if_the_coordinator_is_killed_in_it() {
    let Some(cluster) = CitusCluster::start(2).await else { return };
    let spare = cluster.workers[1].port();
    let take_shards = async |takes: bool| {
        let sql = format!("select citus_set_node_property('127.0.0.1', {spare}, 'shouldhaveshards', {takes})");
        cluster.client().await.batch_execute(&sql).await.unwrap();
    };
    for (table, is_killed) in [("moved", false), ("moved_twice", true)] {
        take_shards(false).await;
        let middle = Middle::of(&cluster, table, SHARDS).await;
        take_shards(true).await;
        let sql = format!("select rebalance_table_shards('{table}', shard_transfer_mode => 'block_writes')");
        let (outcome, events) = loaded(&middle.wanted, &cluster, async |_, _| {
            middle.until_stuck(&cluster).await;
            let client = cluster.client().await;
            let (moved, ()) = tokio::join!(client.batch_execute(&sql), async {
                let worker = connect(&cluster.workers[middle.worker].url("postgres")).await;
                let waits = "select exists (select from pg_locks where locktype = 'advisory' and not granted)";
                until_so(&worker, "a move waits for a batch", waits).await;
                if is_killed {
                    cluster.coordinator.restart(StopMode::Immediate).await;
                }
                middle.release().await;
            });
            assert_eq!(moved.is_err(), is_killed, "{moved:?}");
            if is_killed {
                let again = async || cluster.client().await.batch_execute(&sql).await.is_ok();
                until("the table is rebalanced after all", again).await;
            }
        })
        .await;
        middle.require_whole(&cluster, &outcome, &events).await;
        let nodes: BTreeSet<u16> = cluster.shards(table).await.into_iter().map(|(_, port)| port).collect();
        assert_eq!(nodes.len(), 2, "both workers have shards");
    }
}
