//! Rejects of a load into a table that Citus distributes: each is counted once, and the limit holds for all shards together.

use crate::scene::{Files, request, run};
use millstream_engine::{LoadRequest, StopReason};
use millstream_testkit::CitusCluster;

#[tokio::test]
async fn a_limit_of_rejects_holds_for_all_shards_and_all_runs() {
    let Some(cluster) = CitusCluster::start(2).await else { return };
    let files = Files::new();
    let text: String = (0..200).map(|n| format!("{{\"id\":\"{n}\"}}\n{{\"no\":{n}}}\n")).collect();
    let mut wanted = request("limited", "id:text", &[files.write("a", text)]);
    (wanted.distribute, wanted.rejects_max) = (true, 50);
    let stopped = run(&cluster.url(), &wanted).await;
    assert_eq!(stopped.stopped, Some(StopReason::Rejects));
    wanted.distribute = false;
    let again = run(&cluster.url(), &wanted).await;
    assert_eq!((again.stopped, again.receipt.counters), (Some(StopReason::Rejects), stopped.receipt.counters));
    let done = run(&cluster.url(), &LoadRequest { rejects_max: 1_000, ..wanted }).await.receipt;
    assert_eq!((done.finished, done.counters.inserted, done.counters.rejected), (true, 200, 200));
}
