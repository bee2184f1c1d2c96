//! Loads that stand still say why, and a stop ends them.

use crate::scene::{Events, Files, Stream, appending, request, stored, surroundings, until_committed, until_event};
use millstream_engine::{Error, Event, LoadRequest, Outcome, StopReason, Surroundings, load};
use millstream_pg::Standstill;
use millstream_pg::limits::LOCK_TIMEOUT_S;
use millstream_testkit::{TestDatabase, each_build, is_night, until};
use std::time::Duration;
use tokio_postgres::Client;

/// Documents of a load: many batches for each lane.
const DOCUMENTS: usize = 40_000;

/// A load of many batches that says at once why it stands still.
fn impatient(mut wanted: LoadRequest) -> LoadRequest {
    (wanted.lanes, wanted.batch_rows, wanted.chunk_bytes) = (Some(2), 500, 16 << 10);
    wanted.standstill_after = Duration::from_millis(50);
    wanted
}

/// Locks a table in an open transaction, and waits until the load says that it waits for that session.
async fn hold(holder: &Client, table: &str, events: &Events) {
    holder.batch_execute(&format!("begin; lock table {table}")).await.expect("locked");
    held(holder, events).await;
}

async fn held(holder: &Client, events: &Events) {
    let pid: i32 = holder.query_one("select pg_backend_pid()", &[]).await.expect("a session").get(0);
    let names_it = |event: &Event| matches!(event, Event::Standstill { reason: Standstill::Lock { holder: Some(h), .. }, .. } if h.pid == pid);
    until_event(events, &format!("the load names session {pid}, which holds the lock"), names_it).await;
}

async fn run_in(around: &Surroundings, wanted: &LoadRequest) -> Outcome {
    Box::pin(load(wanted, around)).await.expect("the load begins")
}

/// No session of a load is left that waits for a lock. A client in a transaction would see only what it saw at first.
async fn nobody_waits(client: &Client) {
    let waiting = "select count(*) from pg_stat_activity
        where datname = current_database() and application_name like '%millstream lane%' and wait_event_type = 'Lock'";
    until("no session of a load waits for a lock", async || {
        client.query_one(waiting, &[]).await.expect("counted").get::<_, i64>(0) == 0
    })
    .await;
}

#[tokio::test]
async fn a_load_behind_a_lock_names_the_session_that_holds_it() {
    each_build(async |db| {
        let stream = Stream::random(&mut fastrand::Rng::with_seed(61), DOCUMENTS, DOCUMENTS / 2);
        let files = Files::new();
        let wanted = impatient(request("behind", "id", &[files.write("a", &stream.text)]));
        let (around, events) = surroundings(&db.url());
        let holder = db.client().await;
        let holding = async {
            until_committed(&around.tally, 1).await;
            hold(&holder, "behind", &events).await;
            holder.batch_execute("commit").await.expect("released");
        };
        let (outcome, ()) = tokio::join!(run_in(&around, &wanted), holding);
        assert!(outcome.stopped.is_none(), "{outcome:?}");
        assert!(stored(&db, "behind").await == stream.last);
    })
    .await;
}

/// Stops a load whose lanes wait for a lock on `locked`. It must end although nobody releases the lock, and resume.
async fn stopped_behind(db: &TestDatabase, wanted: &LoadRequest, locked: &str, hurries: bool) {
    let (around, events) = surroundings(&db.url());
    let holder = db.client().await;
    let stopping = async {
        until_committed(&around.tally, 1).await;
        hold(&holder, locked, &events).await;
        around.stop.stop(StopReason::Terminated);
        if hurries {
            around.stop.hurry();
        }
    };
    let (outcome, ()) = tokio::join!(run_in(&around, wanted), stopping);
    assert_eq!((outcome.stopped, outcome.error.is_none()), (Some(StopReason::Terminated), true));
    let receipt = outcome.receipt;
    assert!(!receipt.finished && receipt.counters.read > 0, "{receipt:?}");
    assert_eq!(receipt.counters.read, receipt.counters.accounted());
    assert!(!receipt.writers.is_empty(), "what the lanes did before is reported: {receipt:?}");
    nobody_waits(&db.client().await).await;
    holder.batch_execute("rollback").await.expect("released");
    let again = run_in(&surroundings(&db.url()).0, wanted).await;
    assert_eq!(again.receipt.resumed_from, Some(receipt.counters.read));
    assert!(again.receipt.finished, "{again:?}");
}

#[tokio::test]
async fn a_stop_ends_a_load_that_stands_still_and_the_load_resumes() {
    each_build(async |db| {
        let stream = Stream::random(&mut fastrand::Rng::with_seed(62), DOCUMENTS, DOCUMENTS / 2);
        let files = Files::new();
        let source = [files.write("a", &stream.text)];
        let mut wanted = impatient(request("stopped", "id", &source));
        wanted.stop_wait = Duration::from_millis(20);
        stopped_behind(&db, &wanted, "stopped", false).await;
        assert!(stored(&db, "stopped").await == stream.last);
        let wanted = impatient(request("hurried", "id", &source));
        stopped_behind(&db, &wanted, "hurried", true).await;
        assert!(stored(&db, "hurried").await == stream.last);
        let wanted = impatient(appending("logged", &source, 2_000));
        stopped_behind(&db, &wanted, "millstream.segment", true).await;
        assert_eq!(crate::scene::compacted(&db, "logged", 1).await.expect("compacted").documents, stream.documents);
        assert!(stored(&db, "logged").await == stream.last);
    })
    .await;
}

#[tokio::test]
async fn too_many_rejects_end_a_load_that_stands_still() {
    each_build(async |db| {
        let stream = Stream::random(&mut fastrand::Rng::with_seed(63), 100, 100);
        let (first, rest) = stream.text.split_at(stream.text.find('\n').expect("lines") + 1);
        let rest = format!("{rest}{}", "no JSON\n".repeat(5_000));
        let files = Files::new();
        let (pipe, more) = files.pipe("first");
        let mut wanted = impatient(request("bad", "id:text", &[pipe]));
        (wanted.rejects_max, wanted.stop_wait, wanted.source_name) = (10, Duration::from_millis(20), Some("s".into()));
        let (around, _) = surroundings(&db.url());
        let holder = db.client().await;
        let holding = async {
            more.send(first.to_owned()).expect("it reads");
            until_committed(&around.tally, 1).await;
            holder.batch_execute("begin; lock table bad in share mode").await.expect("locked");
            more.send(rest.clone()).expect("it reads");
        };
        let (outcome, ()) = tokio::join!(run_in(&around, &wanted), holding);
        assert_eq!((&outcome.stopped, outcome.error.is_none()), (&Some(StopReason::Rejects), true), "{outcome:?}");
        assert_eq!(outcome.receipt.counters.read, 1, "{:?}", outcome.receipt);
        nobody_waits(&db.client().await).await;
        holder.batch_execute("rollback").await.expect("released");
        let (pipe, more) = files.pipe("second");
        (wanted.sources, wanted.rejects_max) = (vec![pipe], 10_000);
        more.send(format!("{first}{rest}")).expect("it reads");
        drop(more);
        let again = run_in(&surroundings(&db.url()).0, &wanted).await;
        assert!(again.receipt.finished && again.receipt.counters.rejected == 5_000, "{again:?}");
        assert!(stored(&db, "bad").await == stream.last);
    })
    .await;
}

#[tokio::test]
async fn a_stop_ends_a_load_that_cannot_begin() {
    each_build(async |db| {
        let files = Files::new();
        let mut wanted = impatient(request("begun", "id:text", &[files.write("a", "{\"id\":\"a\"}\n")]));
        run_in(&surroundings(&db.url()).0, &wanted).await;
        wanted.stop_wait = Duration::from_millis(20);
        let (around, events) = surroundings(&db.url());
        let holder = db.client().await;
        holder.batch_execute("begin; lock table begun").await.expect("locked");
        let stopping = async {
            held(&holder, &events).await;
            around.stop.stop(StopReason::Interrupted);
        };
        let (ended, ()) = tokio::join!(Box::pin(load(&wanted, &around)), stopping);
        let error = ended.expect_err("it did not begin");
        assert!(matches!(error, Error::Stopped(StopReason::Interrupted)), "{error:?}");
    })
    .await;
}

/// A session that waits for a lock gives up after a minute, so that a lane tries its batch again. A load that begins has
/// nothing to try again.
#[tokio::test]
async fn a_load_that_begins_behind_a_lock_waits_as_long_as_it_is_held() {
    if !is_night() {
        return;
    }
    each_build(async |db| {
        let files = Files::new();
        let wanted = impatient(request("begun", "id:text", &[files.write("a", "{\"id\":\"a\"}\n")]));
        run_in(&surroundings(&db.url()).0, &wanted).await;
        let sources = vec![files.write("b", "{\"id\":\"b\"}\n")];
        let wanted = LoadRequest { sources, standstill_after: Duration::from_secs(1), ..wanted };
        let (around, events) = surroundings(&db.url());
        let holder = db.client().await;
        holder.batch_execute("begin; lock table begun").await.expect("locked");
        let releasing = async {
            let longer =
                |event: &Event| matches!(event, Event::Standstill { seconds, .. } if *seconds > LOCK_TIMEOUT_S);
            until_event(&events, "the load has waited for more than a minute", longer).await;
            holder.batch_execute("commit").await.expect("released");
        };
        let (outcome, ()) = tokio::join!(run_in(&around, &wanted), releasing);
        assert!(outcome.receipt.finished, "{outcome:?}");
    })
    .await;
}
