//! Loads that the server refuses, in part or altogether.

use crate::scene::{Files, Stream, request, run, stored, surroundings, until_committed};
use millstream_engine::{DeleteMissing, Error, Outcome, StopReason, dry_run, load};
use millstream_pg::{ErrorKind, Explained};
use millstream_testkit::{TestDatabase, database, each_build};
use std::io::Write;

/// Longest wait for a load that has no reason to wait at all.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

#[tokio::test]
async fn a_table_that_refuses_everything_stops_the_load_at_the_limit() {
    each_build(async |db| {
        let client = db.client().await;
        client
            .batch_execute(
                "create table closed (id text collate \"C\" primary key, doc jsonb not null, constraint shut check (false))",
            )
            .await
            .unwrap();
        let mut stream = Stream::default();
        for n in 0..30_000 {
            stream.push(&n.to_string(), n);
        }
        let files = Files::new();
        let mut wanted = request("closed", "id", &[files.write("a", &stream.text)]);
        wanted.adopt = true;
        wanted.lanes = Some(2);
        wanted.rejects_max = 10;
        let stopped = run(&db.url(), &wanted).await;
        assert_eq!(stopped.stopped, Some(StopReason::Rejects));
        let before = stopped.receipt.counters;
        assert!(before.rejected >= 10 && before.rejected < 20_000, "{before:?}");
        client.batch_execute("alter table closed drop constraint shut").await.unwrap();
        wanted.rejects_max = 1_000_000;
        let done = run(&db.url(), &wanted).await.receipt;
        assert_eq!((done.load_id, done.counters.read), (stopped.receipt.load_id, 30_000));
        assert_eq!((done.counters.rejected, done.counters.inserted), (before.rejected, 30_000 - before.rejected));
    })
    .await;
}

#[tokio::test]
async fn casts_and_triggers_refuse_documents_with_any_code() {
    each_build(async |db| {
        let client = db.client().await;
        client
            .batch_execute(
                "create table searched (id text collate \"C\" primary key, doc jsonb not null,
                     query tsquery generated always as ((doc ->> 'note')::tsquery) stored);
                 create table lowered (id text collate \"C\" primary key, doc jsonb not null);
                 create function lower_id() returns trigger language plpgsql as
                 $$begin new.id := lower(new.id); return new; end$$;
                 create trigger lower_id before insert on lowered for each row execute function lower_id()",
            )
            .await
            .unwrap();
        let files = Files::new();
        let text = "{\"id\":\"a\",\"note\":\"x & y\"}\n{\"id\":\"b\",\"note\":\"x y\"}\n{\"id\":\"c\"}\n";
        let mut wanted = request("searched", "id", &[files.write("a", text)]);
        wanted.adopt = true;
        let receipt = run(&db.url(), &wanted).await.receipt;
        assert_eq!((receipt.counters.inserted, receipt.counters.rejected), (2, 1));

        let mut stream = Stream::default();
        for (id, value) in [("A", 1), ("a", 2), ("B", 3)] {
            stream.push(id, value);
        }
        let mut wanted = request("lowered", "id", &[files.write("b", &stream.text)]);
        (wanted.adopt, wanted.lanes) = (true, Some(1));
        let receipt = run(&db.url(), &wanted).await.receipt;
        // The trigger stores A and B under other keys, where no later load would find them.
        assert_eq!((receipt.counters.read, receipt.counters.rejected), (3, 2));
        assert_eq!(stored(&db, "lowered").await, [("a".to_owned(), 2)].into());
    })
    .await;
}

/// A function that refuses the third of every ten documents with the given error.
fn refusing_trigger(table: &str, raise: &str) -> String {
    format!(
        "create table public.{table} (id text collate \"C\" primary key, doc jsonb not null);
         create function public.refuse_{table}() returns trigger language plpgsql as $f$begin
             if (new.doc->>'value')::int % 10 = 3 then {raise}; end if; return new; end$f$;
         create trigger refuse before insert or update on public.{table} for each row execute function public.refuse_{table}()"
    )
}

#[tokio::test]
async fn a_trigger_may_refuse_a_document_with_any_code() {
    each_build(async |db| {
        let (client, files) = (db.client().await, Files::new());
        let mut stream = Stream::default();
        for n in 0..100 {
            stream.push(&n.to_string(), n);
        }
        let file = files.write("a", &stream.text);
        for (table, raise) in [
            ("undefined", "new.nowhere := 1"),
            ("no_table", "insert into missing values (1)"),
            ("no_function", "perform nothing(1)"),
            ("wrong_syntax", "execute 'selec'"),
            ("not_supported", "raise feature_not_supported"),
            ("not_ready", "raise object_not_in_prerequisite_state"),
            ("ambiguous", "raise sqlstate '42P10'"),
            ("no_right", "raise insufficient_privilege"),
            ("odd_state", "raise sqlstate '25000'"),
        ] {
            client.batch_execute(&refusing_trigger(table, raise)).await.unwrap();
            let mut wanted = request(table, "id", std::slice::from_ref(&file));
            (wanted.adopt, wanted.lanes) = (true, Some(1));
            let outcome = run(&db.url(), &wanted).await;
            let counters = outcome.receipt.counters;
            assert_eq!((counters.inserted, counters.rejected), (90, 10), "{table}: {outcome:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_right_that_a_trigger_lacks_ends_the_load() {
    each_build(async |db| {
        let client = db.client().await;
        let role = format!("writer_{}", fastrand::u32(..));
        client.batch_execute(&refusing_trigger("audited", "insert into audit values (1)")).await.unwrap();
        client
            .batch_execute(&format!(
                "create table audit (n int); create role {role} login password 'x';
                 grant create on database {} to {role}; grant select, insert, update on audited to {role}",
                db.name
            ))
            .await
            .unwrap();
        let files = Files::new();
        let mut wanted = request("audited", "id", &[files.write("a", "{\"id\":\"a\",\"value\":3}\n")]);
        wanted.adopt = true;
        let url = format!("postgres://{role}:x@127.0.0.1:{}/{}", db.server.port(), db.name);
        let outcome = run(&url, &wanted).await;
        assert_eq!(outcome.error.as_ref().map(Error::kind), Some(ErrorKind::Rights), "{outcome:?}");
    })
    .await;
}

#[tokio::test]
async fn missing_rows_need_the_right_to_delete() {
    each_build(async |db| {
        let client = db.client().await;
        let role = format!("writer_{}", fastrand::u32(..));
        client
            .batch_execute(&format!(
                "create table kept (id text collate \"C\" primary key, doc jsonb not null);
                 insert into kept values ('old', '{{}}'); create role {role} login password 'x';
                 grant create on database {} to {role}; grant select, insert, update on kept to {role}",
                db.name
            ))
            .await
            .unwrap();
        let files = Files::new();
        let mut wanted = request("kept", "id", &[files.write("a", "{\"id\":\"new\",\"value\":3}\n")]);
        (wanted.adopt, wanted.delete_missing) = (true, Some(DeleteMissing::new(100.0, std::env::temp_dir())));
        let url = format!("postgres://{role}:x@127.0.0.1:{}/{}", db.server.port(), db.name);
        let refused = Box::pin(load(&wanted, &surroundings(&url).0)).await.expect_err("it may not delete");
        assert!(refused.to_string().contains("may not delete"), "{refused}");
        assert!(refused.hint().is_some_and(|hint| hint.contains("leave out --delete-missing")), "{refused:?}");
        let ids = "select id from kept order by id";
        let ids =
            async || -> Vec<String> { client.query(ids, &[]).await.unwrap().iter().map(|row| row.get(0)).collect() };
        assert_eq!(ids().await, ["old"], "nothing is loaded either");
        client.batch_execute(&format!("grant delete on kept to {role}")).await.unwrap();
        assert_eq!(run(&url, &wanted).await.receipt.deleted_missing, 1);
        assert_eq!(ids().await, ["new"]);
    })
    .await;
}

#[tokio::test]
async fn key_columns_that_the_server_fills_are_refused() {
    each_build(async |db| {
        let client = db.client().await;
        client
            .batch_execute(
                "create table counted (id bigint generated always as identity primary key, doc jsonb not null);
                 create table derived (id text generated always as (doc ->> 'id') stored primary key, doc jsonb not null);
                 create table either (id bigint generated by default as identity primary key, doc jsonb not null)",
            )
            .await
            .unwrap();
        let files = Files::new();
        let file = files.write("a", "{\"id\":1}\n");
        for (table, said, mended) in [
            ("counted", "identity", "alter table \"public\".\"counted\" alter column \"id\" set generated by default"),
            ("derived", "generated", "alter table \"public\".\"derived\" alter column \"id\" drop expression"),
        ] {
            let mut wanted = request(table, "id", std::slice::from_ref(&file));
            wanted.adopt = true;
            let url = db.url();
            let around = surroundings(&url).0;
            for error in [
                Box::pin(load(&wanted, &around)).await.expect_err("it is refused"),
                dry_run(&wanted, &around.db).await.expect_err("it is refused"),
            ] {
                assert_eq!(error.kind(), ErrorKind::Config);
                assert!(error.to_string().contains(said), "{error}");
                assert_eq!(error.hint().as_deref(), Some(mended));
            }
            client.batch_execute(mended).await.unwrap();
            assert_eq!(run(&url, &wanted).await.receipt.counters.inserted, 1, "the hint mends it");
        }
        let mut wanted = request("either", "id", &[file]);
        wanted.adopt = true;
        assert_eq!(run(&db.url(), &wanted).await.receipt.counters.inserted, 1);
    })
    .await;
}

/// Loads from a pipe, changes the database once a document is committed, and feeds one more.
async fn changed_in_mid_load(db: &TestDatabase, table: &str, change: &str) -> Outcome {
    let files = Files::new();
    let (pipe, more) = files.pipe("stream");
    let mut wanted = request(table, "id:text", &[pipe]);
    (wanted.format, wanted.lanes) = ("ndjson".into(), Some(1));
    let (around, _) = surroundings(&db.url());
    let changing = async {
        more.send("{\"id\":\"a\"}\n".into()).expect("the pipe is read");
        until_committed(&around.tally, 1).await;
        db.client().await.batch_execute(change).await.expect("the change");
        more.send("{\"id\":\"b\"}\n".into()).expect("the pipe is read");
    };
    let loading = async { Box::pin(load(&wanted, &around)).await };
    let (ended, ()) = tokio::time::timeout(PATIENCE, async { tokio::join!(loading, changing) }).await.expect("it ends");
    drop(more);
    match ended {
        Ok(outcome) => outcome,
        Err(error) => panic!("no receipt: {error}: {:?}", error.kind()),
    }
}

#[tokio::test]
async fn a_primary_key_dropped_in_mid_load_is_named() {
    each_build(async |db| {
        let outcome = changed_in_mid_load(&db, "unkeyed", "alter table unkeyed drop constraint unkeyed_pkey").await;
        let error = outcome.error.as_ref().expect("it fails");
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains("primary key"), "{error}");
        assert_eq!(outcome.receipt.counters.read, 1);
    })
    .await;
}

#[tokio::test]
async fn our_schema_dropped_in_mid_load_is_named() {
    each_build(async |db| {
        let files = Files::new();
        let (pipe, more) = files.pipe("stream");
        let mut wanted = request("orphaned", "id:text", &[pipe]);
        (wanted.format, wanted.lanes) = ("ndjson".into(), Some(1));
        let (around, _) = surroundings(&db.url());
        let changing = async {
            more.send("{\"id\":\"a\"}\n".into()).expect("the pipe is read");
            until_committed(&around.tally, 1).await;
            db.client().await.batch_execute("drop schema millstream cascade").await.unwrap();
            more.send("{\"id\":\"b\"}\n".into()).expect("the pipe is read");
        };
        let loading = async { Box::pin(load(&wanted, &around)).await };
        let both = async { tokio::join!(loading, changing) };
        let (ended, ()) = tokio::time::timeout(PATIENCE, both).await.expect("it ends");
        drop(more);
        let error = ended.expect_err("there is no receipt");
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains("schema \"millstream\" was dropped"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_failed_lane_ends_a_load_from_a_silent_source() {
    let db = database().await;
    let client = db.client().await;
    client
        .batch_execute(
            "create table vanishing (id text collate \"C\" primary key, doc jsonb not null);
             create function full() returns trigger language plpgsql as
             $$begin raise disk_full; end$$;
             create trigger broken before insert on vanishing for each row execute function full()",
        )
        .await
        .unwrap();
    let files = Files::new();
    let pipe = files.write("pipe", "");
    std::fs::remove_file(&pipe).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (over, wait_until_over) = std::sync::mpsc::channel::<()>();
    let writing = std::thread::spawn({
        let pipe = pipe.clone();
        move || {
            let mut pipe = std::fs::OpenOptions::new().write(true).open(pipe).unwrap();
            pipe.write_all(b"{\"id\":\"a\"}\n").unwrap();
            // The pipe stays open and silent until the load is over.
            let _ = wait_until_over.recv();
        }
    });
    let mut wanted = request("vanishing", "id:text", &[pipe]);
    wanted.adopt = true;
    wanted.format = "ndjson".into();
    let url = db.url();
    let outcome = tokio::time::timeout(PATIENCE, run(&url, &wanted)).await.expect("the load ends by itself");
    drop(over);
    writing.join().unwrap();
    assert_eq!(outcome.stopped, Some(StopReason::Failed), "{outcome:?}");
    assert_eq!(outcome.receipt.counters.read, 0);
}

#[tokio::test]
async fn servers_and_roles_that_cannot_write_are_refused_with_a_reason() {
    each_build(async |db| {
        let client = db.client().await;
        let role = format!("reader_{}", fastrand::u32(..));
        client
            .batch_execute(&format!(
                "create role {role} login password 'x'; alter role {role} set default_transaction_read_only = on;
                 grant create on database {} to {role}; grant create on schema public to {role}",
                db.name
            ))
            .await
            .unwrap();
        let files = Files::new();
        let wanted = request("public.any", "id", &[files.write("a", "{\"id\":1}\n")]);
        let url = format!("postgres://{role}:x@127.0.0.1:{}/{}", db.server.port(), db.name);
        let refused = async |url: &str| Box::pin(load(&wanted, &surroundings(url).0)).await.expect_err("it is refused");
        let error = refused(&url).await;
        assert!(error.to_string().contains(&format!("read_only is on for role \"{role}\"")), "{error}");
        let hint = error.hint().expect("a way out");
        client.batch_execute(hint.split(';').next().unwrap()).await.unwrap();
        assert_eq!(run(&url, &wanted).await.receipt.counters.inserted, 1, "the hint mends it");
        client
            .batch_execute(
                "set allow_system_table_mods = on; update pg_extension set extname = 'citus' where extname = 'plpgsql'",
            )
            .await
            .unwrap();
        let error = refused(&db.url()).await;
        assert!(error.to_string().contains("extension citus"), "{error}");
        assert_eq!(error.kind(), ErrorKind::Config);
    })
    .await;
}
