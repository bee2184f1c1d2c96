//! Loads into a table that Citus distributes: every document is in the shard of its key, whatever is moved, stopped or killed.

mod middle;

use crate::scene::{Files, Stream, request, run, stopped, surroundings, until_committed};
use millstream_engine::{
    Error, Event, Layout, LoadRequest, Mode, Outcome, Silent, StopReason, VerifyRequest, load, verify,
};
use millstream_model::{HashedColumn, KEY_TYPES, KeyType, put_literal};
use millstream_pg::Explained;
use millstream_testkit::{Cases, CitusCluster, connect, is_night};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// A new table that the load distributes, and small batches.
fn distributing(table: &str, sources: &[String]) -> LoadRequest {
    let mut wanted = request(table, "id", sources);
    (wanted.distribute, wanted.batch_rows, wanted.chunk_bytes) = (true, 500, 16 << 10);
    wanted
}

/// `id -> value` as the coordinator sees it: a row in a wrong shard would not be found by its key.
async fn stored(cluster: &CitusCluster, table: &str) -> BTreeMap<String, i64> {
    let client = cluster.client().await;
    let sql = format!("select id, (doc->>'value')::bigint from {table}");
    let rows = client.query(&sql, &[]).await.expect("the table can be read");
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// Requires that every row is in the shard of its key.
async fn require_placed(cluster: &CitusCluster, table: &str) {
    let client = cluster.client().await;
    let sql = "select shardid, result from run_command_on_shards($1::text::regclass, $$ select pg_catalog.count(*) from %s $$)";
    let held = client.query(sql, &[&table]).await.expect("shards can be counted");
    let held: BTreeMap<i64, i64> =
        held.iter().map(|row| (row.get(0), row.get::<_, String>(1).parse().expect("a count"))).collect();
    let sql = format!(
        "select get_shard_id_for_distribution_column('{table}', id) as shard, count(*) from \
         (select id from {table} offset 0) as of_coordinator group by 1"
    );
    let wanted = client.query(&sql, &[]).await.expect("keys have shards");
    for row in wanted {
        let (shard, rows): (i64, i64) = (row.get(0), row.get(1));
        assert_eq!(held.get(&shard), Some(&rows), "shard {shard} has the rows of its keys, and no others");
    }
}

async fn equal(cluster: &CitusCluster, load: &LoadRequest) -> u64 {
    let db = surroundings(&cluster.url()).0.db;
    let mut request = VerifyRequest::new(load.clone(), std::env::temp_dir());
    request.exact = true;
    let found = Box::pin(verify(&request, &db, Arc::default(), &Silent)).await.expect("it can be verified");
    assert_eq!((found.differences(), found.extra), (0, Some(0)), "{found:?}");
    found.equal
}

/// Why a load is refused, and what to do.
async fn refused(url: &str, wanted: &LoadRequest) -> String {
    let error = Box::pin(load(wanted, &surroundings(url).0)).await.expect_err("it is refused");
    format!("{error}; {}", error.hint().expect("a way out"))
}

/// A change of a request that is refused.
type Change = fn(&mut LoadRequest);

fn literal(rng: &mut fastrand::Rng, key_type: KeyType) -> String {
    let whole = |rng: &mut fastrand::Rng| -> i64 {
        let value = rng.i64(..);
        // Also small ones, whose upper half is empty.
        value >> rng.u32(..64)
    };
    let days =
        |rng: &mut fastrand::Rng| format!("{:04}-{:02}-{:02}", rng.u32(1..=9999), rng.u32(1..=12), rng.u32(1..=28));
    match key_type {
        KeyType::Bigint => whole(rng).to_string(),
        KeyType::Integer => i32::try_from(whole(rng) >> 32).expect("half a number").to_string(),
        KeyType::Smallint => i16::try_from(whole(rng) >> 48).expect("a quarter of a number").to_string(),
        KeyType::Uuid => {
            let text = format!("{:032x}", rng.u128(..));
            [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-")
        }
        KeyType::Date => days(rng),
        KeyType::Timestamp | KeyType::Timestamptz => {
            let (hour, minute, second, micros) = (rng.u32(..24), rng.u32(..60), rng.u32(..60), rng.u32(..1_000_000));
            let zone = if key_type == KeyType::Timestamp { "" } else { "Z" };
            format!("{}T{hour:02}:{minute:02}:{second:02}.{micros:06}{zone}", days(rng))
        }
        _ => (0..rng.usize(..40)).map(|_| rng.char('\u{1}'..)).collect(),
    }
}

#[tokio::test]
async fn the_hash_of_every_type_of_key_is_the_servers() {
    let Some(cluster) = CitusCluster::start(0).await else { return };
    let client = cluster.client().await;
    client.batch_execute("set timezone = 'UTC'").await.unwrap();
    let mut compared = 0;
    for &key_type in KEY_TYPES {
        let Some(column) = HashedColumn::new(&[key_type], 0).filter(|_| !key_type.is_spelled()) else { continue };
        for mut rng in Cases::new(4) {
            let values: Vec<String> = (0..500).map(|_| literal(&mut rng, key_type)).collect();
            let sql = format!(
                "select worker_hash(value::{}) from unnest($1::text[]) with ordinality as given (value, nth) order by nth",
                key_type.sql_name()
            );
            let rows = client.query(&sql, &[&values]).await.unwrap();
            for (value, row) in values.iter().zip(rows) {
                let mut key = Vec::new();
                put_literal(key_type, value.as_bytes(), &mut key).unwrap();
                assert_eq!(column.hash(&key), row.get::<_, i32>(0), "{key_type} {value:?}");
            }
        }
        compared += 1;
    }
    assert_eq!(compared, 9, "text, varchar, three integers, uuid and three times");
}

#[tokio::test]
async fn a_distributed_table_holds_what_a_table_of_one_server_would() {
    let Some(cluster) = CitusCluster::start(2).await else { return };
    let files = Files::new();
    let mut stream = Stream::random(&mut fastrand::Rng::with_seed(1), 20_000, 9_000);
    stream.push("key-000001", 20_000);
    for n in 0..50 {
        let _ = writeln!(stream.text, "{{\"value\":{n}}}");
    }
    let file = files.write("a", &stream.text);
    let mut wanted = distributing("spread", &[file]);
    let (around, events) = surroundings(&cluster.url());
    let outcome = Box::pin(load(&wanted, &around)).await.expect("the load begins");
    let receipt = &outcome.receipt;
    assert!(outcome.error.is_none() && receipt.finished, "{outcome:?}");
    assert_eq!((receipt.counters.read, receipt.counters.rejected), (20_051, 50));
    assert_eq!(receipt.counters.read, receipt.counters.accounted());
    assert_eq!(receipt.collection, "spread");
    let shards = cluster.shards("spread").await;
    assert_eq!(usize::from(receipt.lanes), shards.len());
    let made = events.0.lock().unwrap().iter().filter(|event| matches!(event, Event::Created(_))).count();
    assert_eq!(made, 1);
    assert!(stored(&cluster, "spread").await == stream.last);
    require_placed(&cluster, "spread").await;
    assert_eq!(equal(&cluster, &wanted).await, stream.last.len() as u64);

    // Again, as a table that is there, and in other modes.
    wanted.distribute = false;
    let again = run(&cluster.url(), &wanted).await.receipt.counters;
    assert_eq!((again.inserted, again.rejected), (0, 50));
    let late = files.write("late", "{\"id\":\"key-000001\",\"value\":-1}\n{\"id\":\"new\",\"value\":-2}\n");
    for (mode, value) in [("keep", None), ("newest:value", None), ("merge", Some(-1))] {
        let mut mode_of = wanted.clone();
        (mode_of.sources, mode_of.mode) = (vec![late.clone()], mode.parse::<Mode>().unwrap());
        run(&cluster.url(), &mode_of).await;
        let now = stored(&cluster, "spread").await;
        let expected = value.or_else(|| stream.last.get("key-000001").copied());
        assert_eq!((now.get("key-000001").copied(), now.get("new")), (expected, Some(&-2)), "{mode}");
    }
    require_placed(&cluster, "spread").await;
}

#[tokio::test]
async fn a_key_of_two_columns_is_distributed_by_either() {
    let Some(cluster) = CitusCluster::start(2).await else { return };
    let (files, client) = (Files::new(), cluster.client().await);
    let mut text = String::new();
    for n in 0..5_000 {
        let _ = writeln!(text, "{{\"device\":\"d{}\",\"n\":{n}}}", n % 700);
    }
    let file = files.write("a", text);
    for column in ["device", "n"] {
        let table = format!("pairs_{column}");
        let make = format!(
            "create table public.{table} (device text collate \"C\", n bigint, doc jsonb not null, primary key (device, n));
             select create_distributed_table('public.{table}', '{column}', shard_count => 5)"
        );
        client.batch_execute(&make).await.unwrap();
        let mut wanted = request(&table, "device,n", std::slice::from_ref(&file));
        wanted.adopt = true;
        assert_eq!(run(&cluster.url(), &wanted).await.receipt.counters.inserted, 5_000);
        let found: i64 = client
            .query_one(&format!("select count(*) from public.{table} where device = 'd7' and n = 707"), &[])
            .await
            .unwrap()
            .get(0);
        assert_eq!(found, 1, "distributed by {column}");
        assert_eq!(equal(&cluster, &wanted).await, 5_000);
    }
}

#[tokio::test]
async fn a_killed_load_resumes_shard_by_shard() {
    let Some(cluster) = CitusCluster::start(2).await else { return };
    cluster.client().await.batch_execute("alter database postgres set citus.shard_count = 6").await.unwrap();
    let rounds = if is_night() { 20 } else { 3 };
    for round in 0..rounds {
        let mut rng = fastrand::Rng::with_seed(round);
        let (files, table) = (Files::new(), format!("killed_{round}"));
        let stream = Stream::random(&mut rng, 30_000, 12_000);
        let wanted = distributing(&table, &[files.write("a", &stream.text)]);
        for _ in 0..rng.usize(1..5) {
            if stopped(&cluster.url(), &wanted, stream.documents, &mut rng).await.is_some() {
                break;
            }
        }
        // As `distribute` says nothing of a table that is there, it can stay.
        let done = run(&cluster.url(), &wanted).await.receipt;
        assert!(done.finished, "{done:?}");
        assert!(stored(&cluster, &table).await == stream.last, "round {round}");
        require_placed(&cluster, &table).await;
    }
}

#[tokio::test]
async fn shards_that_move_under_a_load_lose_nothing() {
    let Some(cluster) = CitusCluster::start(2).await else { return };
    cluster.client().await.batch_execute("alter database postgres set citus.shard_count = 4").await.unwrap();
    let (files, mut rng) = (Files::new(), fastrand::Rng::with_seed(5));
    let stream = Stream::random(&mut rng, 120_000, 30_000);
    let first = files.write("first", "{\"id\":\"first\",\"value\":-7}\n");
    let mut wanted = distributing("moving", &[first]);
    run(&cluster.url(), &wanted).await;
    (wanted.sources, wanted.distribute) = (vec![files.write("a", &stream.text)], false);
    let (around, events) = surroundings(&cluster.url());
    let mut loading = Box::pin(load(&wanted, &around));
    let moving = async {
        let moves = [(0, "block_writes"), (1, "force_logical"), (0, "block_writes"), (2, "force_logical")];
        for (nth, (which, mode)) in (1..).zip(moves) {
            until_committed(&around.tally, nth * 1_000).await;
            let (shard, _) = cluster.shards("moving").await[which];
            cluster.move_shard("moving", shard, mode).await;
        }
    };
    // The load may end first: then nothing is under way any more, and the moves just happen.
    let outcome = tokio::select! {
        ended = &mut loading => ended,
        () = moving => loading.await,
    };
    let outcome = outcome.expect("the load begins");
    assert!(outcome.error.is_none() && outcome.receipt.finished, "{outcome:?}; {}", events.warnings());
    let mut expected = stream.last.clone();
    expected.insert("first".into(), -7);
    assert!(stored(&cluster, "moving").await == expected);
    require_placed(&cluster, "moving").await;
}

/// Citus copies the rows into another table, with shards of other numbers. Batches that are committed behind the copy must
/// not be lost.
#[tokio::test]
async fn a_table_that_gets_other_shards_under_a_load_loses_nothing() {
    let Some(cluster) = CitusCluster::start(2).await else { return };
    cluster.client().await.batch_execute("alter database postgres set citus.shard_count = 4").await.unwrap();
    let (files, mut rng) = (Files::new(), fastrand::Rng::with_seed(8));
    let stream = Stream::random(&mut rng, 60_000, 20_000);
    let wanted = distributing("recut", &[files.write("a", &stream.text)]);
    let (around, events) = surroundings(&cluster.url());
    let mut loading = Box::pin(load(&wanted, &around));
    let cutting = async {
        for shards in [3, 5] {
            until_committed(&around.tally, 1_000).await;
            let sql = format!("select alter_distributed_table('recut', shard_count => {shards})");
            cluster.client().await.batch_execute(&sql).await.expect("the table gets other shards");
        }
    };
    let outcome = tokio::select! {
        ended = &mut loading => ended,
        () = cutting => loading.await,
    };
    let outcome = outcome.expect("the load begins");
    assert!(outcome.error.is_none() && outcome.receipt.finished, "{outcome:?}; {}", events.warnings());
    // What is still under way may hold a lock.
    assert!(stored(&cluster, "recut").await == stream.last);
    require_placed(&cluster, "recut").await;
}

/// A pipe cannot be read again, so its load ends, and says what to do. Nothing of it is in the table that the shard has left.
#[tokio::test]
async fn a_stream_whose_shard_moves_ends_and_resumes_when_it_is_sent_again() {
    let Some(cluster) = CitusCluster::start(2).await else { return };
    cluster.client().await.batch_execute("alter database postgres set citus.shard_count = 2").await.unwrap();
    let (files, mut rng) = (Files::new(), fastrand::Rng::with_seed(6));
    let stream = Stream::random(&mut rng, 10_000, 4_000);
    let (pipe, more) = files.pipe("in");
    let mut wanted = request("piped", "id", &[pipe]);
    (wanted.distribute, wanted.source_name, wanted.chunk_bytes) = (true, Some("events".into()), 4 << 10);
    wanted.batch_rows = 100;
    let (around, _) = surroundings(&cluster.url());
    let halves = stream.text.split_at(stream.text[..stream.text.len() / 2].rfind('\n').unwrap() + 1);
    more.send(halves.0.to_owned()).unwrap();
    let moving = async {
        until_committed(&around.tally, 1_000).await;
        for (shard, _) in cluster.shards("piped").await {
            cluster.move_shard("piped", shard, "block_writes").await;
        }
        more.send(halves.1.to_owned()).unwrap();
        drop(more);
    };
    let (outcome, ()) = tokio::join!(Box::pin(load(&wanted, &around)), moving);
    let outcome: Outcome = outcome.expect("the load begins");
    let error = outcome.error.expect("its shards have moved");
    assert!(matches!(error, Error::TableChanged { .. }), "{error}");
    assert_eq!(outcome.stopped, Some(StopReason::Failed));

    let (pipe, more) = files.pipe("again");
    (wanted.sources, wanted.distribute) = (vec![pipe], false);
    more.send(stream.text.clone()).unwrap();
    drop(more);
    assert!(run(&cluster.url(), &wanted).await.receipt.finished);
    assert!(stored(&cluster, "piped").await == stream.last);
    require_placed(&cluster, "piped").await;
}

#[tokio::test]
async fn what_cannot_be_distributed_is_refused_with_a_way_out() {
    let Some(cluster) = CitusCluster::start(1).await else { return };
    let (files, client) = (Files::new(), cluster.client().await);
    let file = files.write("a", "{\"id\":\"a\",\"value\":1}\n");
    client
        .batch_execute(
            "create table plain (id text collate \"C\" primary key, doc jsonb not null);
             create table everywhere (id text collate \"C\" primary key, doc jsonb not null);
             select create_reference_table('everywhere');
             create table by_number (id numeric primary key, doc jsonb not null);
             select create_distributed_table('by_number', 'id')",
        )
        .await
        .unwrap();
    let wanted = |table: &str| {
        let mut wanted = request(table, "id", std::slice::from_ref(&file));
        wanted.adopt = table != "absent" && table != "new";
        wanted
    };
    for (table, expected) in [
        ("absent", "there is no such table; add --distribute"),
        ("plain", "Citus does not distribute it; distribute it: select pg_catalog.create_distributed_table("),
        ("everywhere", "by the hash of a column of its key"),
        ("by_number", "whose type is numeric"),
    ] {
        let error = refused(&cluster.url(), &wanted(table)).await;
        assert!(error.contains(expected), "{table}: {error}");
    }
    let changes: [(Change, &str); 3] = [
        (|wanted| wanted.mode = "sum:value".parse().unwrap(), "--mode sum"),
        (|wanted| wanted.layout = Layout::by_name("log").unwrap(), "--layout log"),
        (|wanted| wanted.lanes = Some(2), "--lanes"),
    ];
    for (change, expected) in changes {
        let mut wanted = LoadRequest { distribute: true, ..wanted("new") };
        change(&mut wanted);
        let error = refused(&cluster.url(), &wanted).await;
        assert!(error.contains(expected), "{error}");
    }
    let worker = cluster.workers[0].url("postgres");
    assert!(refused(&worker, &wanted("plain")).await.contains("is a worker of Citus"));
    let none: i64 = connect(&worker)
        .await
        .query_one("select count(*) from pg_namespace where nspname = 'millstream'", &[])
        .await
        .unwrap()
        .get(0);
    assert_eq!(none, 0, "a load that is refused leaves nothing at a worker");
}
