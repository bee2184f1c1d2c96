//! Models of several collections show one moment, also after a crash emptied a collection and after a refresh was
//! stopped.

use crate::process::{millstream, send};
use crate::refresh_kill::{end, nth, start, stderr};
use millstream_failpoint::REFRESH;
use millstream_testkit::{Server, Settings, StopMode, connect, dealt_builds, each_build, until};
use serde_json::Value;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use tokio_postgres::Client;

/// Rows of each collection.
const ROWS: i64 = 300;
/// Refreshes while readers read, equally often by each way.
const REFRESHES: usize = 8;
const READERS: usize = 2;

/// A collection of `ROWS` documents, with a stamp, and a model of it that shows the stamp.
fn stamped(url: &str, collection: &str, durability: &str) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.ndjson");
    let mut text = String::new();
    (0..ROWS).for_each(|id| writeln!(text, "{{\"id\":{id},\"stamp\":0}}").unwrap());
    std::fs::write(&file, text).unwrap();
    let load = ["load", file.to_str().unwrap(), "--into", collection, "--key", "id:bigint"];
    millstream(&[&load[..], &["--durability", durability, "--db", url]].concat()).ends(0);
    let model = format!("{collection}_read");
    millstream(&["publish", collection, "--as", &model, "--column", "stamp:bigint=stamp", "--db", url]).ends(0);
}

/// The one stamp that all rows of a model have.
async fn stamp(client: &Client, model: &str) -> i64 {
    let sql = format!("select count(*), min(stamp), max(stamp) from {model}");
    let row = client.query_one(&sql, &[]).await.unwrap();
    let (rows, least, most) = (row.get::<_, i64>(0), row.get::<_, i64>(1), row.get::<_, i64>(2));
    assert_eq!((rows, least), (ROWS, most), "{model} shows one moment");
    least
}

/// Reads both models in one transaction after another, until `done`. Returns the last stamp seen.
async fn read_until(url: String, done: Arc<AtomicBool>) -> i64 {
    let client = connect(&url).await;
    client.batch_execute("set lock_timeout = '10s'").await.unwrap();
    let mut last = 0;
    while !done.load(SeqCst) {
        client.batch_execute("begin isolation level repeatable read").await.unwrap();
        let seen = stamp(&client, "public.left_read").await;
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(stamp(&client, "public.right_read").await, seen, "both show one moment");
        client.batch_execute("commit").await.unwrap();
        assert!(seen >= last, "{seen} after {last}");
        last = seen;
    }
    last
}

#[tokio::test(flavor = "multi_thread")]
async fn models_of_two_collections_show_one_snapshot() {
    each_build(async |db| {
        let url = db.url();
        stamped(&url, "public.left", "durable");
        stamped(&url, "public.right", "durable");
        let done = Arc::new(AtomicBool::new(false));
        let readers: Vec<_> = (0..READERS).map(|_| tokio::spawn(read_until(url.clone(), Arc::clone(&done)))).collect();
        let writer = tokio::spawn({
            let (client, done) = (db.client().await, Arc::clone(&done));
            async move {
                for stamp in 1.. {
                    let update =
                        |table| format!("update public.{table} set doc = jsonb_build_object('stamp', {stamp})");
                    let both = format!("begin; {}; {}; commit", update("left"), update("right"));
                    client.batch_execute(&both).await.unwrap();
                    if done.load(SeqCst) {
                        return stamp;
                    }
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                unreachable!("stamps do not end")
            }
        });
        for n in 0..REFRESHES {
            let way = ["incremental", "swap"][n % 2];
            let output =
                end(start(&url, &["refresh", "public.left_read", "public.right_read", "--way", way], "")).await;
            assert!(output.status.success(), "{way}: {}", stderr(&output));
        }
        done.store(true, SeqCst);
        let newest: i64 = writer.await.unwrap();
        for reader in readers {
            let last = reader.await.unwrap();
            assert!(last > 0 && last <= newest, "{last} of {newest}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_notices_a_crash_that_empties_the_collection() {
    for build in dealt_builds().await {
        println!("on {}", build.installation);
        let server = Server::start(build, Settings { durable: true, ..Settings::default() }).await;
        let url = server.url("postgres");
        stamped(&url, "public.fleeting", "unlogged");
        let points = REFRESH.iter().filter(|point| !point.starts_with("model-"));
        for (n, point) in points.enumerate() {
            let way = if point.starts_with("changes-") { "incremental" } else { "swap" };
            empty_at(&server, point, way, i64::try_from(n).unwrap()).await;
        }
    }
}

async fn empty_at(server: &Server, point: &str, way: &str, n: i64) {
    let (url, dir) = (server.url("postgres"), tempfile::tempdir().unwrap());
    let held = dir.path().join("held");
    let refresh = ["refresh", "public.fleeting_read", "--way", way];
    let change = format!(
        "insert into public.fleeting select n, '{{\"stamp\": {n}}}' from generate_series(1, {ROWS}) as n
             on conflict (id) do update set doc = excluded.doc"
    );
    connect(&url).await.batch_execute(&change).await.unwrap();
    let mut child = start(&url, &refresh, &format!("{point}=wait:{}@{}", held.display(), nth(point)));
    until("the refresh is held", async || {
        assert!(child.try_wait().unwrap().is_none(), "{point} is passed");
        held.exists()
    })
    .await;
    server.restart(StopMode::Immediate).await;
    std::fs::remove_file(&held).unwrap();
    // It begins again, unless the first session that it misses is refused while the server is away.
    end(child).await;

    let client = connect(&url).await;
    let rows = async |table: &str| {
        client.query_one(&format!("select count(*) from public.{table}"), &[]).await.unwrap().get::<_, i64>(0)
    };
    assert_eq!((rows("fleeting").await, rows("fleeting_read").await), (0, 0), "{point}");
    let listed = millstream(&["models", "--output", "json", "--db", &url]).ends(0).stdout;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    // Everything waits after the crash, unless the refresh began again and committed.
    let waits = (&listed[0]["everything_waits"], &listed[0]["waiting_changes"]);
    assert!([(&true.into(), &Value::Null), (&false.into(), &0.into())].contains(&waits), "{point}: {waits:?}");
    client.batch_execute("insert into public.fleeting values (-1, '{\"stamp\": -1}')").await.unwrap();
    let output = end(start(&url, &["refresh", "public.fleeting_read"], "")).await;
    assert!(output.status.success(), "{point}: {}", stderr(&output));
    let shown = "select count(*), min(id), min(stamp) from public.fleeting_read";
    let row = client.query_one(shown, &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1), row.get::<_, i64>(2)), (1, -1, -1), "{point}");
    // Changes from now on are recorded again.
    client.batch_execute(&change).await.unwrap();
    let output = end(start(&url, &["refresh", "public.fleeting_read", "--way", "incremental"], "")).await;
    assert!(String::from_utf8_lossy(&output.stdout).contains("by incremental in "), "{point}: {}", stderr(&output));
    assert_eq!(rows("fleeting_read").await, ROWS + 1, "{point}");
    client.batch_execute("delete from public.fleeting where id = -1").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_refresh_removes_its_unfinished_tables() {
    each_build(async |db| {
        let (url, dir) = (db.url(), tempfile::tempdir().unwrap());
        stamped(&url, "public.left", "durable");
        let client = db.client().await;
        let generations = "select count(*) from pg_class where relname ~ '^model_[0-9]+_[12]$'";
        let generations = async || client.query_one(generations, &[]).await.unwrap().get::<_, i64>(0);
        let held = dir.path().join("held");
        for args in [
            &["refresh", "public.left_read", "--way", "swap"][..],
            &[
                "publish",
                "public.left",
                "--as",
                "public.left_read",
                "--where",
                "id > 3",
                "--column",
                "stamp:bigint=stamp",
            ],
        ] {
            let child = start(&url, args, &format!("rows-built=wait:{}", held.display()));
            until("the build is held", async || held.exists()).await;
            assert_eq!(generations().await, 2, "one is being built");
            send("INT", child.id().unwrap());
            let output = end(child).await;
            assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
            assert_eq!(generations().await, 1, "{args:?}");
            std::fs::remove_file(&held).unwrap();
        }
        assert_eq!(stamp(&client, "public.left_read").await, 0);
    })
    .await;
}
