//! A standby: every check looks or says why not, and no repair is offered that only its primary can make.

use crate::checks::{request, sql};
use crate::machine::{QUIET, machine};
use crate::proof::counting_server;
use millstream_doctor::{CHECKS, Request, RunOptions, examine, tables, text};
use millstream_testkit as testkit;
use std::collections::BTreeSet;
use std::time::Duration;

/// What the counters of the primary know.
const COUNTED: &[&str] = &[
    "dead-tuples",
    "deadlock",
    "foreign-key-without-index",
    "hot-row",
    "missed-index",
    "missing-index",
    "no-room-for-update",
    "unused-index",
];

#[tokio::test]
async fn a_standby_is_examined_as_a_whole_and_changes_only_its_own_settings() {
    for build in testkit::builds().await {
        let server = counting_server(build).await;
        let url = server.url("postgres");
        let client = testkit::connect(&url).await;
        sql(
            &client,
            "create extension pg_stat_statements; create table t (a int, b text);
             insert into t select n, repeat('x', 80) from generate_series(1, 20000) as n;
             create index one on t (a); create index two on t (a); vacuum analyze t;
             alter system set synchronous_commit = off",
        )
        .await;
        drop(client);
        server.stop(testkit::StopMode::Fast).await;
        server.write("standby.signal", "").await;
        server.start_again().await;
        let machine = machine(QUIET);
        let request = Request { root: Some(machine.path().to_owned()), ..request(&url, &[], "") };
        let report = examine(&request).await.unwrap();
        assert!(
            report.standby
                && text(&report, true, &RunOptions::default())
                    .contains("a standby (make repairs of tables and indexes on its primary)"),
            "{report:?}"
        );

        let primary = |why: &str| why.contains("examine the primary");
        let elsewhere: BTreeSet<&str> =
            report.skipped.iter().filter(|skip| primary(&skip.why)).map(|skip| skip.check.as_str()).collect();
        assert_eq!(elsewhere, COUNTED.iter().copied().collect());
        let list = tables(&request.db, Duration::from_secs(1), 1).await.unwrap();
        assert!(list.tables[0].table == "public.t" && primary(&list.unseen[0]), "{list:?}");
        // Whatever else is not seen, no statement has failed.
        for failed in ["recovery", "read-only", "cannot", "does not exist", "permission"] {
            let skip = report.skipped.iter().find(|skip| skip.why.contains(failed));
            assert_eq!(skip, None, "{failed}");
        }
        let named = |id: &str| {
            report.passed.iter().any(|one| one == id)
                || report.findings.iter().any(|one| one.check == id)
                || report.skipped.iter().any(|one| one.check == id)
        };
        assert_eq!(CHECKS.iter().map(|check| check.id).find(|id| !named(id)), None);

        let change = |check: &str| {
            let finding = report.findings.iter().find(|one| one.check == check).unwrap();
            let repair = finding.repair.as_ref().unwrap();
            assert!(!repair.commands.is_empty(), "{finding:?}");
            repair.change.as_ref().map(|change| change.target.as_str())
        };
        assert_eq!(change("duplicate-index"), None, "a standby cannot drop an index");
        assert_eq!(change("durability-off"), Some("synchronous_commit"), "its settings are its own");
    }
}
