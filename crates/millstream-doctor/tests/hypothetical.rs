//! Missed indexes on servers that allow no temporary tables: suspected, or proven with hypothetical indexes.

use crate::checks::{evidence, request, sql};
use crate::proof::{as_role, counting_server};
use millstream_doctor::{Request, examine};
use millstream_model::{Finding, Level};
use millstream_testkit as testkit;

/// The finding about an index.
async fn finding(url: &str, index: &str) -> Finding {
    let asked = request(url, &["missed-index"], "[threshold.missed-index]\nrows = 100\ncalls = 1");
    let report = examine(&Request { planner: Some(as_role(url, "shop:p")), ..asked }).await.unwrap();
    let found = report.findings.iter().find(|one| one.subject == index);
    found.unwrap_or_else(|| panic!("{report:?}")).clone()
}

#[track_caller]
fn is_suspected(finding: &Finding) {
    assert_eq!(finding.level, Level::Info, "{finding:?}");
    assert!(finding.sentence.starts_with("suspected: "), "{finding:?}");
    let why = evidence(finding, "repairs were not tried").unwrap();
    assert!(why.ends_with("; the extension hypopg in this database would help"), "{why}");
    assert_eq!(finding.repair.as_ref().unwrap().change, None);
}

#[track_caller]
fn is_proven(finding: &Finding, sentence: &str, command: &str) {
    let how = evidence(finding, "how repairs were tried");
    assert_eq!(how, Some("planned with a hypothetical index where there is none"), "{finding:?}");
    let repair = finding.repair.as_ref().unwrap();
    assert_eq!(repair.sentence, sentence);
    assert_eq!(repair.commands.last().unwrap(), command);
}

const STATEMENTS: &str = "select from modem where mac = 'a1'; select from modem where name like 'b%'";

#[tokio::test]
async fn an_index_is_proven_without_temporary_tables_where_hypopg_is_there() {
    let mut was_tried = false;
    for build in testkit::builds().await {
        let server = counting_server(build).await;
        let url = server.url("postgres");
        let client = testkit::connect(&url).await;
        sql(
            &client,
            "create extension pg_stat_statements; create role shop login password 'p';
             create table modem (mac text, name text collate \"C.utf8\");
             insert into modem select to_hex(n), n::text from generate_series(1, 1000) as n; grant select on modem to shop;
             create unique index modem_mac on modem (lower(mac)); create index modem_name on modem (name); vacuum analyze modem;
             revoke temporary on database postgres from public",
        )
        .await;
        sql(&client, STATEMENTS).await;
        is_suspected(&finding(&url, "public.modem_mac").await);

        let there = "select exists (select from pg_available_extensions where name = 'hypopg')";
        let has_hypopg: bool = client.query_one(there, &[]).await.unwrap().get(0);
        if has_hypopg {
            was_tried = true;
            sql(&client, "create schema \"Hypo\"; create extension hypopg schema \"Hypo\"").await;
            is_suspected(&finding(&url, "public.modem_mac").await);
            sql(&client, "grant usage on schema \"Hypo\" to shop").await;
        }
        let rewrite = "write lower(mac) = lower($1) instead of mac = $1";
        let are_proven = async |is_standby: bool| {
            let mac = finding(&url, "public.modem_mac").await;
            is_proven(&mac, rewrite, "create index concurrently on public.modem (mac)");
            assert_eq!(mac.level, Level::Warning);
            let name = finding(&url, "public.modem_name").await;
            let (pattern, kind) = ("create an index for the condition as it is", "(name text_pattern_ops)");
            is_proven(&name, pattern, &format!("create index concurrently on public.modem {kind}"));
            for one in [mac, name] {
                assert_eq!(one.repair.unwrap().change.is_none(), is_standby, "a standby cannot make an index");
            }
        };
        if has_hypopg {
            are_proven(false).await;
        }

        drop(client);
        server.stop(testkit::StopMode::Fast).await;
        server.write("standby.signal", "").await;
        server.start_again().await;
        let client = testkit::connect(&url).await;
        for statement in STATEMENTS.split(';') {
            client.batch_execute(statement).await.unwrap();
        }
        if has_hypopg {
            are_proven(true).await;
        } else {
            is_suspected(&finding(&url, "public.modem_mac").await);
        }
    }
    if !was_tried {
        testkit::skip("no build has the extension hypopg");
    }
}
