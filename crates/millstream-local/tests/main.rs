//! The local server, started and stopped, and everything that may be in its way.

mod obstacles;

use millstream_local::{Error, LocalOptions, Phase, PostgresBin, Running};
use millstream_testkit::LocalHome;

/// A home of its own with the programs of the default build.
async fn options(home: &LocalHome) -> LocalOptions {
    let build = millstream_testkit::default_build().await;
    let bin = build.installation.bin.clone();
    LocalOptions { home: Some(home.dir.clone()), postgres_bin: PostgresBin::Dir(bin), ..LocalOptions::default() }
}

async fn start(options: &LocalOptions) -> Result<Running, Error> {
    millstream_local::start(options, &mut |_| {}).await
}

async fn stop(options: &LocalOptions) -> bool {
    millstream_local::stop(options, &mut |_| {}).await.expect("it stops")
}

async fn value(url: &str, sql: &str) -> String {
    let client = millstream_testkit::connect(url).await;
    client.query_one(sql, &[]).await.expect(sql).get(0)
}

#[tokio::test]
async fn a_server_is_made_started_found_and_stopped() {
    let home = LocalHome::new();
    let options = options(&home).await;
    assert_eq!(millstream_local::status(&options).unwrap().phase, None);
    assert!(matches!(millstream_local::connect(&options), Err(Error::NotRunning { .. })));
    assert!(!stop(&options).await);

    let running = start(&options).await.unwrap();
    assert_eq!(value(&running.url(), "show data_checksums").await, "on");
    assert_eq!(value(&running.url(), "show server_encoding").await, "UTF8");
    assert_eq!(value(&running.url(), "select ('B' < 'a')::text").await, "true", "sorted by code point");
    let socket = running.socket_url().unwrap();
    assert_eq!(value(&socket, "select current_user::text").await, "millstream");

    assert_eq!(start(&options).await.unwrap(), running);
    let status = millstream_local::status(&options).unwrap();
    assert_eq!((status.phase, status.running.as_ref()), (Some(Phase::Ready), Some(&running)));
    let password = running.url().split([':', '@']).nth(2).unwrap().to_owned();
    assert!(password.len() == 48 && !format!("{running:?}").contains(&password));

    assert!(stop(&options).await);
    assert_eq!(millstream_local::status(&options).unwrap().phase, None);
    let again = start(&options).await.unwrap();
    assert_eq!(again.url(), running.url(), "the same port and password");
}

#[tokio::test]
async fn every_build_accepts_the_generated_settings() {
    for build in millstream_testkit::builds().await {
        println!("on {}", build.installation);
        let home = LocalHome::new();
        let mut options = options(&home).await;
        options.postgres_bin = PostgresBin::Dir(build.installation.bin.clone());
        let running = start(&options).await.unwrap();
        assert_eq!(running.major, build.major().to_string());
        let conf = std::fs::read_to_string(home.dir.join("millstream.conf")).unwrap();
        let lines: Vec<&str> = conf.lines().collect();
        let client = millstream_testkit::connect(&running.url()).await;
        let mut seen = 0;
        for (number, line) in lines.iter().enumerate() {
            let Some((name, _)) = line.split_once(" = '") else { continue };
            assert!(lines[number - 1].starts_with("# "), "{name} has its reason above it");
            let file = "select sourcefile from pg_settings where name = $1";
            let file: Option<String> = client.query_one(file, &[&name]).await.unwrap().get(0);
            assert!(file.unwrap().ends_with("/millstream.conf"), "{name}");
            seen += 1;
        }
        assert!(seen > 20, "{seen} settings");
    }
}

/// The role and the schema of our own tables have the same name, so "$user" would find that schema. A cluster made
/// before the setting was generated gets it at its next start.
#[tokio::test]
async fn tables_made_by_hand_stay_out_of_the_schema_named_like_the_role() {
    let home = LocalHome::new();
    let options = options(&home).await;
    let running = start(&options).await.unwrap();
    let client = millstream_testkit::connect(&running.url()).await;
    client.batch_execute("create schema millstream; create table millstream.load ()").await.unwrap();
    let made = "create table load as select 'by hand' a";
    client.batch_execute(made).await.expect("our table is not in the way");
    assert_eq!(value(&running.url(), "select a from load").await, "by hand");
    assert_eq!(value(&running.url(), "select current_schema::text").await, "public");

    assert!(stop(&options).await);
    let conf = home.dir.join("millstream.conf");
    let old = std::fs::read_to_string(&conf).unwrap().replace("search_path = 'public'", "");
    std::fs::write(&conf, old).unwrap();
    let running = start(&options).await.unwrap();
    assert_eq!(value(&running.url(), "select a from load").await, "by hand");
}

#[tokio::test]
async fn settings_of_the_user_survive_a_restart() {
    let home = LocalHome::new();
    let options = options(&home).await;
    let running = start(&options).await.unwrap();
    let client = millstream_testkit::connect(&running.url()).await;
    client.batch_execute("alter system set work_mem = '5MB'").await.unwrap();
    client.batch_execute("create table t as select 1 a").await.unwrap();
    assert!(stop(&options).await);
    let running = start(&options).await.unwrap();
    assert_eq!(value(&running.url(), "show work_mem").await, "5MB");
    assert_eq!(value(&running.url(), "select count(*)::text from t").await, "1");
}

#[tokio::test]
async fn psql_connects_without_arguments() {
    let Some(build) = millstream_testkit::build_with(&[millstream_testkit::Feature::Psql]).await else {
        return;
    };
    let home = LocalHome::new();
    let mut options = options(&home).await;
    options.postgres_bin = PostgresBin::Dir(build.installation.bin.clone());
    let running = start(&options).await.unwrap();
    let output = running.psql().unwrap().args(["-XAtc", "select current_user"]).run_blocking().unwrap();
    assert_eq!(output.stdout.trim(), "millstream");
}
