//! A load killed between sending COMMIT and reading its answer, while its backend is held there.

use super::{Victim, is_killed};
use crate::process::{send, until_held};
use millstream_testkit::{Server, Settings, cases, connect, dealt_builds, until};
use tokio_postgres::Client;

/// Kills on every build.
const KILLS: usize = 5;
/// Documents of a load: several batches for each lane.
const DOCUMENTS: u64 = 6_000;
/// Backends of lanes in a COMMIT that is on disk and does not return. One that ends is idle while it drops its temporary
/// table, and then waits, too.
const IN_COMMIT: &str = "select pid from pg_stat_activity
    where application_name like 'millstream lane%' and wait_event = 'SyncRep' and state = 'active'";

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_client_died_is_counted_once() {
    for build in dealt_builds().await {
        println!("on {}", build.installation);
        let server = Server::start(build, Settings { durable: true, ..Settings::default() }).await;
        let watch = connect(&server.url("postgres")).await;
        watch.batch_execute("create table probe (n int); insert into probe values (0)").await.unwrap();
        for _ in 0..cases(KILLS) {
            kill_in_commit(&server, &watch).await;
        }
    }
}

async fn kill_in_commit(server: &Server, watch: &Client) {
    let mut rng = fastrand::Rng::new();
    let victim = Victim::new(server, &mut rng, DOCUMENTS).await;
    let file = victim.path("held");
    let points = format!("batch-advancing=wait:{}@{}", file.display(), rng.u32(1..4));
    let mut child = victim.start(2, &points);
    until_held(&mut child, &file).await;
    let probe = hold_commits(server, watch).await;
    std::fs::remove_file(&file).unwrap();
    until("a lane is in its commit", async || !watch.query(IN_COMMIT, &[]).await.unwrap().is_empty()).await;
    child.kill().unwrap();
    assert!(is_killed(victim.end(child).await));

    // The orphaned backends stay in COMMIT while the commits of others work again.
    let orphans: Vec<i32> = watch.query(IN_COMMIT, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    orphans.iter().for_each(|pid| send("STOP", pid));
    watch.batch_execute("alter system reset synchronous_standby_names").await.unwrap();
    watch.batch_execute("select pg_reload_conf()").await.unwrap();
    probe.abort();
    let rerun = victim.start(3, "");
    let waiting = "select from pg_stat_activity
        where application_name = 'millstream control' and wait_event_type = 'Lock'";
    until("the next run waits for it", async || !watch.query(waiting, &[]).await.unwrap().is_empty()).await;
    orphans.iter().for_each(|pid| send("CONT", pid));
    assert_eq!(victim.end(rerun).await.code(), Some(victim.code()));
    victim.finish(&mut rng).await;
}

/// Makes every commit that is on disk wait for a standby that never comes. Returns a task whose own commits show that
/// they wait.
async fn hold_commits(server: &Server, watch: &Client) -> tokio::task::JoinHandle<()> {
    watch.batch_execute("alter system set synchronous_standby_names = 'nobody'").await.unwrap();
    watch.batch_execute("select pg_reload_conf()").await.unwrap();
    let url = format!("{}?application_name=probe", server.url("postgres"));
    let probe = tokio::spawn(async move {
        let client = connect(&url).await;
        loop {
            client.batch_execute("update probe set n = n + 1").await.unwrap();
        }
    });
    let held = "select from pg_stat_activity where application_name = 'probe' and wait_event = 'SyncRep'";
    until("commits are held", async || !watch.query(held, &[]).await.unwrap().is_empty()).await;
    probe
}
