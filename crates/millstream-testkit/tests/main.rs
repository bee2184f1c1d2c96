//! The kit's own tests against real servers.

use millstream_testkit::{Settings, StopMode};

#[tokio::test]
async fn every_build_gives_a_fresh_database() {
    millstream_testkit::each_build(async |database| {
        let client = database.client().await;
        let row = client
            .query_one(
                "select current_database(), current_setting('server_version_num')",
                &[],
            )
            .await
            .unwrap();
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
    let settings = Settings {
        durable: true,
        conf: vec!["work_mem = '7MB'".to_owned()],
    };
    let server = millstream_testkit::Server::start(build, settings).await;
    let url = server.url("postgres");
    let client = millstream_testkit::connect(&url).await;
    let row = client.query_one("show work_mem", &[]).await.unwrap();
    assert_eq!(row.get::<_, String>(0), "7MB");
    client
        .batch_execute("create table t as select 1 a")
        .await
        .unwrap();

    server.restart(StopMode::Fast).await;
    assert!(client.query_one("select 1", &[]).await.is_err());

    let _busy = millstream_testkit::connect(&url).await;
    server.restart(StopMode::Kill).await;
    let client = millstream_testkit::connect(&url).await;
    let row = client.query_one("select a from t", &[]).await.unwrap();
    assert_eq!(row.get::<_, i32>(0), 1);
}
