//! A real PgBouncer between us and the server: transaction pooling is refused, session pooling is not.

use millstream_pg::{ConnInfo, ErrorKind, Explained, SessionSettings, connect_several, ensure_session_pooling};
use millstream_testkit as testkit;
use millstream_testkit::Pooler;

use crate::{connected, nowhere, one};

/// Opens four sessions at once. How many there are, after a check of their names, and why there are no more.
async fn several(url: &str) -> (usize, String) {
    let info = ConnInfo::parse(url, &nowhere()).expect("a connection string");
    let sessions: Vec<_> = (0..4).map(|n| SessionSettings::named(&format!("session {n}"))).collect();
    let found = connect_several(&info, &sessions).await.unwrap_or_else(|error| panic!("{url}: {error}"));
    for (n, connection) in found.open.iter().enumerate() {
        assert_eq!(one(connection, "show application_name").await, format!("session {n}"), "{url}");
    }
    (found.open.len(), found.lacking.unwrap_or_default())
}

#[tokio::test]
async fn as_many_sessions_are_opened_as_there_are() {
    if !testkit::machine_has(&[testkit::Need::PGBOUNCER]) {
        return;
    }
    let database = testkit::database().await;
    assert_eq!(several(&database.url()).await, (4, String::new()));
    for (settings, open, reason) in [
        ("default_pool_size = 9", 4, ""),
        ("default_pool_size = 2", 2, "no answer in"),
        ("default_pool_size = 3\nquery_wait_timeout = 1", 3, "query_wait_timeout"),
        ("max_client_conn = 2", 2, "no more connections allowed"),
    ] {
        let pooler = Pooler::start(database.server, &format!("pool_mode = session\n{settings}")).await;
        let (found, lacking) = several(&pooler.url("postgres")).await;
        // The pooler may not have noticed yet that a session has ended.
        let few = open < 4 && (1..open).contains(&found);
        assert!((found == open || few) && lacking.contains(reason), "{settings}: {found} {lacking}");
    }
    let role = format!("limited_{}", fastrand::u32(..));
    let limited = format!("create role {role} login password 'x' connection limit 2");
    database.client().await.batch_execute(&limited).await.expect("a role");
    let url = format!("postgres://{role}:x@127.0.0.1:{}/{}", database.server.port(), database.name);
    let (found, lacking) = several(&url).await;
    assert!((1..=2).contains(&found) && lacking.contains("too many connections"), "{found} {lacking}");
}

#[tokio::test]
async fn a_pool_without_a_free_connection_has_too_many() {
    if !testkit::machine_has(&[testkit::Need::PGBOUNCER]) {
        return;
    }
    let database = testkit::database().await;
    let settings = "pool_mode = session\ndefault_pool_size = 1\nquery_wait_timeout = 1";
    let pooler = Pooler::start(database.server, settings).await;
    let first = connected(&pooler.url("postgres")).await;
    let error = crate::refused(&pooler.url("postgres")).await;
    assert_eq!(error.kind(), ErrorKind::TooManyConnections, "{error}");
    assert_eq!(one(&first, "select 1").await, "1");
}

#[tokio::test]
async fn a_transaction_pooler_is_refused_however_it_chooses_backends() {
    if !testkit::machine_has(&[testkit::Need::PGBOUNCER]) {
        return;
    }
    let database = testkit::database().await;
    for settings in [
        "pool_mode = transaction",
        "pool_mode = transaction\nserver_round_robin = 1",
        "pool_mode = transaction\ndefault_pool_size = 1",
        "pool_mode = transaction\nmin_pool_size = 5",
        "pool_mode = statement",
    ] {
        let pooler = Pooler::start(database.server, settings).await;
        let (first, second) = (connected(&pooler.url("postgres")).await, connected(&pooler.url("postgres")).await);
        let error = ensure_session_pooling(&first, &second).await.expect_err(settings);
        assert_eq!(error.kind(), ErrorKind::Config, "{settings}: {error}");
        assert!(error.to_string().contains("another backend"), "{settings}: {error}");
        assert!(error.hint().expect("a way out").contains("pool_mode=session"));
    }
}

#[tokio::test]
async fn a_session_pooler_and_no_pooler_pass() {
    if !testkit::machine_has(&[testkit::Need::PGBOUNCER]) {
        return;
    }
    let database = testkit::database().await;
    let pooler = Pooler::start(database.server, "pool_mode = session").await;
    for url in [pooler.url("postgres"), database.url()] {
        let (first, second) = (connected(&url).await, connected(&url).await);
        ensure_session_pooling(&first, &second).await.unwrap_or_else(|error| panic!("{url}: {error}"));
        for one in [&first, &second] {
            let idle = "create temporary table proof (); drop table proof";
            one.client.batch_execute(idle).await.expect("no transaction is left open");
        }
    }
}

#[tokio::test]
async fn a_pooler_that_refuses_options_is_named() {
    if !testkit::machine_has(&[testkit::Need::PGBOUNCER]) {
        return;
    }
    let database = testkit::database().await;
    let pooler = Pooler::start(database.server, "pool_mode = session").await;
    let error = crate::refused(&format!("{}?options=-c%20geqo%3Doff", pooler.url("postgres"))).await;
    assert!(error.hint().expect("a way out").contains("ignore_startup_parameters"), "{error}");
}
