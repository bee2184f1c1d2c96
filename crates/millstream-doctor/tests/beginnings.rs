//! Texts that are looked up by their beginning, beside an index on an expression that no query uses.

use crate::checks::{evidence, request, sql, subjects};
use crate::proof::{as_role, counting_server};
use millstream_doctor::{Report, Request, examine};
use millstream_model::Level;
use millstream_testkit as testkit;

const SETTINGS: &str = "[threshold.missed-index]\nrows = 100\ncalls = 1
    [threshold.missing-index]\nrows = 100\ncalls = 1\npercent = 0\nsaved_ms = 0";

/// What both checks find, planned by a role without rights over others.
async fn found(url: &str) -> Report {
    let asked = request(url, &["missed-index", "missing-index"], SETTINGS);
    examine(&Request { planner: Some(as_role(url, "shop:p")), ..asked }).await.unwrap()
}

#[track_caller]
fn commands(report: &Report) -> Vec<&str> {
    let [finding] = report.findings.as_slice() else { panic!("{report:?}") };
    finding.repair.as_ref().unwrap().commands.iter().map(String::as_str).collect()
}

const NEW: &str = "create index concurrently on public.modem (mac text_pattern_ops)";

#[tokio::test]
async fn a_beginning_gets_its_index_and_the_index_that_nobody_uses_goes() {
    for build in testkit::builds().await {
        let server = counting_server(build).await;
        let url = server.url("postgres");
        let client = testkit::connect(&url).await;
        let asked = "select pg_stat_statements_reset(); select from modem where mac like 'a1%'";
        sql(
            &client,
            "create extension pg_stat_statements; create role shop login password 'p';
             create table modem (mac text collate \"C.utf8\", site text collate \"C\");
             insert into modem select to_hex(n), to_hex(n) from generate_series(1, 20000) as n;
             create unique index modem_lower on modem (lower(mac)); analyze modem; grant select on modem to shop",
        )
        .await;
        sql(&client, asked).await;
        let report = found(&url).await;
        assert_eq!(subjects(&report), ["public.modem_lower"], "{report:?}");
        let reason = "the query wants mac to begin as 'a1%' does, the index holds lower(mac)";
        assert_eq!(report.findings[0].sentence, reason);
        let change = report.findings[0].repair.as_ref().unwrap().change.as_ref().unwrap();
        assert_eq!(change.target, "postgres/public.modem_mac_text_pattern_ops_idx");
        let all = commands(&report);
        assert_eq!(all[0], NEW);
        let folding = [
            "alter table public.modem add check (mac = lower(mac))",
            "create unique index concurrently on public.modem (mac text_pattern_ops)",
            "-- and then, if no standby uses it, the index that no query has used since the counters began:",
            "drop index concurrently public.modem_lower",
        ];
        assert_eq!(all[4..], folding, "{report:?}");
        for command in folding.iter().filter(|command| !command.starts_with("--")) {
            client.batch_execute(command).await.unwrap();
        }
        sql(&client, asked).await;
        assert_eq!(subjects(&found(&url).await), [""; 0], "the new index finds it");

        // Without an index that looks like it, the beginning has a finding, too.
        sql(&client, "drop index modem_mac_idx").await;
        sql(&client, asked).await;
        let report = found(&url).await;
        assert_eq!(subjects(&report), ["public.modem (mac text_pattern_ops)"], "{report:?}");
        assert_eq!(commands(&report), [NEW]);
        let finding = &report.findings[0];
        assert_eq!((finding.level, evidence(finding, "pattern that was assumed")), (Level::Info, Some("'a1%'")));
        sql(&client, NEW).await;
        sql(&client, asked).await;
        assert_eq!(subjects(&found(&url).await), [""; 0]);
        // A column in the order of its bytes needs no class of operators.
        sql(&client, "select pg_stat_statements_reset(); select from modem where site like 'a1%'").await;
        assert_eq!(commands(&found(&url).await), ["create index concurrently on public.modem (site)"]);

        // An index that keeps nothing out goes without a check, and one that a query uses stays.
        sql(&client, "drop index modem_mac_idx; create index modem_lower on modem (lower(mac)); analyze modem").await;
        sql(&client, asked).await;
        let report = found(&url).await;
        let gone = commands(&report);
        assert_eq!((gone[0], gone[2]), (NEW, "drop index concurrently public.modem_lower"), "{report:?}");
        sql(&client, "select from modem where lower(mac) = 'a1'").await;
        let used = "select pg_stat_get_numscans('modem_lower'::regclass) > 0";
        testkit::until("the use is counted", async || client.query_one(used, &[]).await.unwrap().get(0)).await;
        assert_eq!(commands(&found(&url).await), [NEW]);
    }
}

#[tokio::test]
async fn a_value_that_is_put_together_misses_the_same_index_as_one_that_is_given() {
    for build in testkit::builds().await {
        let server = counting_server(build).await;
        let url = server.url("postgres");
        let client = testkit::connect(&url).await;
        sql(
            &client,
            "create extension pg_stat_statements; create role shop login password 'p'; create table modem (mac text);
             insert into modem select to_hex(n) from generate_series(1, 20000) as n;
             create unique index modem_lower on modem (lower(mac)); analyze modem; grant select on modem to shop;
             select pg_stat_statements_reset(); select from modem where mac = 'a' || '1'",
        )
        .await;
        let report = found(&url).await;
        assert_eq!(subjects(&report), ["public.modem_lower"], "{report:?}");
        let finding = &report.findings[0];
        assert_eq!(finding.sentence, "the query compares mac, the index holds lower(mac)");
        let sentence = &finding.repair.as_ref().unwrap().sentence;
        assert!(sentence.starts_with("write lower(mac) = lower("), "{sentence}");
        let all = commands(&report);
        assert!(all.contains(&"drop index concurrently public.modem_lower"), "{all:?}");
        assert_eq!(all.last(), Some(&"create index concurrently on public.modem (mac)"));
    }
}
