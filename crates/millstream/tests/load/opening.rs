//! Lanes that wait for a lock while they open.

use crate::process::{command, until_held};
use millstream_testkit::{each_build, until_some};
use std::process::Stdio;

/// What waits for a lock, and is ended by the server, is tried again as later in the load.
#[tokio::test]
async fn a_lane_that_is_cancelled_while_it_opens_opens_again() {
    each_build(async |db| {
        let (dir, url, holder, watch) = (tempfile::tempdir().unwrap(), db.url(), db.client().await, db.client().await);
        let (file, held) = (dir.path().join("a.ndjson"), dir.path().join("held"));
        std::fs::write(&file, "{\"id\":1}\n{\"id\":2}\n").unwrap();
        watch.batch_execute("create table public.t (id bigint primary key, doc jsonb not null)").await.unwrap();
        let into = ["--into", "public.t", "--adopt", "--key", "id:bigint", "--lanes", "1", "--db", &url];
        let mut load = command(&[&["load", file.to_str().unwrap()], &into[..]].concat());
        load.env("MILLSTREAM_FAILPOINTS", format!("run-begun=wait:{}@1", held.display()));
        let mut load = load.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        until_held(&mut load, &held).await;
        holder.batch_execute("begin; lock table public.t").await.unwrap();
        std::fs::remove_file(&held).unwrap();
        let waiting = "select pid from pg_stat_activity where application_name = 'millstream lane 0'
                           and wait_event_type = 'Lock' and datname = current_database() and pid <> $1";
        let other_than =
            async |pid: i32| watch.query_opt(waiting, &[&pid]).await.unwrap().map(|row| row.get::<_, i32>(0));
        let first = until_some("the lane waits for the table", async || other_than(0).await).await;
        watch.execute("select pg_cancel_backend($1)", &[&first]).await.unwrap();
        until_some("the lane waits again", async || other_than(first).await).await;
        holder.batch_execute("commit").await.unwrap();
        let output = load.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && stderr.contains("retry 1 of lane 0"), "{stderr}");
        let rows: i64 = watch.query_one("select count(*) from public.t", &[]).await.unwrap().get(0);
        assert_eq!(rows, 2, "{stderr}");
    })
    .await;
}
