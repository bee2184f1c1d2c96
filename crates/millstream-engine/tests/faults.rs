//! Loads that meet servers and networks which break.

use crate::scene::{Files, Stream, request, stored, surroundings};
use millstream_engine::{Error, Event, StopReason, load};
use millstream_testkit::{Cases, Proxy, Server, Settings, StopMode, builds, database};
use std::collections::BTreeMap;
use std::time::Duration;

#[tokio::test]
async fn cut_connections_lose_and_double_nothing() {
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
            while around.tally.documents() == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            for _ in 0..5 {
                tokio::time::sleep(Duration::from_millis(rng.u64(50..400))).await;
                // Held answers make the cut fall between a COMMIT and its answer.
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
async fn a_restart_of_the_server_in_mid_load_ends_in_the_right_table() {
    for build in builds().await {
        for mode in [StopMode::Fast, StopMode::Immediate, StopMode::Kill] {
            let server = Server::start(build, Settings { durable: true, ..Settings::default() }).await;
            let url = server.url("postgres");
            let files = Files::new();
            let mut rng = fastrand::Rng::with_seed(5);
            let stream = Stream::random(&mut rng, 150_000, 90_000);
            let mut wanted = request("restarted", "id", &[files.write("a", &stream.text)]);
            wanted.batch_rows = 1_000;
            let (around, told) = surroundings(&url);
            let restarting = async {
                while around.tally.documents() < 20_000 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                server.restart(mode).await;
            };
            let (outcome, ()) = tokio::join!(load(&wanted, &around), restarting);
            let outcome = outcome.expect("the load begins");
            assert!(outcome.stopped.is_none(), "{mode:?}: {outcome:?}");
            assert!(told.0.lock().unwrap().iter().any(|e| matches!(e, Event::Retry { .. })), "the restart was noticed");
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
async fn nothing_acknowledged_is_missing_after_a_crash_and_the_next_run_goes_on() {
    for build in builds().await {
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
            while around.tally.documents() < 20_000 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
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
    let writer = std::thread::spawn({
        let pipe = pipe.clone();
        move || {
            use std::io::Write;
            let mut file = std::fs::File::options().write(true).open(pipe).unwrap();
            file.write_all(b"{\"id\":1}\n").unwrap();
            file
        }
    });
    let (around, _) = surroundings(&db.url());
    let wanted = request("waiting", "id", &[pipe.display().to_string()]);
    let stop = around.stop.clone();
    let stopping = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        stop.stop(StopReason::Interrupted);
    };
    let (outcome, ()) = tokio::join!(Box::pin(load(&wanted, &around)), stopping);
    assert!(matches!(outcome, Err(Error::Stopped(StopReason::Interrupted))), "{outcome:?}");
    drop(writer.join().unwrap());
}

#[tokio::test]
async fn a_role_that_may_not_stage_is_told_before_anything_is_made() {
    let db = database().await;
    let client = db.client().await;
    let name: String = client.query_one("select current_database()", &[]).await.unwrap().get(0);
    let role = format!("nostage_{}", fastrand::u32(..));
    client
        .batch_execute(&format!(
            "create role {role} login password 'x'; revoke temporary on database {name} from public;
             grant create on database {name} to {role}; grant create on schema public to {role}"
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
}
