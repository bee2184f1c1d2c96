//! The load killed at every failpoint, wherever its documents lie.

use super::{LARGE_BATCH_ROWS, Victim, is_killed};
use crate::location::Location;
use crate::process::until_held;
use fastrand::Rng;
use millstream_failpoint::LOAD;
use millstream_testkit::{Server, Settings, builds, dealt};

/// Documents of a load: several chunks for each lane.
const DOCUMENTS: u64 = 6_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_load_killed_at_any_point_resumes_correctly() {
    let mut rng = Rng::new();
    let builds = builds().await;
    for (n, build) in builds.iter().enumerate() {
        println!("on {}", build.installation);
        let server = Server::start(build, Settings { durable: true, ..Settings::default() }).await;
        for point in dealt(LOAD, n, builds.len()) {
            for location in Location::todays(&mut rng) {
                println!("{point}, {location:?}");
                let mut victim = Victim::at(location, &server, &mut rng, DOCUMENTS).await;
                kill_at(point, &mut victim, &mut rng).await;
                victim.finish(&mut rng).await;
            }
        }
    }
}

async fn kill_at(point: &str, victim: &mut Victim, rng: &mut Rng) {
    match point {
        "lane-reattached" => kill_while_reattaching(victim).await,
        "batch-replayed" => kill_while_replaying(victim).await,
        "batch-divided" | "batch-merging" => kill_while_dividing(victim, point).await,
        point => {
            let status = victim.run(2, &format!("{point}=kill")).await;
            assert!(is_killed(status), "{point} is passed");
            if victim.receipt().await.is_none() {
                victim.run(3, &format!("{point}=kill@{}", rng.u32(1..4))).await;
            }
        }
    }
}

/// A lane reconnects only when its connection breaks.
async fn kill_while_reattaching(victim: &Victim) {
    let file = victim.path("held");
    let points = format!("batch-advancing=wait:{}@2;lane-reattached=kill", file.display());
    let mut child = victim.start(2, &points);
    until_held(&mut child, &file).await;
    let sql = "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'millstream lane%'";
    victim.client.execute(sql, &[]).await.unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(is_killed(victim.end(child).await), "lane-reattached is passed");
}

/// A batch is divided only if it is large, and some of its keys are stored.
async fn kill_while_dividing(victim: &mut Victim, point: &str) {
    if victim.more.is_empty() {
        victim.fill(&mut Rng::new()).await;
    }
    victim.batch_rows = LARGE_BATCH_ROWS;
    let status = victim.run(1, &format!("{point}=kill")).await;
    assert!(is_killed(status), "{point} is passed");
    if victim.receipt().await.is_none() {
        victim.run(2, &format!("{point}=kill@{}", fastrand::u32(1..3))).await;
    }
}

/// A batch is replayed only when the server refuses something in it. The constraint is dropped before the load is done,
/// so that every document is stored in the end.
async fn kill_while_replaying(victim: &mut Victim) {
    if victim.more.is_empty() {
        victim.fill(&mut Rng::new()).await;
    }
    let table = &victim.table;
    let refuse = format!("alter table {table} add constraint few check (hashtext(id) % 50 <> 0) not valid");
    victim.client.batch_execute(&refuse).await.unwrap();
    let status = victim.run(2, "batch-replayed=kill").await;
    assert!(is_killed(status), "batch-replayed is passed");
    victim.client.batch_execute(&format!("alter table {table} drop constraint few")).await.unwrap();
}
