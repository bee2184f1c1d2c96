//! What a server does now, and what happened since an earlier look.

use crate::checks::{request, sql};
use crate::proof::counting_server;
use crate::server_more::until;
use millstream_doctor::{Report, Request, RunOptions, examine};
use millstream_model::Finding;
use millstream_testkit as testkit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const TOP: &str = "[threshold.top-statement]\nseconds = 0\npercent = 1";

/// The finding of the statement that has this word.
fn about<'a>(report: &'a Report, word: &str) -> Option<&'a Finding> {
    report
        .findings
        .iter()
        .find(|one| one.evidence.iter().any(|one| one.name == "statement" && one.value.contains(word)))
}

#[tokio::test]
async fn what_takes_the_time_now_comes_first_whatever_took_it_before() {
    for build in testkit::builds().await {
        let server = counting_server(build).await;
        let url = server.url("postgres");
        let (client, worker) = (testkit::connect(&url).await, testkit::connect(&url).await);
        sql(&client, "create extension pg_stat_statements; create table early (n int); create table late (n int)")
            .await;
        sql(
            &client,
            "insert into early select generate_series(1, 300000); insert into late select generate_series(1, 300000)",
        )
        .await;
        sql(&client, "select pg_stat_statements_reset()").await;
        for _ in 0..40 {
            client.query("select count(*) from early", &[]).await.unwrap();
        }
        let ended = AtomicBool::new(false);
        let work = async {
            while !ended.load(Ordering::Relaxed) {
                worker.query("select count(*) from late", &[]).await.unwrap();
            }
        };
        let look = async {
            // It must have run once, to be counted at all.
            until(&url, "top-statement", TOP, |report| about(report, "late").is_some()).await;
            let request =
                Request { looks_apart: Some(Duration::from_secs(1)), ..request(&url, &["top-statement"], TOP) };
            let report = examine(&request).await.unwrap();
            ended.store(true, Ordering::Relaxed);
            report
        };
        let ((), report) = tokio::join!(work, look);
        let percent = |word: &str| about(&report, word).map(|one| one.time_percent.unwrap());
        let (early, late) = (percent("early"), percent("late").unwrap());
        assert!(late > 90.0 && early.is_none_or(|early| early < 5.0), "{report:?}");
        let first = about(&report, "late").unwrap();
        assert_eq!(report.findings[0].key, first.key, "{report:?}");
        assert!(
            first.evidence.iter().any(|one| one.name.starts_with("its share of the time in the last")),
            "{first:?}"
        );
    }
}

#[tokio::test]
async fn what_became_slower_larger_and_another_is_named() {
    for build in testkit::builds().await {
        let server = counting_server(build).await;
        let url = server.url("postgres");
        let client = testkit::connect(&url).await;
        sql(
            &client,
            "create extension pg_stat_statements; create table item (id int, note text);
             insert into item select n, 'n' || n from generate_series(1, 50000) as n; create index by_id on item (id);
             analyze item",
        )
        .await;
        let ask = async || {
            for _ in 0..20 {
                client.query("select note from item where id = 77", &[]).await.unwrap();
            }
        };
        ask().await;
        let look = async || examine(&request(&url, &["top-statement"], TOP)).await.unwrap();
        let earlier = look().await;
        let calm = look().await.since(&earlier).changes.unwrap().difference.unwrap();
        assert!(calm.is_empty() && calm.unknown.is_none(), "{calm:?}");

        for statement in ["drop index by_id", "alter system set work_mem = '8MB'", "select pg_reload_conf()"] {
            client.batch_execute(statement).await.unwrap();
        }
        sql(&client, "insert into item select n, 'n' from generate_series(1, 50000) as n; analyze item").await;
        ask().await;
        let is_set = |report: &Report| report.snapshot.as_ref().unwrap().settings.contains_key("work_mem");
        let report = until(&url, "top-statement", TOP, is_set).await.since(&earlier);
        let text = millstream_doctor::text(&report, false, &RunOptions::default());
        let found = report.changes.unwrap().difference.unwrap();
        let slower: Vec<&str> = found.slower.iter().map(|one| one.text.as_str()).collect();
        assert_eq!(slower, ["select note from item where id = $1"], "{found:?}");
        let grown: Vec<(&str, u64)> = found.grown.iter().map(|one| (one.now.table.as_str(), one.now.rows)).collect();
        assert_eq!(grown, [("public.item", 100_000)], "{found:?}");
        let [setting] = found.settings.as_slice() else { panic!("{found:?}") };
        assert_eq!(
            (setting.name.as_str(), setting.before.as_deref(), setting.now.as_deref()),
            ("work_mem", None, Some("8192 kB"))
        );
        for line in
            ["slower in postgres: ", "grown in postgres: public.item from ", "setting work_mem: the default -> 8192 kB"]
        {
            assert!(text.contains(line), "{text}");
        }
        sql(&client, "select pg_stat_statements_reset()").await;
        let reset = look().await.since(&earlier).changes.unwrap().difference.unwrap();
        assert!(reset.slower.is_empty() && reset.unknown.is_some(), "{reset:?}");
    }
}

#[tokio::test]
async fn sessions_that_are_opened_now_are_found_whatever_was_counted() {
    testkit::every_build(async |database| {
        let url = database.url();
        let settings = "[threshold.connection-churn]\nhours = 840\nnow_per_second = 3";
        let look = async || {
            let request = request(&url, &["connection-churn"], settings);
            examine(&Request { looks_apart: Some(Duration::from_millis(500)), ..request }).await.unwrap()
        };
        assert!(look().await.findings.is_empty(), "the doctor's own sessions are few");
        let ended = AtomicBool::new(false);
        let churn = async {
            while !ended.load(Ordering::Relaxed) {
                drop(database.client().await);
            }
        };
        let found = async {
            let mut report = look().await;
            for _ in 0..60 {
                if !report.findings.is_empty() {
                    break;
                }
                report = look().await;
            }
            ended.store(true, Ordering::Relaxed);
            report
        };
        let ((), report) = tokio::join!(churn, found);
        assert!(report.findings[0].sentence.ends_with("sessions a second are opened now"), "{report:?}");
    })
    .await;
}
