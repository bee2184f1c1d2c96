//! Missing indexes of a join workload: each of its indexes is dropped in turn, and the check must name it and nothing else.
//!
//! The workload is the join-order benchmark, small: its tables and the shapes of its queries, with made-up rows.
//! Each version of PostgreSQL loses its share of the indexes; with `MILLSTREAM_TEST_SCALE` above 1, all of them.
//! V. Leis, A. Gubichev, A. Mirchev, P. Boncz, A. Kemper, T. Neumann: How Good Are Query Optimizers, Really? PVLDB 9 (3), 2015.

use crate::checks::{request, sql};
use crate::proof::{as_role, counting_server};
use millstream_doctor::{Request, examine};
use millstream_testkit as testkit;
use tokio_postgres::{Client, SimpleQueryMessage};

const TABLES: &str = include_str!("join_workload/tables.sql");
const INDEXES: &str = include_str!("join_workload/indexes.sql");
const QUERIES: &str = include_str!("join_workload/queries.sql");

/// The tables are small, and each query runs once. All other thresholds are those of the check.
const SETTINGS: &str = "[threshold.missing-index]\nrows = 1000\ncalls = 1\npercent = 0";

/// How often it is examined again while the time was too short.
const REPEATS_MAX: u32 = 20;

/// At least so many of a hundred dropped indexes must be found.
const FOUND_PERCENT: usize = 80;

/// An index that serves as well as the dropped one makes no query cost more than so many times as much.
const AS_GOOD: f64 = 1.1;

fn queries() -> impl Iterator<Item = &'static str> {
    QUERIES.split(';').map(str::trim)
}

/// The indexes: name, table and keys.
fn indexes() -> Vec<(&'static str, &'static str, &'static str)> {
    let one = |line: &'static str| {
        let (name, rest) = line.strip_prefix("create index ")?.trim_end_matches(';').split_once(" on ")?;
        let (table, keys) = rest.split_once(' ')?;
        Some((name, table, keys))
    };
    INDEXES.lines().filter_map(one).collect()
}

/// What the planner says that each query costs.
async fn costs(client: &Client) -> Vec<f64> {
    let mut costs = Vec::new();
    for query in queries() {
        let plan = client.simple_query(&format!("explain {query}")).await.unwrap();
        let first = plan.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        let (_, cost) = first.unwrap().split_once("..").unwrap();
        costs.push(cost.split(' ').next().unwrap().parse().unwrap());
    }
    costs
}

/// Runs queries so that the server counts them, and nothing else.
async fn count(client: &Client, queries: impl Iterator<Item = &str>) {
    sql(client, "set pg_stat_statements.track = top").await;
    for query in queries {
        client.simple_query(query).await.unwrap();
    }
    sql(client, "set pg_stat_statements.track = none").await;
}

/// The indexes that the check proposes: table and keys.
async fn proposed(url: &str) -> Vec<String> {
    let asked = request(url, &["missing-index"], SETTINGS);
    let asked = Request { planner: Some(as_role(url, "shop:p")), ..asked };
    let mut report = examine(&asked).await.unwrap();
    for _ in 0..REPEATS_MAX {
        if !report.skipped.iter().any(|skip| skip.why.contains("because others took")) {
            break;
        }
        // The machine was slow in that moment.
        report = examine(&asked).await.unwrap();
    }
    assert_eq!(report.skipped, [], "all statements are planned, and all candidates tried");
    report.findings.into_iter().map(|finding| finding.subject).collect()
}

#[tokio::test]
async fn an_index_that_a_join_workload_lacks_is_named_and_no_other_one() {
    let builds = testkit::builds().await;
    for (hand, build) in builds.iter().enumerate() {
        let server = counting_server(build).await;
        let url = server.url("postgres");
        let client = testkit::connect(&url).await;
        sql(&client, "create extension pg_stat_statements; set pg_stat_statements.track = none").await;
        sql(&client, "create role shop login password 'p'").await;
        let there = "select exists (select from pg_available_extensions where name = 'hypopg')";
        let is_hypothetical: bool = client.query_one(there, &[]).await.unwrap().get(0);
        if is_hypothetical {
            sql(&client, "create extension hypopg").await;
        }
        sql(&client, TABLES).await;
        sql(&client, INDEXES).await;
        sql(&client, "grant select on all tables in schema public to shop; analyze").await;
        let full = costs(&client).await;
        sql(&client, "select pg_stat_statements_reset()").await;
        count(&client, queries()).await;
        let (mut found, mut wrong) = (0, proposed(&url).await);
        // Now the doctor plans its own statements, too.
        wrong.extend(proposed(&url).await);
        sql(&client, "alter database postgres set pg_stat_statements.track = none").await;
        println!("PostgreSQL {}: with all indexes: {wrong:?}", build.major());
        let all = testkit::dealt(indexes(), hand, builds.len());
        for (name, table, keys) in &all {
            sql(&client, &format!("drop index {name}")).await;
            let wanted = format!("public.{table} {}", keys.trim_end_matches(')'));
            // The queries that it serves run without it.
            sql(&client, "select pg_stat_statements_reset()").await;
            let costs_now = costs(&client).await;
            let slower = queries().zip(costs_now.iter().zip(&full)).filter(|(_, (now, full))| **now > AS_GOOD * **full);
            let slower: Vec<&str> = slower.map(|(query, _)| query).collect();
            assert!(!slower.is_empty(), "no query needs {name}");
            count(&client, slower.into_iter()).await;
            let proposed = proposed(&url).await;
            let mut is_found = false;
            for one in &proposed {
                // The same keys come first, in the same order; others may follow.
                let rest = one.strip_prefix(&wanted).filter(|rest| rest.starts_with([')', ',']));
                sql(&client, &format!("create index proposed on {one}")).await;
                let costs = costs(&client).await;
                let is_as_good = costs.iter().zip(&full).all(|(cost, full)| *cost <= AS_GOOD * full);
                sql(&client, "drop index proposed").await;
                if rest.is_some() && is_as_good && !is_found {
                    is_found = true;
                } else {
                    wrong.push(format!("{one} for {table} {keys}"));
                }
            }
            println!(
                "PostgreSQL {}: {table} {keys}: {} {proposed:?}",
                build.major(),
                if is_found { "found" } else { "missing" }
            );
            found += usize::from(is_found);
            sql(&client, &format!("create index {name} on {table} {keys}")).await;
        }
        let how = if is_hypothetical { "with hypopg" } else { "on empty copies" };
        let counts =
            format!("PostgreSQL {}, {how}: found {found} of {}, wrong {}", build.major(), all.len(), wrong.len());
        println!("{counts}");
        assert!(100 * found >= FOUND_PERCENT * all.len() && wrong.is_empty(), "{counts}: {wrong:?}");
    }
}
