//! Four servers with ten faults or more each: one report names all of them, and begins with the most urgent. The repaired
//! servers have none of them.

use crate::checks::{request, sql};
use crate::machine::{FAST, QUIET, machine};
use crate::proof::as_role;
use crate::server_more::server;
use millstream_doctor::{Report, Request, examine};
use millstream_model::{Danger, Level};
use millstream_testkit::{self as testkit, Build, dealt};
use std::time::Duration;
use tokio_postgres::Client;

/// A server and its faults.
struct Planted {
    name: &'static str,
    conf: &'static [&'static str],
    /// SQL that plants the faults. An empty line ends what is sent together.
    plant: &'static str,
    repair: &'static str,
    /// Statements of an application, and how often it sends them.
    sent: &'static [(&'static str, u32)],
    /// `doctor.toml`, so that small faults are seen.
    settings: &'static str,
    /// Memory of its machine.
    meminfo: &'static str,
    /// How the role logs in that may plan the statements of others, if there is one.
    planner: Option<&'static str>,
    /// Sessions are in trouble.
    busy: bool,
    /// Check and subject of each fault. The most urgent one comes first.
    faults: &'static [(&'static str, &'static str)],
    /// Of the first one.
    level: Level,
    danger: Option<Danger>,
}

const LARGE: &str = "MemTotal: 20000000 kB\nMemAvailable: 16000000 kB\n";

const SERVERS: &[Planted] = &[
    // The only warning with a share of the time that is more than a few percent.
    Planted {
        name: "slow",
        conf: &["shared_preload_libraries = 'pg_stat_statements'"],
        plant: include_str!("servers/slow.plant.sql"),
        repair: include_str!("servers/slow.repair.sql"),
        sent: &[
            ("select note from purchase where customer = 5 and at > 100", 150),
            ("select name from modem where mac = 'a1'", 10),
            ("select distinct kind from event", 2),
        ],
        settings: "[threshold.foreign-key-without-index]\nrows = 1000
            [threshold.missing-index]\nsaved_ms = 0
            [threshold.prefix-index]\nindex_mb = 0
            [threshold.unused-index]\nindex_mb = 0\ndays = 0
            [threshold.hot-row]\nupdates = 2\nper_row = 2\nper_second = 0
            [threshold.no-room-for-update]\nupdates = 10\nrows = 10
            [threshold.dead-tuples]\ntable_mb = 0.1
            [threshold.temporary-files]\nfiles_per_hour = 1e-9\ngb_per_hour = 1e-12\nhours = 0",
        meminfo: LARGE,
        planner: Some("shop:p"),
        busy: false,
        faults: &[
            ("missing-index", "public.purchase (customer, at)"),
            ("missed-index", "public.modem_mac"),
            ("foreign-key-without-index", "public.visit.visit_customer_fkey"),
            ("duplicate-index", "public.paper_twin"),
            ("prefix-index", "public.paper_beginning"),
            ("unused-index", "public.paper_idle"),
            ("invalid-index", "public.paper_broken"),
            ("few-statistics", "public.poor.a"),
            ("never-analyzed", "public.unseen"),
            ("json-member-missing", "public.device_mca.mca"),
            ("no-room-for-update", "public.crowded"),
            ("hot-row", "public.counter"),
            ("dead-tuples", "public.littered"),
            ("distinct-prefix", "public.event.kind"),
            ("temporary-files", ""),
        ],
        level: Level::Warning,
        danger: None,
    },
    // Of the critical findings with danger to the data, the first by name. The archive has failed for seconds only.
    Planted {
        name: "danger",
        conf: &["fsync = off", "archive_mode = on", "archive_command = '/bin/false'"],
        plant: include_str!("servers/danger.plant.sql"),
        repair: include_str!("servers/danger.repair.sql"),
        sent: &[],
        settings: "[threshold.unlogged-table]\ntable_mb = 0\n[threshold.replication-slot]\ntimes = 1e-7",
        meminfo: LARGE,
        planner: None,
        busy: false,
        faults: &[
            ("durability-off", "fsync"),
            ("archiver-failing", ""),
            ("durability-off", "full_page_writes"),
            ("trigger-disabled", "public.bill.bill_customer_fkey"),
            ("trigger-disabled", "public.watched.guard"),
            ("sequence-end", "public.small_id_seq"),
            ("narrow-key", "public.near.id"),
            ("constraint-not-validated", "public.aged.positive"),
            ("table-without-key", "public.sent"),
            ("unlogged-table", "public.fleeting"),
            ("invalid-index", "public.account_mail"),
            ("replication-slot", "forgotten"),
        ],
        level: Level::Critical,
        danger: Some(Danger::Data),
    },
    // None is critical, and of the warnings only this one may end the server: for want of memory.
    Planted {
        name: "settings",
        conf: &[
            "log_autovacuum_min_duration = '10min'",
            "log_lock_waits = on",
            "track_io_timing = on",
            "shared_preload_libraries = 'pg_stat_statements'",
        ],
        plant: include_str!("servers/settings.plant.sql"),
        repair: include_str!("servers/settings.repair.sql"),
        sent: &[],
        settings: "[threshold.few-reads-ahead]\nblocks = 0\n[threshold.checkpoint-forced]\ncount = 3",
        meminfo: "MemTotal: 2000000 kB\nMemAvailable: 1600000 kB\n",
        planner: None,
        busy: false,
        faults: &[
            ("memory-promised", "work_mem"),
            ("autovacuum-off", "autovacuum"),
            ("planner-cost", "enable_nestloop"),
            ("planner-cost", "random_page_cost"),
            ("planner-cost", "cpu_tuple_cost"),
            ("checkpoint-timeout", "checkpoint_timeout"),
            ("checkpoint-spread", "checkpoint_completion_target"),
            ("checkpoint-forced", ""),
            ("setting-not-in-effect", "max_connections"),
            ("few-statistics", "default_statistics_target"),
            ("not-recorded", "log_lock_waits"),
            ("not-recorded", "track_io_timing"),
            ("durability-off", "synchronous_commit"),
            ("few-reads-ahead", "effective_io_concurrency"),
        ],
        level: Level::Warning,
        danger: Some(Danger::Service),
    },
    // It refuses clients now: nothing else here is critical.
    Planted {
        name: "now",
        conf: &[
            "max_connections = 20",
            "max_prepared_transactions = 5",
            "shared_buffers = 1MB",
            "track_io_timing = off",
            "deadlock_timeout = '10ms'",
        ],
        plant: include_str!("servers/now.plant.sql"),
        repair: include_str!("servers/now.repair.sql"),
        sent: &[],
        settings: "[threshold.blocked-session]\nseconds = 0
            [threshold.long-transaction]\nidle_seconds = 0
            [threshold.dead-tuples]\ntable_mb = 0\nholder_seconds = 0
            [threshold.deadlock]\ncount = 1\nper_day = 0
            [threshold.rollback]\npercent = 10\nper_second = 0\nhours = 0
            [threshold.cache-misses]\nreads = 20000\npercent = 1\nper_second = 0
            [threshold.table-bloat]\ntable_mb = 0.5\nfree_mb = 0.5
            [threshold.index-bloat]\nindex_mb = 0.2
            [threshold.temporary-files]\nfiles_per_hour = 1e-9\ngb_per_hour = 1e-12\nhours = 0",
        meminfo: LARGE,
        planner: None,
        busy: true,
        faults: &[
            ("connection-slots", ""),
            ("blocked-session", "holder of millstream in postgres"),
            ("long-transaction", "holder of millstream in postgres"),
            ("long-transaction", "prepared transaction of millstream in postgres"),
            ("dead-tuples", "public.held"),
            ("deadlock", ""),
            ("rollback", ""),
            ("cache-misses", ""),
            ("table-bloat", "public.hollow"),
            ("index-bloat", "public.sparse_pkey"),
            ("temporary-files", ""),
        ],
        level: Level::Critical,
        danger: Some(Danger::Service),
    },
];

/// Of all servers: how large and how full the disk of the tests is does not matter.
pub(crate) const ANY_DISK: &str = "[threshold.disk-full]\npercent = 101\ncritical_percent = 101\nwal_times = 0";

impl Planted {
    fn request(&self, url: &str, root: &std::path::Path) -> Request {
        let own = format!("{FAST}\n{ANY_DISK}\n{}", self.settings);
        let planner = self.planner.map(|role| as_role(url, role));
        Request { root: Some(root.to_owned()), planner, ..request(url, &[], &own) }
    }

    /// The faults that a report does not name, or those that it names.
    fn faults_in(&self, report: &Report, named: bool) -> Vec<(&'static str, &'static str)> {
        let is_named = |(check, subject): &(&str, &str)| {
            report.findings.iter().any(|one| one.check == *check && one.subject == *subject)
        };
        self.faults.iter().filter(|fault| is_named(fault) == named).copied().collect()
    }
}

/// Sends what stands between empty lines together.
pub(crate) async fn send(client: &Client, text: &str) {
    for part in text.split("\n\n") {
        client.batch_execute(part).await.unwrap_or_else(|error| panic!("{part}: {error:?}"));
    }
    // Now other sessions see what this one has counted.
    sql(client, "select 1").await;
}

/// Lets two sessions wait for each other until the server cancels one.
async fn deadlock(url: &str) {
    let (mut one, mut other) = (testkit::connect(url).await, testkit::connect(url).await);
    let (first, second) = (one.transaction().await.unwrap(), other.transaction().await.unwrap());
    let lock = |id: i32| format!("update seat set n = n + 1 where id = {id}");
    first.batch_execute(&lock(1)).await.unwrap();
    second.batch_execute(&lock(2)).await.unwrap();
    let (two, one_again) = (lock(2), lock(1));
    // The one that is cancelled gives its locks back at once.
    let ended = tokio::join!(first.batch_execute(&two), second.batch_execute(&one_again));
    assert!(ended.0.is_err() != ended.1.is_err(), "{ended:?}");
}

/// Sessions in trouble, until they are dropped: one holds a row for which another waits, and the rest take the connections.
async fn trouble(url: &str) -> Vec<Client> {
    deadlock(url).await;
    let holder = testkit::connect(url).await;
    for statement in ["set application_name = 'holder'", "begin", "update seat set n = 0 where id = 1"] {
        holder.batch_execute(statement).await.unwrap();
    }
    let waiter = testkit::connect(url).await;
    tokio::spawn(async move { waiter.batch_execute("update seat set n = 1 where id = 1").await });
    let mut sessions = vec![holder];
    let waits = "select exists (select from pg_locks where not granted and waitstart is not null)";
    testkit::until("a session waits for the row", async || sessions[0].query_one(waits, &[]).await.unwrap().get(0))
        .await;
    // The reserved ones are left to the doctor.
    for _ in 0..14 {
        sessions.push(testkit::connect(url).await);
    }
    sessions
}

/// Examines until a report is as expected: settings and counters become visible a little later.
async fn examined(request: &Request, expected: impl Fn(&Report) -> bool) -> Report {
    let mut report = examine(request).await.unwrap();
    for _ in 0..40 {
        if expected(&report) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        report = examine(request).await.unwrap();
    }
    report
}

/// The servers that run on one of the builds.
async fn on(place: usize) {
    let builds: &'static [Build] = testkit::builds().await;
    let Some(build) = builds.get(place) else { return };
    for planted in dealt(SERVERS, place, builds.len()) {
        let place = machine(&[QUIET, &[("proc/meminfo", planted.meminfo)]].concat());
        let server = server(build, planted.conf).await;
        let url = server.url("postgres");
        let client = testkit::connect(&url).await;
        send(&client, planted.plant).await;
        for (statement, times) in planted.sent {
            for _ in 0..*times {
                client.query(*statement, &[]).await.unwrap();
            }
        }
        sql(&client, "select 1").await;
        let sessions = if planted.busy { trouble(&url).await } else { Vec::new() };

        let request = planted.request(&url, place.path());
        let report = examined(&request, |report| planted.faults_in(report, false).is_empty()).await;
        let where_ = format!("{} on {}", planted.name, build.installation);
        let missing = planted.faults_in(&report, false);
        assert!(missing.is_empty(), "{where_}: not named: {missing:?} in {report:#?}");
        let first = &report.findings[0];
        assert_eq!((first.check.as_str(), first.subject.as_str()), planted.faults[0], "{where_}: {first:?}");
        assert_eq!((first.level, first.danger), (planted.level, planted.danger), "{where_}: {first:?}");

        drop(sessions);
        send(&client, planted.repair).await;
        let report = examined(&request, |report| planted.faults_in(report, true).is_empty()).await;
        let left = planted.faults_in(&report, true);
        assert!(left.is_empty(), "{where_}: not repaired: {left:?} in {report:#?}");
    }
}

// Two tests, because two threads then share the work.
#[tokio::test]
async fn all_faults_of_a_server_are_in_one_report_with_the_most_urgent_first() {
    on(0).await;
}

#[tokio::test]
async fn all_faults_of_a_server_are_in_one_report_on_the_other_builds_too() {
    for place in 1..testkit::builds().await.len() {
        on(place).await;
    }
}

#[test]
fn the_servers_have_forty_faults_of_many_checks() {
    let all: Vec<&str> = SERVERS.iter().flat_map(|one| one.faults).map(|(check, _)| *check).collect();
    let checks: std::collections::BTreeSet<&str> = all.iter().copied().collect();
    assert!(all.len() >= 40 && checks.len() >= 40, "{} faults of {} checks", all.len(), checks.len());
    assert!(SERVERS.iter().all(|one| one.faults.len() >= 10));
}
