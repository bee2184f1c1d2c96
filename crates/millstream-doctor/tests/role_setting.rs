//! A role whose statements do not fit into its memory gets more of it, if it is one role, and if that is not too much.

use crate::checks::{keys, request, sql};
use crate::proof::counting_server;
use millstream_doctor::examine;
use millstream_model::Finding;
use millstream_testkit as testkit;

/// Writes some megabytes of temporary files.
const SPILLS: &str =
    "select count(*) from (select n from generate_series(1, 200000) as n order by n desc offset 1) as sorted";

/// The same as the server counts it.
const COUNTED: &str =
    "select count(*) from (select n from generate_series($1, $2) as n order by n desc offset $3) as sorted";

/// Every file counts.
const SETTINGS: &str = "[threshold.temporary-files]\nfiles_per_hour = 1e-9\ngb_per_hour = 1e-12\nhours = 0\n";

#[tokio::test]
async fn the_role_that_writes_most_temporary_files_gets_more_memory() {
    for build in testkit::builds().await {
        let server = counting_server(build).await;
        let url = server.url("postgres");
        let client = testkit::connect(&url).await;
        let found = async |more: &str| -> Finding {
            let report = examine(&request(&url, &["temporary-files"], &format!("{SETTINGS}{more}"))).await.unwrap();
            assert_eq!(keys(&report), [""], "{report:?}");
            report.findings[0].clone()
        };
        let change = |finding: &Finding| finding.repair.as_ref().unwrap().change.clone();
        sql(&client, "create role \"Re ports\"; create role shop; set work_mem = '64kB'").await;
        sql(&client, &format!("set role \"Re ports\"; {SPILLS}; {SPILLS}; reset role")).await;
        assert_eq!(change(&found("").await), None, "nobody counts statements");

        sql(&client, "create extension pg_stat_statements; select pg_stat_statements_reset()").await;
        sql(&client, &format!("set role \"Re ports\"; {SPILLS}; {SPILLS}; reset role")).await;
        let finding = found("").await;
        for part in ["Re ports: 100 %", COUNTED] {
            assert!(finding.evidence.iter().any(|one| one.value == part), "{part}: {finding:?}");
        }
        let proposed = change(&finding).unwrap();
        assert_eq!((proposed.kind.as_str(), proposed.target.as_str()), ("role-setting", "Re ports/postgres/work_mem"));
        let value = proposed.value.unwrap();
        let command = format!("alter role \"Re ports\" in database \"postgres\" set work_mem = '{value}'");
        assert_eq!(finding.repair.unwrap().commands, std::slice::from_ref(&command));

        assert_eq!(change(&found("work_mem_mb = 1").await), None, "a larger report");
        sql(&client, "alter role current_user set work_mem = '64kB'").await;
        let unknown = found("").await;
        assert_eq!(change(&unknown), None, "what the role has is not known");
        assert!(unknown.evidence.iter().any(|one| one.value.starts_with("not known")), "{unknown:?}");
        sql(&client, "alter role current_user reset work_mem").await;
        assert!(change(&found("").await).is_some(), "it has what the server gives to all");
        sql(&client, &command).await;
        let enough = found("").await;
        assert_eq!(change(&enough), None, "the role has as much");
        assert!(enough.evidence.iter().any(|one| one.value == value), "{enough:?}");
        sql(&client, "alter role \"Re ports\" set work_mem = '1GB'").await;
        sql(&client, "alter role \"Re ports\" in database postgres set work_mem = 512").await;
        assert!(change(&found("").await).is_some(), "its own setting for the database counts, in kilobytes");
        sql(&client, "alter role \"Re ports\" in database postgres reset work_mem").await;
        assert_eq!(change(&found("").await), None);
        sql(&client, "alter role \"Re ports\" reset work_mem").await;
        sql(&client, &format!("set role shop; {SPILLS}; {SPILLS}; reset role")).await;
        assert_eq!(change(&found("role_percent = 60").await), None, "two roles write as much");
    }
}
