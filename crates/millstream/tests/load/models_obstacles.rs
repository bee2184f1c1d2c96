//! What is in the way of publishing and refreshing: names, settings, limits, transactions and views of others.

use crate::process::{Run, millstream};
use millstream_testkit::{Server, Settings, TestDatabase, builds, connect, every_build, until};
use tokio_postgres::Client;

fn load(url: &str, more: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.ndjson");
    let text: String = (0..500).map(|n| format!("{{\"id\":{n},\"v\":{n}}}\n")).collect();
    std::fs::write(&file, text).unwrap();
    let load = ["load", file.to_str().unwrap(), "--into", "things", "--key", "id:bigint", "--db", url];
    millstream(&[&load, more].concat()).ends(0);
}

fn run(url: &str, args: &[&str]) -> Run {
    millstream(&[args, &["--db", url]].concat())
}

async fn text(client: &Client, sql: &str) -> String {
    client.query_one(&format!("select ({sql})::text"), &[]).await.unwrap().get(0)
}

/// What a model needs beside its collection.
const LEFT: &str = "select (select count(*) from pg_trigger where tgname like 'millstream%')
                         + (select count(*) from pg_class where relname ~ '^(model|change)_[0-9]')";

/// A role that owns what it makes in the database, and how it connects.
async fn role(db: &TestDatabase, client: &Client, options: &str) -> (String, String) {
    let name = format!("{}_plain", db.name);
    let make = format!(
        "create role {name} login password 'x' {options}; grant create on database {} to {name};
         grant all on schema public to {name}",
        db.name
    );
    client.batch_execute(&make).await.unwrap();
    let address = db.url();
    let url = format!("postgres://{name}:x@{}", address.rsplit_once('@').expect("it names a user").1);
    (name, url)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_in_a_schema_of_postgresql_is_refused() {
    every_build(async |db| {
        let (url, client) = (db.url(), db.client().await);
        load(&url, &[]);
        for schema in ["pg_temp", "information_schema", "pg_catalog", "pg_toast"] {
            let name = format!("{schema}.model");
            for more in [None, Some("--materialized")] {
                let args: Vec<&str> = ["publish", "things", "--as", &name].into_iter().chain(more).collect();
                let refused = run(&url, &args).ends(2).stderr;
                assert!(refused.contains("in a schema that PostgreSQL keeps for itself"), "{schema}: {refused}");
                assert!(refused.contains("--as public.model"), "{schema}: {refused}");
            }
        }
        assert_eq!(text(&client, LEFT).await, "0");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_setting_is_named_by_every_command_that_writes() {
    every_build(async |db| {
        let (url, client) = (db.url(), db.client().await);
        load(&url, &["--durability", "unlogged"]);
        run(&url, &["publish", "things", "--as", "model"]).ends(0);
        let setting = format!("alter database {} set default_transaction_read_only = on", db.name);
        client.batch_execute(&setting).await.unwrap();
        for command in [
            &["publish", "things", "--as", "other"][..],
            &["unpublish", "model"],
            &["refresh", "model"],
            &["freeze", "things", "--yes"],
            &["drop", "things", "--yes"],
            &["loads", "forget", "1"],
        ] {
            let refused = run(&url, command).ends(2).stderr;
            assert!(refused.contains("default_transaction_read_only"), "{command:?}: {refused}");
        }
        client.batch_execute(&setting.replace("= on", "= off")).await.unwrap();
        run(&url, &["unpublish", "model"]).ends(0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_takes_as_many_connections_as_there_are() {
    every_build(async |db| {
        let client = db.client().await;
        let (name, url) = role(&db, &client, "").await;
        load(&url, &[]);
        // A process that has ended may have sessions for a moment.
        let sessions = format!("select count(*) from pg_stat_activity where usename = '{name}'");
        let ended = async || until("its sessions have ended", async || text(&client, &sessions).await == "0").await;
        for limit in [3, 2] {
            client.batch_execute(&format!("alter role {name} connection limit {limit}")).await.unwrap();
            ended().await;
            let built =
                run(&url, &["publish", "things", "--as", "model", "--column", "v:int=v", "--index", "v"]).ends(0);
            assert!(built.stdout.contains("500 rows by swap"), "{limit}: {built:?}");
            for workers in ["1", "8"] {
                ended().await;
                run(&url, &["refresh", "model", "--way", "swap", "--workers", workers]).ends(0);
            }
            ended().await;
            run(&url, &["unpublish", "model"]).ends(0);
        }
        client.batch_execute(&format!("alter role {name} connection limit 1")).await.unwrap();
        ended().await;
        let refused = run(&url, &["publish", "things", "--as", "model"]).ends(2).stderr;
        let hint = format!("alter role \"{name}\" connection limit N");
        assert!(refused.contains("the role has a connection limit") && refused.contains(&hint), "{refused}");
        assert_eq!(text(&client, LEFT).await, "0", "nothing is left behind");
        ended().await;
        client.batch_execute(&format!("drop owned by {name} cascade; drop role {name}")).await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_takes_as_many_connections_as_there_are() {
    every_build(async |db| {
        let client = db.client().await;
        let (name, url) = role(&db, &client, "").await;
        let limited = async |limit: i32| {
            client.batch_execute(&format!("alter role {name} connection limit {limit}")).await.unwrap();
            let sessions = format!("select count(*) from pg_stat_activity where usename = '{name}'");
            until("its sessions have ended", async || text(&client, &sessions).await == "0").await;
        };
        load(&url, &["--layout", "log"]);
        let refresh = ["refresh", "model", "--workers", "8"];
        for (limit, command) in
            [(3, &["publish", "things", "--as", "model"][..]), (2, &refresh[..]), (2, &["compact", "things"][..])]
        {
            limited(-1).await;
            load(&url, &["--layout", "log"]);
            limited(limit).await;
            run(&url, command).ends(0);
            assert_eq!(text(&client, "select count(*) from millstream.segment").await, "0", "{limit}: {command:?}");
        }
        limited(-1).await;
        load(&url, &["--layout", "log"]);
        limited(1).await;
        let refused = run(&url, &refresh).ends(2).stderr;
        assert!(refused.contains("the role has a connection limit"), "{refused}");
        limited(2).await;
        client.batch_execute(&format!("drop owned by {name} cascade; drop role {name}")).await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_cannot_be_built_is_not_left_behind() {
    every_build(async |db| {
        let (url, client) = (db.url(), db.client().await);
        load(&url, &[]);
        let failed = run(&url, &["publish", "things", "--as", "model", "--index", "(1 / (id - 7))"]).ends(2).stderr;
        assert!(failed.contains("division by zero"), "{failed}");
        assert_eq!(text(&client, LEFT).await, "0");
        assert!(run(&url, &["models"]).ends(0).stderr.contains("no models yet"));
        // One that was built stays.
        run(&url, &["publish", "things", "--as", "model"]).ends(0);
        run(&url, &["publish", "things", "--as", "model", "--select", "1 / (id - 7) as n"]).ends(2);
        assert_eq!(text(&client, "select count(*) from public.model").await, "500");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prepared_transaction_is_named() {
    for build in builds().await {
        let server = Server::start(build, Settings::with(&["max_prepared_transactions = 5"])).await;
        let url = server.url("postgres");
        load(&url, &["--durability", "unlogged"]);
        let client = connect(&url).await;
        let prepare = async |sql: &str, gid: &str| {
            let gid = gid.replace('\'', "''");
            client.batch_execute(&format!("begin; {sql}; prepare transaction '{gid}'")).await.unwrap();
        };
        prepare("update public.things set doc = doc where id = 1", "it's stuck").await;
        for command in
            [&["publish", "things", "--as", "model"][..], &["freeze", "things", "--yes"], &["drop", "things", "--yes"]]
        {
            let failed = run(&url, command).ends(2).stderr;
            assert!(failed.contains("the prepared transaction it's stuck of role"), "{command:?}: {failed}");
            assert!(failed.contains("rollback prepared 'it''s stuck'"), "{command:?}: {failed}");
        }
        client.batch_execute("rollback prepared 'it''s stuck'").await.unwrap();
        run(&url, &["publish", "things", "--as", "model"]).ends(0);
        prepare("select from public.model", "reads").await;
        let held = run(&url, &["refresh", "model", "--way", "swap", "--wait", "300ms"]).ends(2).stderr;
        assert!(held.contains("a prepared transaction (see pg_prepared_xacts)"), "{held}");
        let failed = run(&url, &["unpublish", "model"]).ends(2).stderr;
        assert!(failed.contains("the prepared transaction reads of role"), "{failed}");
        client.batch_execute("rollback prepared 'reads'").await.unwrap();
        run(&url, &["unpublish", "model"]).ends(0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_that_somebody_replaced_shows_the_model_again() {
    every_build(async |db| {
        let (url, client) = (db.url(), db.client().await);
        load(&url, &[]);
        run(&url, &["publish", "things", "--as", "model"]).ends(0);
        client.batch_execute("grant select on public.model to public").await.unwrap();
        for way in ["incremental", "swap"] {
            let other = "create or replace view public.model as select id, doc from public.things where id < 5";
            client.batch_execute(other).await.unwrap();
            let listed = run(&url, &["models", "--output", "json"]).ends(0).json();
            assert_eq!(listed[0]["everything_because"], "its view was replaced");
            let done = run(&url, &["refresh", "model", "--way", way]).ends(0);
            assert!(done.stderr.contains("somebody had replaced its view"), "{way}: {done:?}");
            assert_eq!(text(&client, "select count(*) from public.model").await, "500", "{way}");
            let granted = "select has_table_privilege('public', 'public.model', 'select')";
            assert_eq!(text(&client, granted).await, "true", "{way}");
            client.batch_execute("update public.things set doc = '{}' where id = 1").await.unwrap();
            let done = run(&url, &["refresh", "model"]).ends(0);
            assert!(done.stdout.contains("by incremental") && !done.stderr.contains("warning"), "{way}: {done:?}");
            let listed = run(&url, &["models", "--output", "json"]).ends(0).json();
            assert!(listed[0]["everything_because"].is_null(), "{way}: {listed}");
            client.batch_execute("update public.things set doc = '{\"v\": 1}' where id = 1").await.unwrap();
        }
        let wider = "create or replace view public.model as select id, doc, 1 as more from public.things";
        client.batch_execute(wider).await.unwrap();
        let refused = run(&url, &["refresh", "model"]).ends(2).stderr;
        assert!(refused.contains("somebody replaced by one with other columns"), "{refused}");
        assert!(refused.contains("drop view \"public\".\"model\""), "{refused}");
        client.batch_execute("drop view public.model").await.unwrap();
        run(&url, &["refresh", "model"]).ends(0);
        assert_eq!(text(&client, "select count(*) from public.model").await, "500");
        // New columns of the model's own are no replacement.
        run(&url, &["publish", "things", "--as", "model", "--column", "v:int=v"]).ends(0);
        let listed = run(&url, &["models", "--output", "json"]).ends(0).json();
        assert!(listed[0]["everything_because"].is_null(), "{listed}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vacuum_of_another_table_is_no_reader() {
    every_build(async |db| {
        let client = db.client().await;
        // The role may not see what sessions of others do.
        let (name, url) = role(&db, &client, "").await;
        load(&url, &[]);
        run(&url, &["publish", "things", "--as", "model"]).ends(0);
        let other = "create table public.other with (autovacuum_enabled = off) as
                     select n, repeat('x', 500) as x from generate_series(1, 20000) n";
        client.batch_execute(other).await.unwrap();
        let vacuum = db.client().await;
        let pid = text(&vacuum, "select pg_backend_pid()").await;
        vacuum.batch_execute("set vacuum_cost_delay = 100; set vacuum_cost_limit = 1").await.unwrap();
        let vacuuming = tokio::spawn(async move { vacuum.batch_execute("vacuum public.other").await });
        let runs = format!("select count(*) from pg_stat_progress_vacuum where pid = {pid}");
        until("the vacuum has begun", async || text(&client, &runs).await == "1").await;
        for _ in 0..2 {
            let done = run(&url, &["refresh", "model", "--way", "swap", "--wait", "1s"]).ends(0);
            assert!(!done.stdout.contains("rows left"), "{done:?}");
        }
        assert_eq!(text(&client, &runs).await, "1", "it is still there");
        client.batch_execute(&format!("select pg_cancel_backend({pid})")).await.unwrap();
        vacuuming.await.unwrap().unwrap_err();

        // A session that has a snapshot is named, also to a role that may not see what it does.
        let reader = db.client().await;
        let pid = text(&reader, "select pg_backend_pid()").await;
        reader.batch_execute("begin isolation level repeatable read; select from public.other limit 1").await.unwrap();
        let done = run(&url, &["refresh", "model", "--way", "swap", "--wait", "300ms"]).ends(0);
        assert!(done.stdout.contains("rows left"), "{done:?}");
        let held = run(&url, &["refresh", "model", "--way", "swap", "--wait", "300ms"]).ends(2).stderr;
        assert!(held.contains(&format!("session {pid} of role ")) && held.contains("the oldest snapshot"), "{held}");
        reader.batch_execute("commit").await.unwrap();
        run(&url, &["refresh", "model", "--way", "swap"]).ends(0);
        client.batch_execute(&format!("drop owned by {name} cascade; drop role {name}")).await.unwrap();
    })
    .await;
}
