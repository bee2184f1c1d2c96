//! The list of all tables: their dead rows, their vacuums, and what a rewrite would give back.

use crate::checks::sql;
use crate::proof::{as_role, counting_server};
use millstream_doctor::{FreeSource, TableList, TableState, tables};
use millstream_pg::{ConnInfo, Environment};
use millstream_testkit as testkit;
use std::time::Duration;

/// Bytes that a rewrite is assumed to handle in a second.
const PACE: u64 = 1_000_000;

async fn listed(url: &str) -> TableList {
    let place = ConnInfo::parse(url, &Environment::from_variables([])).unwrap();
    tables(&place, Duration::from_secs(60), PACE).await.unwrap()
}

#[track_caller]
fn one<'a>(list: &'a TableList, name: &str) -> &'a TableState {
    let found = list.tables.iter().find(|one| one.table == name);
    found.unwrap_or_else(|| panic!("{name}: {list:?}"))
}

fn names(tables: &[TableState]) -> Vec<&str> {
    tables.iter().map(|one| one.table.as_str()).collect()
}

#[tokio::test]
async fn each_table_has_its_dead_rows_its_own_threshold_and_its_vacuums() {
    testkit::every_build(async |database| {
        let client = database.client().await;
        sql(
            &client,
            "create table busy (n int) with (autovacuum_vacuum_threshold = 10, autovacuum_vacuum_scale_factor = 0.5);
             insert into busy select generate_series(1, 5000); select pg_stat_force_next_flush(); analyze busy;
             create table calm (n int); insert into calm select generate_series(1, 1000); vacuum analyze calm;
             create table \"Odd name\" (n int); create temporary table fleeting (n int);
             create table log (day int, n int) partition by range (day);
             create table log_1 partition of log for values from (1) to (2);
             create table log_2 partition of log for values from (2) to (3) with (autovacuum_vacuum_threshold = 5000);
             insert into log select 1 + n % 2, n from generate_series(1, 4000) as n",
        )
        .await;
        // Autovacuum passes by tables that somebody else holds so.
        let holder = database.client().await;
        sql(&holder, "begin; lock table busy, calm, log_1, log_2 in share update exclusive mode").await;
        sql(
            &client,
            "update busy set n = n + 1;
             delete from log where day = 1 and n % 4 = 0; delete from log where day = 2",
        )
        .await;
        let counted = "select sum(n_dead_tup) = 8000 from pg_stat_user_tables";
        testkit::until("the server counts the dead rows", async || {
            client.query_one(counted, &[]).await.unwrap().get::<_, Option<bool>>(0) == Some(true)
        })
        .await;
        let list = listed(&database.url()).await;
        assert_eq!(list.database, database.name);
        assert_eq!(names(&list.tables), ["public.busy", "public.log", "public.calm", "public.\"Odd name\""]);
        let busy = one(&list, "public.busy");
        assert_eq!((busy.rows, busy.dead, busy.vacuum_from, busy.is_due), (5_000, 5_000, Some(2_510), true));
        assert!((busy.dead_percent - 50.0).abs() < 0.1 && busy.last_vacuum.is_none(), "{busy:?}");
        let calm = one(&list, "public.calm");
        assert_eq!((calm.rows, calm.dead, calm.vacuum_from, calm.is_due), (1_000, 0, Some(250), false));
        assert!(calm.last_vacuum.as_ref().is_some_and(|at| at.ends_with('Z') && at.len() == 20), "{calm:?}");
        assert!(calm.last_vacuum_seconds.is_some() && calm.last_autovacuum.is_none(), "{calm:?}");
        let log = one(&list, "public.log");
        assert_eq!((log.dead, log.vacuum_from, log.is_due), (3_000, None, true));
        assert_eq!(names(&log.partitions), ["public.log_2", "public.log_1"]);
        let due: Vec<bool> = log.partitions.iter().map(|one| one.is_due).collect();
        assert_eq!(due, [false, true], "each by its own threshold: {log:?}");
    })
    .await;
}

#[tokio::test]
async fn what_millstream_keeps_comes_behind_the_tables_of_the_user() {
    testkit::every_build(async |database| {
        let client = database.client().await;
        sql(
            &client,
            "create schema kept;
             create table kept.collection (n int); create table kept.load (n int); create table kept.model (n int);
             create table kept.segment (n int); create table kept.model_1_2 (n int); create table kept.segment_3 (n int);
             create table yours (n int); create table kept.change_7 (n int) with (autovacuum_enabled = off);
             insert into kept.change_7 select generate_series(1, 1000); delete from kept.change_7;
             insert into kept.model_1_2 values (1); delete from kept.model_1_2",
        )
        .await;
        let counted = "select sum(n_dead_tup) = 1001 from pg_stat_user_tables";
        testkit::until("the server counts the dead rows", async || {
            client.query_one(counted, &[]).await.unwrap().get::<_, Option<bool>>(0) == Some(true)
        })
        .await;
        let list = listed(&database.url()).await;
        let own = ["kept.change_7", "kept.collection", "kept.load", "kept.model", "kept.segment"];
        assert_eq!(names(&list.tables)[..3], ["kept.model_1_2", "kept.segment_3", "public.yours"], "data of the user");
        assert_eq!(names(&list.tables)[3..], own);
        assert_eq!(list.tables.iter().filter(|one| one.is_own).count(), own.len(), "{list:?}");
    })
    .await;
}

#[tokio::test]
async fn free_space_is_measured_where_an_extension_allows_it_and_a_rewrite_gives_it_back() {
    testkit::every_build(async |database| {
        let client = database.client().await;
        sql(
            &client,
            "create table hollow (n int primary key, t text) with (autovacuum_enabled = off);
             insert into hollow select n, repeat('x', 80) from generate_series(1, 20000) as n;
             delete from hollow where n % 10 <> 0; vacuum (truncate false, analyze) hollow;
             create table tiny (n int); insert into tiny values (1); analyze tiny",
        )
        .await;
        let free = async || {
            let list = listed(&database.url()).await;
            assert_eq!(one(&list, "public.tiny").free, None, "too small");
            assert!(list.unseen.is_empty(), "{list:?}");
            let hollow = one(&list, "public.hollow");
            (hollow.free.clone().unwrap(), hollow.bytes)
        };
        let mut all = vec![free().await];
        for extension in ["pg_freespacemap", "pgstattuple"] {
            sql(&client, &format!("create schema of_{extension}; create extension {extension} schema of_{extension}"))
                .await;
            all.push(free().await);
        }
        let sources: Vec<FreeSource> = all.iter().map(|(free, _)| free.source).collect();
        assert_eq!(sources, [FreeSource::Estimate, FreeSource::PgFreespacemap, FreeSource::Pgstattuple]);
        let size = async || {
            let sql = "select pg_relation_size('hollow')::float8";
            client.query_one(sql, &[]).await.unwrap().get::<_, f64>(0)
        };
        let before = size().await;
        sql(&client, "vacuum full hollow").await;
        let given = before - size().await;
        for (free, bytes) in &all {
            let promised = free.rewrite_gives_bytes as f64;
            assert!(promised <= given * 1.1 && promised >= given * 0.8, "{given} of {before}: {free:?}");
            assert!((70.0..=95.0).contains(&free.percent), "{free:?}");
            let handled = (bytes + free.rewrite_needs_bytes) as f64 / PACE as f64;
            assert!((free.rewrite_locks_seconds - handled).abs() < 1e-6, "{free:?}");
            assert!(free.rewrite_needs_bytes > *bytes - free.rewrite_gives_bytes, "the index is copied, too: {free:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_role_without_rights_sees_the_list_and_runs_no_function_of_others() {
    testkit::every_build(async |database| {
        let client = database.client().await;
        let role = format!("nobody{:08x}", fastrand::u32(..));
        sql(
            &client,
            &format!(
                "create role {role} login password 'p'; alter role {role} set search_path = public, pg_catalog;
                 create table hidden (n int, t text); insert into hidden select n, 'x' from generate_series(1, 5000) as n;
                 vacuum analyze hidden;
                 create function pgstattuple_approx(regclass) returns int language sql as 'select 1 / 0'"
            ),
        )
        .await;
        database.plant_decoys().await;
        let place = as_role(&database.url(), &format!("{role}:p"));
        let list = tables(&place, Duration::from_secs(60), PACE).await.unwrap();
        let hidden = one(&list, "public.hidden");
        assert_eq!((hidden.rows, &hidden.free), (5_000, &None));
        assert!(hidden.last_vacuum.is_some(), "{hidden:?}");
        let [why] = list.unseen.as_slice() else { panic!("{list:?}") };
        assert!(why.starts_with("the free space of tables: 1; grant select on them to this role"), "{why}");
        sql(&client, &format!("drop role {role}")).await;
    })
    .await;
}

#[tokio::test]
async fn as_many_statements_are_sent_for_a_thousand_tables_as_for_one() {
    for build in testkit::builds().await {
        let server = counting_server(build).await;
        let url = server.url("postgres");
        let client = testkit::connect(&url).await;
        sql(&client, "create extension pg_stat_statements; create table first (n int)").await;
        let sent = async |expected: usize| {
            sql(&client, "select pg_stat_statements_reset()").await;
            assert_eq!(listed(&url).await.tables.len(), expected);
            let calls = "select sum(calls)::int8 from pg_stat_statements where query !~ 'pg_stat_statements'";
            client.query_one(calls, &[]).await.unwrap().get::<_, i64>(0)
        };
        let of_one = sent(1).await;
        let many = "do $$ begin for n in 1..1000 loop execute 'create table t' || n || ' (n int, t text)';
            end loop; end $$";
        client.batch_execute(many).await.unwrap();
        assert_eq!(sent(1_001).await, of_one);
    }
}
