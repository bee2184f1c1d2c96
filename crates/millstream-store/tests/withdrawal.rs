//! A load that read nothing leaves no trace, unless something refers to it or to its table.

use crate::scene::{Scene, batch, known};
use millstream_model::KeyType;
use millstream_store::{Identity, discard_unread, load, remember_collection, withdraw};
use millstream_testkit::each_build;

/// What is true before a withdrawal of a load and of the table that it made, and whether they are there afterwards.
const CASES: [(&str, bool, bool); 6] = [
    ("select", false, false),
    ("insert into events values ('a', '{}')", false, true),
    (
        "insert into millstream.segment (segment_id, table_oid, load_id, run_order, documents, bytes) \
         values (1, 'events'::regclass, 9, 9, 1, 1)",
        false,
        true,
    ),
    (
        "insert into millstream.model (table_oid, schema_name, model_name, definition) \
         values ('events'::regclass, 'public', 'm', '{}')",
        false,
        true,
    ),
    ("update millstream.load set read = 1", true, true),
    ("update millstream.load set state = 'finished'", true, true),
];

/// A table that is dropped although somebody uses it takes documents with it.
#[tokio::test]
async fn only_what_nobody_uses_is_removed() {
    each_build(async |db| {
        let mut scene = Scene::new(db).await;
        let schema = scene.schema.clone();
        for (n, (before, load_stays, table_stays)) in CASES.into_iter().enumerate() {
            let table = format!("t{n}");
            let made = format!("create table {table} (id text primary key, doc jsonb not null)");
            scene.client.batch_execute(&made).await.unwrap();
            let table_oid = scene.one(&format!("select '{table}'::regclass::oid")).await;
            let (name, known) = (table.parse().unwrap(), known(KeyType::Text));
            remember_collection(&scene.client, &schema, table_oid, &name, &known, false).await.unwrap();
            let identity = Identity { table_oid, ..scene.identity() };
            let load_id = load::insert(&mut scene.client, &schema, &identity, 1).await.unwrap();
            scene.client.batch_execute(&before.replace("events", &table)).await.unwrap();
            withdraw(&mut scene.client, &schema, Some(load_id), Some(table_oid)).await.unwrap();
            let left = format!(
                "select array[exists (select from millstream.load where load_id = {load_id}),
                              to_regclass('{table}') is not null,
                              exists (select from millstream.collection where table_oid = {table_oid})]"
            );
            assert_eq!(scene.one::<Vec<bool>>(&left).await, [load_stays, table_stays, table_stays], "{before}");
        }
    })
    .await;
}

/// A load that has committed something must resume, so its record stays.
#[tokio::test]
async fn a_killed_load_is_discarded_only_if_none_of_its_lanes_read_anything() {
    each_build(async |db| {
        let mut scene = Scene::new(db).await;
        let (schema, identity) = (scene.schema.clone(), scene.identity());
        let unread = scene.begin(&identity, 2).await;
        assert!(discard_unread(&mut scene.client, &schema, unread).await.unwrap());
        let load_id = scene.begin(&identity, 2).await;
        let (table, advance) = scene.prepared().await;
        let (epoch, ..) = scene.attach(load_id, 1, 1, 0).await;
        batch(&table, load_id, 1, epoch, 0, 10).execute(&scene.client, &advance).await.unwrap();
        assert!(!discard_unread(&mut scene.client, &schema, load_id).await.unwrap());
        assert_eq!(load::counters(&scene.client, &schema, load_id).await.unwrap().read, 5);
        assert_eq!(scene.one::<Vec<i64>>("select array_agg(load_id) from millstream.load").await, [load_id]);
    })
    .await;
}
