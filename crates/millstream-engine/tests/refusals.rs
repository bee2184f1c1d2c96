//! Loads that the server refuses, in part or altogether.

use crate::scene::{Files, Stream, request, run, stored};
use millstream_engine::StopReason;
use millstream_testkit::{database, each_build};
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
async fn casts_and_triggers_refuse_documents_whatever_their_code() {
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
        assert_eq!((receipt.counters.read, receipt.counters.rejected), (3, 0));
        assert_eq!(stored(&db, "lowered").await, [("a".to_owned(), 2), ("b".to_owned(), 3)].into());
    })
    .await;
}

#[tokio::test]
async fn a_silent_source_does_not_hide_that_a_lane_has_ended() {
    let db = database().await;
    let client = db.client().await;
    client
        .batch_execute(
            "create table vanishing (id text collate \"C\" primary key, doc jsonb not null);
             create function no_such_column() returns trigger language plpgsql as
             $$begin new.nowhere := 1; return new; end$$;
             create trigger broken before insert on vanishing for each row execute function no_such_column()",
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
            // Open and silent until the load is over.
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
