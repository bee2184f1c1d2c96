//! What would be false to say: indexes that are there, that no plan would use, our own tables, settings of one role.

use crate::checks::{evidence, report, request, sql, subjects};
use crate::proof::{as_role, counting_server};
use millstream_doctor::{Report, Request, examine};
use millstream_testkit as testkit;

const SETTINGS: &str = "[threshold.missed-index]\nrows = 100\ncalls = 1\nreads = 1
    [threshold.missing-index]\nrows = 1000\ncalls = 1\nreads = 1\npercent = 0\nwarning_percent = 0\nsaved_ms = 0
    [threshold.sort-index]\nrows = 1000\ncalls = 1\nblocks_per_row = 0";

/// Conditions of views that fit nearly all rows, so that the planner passes the indexes on their columns by.
const OF_VIEWS: &[&str] = &[
    "state < 9",
    "state >= 0",
    "state between 0 and 100",
    "gone is null",
    "at is not null",
    "at > '2000-01-01'",
    "kind <> 5",
    "is_live",
];

#[tokio::test]
async fn an_index_that_the_planner_passes_by_is_neither_blamed_nor_built_again() {
    for build in testkit::builds().await {
        let server = counting_server(build).await;
        let url = server.url("postgres");
        let client = testkit::connect(&url).await;
        let views = OF_VIEWS.iter().enumerate();
        let views: Vec<String> =
            views.map(|(n, condition)| format!("create view v{n} as select * from doc where {condition}")).collect();
        sql(
            &client,
            &format!(
                "create extension pg_stat_statements; create role shop login password 'p';
                 create table doc (id bigint primary key, owner int, tenant int, state int, gone timestamptz, at timestamptz,
                     kind int, is_live bool);
                 insert into doc select n, n % 1000, n % 10, n % 5, case when n % 100 = 0 then now() end, now(), n % 4, true
                 from generate_series(1, 20000) as n;
                 create index doc_state on doc (state); create index doc_more on doc (state) include (owner);
                 create index doc_gone on doc (gone); create index doc_at on doc (at); create index doc_kind on doc (kind);
                 create index doc_live on doc (is_live); {};
                 create table secured as select * from doc; create index secured_state on secured (state);
                 alter table secured add primary key (id); alter table secured enable row level security;
                 create policy p on secured to shop using (state < 9);
                 grant select on all tables in schema public to shop; analyze doc; analyze secured;
                 select pg_stat_statements_reset()",
                views.join(";\n")
            ),
        )
        .await;
        for n in 0..OF_VIEWS.len() {
            for rest in ["where owner = 9 order by id desc limit 3", "where tenant = 3", "order by id limit 1"] {
                sql(&client, &format!("select * from v{n} {rest}")).await;
            }
        }
        // Of the policy, the role of the plans sees what the role of the program sees.
        sql(&client, "select * from secured where owner = 9 order by id desc limit 3").await;
        let asked = request(&url, &["missed-index", "missing-index"], SETTINGS);
        let found = examine(&Request { planner: Some(as_role(&url, "shop:p")), ..asked }).await.unwrap();
        let blamed: Vec<&str> =
            found.findings.iter().filter(|one| one.check == "missed-index").map(|one| one.sentence.as_str()).collect();
        assert_eq!(blamed, [""; 0], "{found:?}");
        // An index of the owners may help. None may be there already.
        let commands = found.findings.iter().filter_map(|one| one.repair.as_ref()).flat_map(|repair| &repair.commands);
        for command in commands.filter(|command| command.starts_with("create index")) {
            let clause = command.split_once(" on public.").unwrap().1;
            let is_new = ["doc (owner", "doc (tenant", "secured (owner"].iter().any(|new| clause.starts_with(new));
            assert!(is_new, "{command}");
        }
    }
}

/// A condition that nearly all rows fulfil ends a scan in the order of the key at once: no index finds the rows sooner.
#[tokio::test]
async fn an_order_that_the_planner_follows_with_reason_needs_no_index() {
    for build in testkit::builds().await {
        let server = counting_server(build).await;
        let url = server.url("postgres");
        let client = testkit::connect(&url).await;
        sql(
            &client,
            "create extension pg_stat_statements; create role shop login password 'p';
             alter role shop set random_page_cost = 4;
             create table doc (id int primary key, state int, kind int, note text);
             insert into doc select n, case when n % 1000 = 0 then 2 else 1 end, n % 20, repeat('x', 200)
             from generate_series(1, 20000) as n;
             create index doc_state on doc (state); create index doc_kind on doc (kind);
             create view live as select * from doc where state = 1; create view rare as select * from doc where kind = 7;
             grant select on all tables in schema public to shop; vacuum analyze doc;
             select pg_stat_statements_reset(); select * from live order by id limit 3; select min(id) from live",
        )
        .await;
        let asked = || request(&url, &["sort-index"], SETTINGS);
        let found = async || examine(&Request { planner: Some(as_role(&url, "shop:p")), ..asked() }).await.unwrap();
        let report = found().await;
        assert!(report.findings.is_empty(), "{report:?}");
        let there = "select exists (select from pg_available_extensions where name = 'hypopg')";
        let has_hypopg: bool = client.query_one(there, &[]).await.unwrap().get(0);
        if has_hypopg {
            sql(&client, "create extension hypopg").await;
            let report = found().await;
            assert!(report.findings.is_empty(), "{report:?}");
        }
        // Such rows are rarer.
        sql(&client, "select pg_stat_statements_reset(); select id from rare order by id limit 10").await;
        let report = found().await;
        assert_eq!(subjects(&report), ["public.doc_pkey"], "{report:?}");
        let commands = &report.findings[0].repair.as_ref().unwrap().commands;
        assert_eq!(commands[0], "create index concurrently on public.doc (kind, id)");
        // For whole rows the key is the shorter way, by what the planner knows: it would not use the new index.
        sql(&client, "select pg_stat_statements_reset(); select * from rare order by id limit 10").await;
        let report = found().await;
        let commands = report.findings.iter().filter_map(|one| one.repair.as_ref()).flat_map(|repair| &repair.commands);
        let creates = commands.filter(|command| command.starts_with("create index")).count();
        assert!(creates == 0 || !has_hypopg, "{report:?}");
    }
}

/// The findings that name a statement.
fn naming<'a>(report: &'a Report, statement: &str) -> Vec<&'a str> {
    let named = report.findings.iter().filter(|one| evidence(one, "statement") == Some(statement));
    named.map(|one| one.check.as_str()).collect()
}

#[tokio::test]
async fn a_statement_is_named_by_one_finding_for_a_table() {
    for build in testkit::builds().await {
        let server = counting_server(build).await;
        let url = server.url("postgres");
        let client = testkit::connect(&url).await;
        sql(
            &client,
            "create extension pg_stat_statements; create role shop login password 'p'; create table modem (mac text, n int);
             insert into modem select to_hex(n), n from generate_series(1, 20000) as n; grant select on modem to shop;
             create index modem_lower on modem (lower(mac)); create index modem_upper on modem (upper(mac)); analyze modem;
             select pg_stat_reset(); select pg_stat_statements_reset(); select from modem where mac = 'a1'",
        )
        .await;
        let (statement, all) = ("select from modem where mac = $1", ["missed-index", "missing-index", "sort-index"]);
        let asked = |checks: &[&str]| request(&url, checks, SETTINGS);
        let proof = |checks: &[&str]| Request { planner: Some(as_role(&url, "shop:p")), ..asked(checks) };
        let found = examine(&proof(&all)).await.unwrap();
        assert_eq!(naming(&found, statement), ["missed-index"], "{found:?}");
        let found = examine(&proof(&["missing-index"])).await.unwrap();
        assert_eq!(subjects(&found), ["public.modem (mac)"], "nobody else names it");
        let suspected = examine(&asked(&all)).await.unwrap();
        assert_eq!(naming(&suspected, statement).len(), 1, "{suspected:?}");

        // The index is there, but it is not valid: it is to be mended, and not built once more.
        sql(&client, "create index modem_mac on modem (mac)").await;
        sql(&client, "update pg_index set indisvalid = false where indexrelid = 'modem_mac'::regclass").await;
        let found = examine(&proof(&all)).await.unwrap();
        let commands = found.findings.iter().filter_map(|one| one.repair.as_ref()).flat_map(|repair| &repair.commands);
        let twins: Vec<&String> = commands.filter(|command| command.ends_with(" on public.modem (mac)")).collect();
        assert_eq!(twins, [""; 0], "{found:?}");
    }
}

#[tokio::test]
async fn our_own_tables_and_models_are_not_criticised() {
    let settings = "[threshold.table-without-key]\nrows = 100";
    testkit::every_build(async |database| {
        let client = database.client().await;
        sql(
            &client,
            "create schema millstream; create table millstream.collection (a int); create table millstream.load (a int);
             create table millstream.model (a int); create table millstream.segment (a int);
             create table millstream.model_1 (a int); insert into millstream.model_1 select generate_series(1, 1000);
             create table public.heap (a int); insert into public.heap select generate_series(1, 1000); analyze public.heap;
             analyze millstream.model_1",
        )
        .await;
        assert_eq!(subjects(&report(&database, "table-without-key", settings).await), ["public.heap"]);
        sql(&client, "drop table millstream.segment").await;
        let found = subjects(&report(&database, "table-without-key", settings).await);
        assert_eq!(found, ["millstream.model_1", "public.heap"], "this schema is another program's");
    })
    .await;
}

#[tokio::test]
async fn what_a_role_or_a_database_sets_for_itself_is_not_the_servers() {
    for build in testkit::builds().await {
        let server = testkit::Server::start(build, testkit::Settings::default()).await;
        let url = server.url("postgres");
        let client = testkit::connect(&url).await;
        let checks = ["durability-off", "few-statistics", "planner-cost", "not-recorded"];
        let of_role = async || {
            let report = examine(&request(&url, &checks, "")).await.unwrap();
            let of_server = subjects(&report);
            let skipped: Vec<String> = report.skipped.iter().map(|skip| skip.why.clone()).collect();
            (of_server, skipped.join("; "))
        };
        let (before, _) = of_role().await;
        let all = "set synchronous_commit = off; alter OWNER set default_statistics_target = 10;
            alter OWNER set enable_nestloop = off; alter OWNER set log_lock_waits = off";
        for owner in ["role current_user", "database postgres"] {
            sql(&client, &format!("alter {owner} {}", all.replace("OWNER", owner))).await;
            let (now, skipped) = of_role().await;
            let new: Vec<&String> = now.iter().filter(|subject| !before.contains(subject)).collect();
            assert_eq!(new, [""; 0], "{owner}");
            assert!(
                skipped.contains("synchronous_commit, because this role or database has a value of its own"),
                "{skipped}"
            );
            sql(&client, &format!("alter {owner} reset all")).await;
        }
        sql(&client, "alter system set synchronous_commit = off; select pg_reload_conf()").await;
        testkit::until("the server's own value is found", async || {
            of_role().await.0.contains(&"synchronous_commit".to_owned())
        })
        .await;
    }
}
