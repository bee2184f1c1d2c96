//! Loads that meet servers and networks which break.

use crate::scene::{Files, Stream, appending, compacted, request, run, schema, stored, surroundings, until_committed};
use millstream_engine::{Error, Event, Layout, LoadRequest, StopReason, load};
use millstream_model::KeyRequest;
use millstream_pg::{ErrorKind, Explained, Poll};
use millstream_store::Error as StoreError;
use millstream_store::loads;
use millstream_testkit::{
    Cases, Proxy, Server, Settings, StopMode, connect, database, dealt_builds, each_build, until,
};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio_postgres::Client;

#[tokio::test]
async fn cut_connections_lose_and_repeat_nothing() {
    let db = database().await;
    for mut rng in Cases::new(4) {
        let table = format!("cut{}", rng.u32(..));
        let files = Files::new();
        let stream = Stream::random(&mut rng, 60_000, 40_000);
        let mut wanted = request(&table, "id", &[files.write("a", &stream.text)]);
        wanted.batch_rows = 1_000;
        wanted.lanes = Some(2);
        let server = millstream_testkit::shared(db.build()).await;
        let proxy = Proxy::start(format!("127.0.0.1:{}", server.port())).await;
        let name = db.client().await.query_one("select current_database()", &[]).await.unwrap().get::<_, String>(0);
        let url = server.url_at(&proxy.address.to_string(), &name);
        let (around, _) = surroundings(&url);
        let cutting = async {
            until_committed(&around.tally, 1).await;
            for _ in 0..5 {
                tokio::time::sleep(Duration::from_millis(rng.u64(50..400))).await;
                // Answers are held back, so that the cut falls between a COMMIT and its answer.
                proxy.set(|traffic| traffic.answers_held = true);
                tokio::time::sleep(Duration::from_millis(rng.u64(1..60))).await;
                proxy.cut();
                proxy.set(|traffic| traffic.answers_held = false);
            }
        };
        let (outcome, ()) = tokio::join!(load(&wanted, &around), cutting);
        let outcome = outcome.expect("the load begins");
        assert!(outcome.stopped.is_none(), "{outcome:?}");
        assert_eq!(stored(&db, &table).await, stream.last);
        assert_eq!(outcome.receipt.counters.read, stream.documents);
        assert_eq!(outcome.receipt.counters.inserted, stream.last.len() as u64);
    }
}

#[tokio::test]
async fn a_load_survives_a_server_restart() {
    for build in dealt_builds().await {
        for mode in [StopMode::Fast, StopMode::Immediate, StopMode::Kill] {
            let server = Server::start(build, Settings { durable: true, ..Settings::default() }).await;
            let url = server.url("postgres");
            let files = Files::new();
            let mut rng = fastrand::Rng::with_seed(5);
            let stream = Stream::random(&mut rng, 150_000, 90_000);
            let mut wanted = request("restarted", "id", &[files.write("a", &stream.text)]);
            wanted.batch_rows = 1_000;
            let (around, events) = surroundings(&url);
            let restarting = async {
                until_committed(&around.tally, 20_000).await;
                server.restart(mode).await;
            };
            let (outcome, ()) = tokio::join!(load(&wanted, &around), restarting);
            let outcome = outcome.expect("the load begins");
            assert!(outcome.stopped.is_none(), "{mode:?}: {outcome:?}");
            assert!(
                events.0.lock().unwrap().iter().any(|e| matches!(e, Event::Retry { .. })),
                "the restart was noticed"
            );
            assert_eq!(outcome.receipt.counters.read, stream.documents);
            assert_eq!(outcome.receipt.counters.inserted, stream.last.len() as u64);
            let client = millstream_testkit::connect(&url).await;
            let rows = client.query("select id, (doc->>'value')::bigint from restarted", &[]).await.unwrap();
            let found: BTreeMap<String, i64> = rows.iter().map(|r| (r.get(0), r.get(1))).collect();
            assert_eq!(found, stream.last);
        }
    }
}

#[tokio::test]
async fn a_load_still_refuses_a_second_run_after_a_server_restart() {
    for build in dealt_builds().await {
        let server = Server::start(build, Settings { durable: true, ..Settings::default() }).await;
        let url = server.url("postgres");
        let files = Files::new();
        let (pipe, more) = files.pipe("held");
        let mut wanted = request("held", "id:text", &[pipe]);
        (wanted.source_name, wanted.lanes) = (Some("held".into()), Some(2));
        let (around, _) = surroundings(&url);
        let others = async {
            more.send("{\"id\":\"a\",\"value\":1}\n".into()).unwrap();
            until_committed(&around.tally, 1).await;
            server.restart(StopMode::Fast).await;
            more.send("{\"id\":\"b\",\"value\":2}\n".into()).unwrap();
            until_committed(&around.tally, 2).await;
            let client = connect(&url).await;
            let locks = "select count(*) > 0 from pg_locks where locktype = 'advisory' and objsubid = 2";
            until("the load locks itself again", async || client.query_one(locks, &[]).await.unwrap().get(0)).await;
            let error = Box::pin(load(&wanted, &surroundings(&url).0)).await.expect_err("the first one lives");
            assert!(matches!(error, Error::Store(StoreError::LoadRunning { .. })), "{error}");
            more.send("{\"id\":\"c\",\"value\":3}\n".into()).unwrap();
            drop(more);
        };
        let (outcome, ()) = tokio::join!(Box::pin(load(&wanted, &around)), others);
        let receipt = outcome.expect("the load begins").receipt;
        assert_eq!((receipt.finished, receipt.counters.inserted), (true, 3), "{receipt:?}");
    }
}

#[tokio::test]
async fn a_closed_run_commits_nothing_when_it_reconnects() {
    each_build(async |db| {
        let server = millstream_testkit::shared(db.build()).await;
        for into_table in [false, true] {
            let name = if into_table { "passed" } else { "merged" };
            let files = Files::new();
            let (pipe, more) = files.pipe("older");
            let mut older = appending(name, &[pipe], 1);
            // Otherwise the load would read more documents to infer the type.
            older.key = KeyRequest::parse_list("id:text").expect("a key");
            (older.source_name, older.lanes) = (Some("older".into()), Some(1));
            let mut newer = appending(name, &[files.write("newer", "{\"id\":\"a\",\"value\":2}\n")], 1);
            if into_table {
                newer.layout = Layout::by_name("table").expect("a layout");
            }
            let proxy = Proxy::start(format!("127.0.0.1:{}", server.port())).await;
            let database = db.client().await.query_one("select current_database()", &[]).await.unwrap();
            let url = server.url_at(&proxy.address.to_string(), database.get(0));
            let (around, _) = surroundings(&url);
            let meanwhile = async {
                more.send("{\"id\":\"a\",\"value\":1}\n".into()).unwrap();
                until_committed(&around.tally, 1).await;
                proxy.set(|traffic| traffic.closed = true);
                proxy.cut();
                let client = db.client().await;
                let none = "select not exists (select from pg_stat_activity where application_name like 'millstream%'
                            and datname = current_database() and pid <> pg_backend_pid())";
                until("the load's sessions end", async || client.query_one(none, &[]).await.unwrap().get(0)).await;
                // Its own segments are not a reason to close it.
                assert_eq!(compacted(&db, name, 1).await.unwrap().segments, 1);
                let older = async || {
                    let all = loads::list(&client, &schema(), 100).await.unwrap();
                    let first =
                        all.into_iter().filter(|one| one.collection.ends_with(name)).min_by_key(|one| one.load_id);
                    first.map(|one| (one.state, one.stop_reason)).expect("it is on record")
                };
                assert_eq!(older().await.0, "crashed");
                run(&db.url(), &newer).await;
                compacted(&db, name, 1).await.unwrap();
                assert_eq!(stored(&db, name).await["a"], 2);
                let (state, why) = older().await;
                assert_eq!(state, "stopped");
                assert!(why.unwrap().starts_with("its sessions were lost, and a "));
                // The pipe is quiet: there is no commit by which the load would notice.
                proxy.set(|traffic| traffic.closed = false);
            };
            let begun = async { Box::pin(load(&older, &around)).await.expect("the load begins") };
            let (outcome, ()) = tokio::join!(begun, meanwhile);
            assert_eq!(outcome.error.as_ref().map(Error::kind), Some(ErrorKind::Fenced), "{outcome:?}");
            drop(more);
            compacted(&db, name, 1).await.unwrap();
            assert_eq!(stored(&db, name).await["a"], 2);
            let (pipe, more) = files.pipe("again");
            older.sources = vec![pipe];
            more.send("{\"id\":\"a\",\"value\":1}\n{\"id\":\"a\",\"value\":3}\n".into()).unwrap();
            drop(more);
            let again = run(&db.url(), &older).await.receipt;
            assert_eq!((again.finished, again.resumed_from, again.counters.appended), (true, Some(1), 2));
            compacted(&db, name, 1).await.unwrap();
            assert_eq!(stored(&db, name).await["a"], 3);
        }
    })
    .await;
}

#[tokio::test]
async fn after_a_crash_no_acknowledged_document_is_missing() {
    for build in dealt_builds().await {
        for mode in [StopMode::Immediate, StopMode::Kill] {
            let server = Server::start(build, Settings { durable: true, ..Settings::default() }).await;
            let url = server.url("postgres");
            let files = Files::new();
            let stream = Stream::random(&mut fastrand::Rng::with_seed(6), 150_000, 90_000);
            let mut wanted = request("crashed", "id", &[files.write("a", &stream.text)]);
            wanted.batch_rows = 1_000;
            let (around, _) = surroundings(&url);
            let running = tokio::spawn({
                let (wanted, around) = (wanted.clone(), around.clone());
                async move { Box::pin(load(&wanted, &around)).await }
            });
            until_committed(&around.tally, 20_000).await;
            server.stop(mode).await;
            // The run dies before the server is back.
            running.abort();
            assert!(running.await.is_err_and(|end| end.is_cancelled()));
            let acknowledged = around.tally.documents();
            server.start_again().await;
            let client = millstream_testkit::connect(&url).await;
            let sql = "select sum(read)::bigint, sum(inserted)::bigint, (select count(*) from crashed)
                       from millstream.lane";
            let row = client.query_one(sql, &[]).await.unwrap();
            let (read, inserted, rows): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
            assert!(u64::try_from(read).unwrap() >= acknowledged, "{mode:?}: {read} of {acknowledged}");
            assert_eq!(inserted, rows, "the account tells what the table holds");
            let outcome = Box::pin(load(&wanted, &surroundings(&url).0)).await.expect("the load begins");
            assert!(outcome.receipt.finished && outcome.receipt.resumed_from >= Some(acknowledged), "{outcome:?}");
            assert_eq!(outcome.receipt.counters.read, stream.documents);
            let rows = client.query("select id, (doc->>'value')::bigint from crashed", &[]).await.unwrap();
            let found: BTreeMap<String, i64> = rows.iter().map(|r| (r.get(0), r.get(1))).collect();
            assert!(found == stream.last);
        }
    }
}

#[tokio::test]
async fn a_load_that_waits_for_its_first_documents_can_be_stopped() {
    let db = database().await;
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (written, is_written) = tokio::sync::oneshot::channel();
    let writer = std::thread::spawn({
        let pipe = pipe.clone();
        move || {
            use std::io::Write;
            // It opens when the load reads it.
            let mut file = std::fs::File::options().write(true).open(pipe).unwrap();
            file.write_all(b"{\"id\":1}\n").unwrap();
            written.send(()).unwrap();
            file
        }
    });
    let (around, _) = surroundings(&db.url());
    let wanted = request("waiting", "id", &[pipe.display().to_string()]);
    let stop = around.stop.clone();
    let stopping = async {
        is_written.await.unwrap();
        stop.stop(StopReason::Interrupted);
    };
    let (outcome, ()) = tokio::join!(Box::pin(load(&wanted, &around)), stopping);
    assert!(matches!(outcome, Err(Error::Stopped(StopReason::Interrupted))), "{outcome:?}");
    drop(writer.join().unwrap());
}

#[tokio::test]
async fn a_role_without_temporary_tables_is_refused_first() {
    let db = database().await;
    let client = db.client().await;
    let name: String = client.query_one("select current_database()", &[]).await.unwrap().get(0);
    let role = format!("No-stage_{}", fastrand::u32(..));
    client
        .batch_execute(&format!(
            "create role \"{role}\" login password 'x'; revoke temporary on database {name} from public;
             grant create on database {name} to \"{role}\"; grant create on schema public to \"{role}\""
        ))
        .await
        .unwrap();
    let port = millstream_testkit::shared(db.build()).await.port();
    let url = format!("postgres://{role}:x@127.0.0.1:{port}/{name}");
    let files = Files::new();
    let wanted = request("unstaged", "id", &[files.write("a", "{\"id\":1}\n")]);
    let error = Box::pin(load(&wanted, &surroundings(&url).0)).await.expect_err("no right to stage");
    assert!(error.to_string().contains("temporary tables"), "{error}");
    let made: bool = client.query_one("select to_regclass('unstaged') is not null", &[]).await.unwrap().get(0);
    assert!(!made);
    client.batch_execute(&error.hint().unwrap()).await.unwrap();
    assert!(run(&url, &wanted).await.receipt.finished);
}

/// A table whose trigger refuses bad documents, and holds the document `last` while someone has lock 1.
const HOLDING: &str = "create table public.held (id text collate \"C\" primary key, doc jsonb not null);
     create function public.judge() returns trigger language plpgsql as
         $$begin
             if new.id = 'last' then perform pg_advisory_xact_lock_shared(1); end if;
             if new.doc ->> 'bad' = '1' then raise 'bad'; end if;
             if new.doc ->> 'bad' = '2' then raise sqlstate '53100'; end if;
             return new;
         end$$;
     create trigger judge before insert or update on public.held for each row execute function public.judge();
     select pg_advisory_lock(1)";

/// One batch for each document, all by one lane.
fn held(file: String) -> LoadRequest {
    let wanted = request("public.held", "id:text", &[file]);
    LoadRequest { adopt: true, lanes: Some(1), batch_rows: 1, chunk_bytes: 1, ..wanted }
}

/// Waits until the backend of a lane waits for this.
async fn lane_waits(client: &Client, wait_event: &str) {
    let sql = "select from pg_stat_activity where datname = current_database()
               and application_name like 'millstream lane%' and wait_event = $1";
    until(&format!("the backend of a lane waits for {wait_event}"), async || {
        !client.query(sql, &[&wait_event]).await.expect("the server answers").is_empty()
    })
    .await;
}

/// Ends the sessions of this name.
async fn terminate(client: &Client, name: &str) {
    let sql = "select pg_terminate_backend(pid) from pg_stat_activity
               where datname = current_database() and application_name like $1";
    assert!(!client.query(sql, &[&name]).await.expect("the server answers").is_empty(), "{name} is there");
}

#[tokio::test]
async fn refusals_of_a_batch_whose_answer_was_lost_are_counted() {
    for build in dealt_builds().await {
        let server = Server::start(build, Settings { durable: true, ..Settings::default() }).await;
        let url = server.url("postgres");
        let client = connect(&url).await;
        client.batch_execute(HOLDING).await.unwrap();
        let files = Files::new();
        // The first batch creates what writing row by row needs, so that the second one commits nothing but itself.
        let wanted = held(files.write("a", "{\"id\":\"first\",\"bad\":1}\n{\"id\":\"last\",\"bad\":1}\n"));
        let (around, events) = surroundings(&url);
        let losing = async {
            lane_waits(&client, "advisory").await;
            let probe = hold_commits(&client, &url).await;
            client.batch_execute("select pg_advisory_unlock(1)").await.unwrap();
            lane_waits(&client, "SyncRep").await;
            terminate(&client, "millstream lane%").await;
            client.batch_execute("alter system reset synchronous_standby_names").await.unwrap();
            client.batch_execute("select pg_reload_conf()").await.unwrap();
            probe.abort();
        };
        let (outcome, ()) = tokio::join!(Box::pin(load(&wanted, &around)), losing);
        let receipt = outcome.expect("the load begins").receipt;
        assert!(receipt.finished && receipt.retries == 1, "{receipt:?}");
        assert!(events.0.lock().unwrap().iter().any(|event| matches!(event, Event::Retry { .. })));
        assert_eq!((receipt.counters.read, receipt.counters.rejected), (2, 2), "{receipt:?}");
        assert_eq!(receipt.writers, [("replay".to_owned(), 2)].into(), "each batch has one writer");
        assert_eq!((around.tally.documents(), around.tally.rejects()), (2, 2));
    }
}

/// Makes every commit that is on disk wait for a standby that never comes. The returned task commits all the time.
async fn hold_commits(client: &Client, url: &str) -> tokio::task::JoinHandle<()> {
    client
        .batch_execute("create table public.probe (n int); insert into public.probe values (0)")
        .await
        .expect("the server answers");
    client.batch_execute("alter system set synchronous_standby_names = 'nobody'").await.expect("the server answers");
    client.batch_execute("select pg_reload_conf()").await.expect("the server answers");
    let committing = connect(&format!("{url}?application_name=probe")).await;
    let probe =
        tokio::spawn(
            async move { while committing.batch_execute("update public.probe set n = n + 1").await.is_ok() {} },
        );
    let sql = "select from pg_stat_activity where application_name = 'probe' and wait_event = 'SyncRep'";
    until("commits are held", async || !client.query(sql, &[]).await.expect("the server answers").is_empty()).await;
    probe
}

#[tokio::test]
async fn a_load_without_its_record_reports_the_first_error() {
    each_build(async |db| {
        let client = db.client().await;
        client.batch_execute(HOLDING).await.unwrap();
        for (document, kind) in [
            ("{\"id\":\"last\"}", ErrorKind::Fenced),
            ("{\"id\":\"last\",\"bad\":1}", ErrorKind::Fenced),
            ("{\"id\":\"last\",\"bad\":2}", ErrorKind::DiskFull),
        ] {
            let files = Files::new();
            let wanted = held(files.write("a", document));
            let forgetting = async {
                lane_waits(&client, "advisory").await;
                client.batch_execute("delete from millstream.load; select pg_advisory_unlock(1)").await.unwrap();
            };
            let (around, _) = surroundings(&db.url());
            let (ended, ()) = tokio::join!(Box::pin(load(&wanted, &around)), forgetting);
            let error = ended.expect_err("there is no receipt");
            assert_eq!(error.kind(), kind, "{document}: {error}");
            if kind == ErrorKind::Fenced {
                assert!(error.to_string().contains("its record was deleted"), "{error}");
            }
            client.batch_execute("select pg_advisory_lock(1)").await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn a_background_process_does_not_count_as_a_lane() {
    each_build(async |db| {
        let (client, mut forgetting) = (db.client().await, db.client().await);
        client.batch_execute(HOLDING).await.unwrap();
        let (files, schema) = (Files::new(), schema());
        let (around, _) = surroundings(&db.url());
        client.batch_execute("select pg_advisory_unlock(1)").await.unwrap();
        Box::pin(load(&held(files.write("a", "{\"id\":\"last\"}\n")), &around)).await.expect("it loads");
        let role = format!("{}_forgetting", db.name);
        // As after a restart: the checkpointer has the process id that a lane had, and an ordinary role cannot see when
        // it started.
        let restarted = format!(
            "create role {role}; grant usage on schema millstream to {role};
             grant all on all tables in schema millstream to {role};
             update millstream.load set state = 'running';
             update millstream.lane set backend_start = '2026-01-01Z',
                 backend_pid = (select pid from pg_stat_activity where backend_type = 'checkpointer')"
        );
        client.batch_execute(&restarted).await.unwrap();
        forgetting.batch_execute(&format!("set role {role}")).await.unwrap();
        // The server ends the load's sessions, and with them its lock, a little later.
        let ours = "select from pg_stat_activity
                    where datname = current_database() and application_name like 'millstream control%'";
        until("the load's session ends", async || client.query(ours, &[]).await.unwrap().is_empty()).await;
        let load = loads::list(&forgetting, &schema, 100).await.unwrap().remove(0);
        assert_eq!(load.state, "crashed");
        assert!(loads::forget(&mut forgetting, &schema, load.load_id).await.expect("nobody works for it"));
        client.batch_execute(&format!("drop owned by {role}; drop role {role}")).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_running_load_without_its_lock_cannot_be_forgotten() {
    each_build(async |db| {
        let (client, mut forgetting) = (db.client().await, db.client().await);
        client.batch_execute(HOLDING).await.unwrap();
        let (files, schema) = (Files::new(), schema());
        let wanted = held(files.write("a", "{\"id\":\"last\"}\n"));
        let (around, _) = surroundings(&db.url());
        let refused = async {
            lane_waits(&client, "advisory").await;
            for locked in [true, false] {
                if !locked {
                    terminate(&client, "millstream control").await;
                }
                let load = loads::list(&client, &schema, 100).await.unwrap().remove(0);
                assert_eq!(load.state, "running", "its lock is there: {locked}");
                let error = loads::forget(&mut forgetting, &schema, load.load_id).await.expect_err("it runs");
                assert!(matches!(error, StoreError::LoadRunning { backend: Some(_), .. }), "{error:?}");
                assert!(error.to_string().contains("of the server works for it"), "{error}");
            }
            client.batch_execute("select pg_advisory_unlock(1)").await.unwrap();
        };
        let (outcome, ()) = tokio::join!(Box::pin(load(&wanted, &around)), refused);
        let receipt = outcome.expect("the load begins").receipt;
        assert!(receipt.finished && receipt.counters.inserted == 1, "{receipt:?}");
        // The server may need a moment to notice that the load's sessions have ended.
        let poll = Poll::new(Duration::from_millis(10), Duration::from_secs(60));
        let forgotten = loop {
            match loads::forget(&mut forgetting, &schema, receipt.load_id).await {
                Err(StoreError::LoadRunning { .. }) if poll.again().await => {}
                forgotten => break forgotten,
            }
        };
        assert!(forgotten.expect("it is over"));
    })
    .await;
}
