//! The kinds of the server's errors, and what their messages never reveal.

use millstream_pg::{Error, ErrorKind, Explained};
use millstream_testkit as testkit;

use crate::{connected, refused};

async fn failure(connection: &millstream_pg::Connection, sql: &str) -> Error {
    match connection.client.batch_execute(sql).await {
        Ok(()) => panic!("{sql} did not fail"),
        Err(error) => Error::from(error),
    }
}

#[tokio::test]
async fn server_errors_have_a_kind_and_hide_row_values() {
    let database = testkit::database().await;
    let connection = connected(&database.url()).await;
    connection.client.batch_execute(include_str!("errors.sql")).await.expect("prepared");
    for (sql, kind) in [
        ("insert into t values ('secret', 1), ('secret', 1)", ErrorKind::DataRefused),
        ("insert into t values ('secret', -1)", ErrorKind::DataRefused),
        ("insert into t values (null, 1)", ErrorKind::DataRefused),
        ("insert into t values (repeat('secret', 1000000), 1)", ErrorKind::DataRefused),
        ("insert into guarded values ('secret')", ErrorKind::DataRefused),
        ("insert into odd values ('secret')", ErrorKind::DataRefused),
        ("set role reader; insert into t values ('secret', 1)", ErrorKind::Rights),
        ("set role reader; insert into secured values ('other', 'secret')", ErrorKind::DataRefused),
        ("reset role; select * from nowhere", ErrorKind::NotFound),
        ("create table t ()", ErrorKind::Exists),
        ("selec 1", ErrorKind::Config),
        ("begin read only; create table x ()", ErrorKind::ReadOnly),
        ("rollback; set statement_timeout = 1; select pg_sleep(60)", ErrorKind::Cancelled),
    ] {
        let error = failure(&connection, sql).await;
        assert_eq!(error.kind(), kind, "{sql}: {error}");
        let everything = format!("{error} {error:?} {:?}", error.hint());
        assert!(!everything.contains("secret"), "{sql}: {everything}");
        assert!(error.sqlstate().is_some_and(|code| code.len() == 5), "{sql}");
    }
}

#[tokio::test]
async fn a_lock_timeout_may_be_retried() {
    let database = testkit::database().await;
    let (holder, waiter) = (connected(&database.url()).await, connected(&database.url()).await);
    holder.client.batch_execute("create table t ()").await.expect("made");
    holder.client.batch_execute("begin; lock table t").await.expect("locked");
    let error = failure(&waiter, "set lock_timeout = 1; select * from t").await;
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Busy, Some("55P03")));
    assert!(millstream_pg::may_pass(error.kind()));
}

#[tokio::test]
async fn deadlocks_and_serialization_failures_are_distinguished() {
    let database = testkit::database().await;
    let (a, b) = (connected(&database.url()).await, connected(&database.url()).await);
    for one in [&a, &b] {
        one.client.batch_execute("set deadlock_timeout = '10ms'").await.expect("set");
    }
    a.client.batch_execute("create table t (k int, v int); insert into t values (1, 0), (2, 0)").await.expect("made");
    a.client.batch_execute("begin; update t set v = 1 where k = 1").await.expect("first lock");
    b.client.batch_execute("begin; update t set v = 2 where k = 2").await.expect("second lock");
    let (one, other) = tokio::join!(
        a.client.batch_execute("update t set v = 1 where k = 2; commit"),
        b.client.batch_execute("update t set v = 2 where k = 1; commit"),
    );
    let victim = one.err().or(other.err()).expect("one of them is the victim");
    assert_eq!(Error::from(victim).kind(), ErrorKind::Deadlock);

    for one in [&a, &b] {
        one.client
            .batch_execute("rollback; begin isolation level repeatable read; select from t")
            .await
            .expect("begun");
    }
    a.client.batch_execute("update t set v = v + 1; commit").await.expect("first");
    let error = failure(&b, "update t set v = v + 1").await;
    assert_eq!(error.kind(), ErrorKind::Serialization);
}

#[tokio::test]
async fn a_lost_connection_stays_transient() {
    let database = testkit::database().await;
    let proxy = testkit::Proxy::start(format!("127.0.0.1:{}", database.server.port())).await;
    let through = database.server.url_at(&proxy.address.to_string(), &database.name);
    let connection = connected(&through).await;
    proxy.cut();
    for _ in 0..2 {
        assert_eq!(failure(&connection, "select 1").await.kind(), ErrorKind::Transient);
    }
    drop(proxy);
    assert_eq!(refused(&through).await.kind(), ErrorKind::Unreachable);

    let (victim, killer) = (connected(&database.url()).await, connected(&database.url()).await);
    let kill = format!("select pg_terminate_backend({})", victim.server.backend_pid);
    let (error, killed) = tokio::join!(failure(&victim, "select pg_sleep(60)"), killer.client.batch_execute(&kill));
    killed.expect("a superuser may");
    assert_eq!(error.kind(), ErrorKind::Transient, "{error}");
    assert_eq!(failure(&victim, "select 1").await.kind(), ErrorKind::Transient);
}

#[tokio::test]
async fn a_stopping_server_is_transient_and_a_restarted_one_is_reached() {
    let build = testkit::default_build().await;
    let server = testkit::Server::start(build, testkit::Settings::default()).await;
    for mode in [testkit::StopMode::Fast, testkit::StopMode::Immediate, testkit::StopMode::Kill] {
        let connection = connected(&server.url("postgres")).await;
        let (error, ()) = tokio::join!(failure(&connection, "select pg_sleep(60)"), server.stop(mode));
        assert_eq!(error.kind(), ErrorKind::Transient, "{mode:?}: {error}");
        assert_eq!(refused(&server.url("postgres")).await.kind(), ErrorKind::Unreachable);
        server.start_again().await;
        connected(&server.url("postgres")).await;
    }
}

#[tokio::test]
async fn our_own_mistakes_are_bugs() {
    let database = testkit::database().await;
    let connection = connected(&database.url()).await;
    let row = connection.client.query_one("select 1::int4", &[]).await.expect("a row");
    let error = Error::from(row.try_get::<_, String>(0).expect_err("an int is not text"));
    assert_eq!(error.kind(), ErrorKind::Bug);
    let error = Error::from(connection.client.query("select $1::int4", &[&"x"]).await.expect_err("no int"));
    assert_eq!(error.kind(), ErrorKind::Bug);
    for sql in ["select '\0'", "copy (select 1) to stdout"] {
        assert_eq!(failure(&connection, sql).await.kind(), ErrorKind::Bug, "{sql}");
    }
}
