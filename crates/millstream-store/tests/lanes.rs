//! The rows of lanes: what they commit is counted once, and only by the run and the epoch that own them.

use crate::scene::{Scene, batch};
use millstream_model::{Position, Prefix};
use millstream_store::{Error, load, loads};
use millstream_testkit::each_build;
use serde_json::Value;

/// An orphan of a killed run that could still commit would store documents twice, or behind newer ones.
#[tokio::test]
async fn a_lane_advances_only_in_its_run_and_epoch_and_under_the_tables_name() {
    each_build(async |db| {
        let mut scene = Scene::new(db).await;
        let (schema, identity) = (scene.schema.clone(), scene.identity());
        let load_id = scene.begin(&identity, 2).await;
        let (table, advance) = scene.prepared().await;
        let [old, other] = [scene.attach(load_id, 0, 1, 0).await.0, scene.attach(load_id, 1, 1, 0).await.0];
        batch(&table, load_id, 0, old, 0, 700).execute(&scene.client, &advance).await.unwrap();
        batch(&table, load_id, 1, other, 1, 30).execute(&scene.client, &advance).await.unwrap();
        // Another connection takes the first lane over.
        let (new, batches, emptied) = scene.attach(load_id, 0, 1, 1).await;
        assert_eq!((new, batches, emptied), (old + 1, 1, false));
        scene.client.batch_execute("alter table events rename to elsewhere").await.unwrap();
        let renamed = batch(&table, load_id, 0, new, 0, 900).execute(&scene.client, &advance).await;
        scene.client.batch_execute("alter table elsewhere rename to events").await.unwrap();
        let orphan = batch(&table, load_id, 0, old, 0, 900).execute(&scene.client, &advance).await;
        batch(&table, load_id, 0, new, 0, 800).execute(&scene.client, &advance).await.unwrap();
        let so_far = load::counters(&scene.client, &schema, load_id).await.unwrap();
        assert_eq!((so_far.read, so_far.inserted, so_far.rejected, so_far.bytes_read), (15, 12, 3, 270));

        // The next run has other lanes, and none of the old ones.
        assert!(load::is_ours(&scene.client, &schema, load_id, 1).await.unwrap());
        assert_eq!(scene.run(load_id, &identity, 3, true).await, 2);
        assert!(!load::is_ours(&scene.client, &schema, load_id, 1).await.unwrap());
        let late = batch(&table, load_id, 1, other, 1, 40).execute(&scene.client, &advance).await;
        let transaction = scene.client.transaction().await.unwrap();
        let taken = load::lock_row(&transaction, &schema, load_id, 1).await;
        load::lock_row(&transaction, &schema, load_id, 2).await.unwrap();
        transaction.rollback().await.unwrap();
        for fenced in [renamed, orphan, late, taken] {
            assert!(matches!(fenced, Err(Error::Fenced { load_id: of }) if of == load_id), "{fenced:?}");
        }

        // Each slot resumes where its lane was, and the sources are compared up to the highest position.
        let load::Progress { floors, prefix, counters, reject_bytes } =
            load::progress(&scene.client, &schema, load_id).await.unwrap();
        assert!(floors[..128].iter().all(|floor| *floor == Position { source: 0, offset: 800 }));
        assert!(floors[128..].iter().all(|floor| *floor == Position { source: 1, offset: 30 }));
        assert_eq!(prefix, Some((1, Prefix { length: 30, hash: 30 })));
        assert_eq!((counters, reject_bytes), (so_far, 27));
        assert_eq!(load::outcomes(&scene.client, &schema, load_id).await.unwrap(), [6, 9]);
        // A lane that has committed less takes nothing back.
        let (epoch, ..) = scene.attach(load_id, 0, 2, 0).await;
        assert!(epoch > new.max(other));
        batch(&table, load_id, 0, epoch, 0, 10).execute(&scene.client, &advance).await.unwrap();
        scene.end(load_id, "finished", Some("{\"read\": 20}")).await;
        let floor = load::progress(&scene.client, &schema, load_id).await.unwrap().floors[0];
        assert_eq!(floor, Position { source: 0, offset: 800 });
        let load = loads::find(&scene.client, &schema, load_id).await.unwrap().unwrap();
        assert!(load.is_finished() && load.runs == 2 && load.read == 20, "{load:?}");
        let receipt: Value = serde_json::from_str(load.receipt.unwrap().get()).unwrap();
        assert_eq!(receipt["read"], 20);
    })
    .await;
}
