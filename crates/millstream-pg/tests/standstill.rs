//! What sessions wait for, as their command sees it; how it cancels them, and that none outlives it.

use crate::{connected, nowhere};
use millstream_pg::standstill::{Holder, Patience, attend, look};
use millstream_pg::{ConnInfo, Connection, SessionSettings, Standstill};
use millstream_testkit as testkit;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// A statement that ends only when it is cancelled or its session ends.
const FOR_EVER: &str = "select pg_catalog.pg_sleep(1e6)";

/// Longest time until a reason is given for a standstill.
const REASON_TIME_MAX: Duration = Duration::from_secs(120);

async fn session(info: &ConnInfo) -> Connection {
    millstream_pg::connect(info, &SessionSettings::named("millstream test")).await.expect("connects")
}

/// The first reason that is given for a standstill of `work`, which is then dropped.
async fn reason(info: &ConnInfo, work: impl Future<Output = ()>) -> Standstill {
    let (said, mut heard) = mpsc::unbounded_channel();
    let patience = Patience { after: Duration::from_millis(20), statement: Duration::ZERO };
    let say = |_: u64, standstill: Standstill| said.send(standstill).expect("it is heard");
    tokio::select! {
        () = attend(info, patience, || 0, say, work) => panic!("it must not end"),
        reason = timeout(REASON_TIME_MAX, heard.recv()) => reason.expect("it says why").expect("a reason"),
    }
}

#[tokio::test]
async fn a_session_behind_a_lock_names_the_holder() {
    testkit::every_build(async |database| {
        let role = format!("waiter_{}", fastrand::u32(..));
        let holder = connected(&format!("{}?application_name=etl", database.url())).await;
        let pid = holder.server.backend_pid;
        let sql =
            format!("create role {role} login password 'x'; create table held (id int); grant all on held to {role}");
        holder.client.batch_execute(&sql).await.expect("created");
        holder.client.batch_execute("begin; lock table held").await.expect("locked");
        let stranger = format!("postgres://{role}:x@127.0.0.1:{}/{}", database.server.port(), database.name);
        for (url, state) in [(database.url(), Some("idle in transaction")), (stranger, None)] {
            let info = ConnInfo::parse(&url, &nowhere()).expect("a URL");
            let waiter = session(&info).await;
            let work = async { waiter.client.batch_execute("select from held").await.expect("it waits") };
            let reason = reason(&info, work).await;
            let Standstill::Lock { name, lock, holder: Some(holder), .. } = &reason else { panic!("{reason:?}") };
            assert_eq!((name.as_str(), lock.as_str()), ("millstream test", "a lock on held"));
            let Holder { pid: found, name, own, state: shown, behind, .. } = holder;
            assert_eq!((*found, name.as_deref(), *own, *behind), (pid, Some("etl (millstream test)"), false, None));
            // The role of the second session may not see the state of others.
            assert_eq!(shown.as_deref(), state, "{reason}");
            assert!(reason.to_string().contains(&format!("session {pid} holds it")), "{reason}");
        }
    })
    .await;
}

#[tokio::test]
async fn the_servers_own_work_is_named_and_can_be_cancelled() {
    testkit::every_build(async |database| {
        let info = ConnInfo::parse(&database.url(), &nowhere()).expect("a URL");
        let worker = session(&info).await;
        worker.works_on(1_000);
        let pid = worker.server.backend_pid;
        let work = async { worker.client.batch_execute(FOR_EVER).await.expect("it never ends") };
        let reason = reason(&info, work).await;
        let Standstill::Work { name, rows: 1_000, waits, .. } = &reason else { panic!("{reason:?}") };
        assert_eq!((name.as_str(), waits.as_deref()), ("millstream test", Some("Timeout PgSleep")));
        // The statement that was dropped still runs.
        assert!(info.roster.sessions().contains(&(pid, 1_000)));
        info.roster.cancel().await;
        worker.client.batch_execute("select 1").await.expect("the session is free again");
        worker.close().await;
        assert!(info.roster.sessions().is_empty(), "{:?}", info.roster);
    })
    .await;
}

#[tokio::test]
async fn a_session_that_waits_for_us_does_not_stand_still() {
    testkit::every_build(async |database| {
        let info = ConnInfo::parse(&database.url(), &nowhere()).expect("a URL");
        let idle = session(&info).await;
        idle.client.batch_execute("begin").await.expect("begun");
        let copying = session(&info).await;
        copying.client.batch_execute("create temp table t (id int)").await.expect("created");
        let stream: tokio_postgres::CopyInSink<bytes::Bytes> =
            copying.client.copy_in("copy t from stdin").await.expect("it takes rows");
        assert_eq!(look(&info, Duration::ZERO).await, None);
        let waiting = info.roster.waits_for("others");
        let others = look(&info, Duration::ZERO).await;
        assert!(matches!(others, Some(Standstill::Others { what: "others", .. })), "{others:?}");
        drop(waiting);
        assert_eq!(look(&info, Duration::ZERO).await, None);
        drop(stream);
    })
    .await;
}

#[tokio::test]
async fn no_session_outlives_its_client() {
    testkit::every_build(async |database| {
        let left = connected(&database.url()).await;
        let pid = left.server.backend_pid;
        let client = database.client().await;
        let at_work = "select count(*) from pg_stat_activity where pid = $1 and wait_event = 'PgSleep'";
        tokio::select! {
            ended = left.client.batch_execute(FOR_EVER) => panic!("{ended:?}"),
            () = until(&client, at_work, pid, 1) => {}
        }
        // As if the client were killed: nothing is cancelled.
        drop(left);
        until(&client, "select count(*) from pg_stat_activity where pid = $1", pid, 0).await;
    })
    .await;
}

async fn until(client: &tokio_postgres::Client, sql: &str, pid: i32, count: i64) {
    testkit::until(&format!("{count} sessions of pid {pid} are found by: {sql}"), async || {
        client.query_one(sql, &[&pid]).await.expect("it can be asked").get::<_, i64>(0) == count
    })
    .await;
}
