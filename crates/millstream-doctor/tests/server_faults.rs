//! Planted faults of a server as a whole: its settings, slots and checkpoints.

use crate::checks::{WAL, request, seen};
use millstream_doctor::examine;
use millstream_model::{Finding, Level};
use millstream_testkit as testkit;

/// A fault of a server: statements that make it, and those that repair it.
struct ServerFault {
    check: &'static str,
    /// `doctor.toml`, so that small faults are seen.
    settings: &'static str,
    fault: &'static [&'static str],
    /// The subject of the finding.
    subject: &'static str,
    level: Level,
    repair: &'static [&'static str],
}

const SERVER_FAULTS: &[ServerFault] = &[
    ServerFault {
        check: "durability-off",
        settings: "",
        fault: &["alter system set full_page_writes = off", "select pg_reload_conf()"],
        subject: "full_page_writes",
        level: Level::Critical,
        repair: &["alter system reset full_page_writes", "select pg_reload_conf()"],
    },
    ServerFault {
        check: "setting-not-in-effect",
        settings: "",
        fault: &["alter system set max_connections = 77", "select pg_reload_conf()"],
        subject: "max_connections",
        level: Level::Warning,
        repair: &["alter system set max_connections = 200", "select pg_reload_conf()"],
    },
    ServerFault {
        check: "setting-not-in-effect",
        settings: "",
        fault: &["copy (select 'work_mem = much') to program 'cat >> postgresql.auto.conf'", "select pg_reload_conf()"],
        subject: "work_mem",
        level: Level::Warning,
        repair: &["alter system reset work_mem", "select pg_reload_conf()"],
    },
    ServerFault {
        check: "checkpoint-spread",
        settings: "",
        fault: &["alter system set checkpoint_completion_target = 0.5", "select pg_reload_conf()"],
        subject: "checkpoint_completion_target",
        level: Level::Info,
        repair: &["alter system set checkpoint_completion_target = 0.9", "select pg_reload_conf()"],
    },
    ServerFault {
        check: "checkpoint-spread",
        settings: "[threshold.checkpoint-spread]\nsync_seconds = 0\ncount = 3",
        fault: &["checkpoint", "checkpoint", "checkpoint"],
        subject: "",
        level: Level::Warning,
        repair: &[RESET_CHECKPOINTS],
    },
    ServerFault {
        check: "few-statistics",
        settings: "",
        fault: &["alter system set default_statistics_target = 10", "select pg_reload_conf()"],
        subject: "default_statistics_target",
        level: Level::Info,
        repair: &["alter system set default_statistics_target = 100", "select pg_reload_conf()"],
    },
    ServerFault {
        check: "replication-slot",
        settings: "[threshold.replication-slot]\ntimes = 1e-7",
        fault: &[
            "select pg_create_physical_replication_slot('forgotten', true)",
            "create table wal as select generate_series(1, 10000)",
        ],
        subject: "forgotten",
        level: Level::Warning,
        repair: &["select pg_drop_replication_slot('forgotten')"],
    },
    ServerFault {
        check: "checkpoint-forced",
        settings: "[threshold.checkpoint-forced]\ncount = 3",
        fault: &[
            "alter system set max_wal_size = '32MB'",
            "select pg_reload_conf()",
            WAL,
            "checkpoint",
            WAL,
            "checkpoint",
            WAL,
            "checkpoint",
        ],
        subject: "",
        level: Level::Warning,
        repair: &[RESET_CHECKPOINTS],
    },
    ServerFault {
        check: "autovacuum-off",
        settings: "",
        fault: &["alter system set autovacuum = off", "select pg_reload_conf()"],
        subject: "autovacuum",
        level: Level::Warning,
        repair: &["alter system reset autovacuum", "select pg_reload_conf()"],
    },
    ServerFault {
        check: "autovacuum-off",
        settings: "",
        fault: &["alter system set track_counts = off", "select pg_reload_conf()"],
        subject: "track_counts",
        level: Level::Warning,
        repair: &["alter system reset track_counts", "select pg_reload_conf()"],
    },
    ServerFault {
        check: "planner-cost",
        settings: "",
        fault: &["alter system set enable_nestloop = off", "select pg_reload_conf()"],
        subject: "enable_nestloop",
        level: Level::Warning,
        repair: &["alter system set enable_nestloop = on", "select pg_reload_conf()"],
    },
    ServerFault {
        check: "planner-cost",
        settings: "",
        fault: &["alter system set random_page_cost = 0.5", "select pg_reload_conf()"],
        subject: "random_page_cost",
        level: Level::Warning,
        repair: &["alter system set random_page_cost = 1.1", "select pg_reload_conf()"],
    },
    ServerFault {
        check: "planner-cost",
        settings: "",
        fault: &["alter system set cpu_tuple_cost = 1", "select pg_reload_conf()"],
        subject: "cpu_tuple_cost",
        level: Level::Warning,
        repair: &["alter system reset cpu_tuple_cost", "select pg_reload_conf()"],
    },
    ServerFault {
        check: "checkpoint-timeout",
        settings: "",
        fault: &["alter system set checkpoint_timeout = '30s'", "select pg_reload_conf()"],
        subject: "checkpoint_timeout",
        level: Level::Warning,
        repair: &["alter system set checkpoint_timeout = '5min'", "select pg_reload_conf()"],
    },
];

/// Resets the statistics of checkpoints, whatever the version calls them, and of WAL.
const RESET_CHECKPOINTS: &str = "do $$ begin
    perform pg_stat_reset_shared('wal');
    perform pg_stat_reset_shared('bgwriter');
    if current_setting('server_version_num')::int >= 170000 then
        perform pg_stat_reset_shared('checkpointer');
    end if;
end $$";

#[tokio::test]
async fn planted_faults_of_a_server_are_found_and_silent_when_repaired() {
    for build in testkit::builds().await {
        let server = testkit::Server::start(build, testkit::Settings::default()).await;
        let client = testkit::connect(&server.url("postgres")).await;
        client.batch_execute(RESET_CHECKPOINTS).await.unwrap();
        let url = server.url("postgres");
        for ServerFault { check, settings, fault, subject, level, repair } in SERVER_FAULTS {
            seen(&url, check, settings, <[String]>::is_empty).await;
            for statement in *fault {
                client.batch_execute(statement).await.unwrap();
            }
            let found = seen(&url, check, settings, |keys| keys == [*subject]).await;
            let finding = &found.findings[0];
            assert!(!finding.evidence.is_empty() && finding.repair.is_some(), "{check}: {found:?}");
            assert_eq!(finding.level, *level, "{check}");
            for statement in *repair {
                client.batch_execute(statement).await.unwrap();
            }
            seen(&url, check, settings, <[String]>::is_empty).await;
        }
        let used =
            seen(&url, "connection-slots", "[threshold.connection-slots]\npercent = 0.1", |keys| keys == [""]).await;
        assert_eq!(used.findings[0].level, Level::Warning);
        seen(&url, "connection-slots", "", <[String]>::is_empty).await;
    }
}

#[tokio::test]
async fn the_release_of_a_server_is_compared_with_the_table() {
    testkit::every_build(async |database| {
        // As if every version ended soon, and the table were old.
        let settings = "[threshold.minor-version-behind]\nend_days = 1e6\ntable_days = -1e6";
        let report = examine(&request(&database.url(), &["minor-version-behind"], settings)).await.unwrap();
        let by_table = |finding: &Finding| finding.evidence.iter().any(|one| one.source.contains("our table of 20"));
        let by_table: Vec<&str> =
            report.findings.iter().filter(|one| by_table(one)).map(|one| one.subject.as_str()).collect();
        let skipped: Vec<bool> = report.skipped.iter().map(|skip| skip.why.contains("which our table lacks")).collect();
        // A server that is not behind an old table may be behind all the same.
        match (by_table.as_slice(), skipped.as_slice()) {
            (["release", "version"], []) | (["version"], [true]) => {}
            _ => panic!("{report:?}"),
        }
    })
    .await;
}
