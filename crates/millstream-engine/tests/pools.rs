//! Loads with fewer connections than they ask for: through a small pool, or as a role with a limit.

use crate::emptied::documents;
use crate::scene::{Files, execute, request, stored, surroundings, until_committed};
use millstream_engine::{LoadRequest, load};
use millstream_pg::Explained;
use millstream_testkit::{Need, Pooler, TestDatabase, each_build, machine_has};

/// Loads documents with as many of these lanes as there are, and returns how many there were, and the warnings.
async fn loaded(db: &TestDatabase, url: &str, lanes: Option<u16>) -> (u16, String) {
    let files = Files::new();
    let table = format!("public.t{}", fastrand::u32(..));
    let mut wanted = request(&table, "id:text", &[files.write("a", documents(0..5_000).text)]);
    (wanted.lanes, wanted.batch_rows) = (lanes, 500);
    let (around, events) = surroundings(url);
    let outcome = Box::pin(load(&wanted, &around)).await.unwrap_or_else(|error| panic!("{url}: {error}"));
    assert!(outcome.receipt.finished, "{outcome:?}");
    assert!(stored(db, &table).await == documents(0..5_000).last);
    (outcome.receipt.lanes, events.warnings())
}

#[tokio::test]
async fn a_load_goes_on_with_the_connections_of_a_pool() {
    if !machine_has(&[Need::PGBOUNCER]) {
        return;
    }
    each_build(async |db| {
        for (size, lanes, found) in [(2, 2, 1), (3, 4, 2), (9, 3, 3)] {
            let settings = format!("pool_mode = session\ndefault_pool_size = {size}");
            let pooler = Pooler::start(db.server, &settings).await;
            let (open, warnings) = loaded(&db, &pooler.url(&db.name), Some(lanes)).await;
            assert_eq!(open, found, "{settings}: {warnings}");
            let warned = warnings.contains(&format!("the load continues with {found} of {lanes} lanes"));
            assert_eq!(warned, found < lanes, "{settings}: {warnings}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_pool_of_one_connection_is_named() {
    if !machine_has(&[Need::PGBOUNCER]) {
        return;
    }
    each_build(async |db| {
        let pooler = Pooler::start(db.server, "pool_mode = session\ndefault_pool_size = 1").await;
        let files = Files::new();
        let wanted = request("public.t", "id:text", &[files.write("a", documents(0..10).text)]);
        let url = format!("{}?connect_timeout=2", pooler.url(&db.name));
        let error = Box::pin(load(&wanted, &surroundings(&url).0)).await.expect_err("it needs two");
        assert!(error.to_string().contains("one connection"), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("default_pool_size")), "{error:?}");
    })
    .await;
}

#[tokio::test]
async fn a_load_goes_on_with_the_connections_of_a_role() {
    each_build(async |db| {
        let role = format!("limited_{}", fastrand::u32(..));
        execute(
            &db,
            &format!(
                "create role {role} login password 'x' connection limit 3; grant create on database {} to {role};
                 grant create on schema public to {role}",
                db.name
            ),
        )
        .await;
        let url = format!("postgres://{role}:x@127.0.0.1:{}/{}", db.server.port(), db.name);
        let (open, warnings) = loaded(&db, &url, Some(5)).await;
        // A session that has just ended may still count.
        assert!(
            (1..=2).contains(&open) && warnings.contains("of 5 lanes: no more connections are free"),
            "{open} {warnings}"
        );
    })
    .await;
}

/// A lane that connects again gives its connection back first: the pool has no other.
#[tokio::test]
async fn a_lane_connects_again_through_a_full_pool() {
    if !machine_has(&[Need::PGBOUNCER]) {
        return;
    }
    each_build(async |db| {
        let pooler = Pooler::start(db.server, "pool_mode = session\ndefault_pool_size = 2").await;
        for change in [
            "vacuum full public.t",
            "select pg_terminate_backend(pid) from pg_stat_activity
                 where application_name like 'millstream lane%' and datname = current_database()",
        ] {
            let files = Files::new();
            let (path, more) = files.pipe("pipe");
            let (around, _) = surroundings(&pooler.url(&db.name));
            let wanted = LoadRequest { lanes: Some(1), ..request("public.t", "id:text", &[path]) };
            let feeding = async {
                more.send(documents(0..500).text).expect("the pipe is read");
                until_committed(&around.tally, 500).await;
                execute(&db, change).await;
                more.send(documents(500..1_000).text).expect("the pipe is read");
                drop(more);
            };
            let (ended, ()) = tokio::join!(Box::pin(load(&wanted, &around)), feeding);
            let outcome = ended.expect("there is a receipt");
            assert!(outcome.error.is_none() && outcome.receipt.finished, "{change}: {outcome:?}");
            assert!(stored(&db, "public.t").await == documents(0..1_000).last, "{change}");
            execute(&db, "drop table public.t").await;
        }
    })
    .await;
}
