//! Read models of tables that change without a trigger that hears it: by a subscription, by a restore, by `alter column`.

use crate::process::{Run, millstream};
use millstream_testkit::{Build, Server, Settings, builds, connect, every_build, skip, until};
use tokio_postgres::Client;

/// Changes of the publisher that a subscriber applies, and the rows of `things` after them.
const APPLIED: &[(&str, i64)] = &[
    ("insert into things select n::text, '{\"v\": 1}' from generate_series(100, 199) n", 110),
    ("update things set doc = '{\"v\": 2}' where id::int >= 150", 110),
    ("update things set id = (id::int + 1000)::text where id::int between 100 and 119", 110),
    ("delete from things where id::int between 120 and 139", 90),
    ("truncate things", 0),
    ("insert into things values ('last', '{\"v\": 3}')", 1),
];

fn load(url: &str, documents: impl IntoIterator<Item = i64>) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.ndjson");
    let text: String = documents.into_iter().map(|n| format!("{{\"id\":\"{n}\",\"v\":0}}\n")).collect();
    std::fs::write(&file, text).unwrap();
    millstream(&["load", file.to_str().unwrap(), "--into", "things", "--key", "id:text", "--db", url]).ends(0);
}

fn refresh(url: &str) -> Run {
    millstream(&["refresh", "things_read", "--db", url]).ends(0)
}

fn models(url: &str) -> Run {
    millstream(&["models", "--db", url]).ends(0)
}

/// Why the next refresh builds all of the model anew.
fn because(url: &str) -> String {
    let listed = millstream(&["models", "--output", "json", "--db", url]).ends(0).json();
    listed[0]["everything_because"].as_str().unwrap_or_default().to_owned()
}

/// Rows in which the model and the collection differ.
async fn differences(client: &Client) -> i64 {
    let sql = "select (select count(*) from (select id, doc from public.things
                                             except select id, doc from public.things_read) a)
                    + (select count(*) from (select id, doc from public.things_read
                                             except select id, doc from public.things) b)";
    client.query_one(sql, &[]).await.unwrap().get(0)
}

async fn text(client: &Client, sql: &str) -> String {
    client.query_one(&format!("select ({sql})::text"), &[]).await.unwrap().get(0)
}

/// A server with a publisher and a subscriber, both with the table `things`; sessions in both. `None` if this build
/// cannot subscribe.
async fn replicated(build: &'static Build) -> Option<(Server, Client, Client)> {
    let conf = ["wal_level = logical", "max_wal_senders = 8", "max_replication_slots = 8"];
    let server = Server::start(build, Settings::with(&conf)).await;
    let admin = connect(&server.url("postgres")).await;
    admin.batch_execute("create database publisher").await.unwrap();
    admin.batch_execute("create database subscriber").await.unwrap();
    let (publisher, subscriber) = (server.url("publisher"), server.url("subscriber"));
    load(&subscriber, 0..10);
    let (publisher, subscriber) = (connect(&publisher).await, connect(&subscriber).await);
    for library in ["pgoutput", "libpqwalreceiver"] {
        if publisher.batch_execute(&format!("load '{library}'")).await.is_err() {
            skip(&format!("this build has no {library}"));
            return None;
        }
    }
    for statement in [
        "create table things (id text primary key, doc jsonb not null)",
        "create publication all_things for table things",
        "insert into things select n::text, jsonb_build_object('id', n::text, 'v', 0) from generate_series(0, 9) n",
        "select pg_create_logical_replication_slot('things', 'pgoutput')",
    ] {
        publisher.batch_execute(statement).await.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    }
    Some((server, publisher, subscriber))
}

async fn subscribe(server: &Server, subscriber: &Client) {
    // The publisher is on the same server, so that its slot is made before.
    let subscribe = format!(
        "create subscription things connection '{}' publication all_things
         with (create_slot = false, slot_name = 'things', copy_data = false)",
        server.url("publisher")
    );
    subscriber.batch_execute(&subscribe).await.unwrap();
}

/// Waits until the subscriber has applied what the publisher has.
async fn applied(publisher: &Client, subscriber: &Client) {
    let state =
        "select coalesce(md5(string_agg(id || doc::text, ',' order by id collate \"C\")), '') from public.things";
    let wanted = text(publisher, state).await;
    until("the subscriber has the change", async || text(subscriber, state).await == wanted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_subscription_applies_reaches_the_model() {
    for build in builds().await {
        let Some((server, publisher, subscriber)) = replicated(build).await else { continue };
        let url = server.url("subscriber");
        millstream(&["publish", "things", "--as", "things_read", "--db", &url]).ends(0);
        // After the model: its triggers must be there already.
        subscribe(&server, &subscriber).await;
        for (change, rows) in APPLIED {
            publisher.batch_execute(change).await.unwrap();
            applied(&publisher, &subscriber).await;
            let done = millstream(&["refresh", "things_read", "--way", "incremental", "--db", &url]).ends(0);
            assert_eq!(differences(&subscriber).await, 0, "{change}: {done:?}");
            assert_eq!(
                text(&subscriber, "select count(*) from public.things_read").await,
                rows.to_string(),
                "{change}"
            );
            // Only a truncate counts as a change of everything.
            let way = if change.starts_with("truncate") { "by swap" } else { "by incremental" };
            assert!(done.stdout.contains(way), "{change}: {done:?}");
        }
        // What was applied before the subscription was dropped, too.
        publisher.batch_execute("insert into things values ('late', '{}')").await.unwrap();
        applied(&publisher, &subscriber).await;
        subscriber.batch_execute("drop subscription things").await.unwrap();
        assert_eq!(differences(&subscriber).await, 1);
        refresh(&url);
        assert_eq!(differences(&subscriber).await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_owner_can_record_what_a_subscription_applies() {
    for build in builds().await {
        let Some((server, publisher, subscriber)) = replicated(build).await else { continue };
        let role = "create role reader login password 'x'; grant all on schema public, millstream to reader;
                    grant all on all tables in schema millstream to reader;
                    grant all on all sequences in schema millstream to reader;
                    grant select, trigger on public.things to reader";
        subscriber.batch_execute(role).await.unwrap();
        let address = server.url("subscriber");
        let url = format!("postgres://reader:x@{}", address.rsplit_once('@').expect("it names a user").1);
        let publish = ["publish", "things", "--as", "things_read", "--db", &url];
        millstream(&publish).ends(0);
        subscribe(&server, &subscriber).await;
        for key in ["one", "two"] {
            publisher.batch_execute(&format!("insert into things values ('{key}', '{{}}')")).await.unwrap();
            applied(&publisher, &subscriber).await;
            let listed = models(&url).stdout;
            assert!(listed.contains(" all ") && listed.contains("a subscription writes"), "{listed}");
            let done = refresh(&url);
            assert!(done.stdout.contains("by swap"), "{done:?}");
            assert!(
                done.stderr.contains("every refresh builds it anew") && done.stderr.contains("connect as "),
                "{done:?}"
            );
            assert_eq!(differences(&subscriber).await, 0, "{key}");
        }
        millstream(&["unpublish", "things_read", "--db", &url]).ends(0);
        let refused = millstream(&publish).ends(2).stderr;
        assert!(refused.contains("a subscription writes") && refused.contains("only its owner can"), "{refused}");
        let left = "select count(*) from pg_trigger where tgname like 'millstream%'";
        assert_eq!(text(&subscriber, left).await, "0");
        subscriber.batch_execute("drop subscription things").await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn triggers_that_were_off_for_a_while_make_the_model_anew_once() {
    every_build(async |db| {
        let (url, client) = (db.url(), db.client().await);
        load(&url, 0..100);
        millstream(&["publish", "things", "--as", "things_read", "--db", &url]).ends(0);
        // As a data-only restore does it.
        let restored = "delete from public.things; alter table public.things disable trigger all;
                        insert into public.things select n::text, '{}' from generate_series(1, 50) n;
                        alter table public.things enable trigger all";
        client.batch_execute(restored).await.unwrap();
        let listed = models(&url).stdout.to_lowercase();
        assert!(listed.contains(" all ") && listed.contains("all of it waits because"), "{listed}");
        assert_eq!(
            because(&url),
            "some changes are not recorded: a trigger of the collection was disabled for a while, or altered"
        );
        let done = refresh(&url);
        assert!(done.stdout.contains("50 rows by swap"), "{done:?}");
        assert!(done.stderr.contains("the record was created again"), "{done:?}");
        assert_eq!(differences(&client).await, 0);
        assert!(!models(&url).stdout.contains("because"));
        client.batch_execute("update public.things set doc = '{\"v\": 5}' where id = '7'").await.unwrap();
        let done = refresh(&url);
        assert!(done.stdout.contains("1 row by incremental") && !done.stderr.contains("warning"), "{done:?}");
        assert_eq!(differences(&client).await, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_altered_column_counts_and_an_added_one_does_not() {
    every_build(async |db| {
        let (url, client) = (db.url(), db.client().await);
        let made = "create table public.things (id text primary key, doc jsonb not null, size int default 7)";
        client.batch_execute(made).await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.ndjson");
        std::fs::write(&file, "{\"id\":\"a\"}\n{\"id\":\"b\"}\n").unwrap();
        let load = ["load", file.to_str().unwrap(), "--into", "things", "--key", "id:text", "--adopt", "--db", &url];
        millstream(&load).ends(0);
        let publish =
            ["publish", "things", "--as", "things_read", "--select", "size::bigint as size, doc", "--db", &url];
        millstream(&publish).ends(0);
        client.batch_execute("alter table public.things alter size type bigint using size * 10").await.unwrap();
        assert_eq!(because(&url), "some changes are not recorded: a column of the collection was altered");
        refresh(&url);
        assert_eq!(text(&client, "select sum(size) from public.things_read").await, "140");
        let other =
            "alter table public.things add column more int default 1; alter table public.things drop column more;
                     alter table public.things add column last text; analyze public.things; vacuum full public.things";
        for statement in other.split(';') {
            client.batch_execute(statement).await.unwrap();
        }
        client.batch_execute("update public.things set size = 1 where id = 'a'").await.unwrap();
        let done = refresh(&url);
        assert!(!done.stderr.contains("warning"), "{done:?}");
        assert_eq!(text(&client, "select sum(size) from public.things_read").await, "71");
    })
    .await;
}
