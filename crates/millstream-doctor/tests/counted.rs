//! Planted faults that only counters show: deadlocks, rollbacks, pages that are read again and again, damaged pages.

use crate::checks::{keys, request, seen, sql};
use crate::server_more::server;
use millstream_doctor::examine;
use millstream_model::{Danger, Level};
use millstream_testkit::{self as testkit, StopMode};
use std::io::{Seek, SeekFrom, Write};
use tokio_postgres::Client;

#[tokio::test]
async fn deadlocks_are_counted_and_a_wait_is_none() {
    let settings = "[threshold.deadlock]\ncount = 1\nper_day = 0";
    testkit::every_build(async |database| {
        let (url, mut one, mut other) = (database.url(), database.client().await, database.client().await);
        sql(&one, "create table t (id int primary key, n int); insert into t values (1, 0), (2, 0)").await;
        for client in [&one, &other] {
            client.batch_execute("set deadlock_timeout = '10ms'").await.unwrap();
        }
        let update = async |client: &tokio_postgres::Transaction<'_>, id: i32| {
            client.execute("update t set n = n + 1 where id = $1", &[&id]).await
        };
        // A wait for a row ends when its holder commits.
        let (first, second) = (one.transaction().await.unwrap(), other.transaction().await.unwrap());
        update(&first, 1).await.unwrap();
        let (waited, _) = tokio::join!(update(&second, 1), async { first.commit().await.unwrap() });
        waited.unwrap();
        second.commit().await.unwrap();
        seen(&url, "deadlock", settings, <[String]>::is_empty).await;

        let (first, second) = (one.transaction().await.unwrap(), other.transaction().await.unwrap());
        update(&first, 1).await.unwrap();
        update(&second, 2).await.unwrap();
        let (a, b) = tokio::join!(
            async {
                let done = update(&first, 2).await;
                first.rollback().await.unwrap();
                done
            },
            async {
                let done = update(&second, 1).await;
                second.rollback().await.unwrap();
                done
            }
        );
        assert!(a.is_err() != b.is_err(), "one of both is cancelled");
        let found = seen(&url, "deadlock", settings, |keys| keys == [""]).await;
        assert_eq!(found.findings[0].level, Level::Warning);
        sql(&one, "select pg_stat_reset()").await;
        seen(&url, "deadlock", settings, <[String]>::is_empty).await;
    })
    .await;
}

#[tokio::test]
async fn transactions_that_are_rolled_back_are_counted() {
    let settings = "[threshold.rollback]\npercent = 40\nper_second = 0\nhours = 0";
    testkit::every_build(async |database| {
        let (url, client) = (database.url(), database.client().await);
        let work = async |client: &Client, end: &str| {
            for _ in 0..300 {
                client.batch_execute(&format!("begin; select 1; {end}")).await.unwrap();
            }
            // The server passes its counts on only with those of a table.
            sql(client, "select from pg_class limit 1").await;
        };
        work(&client, "commit").await;
        seen(&url, "rollback", settings, <[String]>::is_empty).await;
        sql(&client, "select pg_stat_reset()").await;
        work(&client, "rollback").await;
        seen(&url, "rollback", settings, |keys| keys == [""]).await;
        sql(&client, "select pg_stat_reset()").await;
        work(&client, "commit").await;
        seen(&url, "rollback", settings, <[String]>::is_empty).await;
    })
    .await;
}

#[tokio::test]
async fn pages_that_are_read_again_and_again_are_found_with_their_table() {
    let settings = "[threshold.cache-misses]\nreads = 1000\nper_second = 0\npercent = 30\nwarning_percent = 0";
    for build in testkit::builds().await {
        let server = server(build, &["shared_buffers = 1MB", "track_io_timing = off"]).await;
        let (url, client) = (server.url("postgres"), testkit::connect(&server.url("postgres")).await);
        sql(
            &client,
            "create table small (n int); insert into small values (1);
             create table large (n int, t text); insert into large select n, repeat('x', 400) from generate_series(1, 10000) n;
             vacuum analyze small; vacuum analyze large; select pg_stat_reset()",
        )
        .await;
        for _ in 0..1_000 {
            client.query("select from small", &[]).await.unwrap();
        }
        seen(&url, "cache-misses", settings, <[String]>::is_empty).await;
        for _ in 0..20 {
            client.query("select count(*) from large", &[]).await.unwrap();
        }
        sql(&client, "select 1").await;
        let found = seen(&url, "cache-misses", settings, |keys| keys == [""]).await;
        let finding = &found.findings[0];
        assert_eq!(finding.level, Level::Info, "nobody knows what the reads cost: {finding:?}");
        assert!(finding.evidence.iter().any(|one| one.name == "pages read of public.large"), "{finding:?}");
        // With the time of reads it is known.
        for statement in ["alter system set track_io_timing = on", "select pg_reload_conf()"] {
            client.batch_execute(statement).await.unwrap();
        }
        sql(&client, "select pg_stat_reset()").await;
        client.batch_execute("set track_io_timing = on").await.unwrap();
        for _ in 0..20 {
            client.query("select count(*) from large", &[]).await.unwrap();
        }
        sql(&client, "select 1").await;
        let timed = |report: &millstream_doctor::Report| {
            report.findings.first().is_some_and(|one| one.level == Level::Warning && one.time_percent.is_some())
        };
        crate::server_more::until(&url, "cache-misses", settings, timed).await;
        sql(&client, "select pg_stat_reset()").await;
        seen(&url, "cache-misses", settings, <[String]>::is_empty).await;
    }
}

#[tokio::test]
async fn a_damaged_page_is_found_once_it_was_read() {
    for build in testkit::builds().await {
        let server = server(build, &[]).await;
        let (url, client) = (server.url("postgres"), testkit::connect(&server.url("postgres")).await);
        sql(&client, "create table t (n int); insert into t select generate_series(1, 1000); checkpoint").await;
        let file: String = client.query_one("select pg_relation_filepath('t')", &[]).await.unwrap().get(0);
        let checksums: String = client.query_one("show data_checksums", &[]).await.unwrap().get(0);
        drop(client);
        server.stop(StopMode::Fast).await;
        // From 18 on, they are on.
        if checksums == "off" {
            let enabled = server.run("pg_checksums", &["--enable"]).await;
            assert!(enabled.status.success(), "{enabled:?}");
        }
        server.start_again().await;
        assert_eq!(keys(&examine(&request(&url, &["checksum-failure"], "")).await.unwrap()), [""; 0]);
        server.stop(StopMode::Fast).await;
        let mut damaged = std::fs::OpenOptions::new().write(true).open(server.data().join(file)).unwrap();
        damaged.seek(SeekFrom::Start(4_000)).unwrap();
        damaged.write_all(&[7; 16]).unwrap();
        drop(damaged);
        server.start_again().await;
        let client = testkit::connect(&url).await;
        client.query("select count(*) from t", &[]).await.unwrap_err();
        let found = seen(&url, "checksum-failure", "", |keys| keys == ["postgres"]).await;
        assert_eq!((found.findings[0].level, found.findings[0].danger), (Level::Critical, Some(Danger::Data)));
        sql(&client, "drop table t; select pg_stat_reset()").await;
        seen(&url, "checksum-failure", "", <[String]>::is_empty).await;
    }
}
