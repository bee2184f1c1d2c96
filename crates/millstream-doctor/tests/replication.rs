//! Planted faults of replication and archiving: seen from the primary and from the standby.

use crate::checks::{WAL, seen, sql, subjects};
use crate::server_more::{as_role, report_of, server, until};
use millstream_doctor::Report;
use millstream_model::{Danger, Level};
use millstream_testkit::{self as testkit, Server};
use std::fs::File;
use std::process::Command;
use std::time::{Duration, SystemTime};
use tokio_postgres::IsolationLevel;

/// A standby of a server, which streams from it.
async fn standby_of(primary: &Server) -> Server {
    let mut standby = primary.without_data();
    let mut copy = Command::new(primary.build().installation.bin.join("pg_basebackup"));
    copy.arg("--dbname").arg(primary.url("postgres")).arg("--pgdata").arg(standby.data());
    copy.args(["--checkpoint", "fast", "--wal-method", "stream", "--write-recovery-conf", "--no-sync"]);
    let copied = tokio::task::spawn_blocking(move || copy.output()).await.unwrap().unwrap();
    assert!(copied.status.success(), "{copied:?}");
    own(&standby);
    standby.start_copy().await;
    standby
}

/// Gives the copy to the account of the server.
fn own(server: &Server) {
    let mut folders = vec![server.data()];
    while let Some(folder) = folders.pop() {
        server.own(&folder);
        for entry in std::fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            server.own(&entry.path());
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            }
        }
    }
}

#[tokio::test]
async fn a_replica_that_does_not_replay_is_found_on_both_sides() {
    let settings = "[threshold.replica-behind]\nmb = 10";
    for build in testkit::builds_with(&[testkit::Feature::BaseBackup]).await {
        let primary = server(build, &[]).await;
        let standby = standby_of(&primary).await;
        let (url, there) = (primary.url("postgres"), standby.url("postgres"));
        let (client, replica) = (testkit::connect(&url).await, testkit::connect(&there).await);
        seen(&url, "replica-behind", settings, <[String]>::is_empty).await;
        seen(&there, "replica-behind", settings, <[String]>::is_empty).await;

        replica.batch_execute("select pg_wal_replay_pause()").await.unwrap();
        client.batch_execute(WAL).await.unwrap();
        let behind = |report: &Report| report.findings.first().is_some_and(|one| one.sentence.contains(" behind"));
        let found = until(&url, "replica-behind", settings, behind).await;
        assert_eq!(found.findings[0].level, Level::Warning, "{found:?}");
        let found = seen(&there, "replica-behind", settings, |keys| keys == ["replay"]).await;
        let repair = found.findings[0].repair.as_ref().unwrap();
        assert_eq!(repair.commands, ["select pg_wal_replay_resume()"]);
        replica.batch_execute(&repair.commands[0]).await.unwrap();
        seen(&url, "replica-behind", settings, <[String]>::is_empty).await;
        seen(&there, "replica-behind", settings, <[String]>::is_empty).await;

        // A query there that sees rows which the primary has vacuumed is cancelled.
        let conflicts = "[threshold.standby-conflict]\nper_day = 0";
        seen(&there, "standby-conflict", conflicts, <[String]>::is_empty).await;
        for statement in ["alter system set max_standby_streaming_delay = 0", "select pg_reload_conf()"] {
            replica.batch_execute(statement).await.unwrap();
        }
        sql(&client, "create table t as select generate_series(1, 1000) as n").await;
        let mut reader = testkit::connect(&there).await;
        testkit::until("the replica has the table", async || reader.query("select from t", &[]).await.is_ok()).await;
        let open = reader.build_transaction().isolation_level(IsolationLevel::RepeatableRead).start().await.unwrap();
        open.query("select count(*) from t", &[]).await.unwrap();
        sql(&client, "delete from t; vacuum t").await;
        seen(&there, "standby-conflict", conflicts, |keys| keys == [""]).await;
        drop(open);
        replica.batch_execute("select pg_stat_reset()").await.unwrap();
        seen(&there, "standby-conflict", conflicts, <[String]>::is_empty).await;

        // A standby whose primary is gone.
        drop((client, primary));
        seen(&there, "replica-behind", settings, |keys| keys == ["receiver"]).await;
    }
}

#[tokio::test]
async fn a_server_that_was_a_standby_counts_the_use_of_indexes_from_its_promotion_on() {
    // Less than a second: the counters are as old as the test.
    let settings = "[threshold.unused-index]\nindex_mb = 0\ndays = 0.00001";
    for build in testkit::builds().await {
        let server = server(build, &[]).await;
        server.stop(testkit::StopMode::Fast).await;
        server.write("standby.signal", "").await;
        server.start_again().await;
        let (url, client) = (server.url("postgres"), testkit::connect(&server.url("postgres")).await);
        sql(&client, "select pg_promote(); create table t (n int); create index idle on t (n)").await;
        let history = File::options().write(true).open(server.data().join("pg_wal/00000002.history")).unwrap();
        let day = Duration::from_secs(86_400);

        history.set_modified(SystemTime::now() - day).unwrap();
        let found = report_of(&url, "unused-index", settings).await;
        assert_eq!(subjects(&found), ["public.idle"], "{found:?}");
        assert!(found.findings[0].sentence.contains("since the counters began"), "{found:?}");
        history.set_modified(SystemTime::now() + day).unwrap();
        let young = report_of(&url, "unused-index", settings).await;
        assert!(young.skipped[0].why.starts_with("which indexes no query uses: needs"), "{young:?}");
        sql(&client, "create role nobody login password 'p'").await;
        let blind = report_of(&as_role(&url, "nobody"), "unused-index", settings).await;
        assert!(blind.skipped[0].why.ends_with("grant pg_monitor to it"), "{blind:?}");
    }
}

#[tokio::test]
async fn an_archive_that_fails_or_is_late_is_found() {
    for build in testkit::builds().await {
        let server = server(build, &["archive_mode = on", "archive_command = '/bin/true'"]).await;
        let (url, client) = (server.url("postgres"), testkit::connect(&server.url("postgres")).await);
        let set = async |command: &str| {
            for statement in [&format!("alter system set archive_command = '{command}'"), "select pg_reload_conf()"] {
                client.batch_execute(statement).await.unwrap();
            }
        };
        let switch = async || {
            client.batch_execute("select pg_logical_emit_message(true, 'a', 'b')").await.unwrap();
            client.batch_execute("select pg_switch_wal()").await.unwrap();
        };
        switch().await;
        seen(&url, "archiver-failing", "", <[String]>::is_empty).await;
        set("/bin/false").await;
        switch().await;
        let failing = |report: &Report| report.findings.iter().any(|one| one.sentence.contains("command fails"));
        let found = until(&url, "archiver-failing", "", failing).await;
        assert_eq!(found.findings[0].danger, Some(Danger::Data), "{found:?}");
        // It has worked a moment ago.
        assert_eq!(found.findings[0].level, Level::Warning, "{found:?}");
        let long = until(&url, "archiver-failing", "[threshold.archiver-failing]\ncritical_minutes = 0", failing).await;
        assert_eq!(long.findings[0].level, Level::Critical, "{long:?}");
        set("").await;
        let none = |report: &Report| report.findings.iter().any(|one| one.sentence.contains("no archive_command"));
        until(&url, "archiver-failing", "", none).await;
        set("/bin/true").await;
        seen(&url, "archiver-failing", "", <[String]>::is_empty).await;
    }
}
