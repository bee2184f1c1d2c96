//! Queries that follow the order of an index, against real planners.

use crate::checks::sql;
use millstream_doctor::index::ordered_scans;
use millstream_testkit as testkit;

#[tokio::test]
async fn an_equality_on_a_later_key_does_not_make_an_ordered_scan_a_look_up() {
    testkit::every_build(async |database| {
        let mut client = database.client().await;
        let query = "select note from event where kind = $1 order by at limit 10";
        sql(
            &client,
            "create table event (at int, kind int, note text);
             insert into event select n, n % 50, repeat('x', 200) from generate_series(1, 20000) as n;
             create index event_at on event (at, kind); vacuum analyze event; set enable_sort = off; set enable_seqscan = off",
        )
        .await;
        assert!(ordered_scans(&mut client, query).await.unwrap().is_empty(), "no other index finds the rows");
        sql(&client, "create index event_kind on event (kind); analyze event").await;
        let found = ordered_scans(&mut client, query).await.unwrap();
        let [scan] = &found[..] else { panic!("{found:?}") };
        assert_eq!((scan.index.as_str(), scan.other.as_str()), ("event_at", "event_kind"));
        assert_eq!(scan.condition, "kind = $1");
        assert_eq!(scan.new_index.as_deref(), Some("(kind, at)"), "no key twice");
        sql(&client, "create index event_kind_at on event (kind, at); analyze event").await;
        // Its rows lie in the order of the other index, so that the planner may still take that one.
        let found = ordered_scans(&mut client, query).await.unwrap();
        assert!(found.iter().all(|scan| scan.new_index.is_none()), "it is there: {found:?}");
    })
    .await;
}
