//! The kit's own tests against real servers.

use millstream_testkit::{Certificates, Feature, Proxy, Server, Settings, StopMode};
use std::time::Duration;

#[tokio::test]
async fn every_build_gives_a_fresh_database() {
    millstream_testkit::each_build(async |database| {
        let client = database.client().await;
        let row =
            client.query_one("select current_database(), current_setting('server_version_num')", &[]).await.unwrap();
        assert_eq!(row.get::<_, String>(0), database.name);
        let version: u32 = row.get::<_, String>(1).parse().unwrap();
        assert_eq!(version / 10_000, database.build().major());
        let other = millstream_testkit::database_on(database.build()).await;
        assert_ne!(other.name, database.name);
    })
    .await;
}

#[tokio::test]
async fn a_private_server_stops_starts_and_survives_a_kill() {
    let build = millstream_testkit::default_build().await;
    let settings = Settings { durable: true, ..Settings::with(&["work_mem = '7MB'"]) };
    let server = Server::start(build, settings).await;
    let url = server.url("postgres");
    let client = millstream_testkit::connect(&url).await;
    let row = client.query_one("show work_mem", &[]).await.unwrap();
    assert_eq!(row.get::<_, String>(0), "7MB");
    client.batch_execute("create table t as select 1 a").await.unwrap();

    server.restart(StopMode::Fast).await;
    assert!(client.query_one("select 1", &[]).await.is_err());

    let _busy = millstream_testkit::connect(&url).await;
    server.restart(StopMode::Kill).await;
    let client = millstream_testkit::connect(&url).await;
    let row = client.query_one("select a from t", &[]).await.unwrap();
    assert_eq!(row.get::<_, i32>(0), 1);
}

#[tokio::test]
async fn a_server_offers_tls_with_the_certificates_it_was_given() {
    let Some(build) = millstream_testkit::build_with(&[Feature::Tls]).await else {
        return;
    };
    let settings = Settings {
        certificates: Some(Certificates::new(&["localhost", "127.0.0.1"], "millstream")),
        hba: vec!["hostnossl all all all reject".to_owned()],
        ..Settings::default()
    };
    let server = Server::start(build, settings).await;
    let client = millstream_testkit::connect(&server.socket_url("postgres")).await;
    let row = client.query_one("show ssl", &[]).await.unwrap();
    assert_eq!(row.get::<_, String>(0), "on");
    let plain = tokio_postgres::connect(&server.url("postgres"), tokio_postgres::NoTls).await;
    assert!(plain.is_err(), "the line of pg_hba.conf refuses it");
}

#[tokio::test]
async fn a_proxy_loses_the_answer_to_a_commit() {
    let database = millstream_testkit::database().await;
    let direct = database.client().await;
    direct.batch_execute("create table t (a int)").await.unwrap();
    let proxy = Proxy::start(format!("127.0.0.1:{}", database.server.port())).await;
    let url = database.server.url_at(&proxy.address.to_string(), &database.name);
    let client = millstream_testkit::connect(&url).await;
    client.batch_execute("begin; insert into t values (1)").await.unwrap();
    assert_eq!(proxy.connections(), 1);

    proxy.set(|traffic| traffic.answers_held = true);
    let commit = tokio::spawn(async move { client.batch_execute("commit").await });
    let committed = "select count(*) = 1 from t";
    millstream_testkit::until("the row is committed", async || direct.query_one(committed, &[]).await.unwrap().get(0))
        .await;
    proxy.cut();
    let error = commit.await.unwrap().unwrap_err();
    assert!(error.code().is_none(), "the connection is lost: {error}");

    proxy.set(|traffic| traffic.closed = true);
    assert!(tokio_postgres::connect(&url, tokio_postgres::NoTls).await.is_err());
}

#[tokio::test]
async fn a_proxy_counts_round_trips() {
    let database = millstream_testkit::database().await;
    let proxy = Proxy::start(format!("127.0.0.1:{}", database.server.port())).await;
    let client = millstream_testkit::connect(&database.server.url_at(&proxy.address.to_string(), &database.name)).await;
    proxy.set(|traffic| traffic.delay = Duration::from_millis(5));
    let before = proxy.turns();
    for _ in 0..3 {
        client.batch_execute("select 1").await.unwrap();
    }
    assert_eq!(proxy.turns() - before, 3);
    let query = || client.batch_execute("select 1");
    tokio::try_join!(biased; query(), query(), query()).unwrap();
    assert_eq!(proxy.turns() - before, 4, "what is sent without waiting is one turn");
}

#[tokio::test]
async fn a_dropped_server_leaves_nothing_behind() {
    let build = millstream_testkit::default_build().await;
    let server = Server::start(build, Settings::default()).await;
    let (data, url) = (server.data(), server.url("postgres"));
    drop(server);
    assert!(!data.exists());
    assert!(tokio_postgres::connect(&url, tokio_postgres::NoTls).await.is_err());
}
