//! Indexes that are missing: named over the whole workload, silent where none helps, and silent when they are there.

use crate::checks::{evidence, request, sql, subjects};
use crate::proof::{as_role, counting_server};
use millstream_doctor::{Request, examine};
use millstream_model::{Finding, Level};
use millstream_testkit as testkit;

const SETTINGS: &str =
    "[threshold.missing-index]\nrows = 1000\ncalls = 1\nreads = 2\npercent = 0\nwarning_percent = 0\nsaved_ms = 0";

/// What only looks alike: a value that most rows have, also where another condition leaves few of them, a small table, and a
/// row that the key finds.
const ALIKE: &str = "select from purchase where state = 'done'; select from little where name = 'a';
    select from purchase where id = 5; select from purchase where state = 'done' and note ~ 'n77'";

/// Statements that one index serves, and some that each need another: an expression, a part of the rows, an order.
const SLOW: &str = "select note from purchase where customer = 5 and at > 100; select from purchase where customer = 6;
    update purchase set note = 'x' where customer = 7; select from purchase where lower(note) = 'n5';
    select from purchase where customer = 6; select from purchase where area = 5 and paid is null;
    select note from purchase order by at desc, id desc limit 5";

#[tokio::test]
async fn indexes_that_statements_lack_are_named_over_the_whole_workload() {
    for build in testkit::builds().await {
        let server = counting_server(build).await;
        let url = server.url("postgres");
        let client = testkit::connect(&url).await;
        let asked = || {
            request(
                &url,
                &["missing-index", "top-statement"],
                &format!("{SETTINGS}\n[threshold.top-statement]\nseconds = 0\npercent = 0"),
            )
        };
        let proof = || Request { planner: Some(as_role(&url, "shop:p")), ..asked() };
        let missing = async |request: Request| {
            let report = examine(&request).await.unwrap();
            report.findings.into_iter().filter(|one| one.check == "missing-index").collect::<Vec<Finding>>()
        };
        sql(
            &client,
            "create extension pg_stat_statements; create role shop login password 'p';
             create table purchase (id int primary key, customer int, state text, at int, note text, area int,
                 paid int);
             insert into purchase select n, n % 2000, 'done', n, 'n' || n, n % 100, nullif(n % 10, 0) from generate_series(1, 20000) as n;
             create table little (name text); insert into little values ('a'); analyze purchase; analyze little;
             grant select, update on purchase, little to shop",
        )
        .await;
        sql(&client, "select pg_stat_reset(); select pg_stat_statements_reset()").await;
        sql(&client, ALIKE).await;
        assert_eq!(missing(proof()).await, [], "no index helps");

        sql(&client, "select pg_stat_reset(); select pg_stat_statements_reset()").await;
        sql(&client, SLOW).await;
        sql(&client, "select pg_stat_force_next_flush()").await;
        let suspected = examine(&asked()).await.unwrap();
        assert!(subjects(&suspected).contains(&"public.purchase".to_owned()), "{suspected:?}");
        assert!(suspected.findings.iter().all(|one| one.level == Level::Info), "{suspected:?}");

        let is_proven = async |hypothetical: bool| {
            let mut found = missing(proof()).await;
            found.sort_by(|a, b| a.key.cmp(&b.key));
            let names: Vec<&str> = found.iter().map(|one| one.subject.as_str()).collect();
            let keys = ["(area) where paid IS NULL", "(at, id)", "(customer, at)", "(lower(note))"];
            assert_eq!(names, keys.map(|keys| format!("public.purchase {keys}")), "{found:?}");
            let one = &found[2];
            assert_eq!((one.level, evidence(one, "statements that would use it")), (Level::Warning, Some("3")));
            let [now, then] = ["the planner's cost of the first, now", "with the index"]
                .map(|name| evidence(one, name).unwrap().parse::<f64>().unwrap());
            assert!(now > 5.0 * then, "{found:?}");
            assert_eq!(evidence(one, "how it was tried").unwrap().contains("hypopg"), hypothetical, "{found:?}");
            assert!(evidence(one, "it would save in each second, about").unwrap().contains(" ms, "), "{found:?}");
            assert!(evidence(one, "writes to the table a second").unwrap().parse::<f64>().is_ok(), "{found:?}");
            let hot = evidence(one, "updates that touch no index now (HOT), and may then").unwrap();
            assert!(hot.contains(" a second, ") && hot.ends_with(" % of the updates"), "{hot}");
            found
        };
        let found = is_proven(false).await;
        let there = "select exists (select from pg_available_extensions where name = 'hypopg')";
        if client.query_one(there, &[]).await.unwrap().get(0) {
            sql(&client, "create extension hypopg").await;
            is_proven(true).await;
        }
        for finding in found {
            let repair = finding.repair.unwrap();
            assert!(repair.change.unwrap().target.starts_with("postgres/public.purchase_"));
            sql(&client, &repair.commands[0]).await;
        }
        sql(&client, "analyze purchase").await;
        assert_eq!(missing(proof()).await, [], "they are there");
        // The reader is not sent to what was asked for already.
        let top = examine(&proof()).await.unwrap();
        let repairs = top.findings.iter().filter_map(|one| Some(one.repair.as_ref()?.sentence.as_str()));
        assert!(repairs.clone().count() > 0 && repairs.clone().all(|sentence| !sentence.contains("prove")), "{top:?}");
        assert!(top.findings.iter().all(|one| one.check != "missing-index"), "{top:?}");
    }
}

#[tokio::test]
async fn a_key_that_every_row_fulfils_is_left_out() {
    for build in testkit::builds().await {
        let server = counting_server(build).await;
        let url = server.url("postgres");
        let client = testkit::connect(&url).await;
        let asked = || {
            let asked = request(&url, &["missing-index"], SETTINGS);
            Request { planner: Some(as_role(&url, "shop:p")), ..asked }
        };
        sql(
            &client,
            "create extension pg_stat_statements; create role shop login password 'p';
             create table part (b int, t text, kind text, unique_one int, note text);
             insert into part select n % 2000, 'B' || n, 'x', n, 'n' || n from generate_series(1, 20000) as n;
             create view shown as select * from part where t > 'A' and kind = 'x'; analyze part;
             grant select on part, shown to shop",
        )
        .await;
        let there = "select exists (select from pg_available_extensions where name = 'hypopg')";
        let is_hypothetical: bool = client.query_one(there, &[]).await.unwrap().get(0);
        for extension in [None, Some("hypopg")].into_iter().filter(|one| is_hypothetical || one.is_none()) {
            if extension.is_some() {
                sql(&client, "create extension hypopg").await;
            }
            for (statement, expected) in [
                ("select note from shown where b = 5", "(b)"),
                ("select note from part where t > 'A' and b = 5 and unique_one = 5", "(unique_one)"),
                ("select note from part where b = 5 and unique_one > 100", "(b, unique_one)"),
            ] {
                sql(&client, "select pg_stat_statements_reset()").await;
                sql(&client, statement).await;
                let report = examine(&asked()).await.unwrap();
                assert_eq!(subjects(&report), [format!("public.part {expected}")], "{statement}: {report:?}");
            }
        }
    }
}
