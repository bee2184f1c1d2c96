//! What only looks like a fault of a server or of a disk is silent. The faults themselves are in `checks.rs` and in
//! `src/examination/tests/`.

use crate::checks::{seen, sql};
use crate::host::found;
use crate::machine::machine;
use millstream_model::Level;
use millstream_testkit as testkit;

/// What looks like a fault: the check, `doctor.toml` so that small faults are seen, and the statements that make it.
const ALIKE: &[(&str, &str, &str)] = &[
    // It waits for one copy less, and loses nothing.
    ("durability-off", "", "alter system set synchronous_commit = local; select pg_reload_conf()"),
    // The sessions of one role only.
    ("durability-off", "", "create role careless; alter role careless set synchronous_commit = off"),
    ("setting-not-in-effect", "", "alter system set work_mem = '5MB'; select pg_reload_conf()"),
    // Written again with the value that it has.
    ("setting-not-in-effect", "", "alter system set max_connections = 200; select pg_reload_conf()"),
    ("checkpoint-spread", "", "alter system set checkpoint_completion_target = 1; select pg_reload_conf()"),
    ("checkpoint-spread", "[threshold.checkpoint-spread]\nsync_seconds = 0\ncount = 1000", "checkpoint; checkpoint"),
    // Nobody has read from it yet, so it holds nothing.
    (
        "replication-slot",
        "[threshold.replication-slot]\ntimes = 1e-7",
        "select pg_create_physical_replication_slot('new'); create table wal as select generate_series(1, 10000)",
    ),
];

#[tokio::test]
async fn what_looks_like_a_fault_of_a_server_is_silent() {
    for build in testkit::builds().await {
        let server = testkit::Server::start(build, testkit::Settings::default()).await;
        let url = server.url("postgres");
        let client = testkit::connect(&url).await;
        for (check, settings, statements) in ALIKE {
            sql(&client, statements).await;
            seen(&url, check, settings, <[String]>::is_empty).await;
        }
        let mut many = Vec::new();
        for _ in 0..20 {
            many.push(testkit::connect(&url).await);
        }
        seen(&url, "connection-slots", "[threshold.connection-slots]\npercent = 50", <[String]>::is_empty).await;
        seen(&url, "connection-slots", "[threshold.connection-slots]\npercent = 10", |keys| keys == [""]).await;
    }
}

#[tokio::test]
async fn a_disk_that_rotates_and_answers_late_has_the_right_flag() {
    let database = testkit::database().await;
    let place = machine(&[("sys/block/sda/queue/rotational", "1\n")]);
    // As if every read took longer than that of a disk without heads.
    for (fast, expected) in [("0", vec![]), ("1e9", vec![("sda".to_owned(), Level::Info)])] {
        let settings = format!("[threshold.rotational-flag]\nfast_ms = {fast}\nslow_ms = 0");
        assert_eq!(found(&database.url(), place.path(), "rotational-flag", &settings).await, expected);
    }
}
