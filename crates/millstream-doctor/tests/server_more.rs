//! Planted faults of a server's pace, statistics and settings: found by numbers of its own, and silent when repaired.

use crate::checks::{WAL, evidence, keys, report, request, seen, sql, subjects};
use crate::machine::{FAST, GROUPS, machine};
use crate::proof::counting_server;
use millstream_doctor::{Report, Request, Skip, examine};
use millstream_model::{Level, Restart};
use millstream_testkit::{self as testkit, Build, Server};
use std::path::Path;
use std::time::Duration;

pub(crate) async fn server(build: &'static Build, conf: &[&str]) -> Server {
    Server::start(build, testkit::Settings::with(conf)).await
}

/// The same database for a role without rights.
pub(crate) fn as_role(url: &str, role: &str) -> String {
    let (_, place) = url.rsplit_once('@').unwrap();
    format!("postgres://{role}:p@{place}")
}

/// Examines again and again until a report is as expected.
pub(crate) async fn until(url: &str, check: &str, settings: &str, expected: impl Fn(&Report) -> bool) -> Report {
    let request = request(url, &[check], settings);
    let mut found = examine(&request).await.unwrap();
    for _ in 0..600 {
        if expected(&found) {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        found = examine(&request).await.unwrap();
    }
    panic!("{check}: {found:?}");
}

#[tokio::test]
async fn a_vacuum_that_its_pace_slows_down_is_found_while_it_works() {
    let settings = "[threshold.dead-tuples]\ntable_mb = 0.1\npace_seconds = 5";
    for build in testkit::builds().await {
        let server = server(build, &["autovacuum_naptime = 1s"]).await;
        let url = server.url("postgres");
        let client = testkit::connect(&url).await;
        // Each page costs at least a delay: a pass takes most of a minute.
        sql(
            &client,
            "create table slow (n int) with (autovacuum_enabled = off, autovacuum_vacuum_cost_delay = 100,
                 autovacuum_vacuum_cost_limit = 1);
             insert into slow select generate_series(1, 60000); update slow set n = n + 1",
        )
        .await;
        let off = report_of(&url, "dead-tuples", settings).await;
        assert_eq!(keys(&off), ["public.slow"]);
        assert!(off.findings[0].sentence.ends_with("autovacuum is off for this table"), "{off:?}");

        sql(&client, "alter table slow reset (autovacuum_enabled)").await;
        let at_work = |report: &Report| {
            report.findings.iter().any(|one| one.sentence.contains("autovacuum has been at work on them for"))
        };
        let found = until(&url, "dead-tuples", settings, at_work).await;
        assert_eq!(keys(&found), ["public.slow"]);
        let finding = &found.findings[0];
        assert_eq!(finding.level, Level::Warning, "{finding:?}");
        let pace = evidence(finding, "pace of autovacuum").unwrap();
        assert_eq!(pace, "at most 41 kB/s of pages that it reads, 20 kB/s of those that it changes");
        assert!(evidence(finding, "time for the table at this pace").is_some(), "{finding:?}");
        let repair = finding.repair.as_ref().unwrap();
        assert_eq!(repair.commands, ["alter table public.slow reset (autovacuum_vacuum_cost_delay)"]);
        assert_eq!(repair.change.as_ref().unwrap().target, "postgres/public.slow/autovacuum_vacuum_cost_delay");
        // The same vacuum, but a pace that is asked for a day is not slow enough.
        let calm = settings.replace("pace_seconds = 5", "pace_seconds = 86400");
        assert_eq!(keys(&report_of(&url, "dead-tuples", &calm).await), [""; 0]);

        // A change of the table ends that vacuum, and the next one is quick.
        let both = "alter table slow reset (autovacuum_vacuum_cost_delay, autovacuum_vacuum_cost_limit)";
        sql(&client, both).await;
        until(&url, "dead-tuples", settings, |report| report.findings.is_empty()).await;
    }
}

#[tokio::test]
async fn pages_that_vacuum_skips_take_no_time() {
    let settings = "[threshold.dead-tuples]\ntable_mb = 0.1";
    for build in testkit::builds().await {
        // Nothing else may hold a snapshot when the table is vacuumed.
        let server = server(build, &["autovacuum = off"]).await;
        let (url, client) = (server.url("postgres"), testkit::connect(&server.url("postgres")).await);
        let seconds = async || {
            let found = report_of(&url, "dead-tuples", settings).await;
            assert_eq!(keys(&found), ["public.seen"]);
            let shown = evidence(&found.findings[0], "time for the table at this pace").unwrap();
            shown.strip_suffix('s').unwrap().parse::<u32>().unwrap()
        };
        // Reading a page takes 0.2 s, and a page with dead rows 0.4 s.
        sql(
            &client,
            "create table seen (n int) with (autovacuum_enabled = off, autovacuum_vacuum_threshold = 1,
                 autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 100,
                 autovacuum_vacuum_cost_limit = 1);
             insert into seen select generate_series(1, 60000)",
        )
        .await;
        // What is counted after an analyze adds to what that has estimated.
        sql(&client, "analyze seen").await;
        sql(&client, "delete from seen where n <= 10").await;
        assert!((50..60).contains(&seconds().await), "266 pages");
        sql(&client, "vacuum seen; delete from seen where n between 11 and 20").await;
        assert_eq!(seconds().await, 4, "at most 10 pages");
    }
}

pub(crate) async fn report_of(url: &str, check: &str, settings: &str) -> Report {
    examine(&request(url, &[check], settings)).await.unwrap()
}

#[tokio::test]
async fn dead_rows_of_a_toast_table_are_found_under_its_owner() {
    testkit::every_build(async |database| {
        let (client, settings) = (database.client().await, "[threshold.dead-tuples]\ntable_mb = 0.01");
        sql(
            &client,
            "create table calm (id int, doc text) with (autovacuum_vacuum_threshold = 100000);
             alter table calm alter doc set storage external;
             insert into calm select n, repeat('x', 5000) from generate_series(1, 200) as n;
             update calm set doc = repeat('y', 5000);
             create table docs (id int, doc text)
                 with (autovacuum_vacuum_threshold = 100000, toast.autovacuum_enabled = off);
             alter table docs alter doc set storage external;
             insert into docs select n, repeat('x', 5000) from generate_series(1, 200) as n",
        )
        .await;
        let silent = report(&database, "dead-tuples", settings).await;
        assert_eq!(keys(&silent), [""; 0], "the options of the owner count");
        sql(&client, "update docs set doc = repeat('y', 5000)").await;
        let found = report(&database, "dead-tuples", settings).await;
        assert_eq!(keys(&found), ["public.docs.toast"]);
        let finding = &found.findings[0];
        let sentence = "50 % of the rows of its TOAST table are dead: autovacuum is off for this table";
        assert_eq!((finding.sentence.as_str(), finding.level), (sentence, Level::Warning));
        let repair = finding.repair.as_ref().unwrap();
        assert_eq!(repair.commands, ["alter table public.docs reset (toast.autovacuum_enabled)"]);
        assert_eq!(repair.change, None);
        sql(&client, "vacuum docs").await;
        assert_eq!(keys(&report(&database, "dead-tuples", settings).await), [""; 0]);
    })
    .await;
}

#[tokio::test]
async fn a_toast_table_that_is_mostly_free_space_is_found_under_its_owner() {
    testkit::every_build(async |database| {
        let client = database.client().await;
        let settings = "[threshold.table-bloat]\ntable_mb = 0.5\nfree_mb = 0.5";
        sql(
            &client,
            "create table docs (id int primary key, doc text); alter table docs alter doc set storage external;
             insert into docs select n, repeat('x', 5000) from generate_series(1, 600) as n; vacuum analyze docs",
        )
        .await;
        assert_eq!(keys(&report(&database, "table-bloat", settings).await), [""; 0], "it is full");
        sql(&client, "delete from docs where id % 10 <> 0; vacuum analyze docs").await;
        let found = report(&database, "table-bloat", settings).await;
        assert_eq!(keys(&found), ["public.docs.toast"]);
        let finding = &found.findings[0];
        assert!(finding.sentence.starts_with("a rewrite would make the TOAST table at least"), "{finding:?}");
        assert_eq!(finding.level, Level::Info);
        assert_eq!(finding.repair.as_ref().unwrap().commands.last().unwrap(), "vacuum (full, analyze) public.docs");

        sql(&client, "create extension pgstattuple").await;
        let measured = report(&database, "table-bloat", settings).await;
        assert_eq!(keys(&measured), ["public.docs.toast"]);
        assert_eq!(measured.findings[0].level, Level::Warning, "{measured:?}");
        sql(&client, "vacuum (full, analyze) docs").await;
        assert_eq!(keys(&report(&database, "table-bloat", settings).await), [""; 0]);
    })
    .await;
}

#[tokio::test]
async fn tables_without_statistics_are_found_also_partitioned_ones() {
    testkit::every_build(async |database| {
        let (client, settings) = (database.client().await, "[threshold.never-analyzed]\nrows = 100");
        sql(
            &client,
            "create table seen (n int); insert into seen select generate_series(1, 1000); analyze seen;
             create table small (n int) with (autovacuum_enabled = off);
             insert into small select generate_series(1, 50);
             create table known (n int) partition by range (n);
             create table known_1 partition of known for values from (0) to (10000);
             insert into known select generate_series(1, 1000); analyze known",
        )
        .await;
        assert_eq!(keys(&report(&database, "never-analyzed", settings).await), [""; 0]);

        sql(
            &client,
            "create table unseen (n int) with (autovacuum_enabled = off);
             insert into unseen select generate_series(1, 1000);
             create table days (n int) partition by range (n);
             create table days_1 partition of days for values from (0) to (10000);
             insert into days select generate_series(1, 2000); analyze days_1",
        )
        .await;
        let found = report(&database, "never-analyzed", settings).await;
        assert_eq!(keys(&found), ["public.days", "public.unseen"]);
        let [days, unseen] = &found.findings[..] else { panic!("{found:?}") };
        assert_eq!((days.level, unseen.level), (Level::Warning, Level::Warning));
        assert!(days.sentence.ends_with("never the table as a whole"), "{days:?}");
        assert!(unseen.sentence.ends_with("autovacuum is off for this table"), "{unseen:?}");

        // Vacuum counts the rows, and collects no statistics. Who may not read the table cannot know.
        sql(&client, "vacuum unseen").await;
        assert_eq!(keys(&report(&database, "never-analyzed", settings).await), ["public.days", "public.unseen"]);
        let role = format!("nobody{:08x}", fastrand::u32(..));
        sql(&client, &format!("create role {role} login password 'p'")).await;
        let blind = report_of(&as_role(&database.url(), &role), "never-analyzed", settings).await;
        assert_eq!(subjects(&blind), ["public.days"], "its rows were never counted");
        let why = "the statistics of 1 tables that this role may not read";
        assert!(blind.skipped.iter().any(|skip| skip.why.starts_with(why)), "{blind:?}");
        sql(&client, &format!("drop role {role}")).await;

        for finding in &found.findings {
            sql(&client, &finding.repair.as_ref().unwrap().commands[0]).await;
        }
        assert_eq!(keys(&report(&database, "never-analyzed", settings).await), [""; 0]);
    })
    .await;
}

#[tokio::test]
async fn full_wal_buffers_are_found_and_larger_ones_are_not() {
    let settings = "[threshold.wal-buffers-full]\nper_second = 0\npercent = 1";
    let work = "select pg_stat_reset_shared('wal'); create table filled as select generate_series(1, 150000) as n;
        drop table filled";
    for build in testkit::builds().await {
        let small = server(build, &["wal_buffers = 64kB"]).await;
        let (url, client) = (small.url("postgres"), testkit::connect(&small.url("postgres")).await);
        sql(&client, work).await;
        let found = seen(&url, "wal-buffers-full", settings, |keys| keys == ["wal_buffers"]).await;
        let finding = &found.findings[0];
        assert!(finding.counted_seconds.is_some() && evidence(finding, "WAL").is_some(), "{finding:?}");
        let repair = finding.repair.as_ref().unwrap();
        assert_eq!(repair.commands[0], "alter system set wal_buffers = '16MB'");
        assert_eq!((repair.restart, repair.change.as_ref()), (Restart::Server, None));
        assert_eq!(finding.experiment, None, "pgbench writes too little at a time");
        sql(&client, "select pg_stat_reset_shared('wal')").await;
        assert_eq!(keys(&report_of(&url, "wal-buffers-full", settings).await), [""; 0]);

        let large = server(build, &["wal_buffers = 32MB"]).await;
        let client = testkit::connect(&large.url("postgres")).await;
        sql(&client, work).await;
        assert_eq!(keys(&report_of(&large.url("postgres"), "wal-buffers-full", settings).await), [""; 0]);
    }
}

#[tokio::test]
async fn checkpoints_by_hand_are_silent_on_a_server_that_writes_little_wal() {
    for build in testkit::builds().await {
        let server = server(build, &[]).await;
        let (url, client) = (server.url("postgres"), testkit::connect(&server.url("postgres")).await);
        for _ in 0..22 {
            client.batch_execute("checkpoint").await.unwrap();
        }
        // The check of the same counters sees them.
        let settings = "[threshold.checkpoint-spread]\nsync_seconds = 0\ncount = 22";
        seen(&url, "checkpoint-spread", settings, |keys| keys == [""]).await;
        assert_eq!(keys(&report_of(&url, "checkpoint-forced", "").await), [""; 0]);
        // Nor is it told whether the WAL has forced them, if its counters are younger.
        let seconds = async || {
            let sql = "select extract(epoch from now() - stats_reset)::float8 from pg_stat_bgwriter";
            client.query_one(sql, &[]).await.unwrap().get::<_, f64>(0)
        };
        testkit::until("the counters are two seconds old", async || seconds().await >= 2.0).await;
        sql(&client, "select pg_stat_reset_shared('wal')").await;
        let blind = report_of(&url, "checkpoint-forced", "").await;
        assert_eq!((subjects(&blind).len(), blind.skipped.len()), (0, 1), "{blind:?}");
        assert!(blind.skipped[0].why.starts_with("whether WAL forces checkpoints: needs "), "{blind:?}");
    }
}

#[tokio::test]
async fn switching_fsync_on_again_ends_with_a_sync() {
    for build in testkit::builds().await {
        let server = server(build, &["fsync = off"]).await;
        let found = report_of(&server.url("postgres"), "durability-off", "").await;
        let finding = found.findings.iter().find(|finding| finding.subject == "fsync").unwrap();
        let repair = finding.repair.as_ref().unwrap();
        let expected = ["alter system set fsync = 'on'", "select pg_reload_conf()", "$ sync"];
        assert_eq!(repair.commands, expected, "{repair:?}");
    }
}

#[tokio::test]
async fn a_role_that_may_not_use_the_schema_of_the_statements_learns_which_grant_is_missing() {
    for build in testkit::builds().await {
        let server = counting_server(build).await;
        let (url, client) = (server.url("postgres"), testkit::connect(&server.url("postgres")).await);
        let look = async || report_of(&as_role(&url, "watcher"), "top-statement", "").await;
        sql(&client, "create role watcher login password 'p' in role pg_monitor").await;
        let why = async || look().await.skipped.into_iter().map(|skip| skip.why).collect::<Vec<String>>();
        let absent =
            "which statements take the time; load pg_stat_statements, and create the extension in this database";
        assert_eq!(why().await, [absent]);
        sql(&client, "create schema tools; create extension pg_stat_statements schema tools").await;
        let hidden = "which statements take the time; grant usage on schema \"tools\" to this role, where \
                      pg_stat_statements is";
        assert_eq!(why().await, [hidden]);
        sql(&client, "grant usage on schema tools to watcher").await;
        assert_eq!(why().await, [""; 0]);
    }
}

#[tokio::test]
async fn a_larger_max_wal_size_fits_the_disk_and_is_no_change_where_the_disk_is_unknown() {
    let settings = "[threshold.checkpoint-forced]\ncount = 3\npercent = 1";
    for build in testkit::builds().await {
        let server = server(build, &["max_wal_size = 32MB", "min_wal_size = 32MB"]).await;
        let (url, client) = (server.url("postgres"), testkit::connect(&server.url("postgres")).await);
        for _ in 0..4 {
            client.batch_execute(WAL).await.unwrap();
            client.batch_execute("checkpoint").await.unwrap();
        }
        let found = seen(&url, "checkpoint-forced", settings, |keys| keys == [""]).await;
        let finding = &found.findings[0];
        assert!(evidence(finding, "free on the disk of the WAL").is_some(), "{finding:?}");
        // Two segments, but the next checkpoint begins before the last one has ended.
        assert_eq!(evidence(finding, "WAL that forces a checkpoint"), Some("16.0 MiB"));
        let change = finding.repair.as_ref().unwrap().change.as_ref().unwrap();
        let size: u64 = change.value.as_ref().unwrap().strip_suffix("MB").unwrap().parse().unwrap();
        // Other tests fill and empty the disk meanwhile.
        let free = millstream_host::disk_space(&server.data()).unwrap().free;
        assert!(size > 32 && size <= (free / 5) >> 20, "{size} of {free}");

        client.batch_execute("create role nobody login password 'p'").await.unwrap();
        let blind = report_of(&as_role(&url, "nobody"), "checkpoint-forced", settings).await;
        let repair = blind.findings[0].repair.as_ref().unwrap();
        assert_eq!(repair.change, None, "{repair:?}");
        assert!(repair.commands[0].starts_with("-- first see that the disk of the WAL has"), "{repair:?}");
        assert!(repair.commands[1].starts_with("alter system set max_wal_size = "), "{repair:?}");
    }
}

#[tokio::test]
async fn a_commit_delay_is_judged_by_the_time_of_a_flush() {
    let fast = "[threshold.commit-delay]\nflush_us = 1e9";
    let slow = "[threshold.commit-delay]\nflush_us = 0\ntimes = 1e9";
    for build in testkit::builds().await {
        let settings = testkit::Settings::with(&["commit_delay = 1000", "track_wal_io_timing = off"]);
        // In memory a flush may take less than the clock shows.
        let server = Server::start(build, testkit::Settings { durable: true, ..settings }).await;
        let url = server.url("postgres");
        let client = testkit::connect(&url).await;
        let untimed = report_of(&url, "commit-delay", fast).await;
        assert!(untimed.findings.is_empty(), "{untimed:?}");
        assert!(untimed.skipped[0].why.ends_with("switch track_wal_io_timing on"), "{untimed:?}");

        // What the server has counted before has no time.
        let reset = if build.major() < 18 { "wal" } else { "io" };
        client.batch_execute("alter system set track_wal_io_timing = on").await.unwrap();
        client.batch_execute("select pg_reload_conf()").await.unwrap();
        client.batch_execute("create table t (n int)").await.unwrap();
        client.batch_execute(&format!("select pg_stat_reset_shared('{reset}')")).await.unwrap();
        let few = report_of(&url, "commit-delay", fast).await;
        assert!(few.findings.is_empty() && few.skipped.len() == 1, "{few:?}");
        for _ in 0..50 {
            client.batch_execute("insert into t values (1)").await.unwrap();
        }
        sql(&client, "select 1").await;
        let at_last = |report: &Report| subjects(report) == ["commit_delay"];
        let found = until(&url, "commit-delay", fast, at_last).await;
        let finding = &found.findings[0];
        assert!(finding.sentence.starts_with("each durable commit may wait 1000 us for others, and a flush takes"));
        assert!(evidence(finding, "mean time of a flush").is_some(), "{finding:?}");
        assert!(evidence(finding, "most transactions that wrote at once, in 20 looks").is_some(), "{finding:?}");
        assert_eq!(keys(&report_of(&url, "commit-delay", slow).await), [""; 0], "it fits the disk");

        sql(&client, "alter system reset commit_delay; select pg_reload_conf()").await;
        seen(&url, "commit-delay", fast, <[String]>::is_empty).await;
    }
}

async fn on_machine(url: &str, root: &Path, check: &str, settings: &str) -> Report {
    examine(&Request { root: Some(root.to_owned()), ..request(url, &[check], settings) }).await.unwrap()
}

#[tokio::test]
async fn reads_that_wait_for_each_other_are_found_on_disks_that_serve_many() {
    // Whatever the disk of the tests answers in.
    let (check, settings) = ("few-reads-ahead", &*format!("{FAST}\n[threshold.few-reads-ahead]\nblocks = 0"));
    let processors = "processor\t: 0\n".repeat(16);
    let (small, large) = (machine(&[]), machine(&[("proc/cpuinfo", processors.as_str())]));
    let spinning = machine(&[("sys/block/sda/queue/rotational", "1\n")]);
    for build in testkit::builds().await {
        let server = server(build, &["effective_io_concurrency = 0"]).await;
        let (url, client) = (server.url("postgres"), testkit::connect(&server.url("postgres")).await);
        let found = async |root: &Path, settings: &str| keys(&on_machine(&url, root, check, settings).await);
        assert_eq!(found(small.path(), settings).await, ["effective_io_concurrency"]);
        assert_eq!(found(spinning.path(), settings).await, [""; 0], "the disk has heads");
        assert_eq!(found(small.path(), "").await, [""; 0], "the server has hardly read a block");
        // Only version 18 has this setting.
        let workers = (build.major() == 18).then_some("io_workers");
        let expected: Vec<&str> = ["effective_io_concurrency"].into_iter().chain(workers).collect();
        assert_eq!(found(large.path(), settings).await, expected);
        sql(&client, "alter system set effective_io_concurrency = 16; select pg_reload_conf()").await;
        // A new session has the new value.
        testkit::until("nothing is found any more", async || found(small.path(), settings).await.is_empty()).await;

        if build.major() >= 18 {
            let alone = self::server(build, &["io_method = sync"]).await;
            let found = on_machine(&alone.url("postgres"), small.path(), check, settings).await;
            assert_eq!(keys(&found), ["io_method"]);
            let repair = found.findings[0].repair.as_ref().unwrap();
            assert_eq!((repair.restart, repair.change.as_ref()), (Restart::Server, None), "{repair:?}");
        }
    }
}

#[tokio::test]
async fn too_large_shared_buffers_get_the_size_of_the_table_of_settings() {
    let check = "memory-overcommitted";
    for build in testkit::builds().await {
        let server = server(build, &["shared_buffers = 128MB"]).await;
        let url = server.url("postgres");
        let limited = |limit: &str| {
            let (mounts, group) = (("proc/self/mountinfo", GROUPS), ("proc/self/cgroup", "0::/db\n"));
            machine(&[mounts, group, ("sys/fs/cgroup/db/memory.max", limit)])
        };
        let found = on_machine(&url, limited("209715200\n").path(), check, "").await;
        assert_eq!(keys(&found), ["shared_buffers"]);
        let repair = found.findings[0].repair.as_ref().unwrap();
        assert_eq!(repair.commands[0], "alter system set shared_buffers = '100MB'");
        // Millstream itself would set as much there.
        assert_eq!(keys(&on_machine(&url, limited("268435456\n").path(), check, "").await), [""; 0]);
    }
}

#[tokio::test]
async fn estimates_say_how_old_the_statistics_are() {
    testkit::every_build(async |database| {
        let client = database.client().await;
        sql(
            &client,
            "create table hollow (n int, t text) with (autovacuum_enabled = off);
             insert into hollow select n, repeat('x', 80) from generate_series(1, 20000) as n;
             alter table hollow alter n set statistics 10; delete from hollow where n % 10 <> 0; vacuum analyze hollow",
        )
        .await;
        let settings = "[threshold.table-bloat]\ntable_mb = 0.5\nfree_mb = 0.5\n[threshold.few-statistics]\nrows = 100";
        for (check, subject) in [("table-bloat", "public.hollow"), ("few-statistics", "public.hollow.n")] {
            let found = report(&database, check, settings).await;
            assert_eq!(keys(&found), [subject]);
            let age = evidence(&found.findings[0], "last analyze").unwrap();
            assert!(age.ends_with(" ago"), "{found:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_database_of_another_encoding_is_examined_like_one_in_utf8() {
    for build in testkit::builds().await {
        let server = server(build, &[]).await;
        let client = testkit::connect(&server.url("postgres")).await;
        for (name, encoding) in [("latin", "LATIN1"), ("ascii", "SQL_ASCII")] {
            sql(&client, &format!("create database {name} encoding '{encoding}' locale 'C' template template0")).await;
        }
        let plant = "create table zähler (n int not null); create index on zähler (n); create index on zähler (n)";
        client.batch_execute(plant).await.unwrap();
        let mut latin = request(&server.url("latin"), &[], "");
        let session = millstream_pg::connect(&latin.db, &millstream_pg::SessionSettings::doctor()).await.unwrap();
        session.client.batch_execute(plant).await.unwrap();

        let skipped = |report: &Report| -> Vec<(String, String)> {
            // How long the counters have counted differs.
            let why = |skip: &Skip| skip.why.split(": needs ").next().unwrap_or_default().to_owned();
            report.skipped.iter().map(|skip| (skip.check.clone(), why(skip))).collect()
        };
        let here = examine(&request(&server.url("postgres"), &[], "")).await.unwrap();
        let there = examine(&latin).await.unwrap();
        assert_eq!(skipped(&there), skipped(&here));
        assert!(subjects(&there).iter().any(|subject| subject.contains("zähler")), "{there:?}");

        latin.db.dbname = "ascii".to_owned();
        let refused = examine(&latin).await.unwrap_err().to_string();
        assert!(refused.contains("SQL_ASCII"), "{refused}");
    }
}

#[tokio::test]
async fn a_checkpoint_that_waits_is_flushed_early_only_if_it_is_not_yet() {
    let (check, settings) = ("checkpoint-spread", "[threshold.checkpoint-spread]\nsync_seconds = 0\ncount = 0");
    for build in testkit::builds().await {
        for (conf, proposed) in [("256kB", None), ("0", Some("256kB")), ("1MB", Some("256kB"))] {
            let server = server(build, &[&format!("checkpoint_flush_after = {conf}")]).await;
            let found = report_of(&server.url("postgres"), check, settings).await;
            assert_eq!(keys(&found), [""]);
            let repair = found.findings[0].repair.as_ref().unwrap();
            let value = repair.change.as_ref().and_then(|change| change.value.as_deref());
            assert_eq!(value, proposed, "{repair:?}");
        }
    }
}
