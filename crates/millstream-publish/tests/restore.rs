//! After a dump and a restore, every record belongs to the table of its name and to no other.

use crate::publish::{publish_on, refresh_on, wanted};
use crate::scene::{Files, appending, compacted, request, run, schema, stored, surroundings, waiting};
use millstream_engine::{Error, LoadRequest, StopReason, load};
use millstream_pg::Explained;
use millstream_store::{Bound, collections};
use millstream_testkit::{Build, Feature, Server, Settings, StopMode, TestDatabase, connect, dealt_builds_with};
use std::collections::BTreeMap;
use std::process::Command;

/// Documents of each collection.
const DOCUMENTS: i64 = 300;

/// A program with its options.
type Program = (&'static str, &'static [&'static str]);

/// Ways to dump and to restore: options of `pg_dump`, and programs with their options, which run in turn.
const WAYS: &[(&str, &[&str], &[Program])] = &[
    ("plain", &["--format=plain"], &[("psql", &["--quiet", "--set=ON_ERROR_STOP=1", "--file"])]),
    ("custom", &["--format=custom"], &[("pg_restore", &["--exit-on-error"])]),
    ("directory", &["--format=directory"], &[("pg_restore", &["--exit-on-error", "--jobs=2"])]),
    (
        "ours first",
        &["--format=custom"],
        &[("pg_restore", &["--schema=millstream"]), ("pg_restore", &["--schema=public"])],
    ),
    (
        "ours last",
        &["--format=custom"],
        &[("pg_restore", &["--schema=public"]), ("pg_restore", &["--schema=millstream"])],
    ),
];

fn name(n: i64) -> String {
    format!("public.c{n}")
}

/// The documents of collection `n`, which differ from those of every other.
fn content(n: i64, from: i64, to: i64) -> (String, BTreeMap<String, i64>) {
    let (mut text, mut last) = (String::new(), BTreeMap::new());
    for i in from..to {
        let value = n * 1_000_000 + i;
        text.push_str(&format!("{{\"id\":\"key-{i:04}\",\"value\":{value},\"v\":{i}}}\n"));
        last.insert(format!("key-{i:04}"), value);
    }
    (text, last)
}

/// How collection `n` was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Half of it waits in segments.
    Log,
    /// With a tombstone for key 0.
    Newest,
    /// With a load that is unfinished.
    Unfinished,
}

fn kind(n: i64) -> Kind {
    [Kind::Log, Kind::Newest, Kind::Unfinished][usize::try_from(n % 3).expect("few collections")]
}

/// The unfinished load of a collection. Its file has a broken line in the middle.
fn unfinished(files: &Files, n: i64) -> LoadRequest {
    let (first, _) = content(n, 0, DOCUMENTS / 2);
    let (second, _) = content(n, DOCUMENTS / 2, DOCUMENTS);
    let mut wanted = request(&name(n), "id", &[files.write(&format!("unfinished{n}"), format!("{first}{{\n{second}"))]);
    (wanted.lanes, wanted.rejects_max) = (Some(1), 1);
    wanted.chunk_bytes = 4 << 10;
    wanted.batch_rows = 50;
    wanted
}

fn newest(files: &Files, n: i64, text: &str) -> LoadRequest {
    let mut wanted = request(&name(n), "id", &[files.write(&format!("newest{n}"), text)]);
    let mode: millstream_engine::Mode = "newest:v:bigint".parse().expect("a mode");
    wanted.mode = mode.with_tombstone(Some("op=d".parse().expect("a tombstone")));
    wanted
}

/// Makes the collections, and a read model of every fourth.
async fn fill(db: &TestDatabase, files: &Files, collections: i64) {
    // In another order than a dump has.
    for n in (0..collections).rev() {
        let (text, _) = content(n, 0, DOCUMENTS / 2);
        match kind(n) {
            Kind::Log => {
                run(&db.url(), &appending(&name(n), &[files.write(&format!("first{n}"), text)], 50)).await;
                compacted(db, &name(n), 1).await.expect("it is compacted");
            }
            Kind::Newest => {
                let (text, _) = content(n, 1, DOCUMENTS);
                let deleted = "{\"id\":\"key-0000\",\"v\":1000000,\"op\":\"d\"}\n";
                run(&db.url(), &newest(files, n, &format!("{text}{deleted}"))).await;
            }
            Kind::Unfinished => {
                let stopped = run(&db.url(), &unfinished(files, n)).await.stopped;
                assert_eq!(stopped, Some(StopReason::Rejects));
            }
        }
        if n % 4 == 0 {
            let model = wanted(&name(n), &format!("public.model{n}"), &["value:int=value"], &["value"], None);
            publish_on(db, &model).await.expect("it is published");
            refresh_on(db, &[&format!("public.model{n}")], None).await.expect("it is refreshed");
        }
        if kind(n) == Kind::Log {
            let (text, _) = content(n, DOCUMENTS / 2, DOCUMENTS);
            run(&db.url(), &appending(&name(n), &[files.write(&format!("second{n}"), text)], 50)).await;
        }
    }
}

fn programme(build: &Build, name: &str, options: &[&str]) -> Command {
    let mut command = Command::new(build.installation.program(name));
    command.args(options);
    command
}

fn succeed(mut command: Command) {
    let output = command.output().expect("the program runs");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Dumps a database into `files`.
fn dump(build: &Build, url: &str, files: &Files, way: &str, options: &[&str]) -> String {
    let place = files.write(way, "") + ".dump";
    let mut command = programme(build, "pg_dump", options);
    command.args(["--file", &place, "--dbname", url]);
    succeed(command);
    place
}

/// The database of a new server. Its OIDs begin at the same number as those of every other such server.
async fn fresh(build: &'static Build) -> TestDatabase {
    let server = Box::leak(Box::new(Server::start(build, Settings::default()).await));
    TestDatabase { name: "postgres".into(), server }
}

/// Binds the tables of a database, as every command does.
async fn bind(url: &str) -> Result<Option<Bound>, Error> {
    Ok(schema().bind(&mut connect(url).await).await?)
}

/// Asserts that a collection holds the right documents, and that its loads, segments or model continue where they were.
async fn resumes(db: &TestDatabase, files: &Files, n: i64) {
    let (_, whole) = content(n, 0, DOCUMENTS);
    match kind(n) {
        Kind::Log => {
            assert!(waiting(db, &name(n)).await > 0, "{n}: documents wait");
            compacted(db, &name(n), 1).await.expect("it is compacted");
            assert!(stored(db, &name(n)).await == whole, "{n}: what waited is in its own table");
        }
        Kind::Newest => {
            let older = newest(files, n, "{\"id\":\"key-0000\",\"v\":999,\"value\":1}\n");
            assert_eq!(run(&db.url(), &older).await.receipt.counters.stale, 1, "{n}: the tombstone is known");
            assert_eq!(stored(db, &name(n)).await.len() as i64, DOCUMENTS - 1);
        }
        Kind::Unfinished => {
            let mut wanted = unfinished(files, n);
            wanted.rejects_max = 100;
            let receipt = run(&db.url(), &wanted).await.receipt;
            assert!(receipt.resumed_from.is_some_and(|from| from > 0), "{n}: {receipt:?}");
            assert!(stored(db, &name(n)).await == whole, "{n}: nothing is missing");
        }
    }
    if n % 4 == 0 {
        let model = format!("public.model{n}");
        refresh_on(db, &[&model], None).await.expect("it is refreshed");
        let client = db.client().await;
        let count = |table: &str| format!("select count(*) from {table}");
        let of =
            async |table: &str| client.query_one(&count(table), &[]).await.expect("it is counted").get::<_, i64>(0);
        assert_eq!(of(&model).await, of(&name(n)).await, "{n}");
        let triggers = "select count(*) from pg_trigger where tgrelid = $1::text::regclass and not tgisinternal";
        let triggers: i64 = client.query_one(triggers, &[&name(n)]).await.expect("a count").get(0);
        assert_eq!(triggers, 6, "{n}: one change record, and none of before the restore");
        client
            .execute(&format!("update {} set doc = doc where id = 'key-0001'", name(n)), &[])
            .await
            .expect("an update");
        refresh_on(db, &[&model], Some("incremental")).await.expect("it is refreshed");
    }
}

/// With 12 collections; with 60 at `MILLSTREAM_TEST_SCALE=5`.
#[tokio::test]
async fn a_restored_database_resumes_where_it_was_dumped() {
    let collections = i64::try_from(millstream_testkit::cases(12)).expect("few collections");
    for build in dealt_builds_with(&[Feature::Dump, Feature::Psql]).await {
        let files = Files::new();
        let from = fresh(build).await;
        fill(&from, &files, collections).await;
        for (way, options, restores) in WAYS {
            println!("{way} on {}", build.installation);
            let place = dump(build, &from.url(), &files, &way.replace(' ', "_"), options);
            let db = fresh(build).await;
            if restores.len() > 1 {
                // A partial restore does not create the schema.
                connect(&db.url()).await.batch_execute("create schema millstream").await.expect("a schema");
            }
            for (n, (program, options)) in restores.iter().enumerate() {
                let mut command = programme(build, program, options);
                command.arg(&place).args(["--dbname", &db.url()]);
                // In a partial restore, whatever refers to the other part fails.
                let output = command.output().expect("the program runs");
                assert!(output.status.success() || restores.len() > 1, "{}", String::from_utf8_lossy(&output.stderr));
                if n + 1 < restores.len() {
                    // A command between the two parts binds what exists then.
                    let _ = bind(&db.url()).await;
                }
            }
            let alias = "select count(*) from millstream.collection k join pg_class c on c.oid = k.table_oid \
                         where c.relname <> k.table_name";
            let aliases: i64 = db.client().await.query_one(alias, &[]).await.unwrap().get(0);
            assert!(aliases > 0 || restores.len() > 1, "some recorded OIDs belong to other relations");
            let bound = bind(&db.url()).await.expect("it is bound");
            assert!(bound.is_some_and(|bound| bound.waiting.is_empty()) || restores.len() > 1);
            let listed = collections::list(&db.client().await, &schema()).await.expect("a list");
            assert_eq!(listed.len() as i64, collections);
            assert!(listed.iter().all(|one| one.present), "{listed:?}");
            for n in 0..collections {
                resumes(&db, &files, n).await;
            }
            db.server.stop(StopMode::Immediate).await;
        }
    }
}

#[tokio::test]
async fn a_database_copy_is_bound_and_a_renamed_schema_is_refused() {
    millstream_testkit::each_build(async |db| {
        let files = Files::new();
        fill(&db, &files, 5).await;
        let copy = TestDatabase { name: format!("{}_copy", db.name), server: db.server };
        // A database can be copied only while nobody is connected to it.
        let admin = connect(&db.server.url("postgres")).await;
        let end = format!("select pg_terminate_backend(pid) from pg_stat_activity where datname = '{}'", db.name);
        admin.execute(&end, &[]).await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        admin.batch_execute(&format!("create database {} template {}", copy.name, db.name)).await.unwrap();
        let bound = bind(&copy.url()).await.unwrap().expect("it is a copy");
        assert!(bound.tables == 5 && bound.waiting.is_empty(), "{bound:?}");
        assert_eq!(bind(&copy.url()).await.unwrap(), None, "once is enough");
        assert_eq!(bind(&db.url()).await.unwrap(), None, "the original is what it was");
        for n in 0..5 {
            resumes(&copy, &files, n).await;
        }

        let client = copy.client().await;
        client.batch_execute("alter schema millstream rename to elsewhere").await.unwrap();
        let moved = millstream_store::Schema::new("elsewhere");
        let error = moved.bind(&mut copy.client().await).await.expect_err("its functions know the other name");
        assert!(
            error.hint().is_some_and(|hint| hint.contains("rename to \"millstream\"")),
            "{error}: {:?}",
            error.hint()
        );
    })
    .await;
}

#[tokio::test]
async fn a_collection_without_its_table_is_not_bound_to_another() {
    millstream_testkit::each_build(async |db| {
        let files = Files::new();
        fill(&db, &files, 3).await;
        let client = db.client().await;
        // The state after a restore that brought our tables and only one of the collections, while other tables have
        // the OIDs of the rest.
        client
            .batch_execute(
                "update millstream.meta set home = 'another server';
                 alter table public.c0 rename to lost0;
                 create table public.c1_other (id text primary key, doc jsonb);
                 alter table public.c1 rename to lost1;
                 alter table public.c1_other rename to c1;
                 alter table public.c1 drop column doc",
            )
            .await
            .unwrap();
        let bound = bind(&db.url()).await.unwrap().expect("another server's");
        let waiting: Vec<String> = bound.waiting.iter().map(ToString::to_string).collect();
        assert_eq!((bound.tables, waiting), (1, vec!["c0".to_owned(), "c1".to_owned()]));
        let listed = collections::list(&client, &schema()).await.unwrap();
        assert!(listed.iter().all(|one| one.present == (one.name.table == "c2")), "{listed:?}");

        // While documents wait for a missing table, no load can use its name.
        let (around, _) = surroundings(&db.url());
        let new = request("public.c0", "id", &[files.write("new", "{\"id\":\"new\",\"value\":1}\n")]);
        let refused = load(&new, &around);
        let error = Box::pin(refused).await.expect_err("documents wait");
        assert!(error.to_string().contains("not restored"), "{error}");

        // The table is restored, and its documents are there.
        client.batch_execute("alter table public.lost0 rename to c0").await.unwrap();
        assert_eq!(bind(&db.url()).await.unwrap().map(|bound| bound.tables), Some(1));
        resumes(&db, &files, 0).await;
        resumes(&db, &files, 2).await;

        // A load that creates the table starts over.
        client.batch_execute("drop table public.c1").await.unwrap();
        let older = newest(&files, 1, "{\"id\":\"key-0000\",\"v\":999,\"value\":1}\n");
        let counters = run(&db.url(), &older).await.receipt.counters;
        assert_eq!((counters.inserted, counters.stale), (1, 0), "the tombstones were those of another table");
    })
    .await;
}
