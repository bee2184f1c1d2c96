//! Our tables are made once, upgraded with what is in them, and kept from roles without rights.

use crate::scene::{Scene, known};
use futures_util::future::join_all;
use millstream_model::{DocumentForm, KeyType};
use millstream_pg::{ErrorKind, Explained};
use millstream_store::{
    DISTINCT_WALK, Error, Known, SCHEMA_VERSION, Schema, Versions, collections, known_collection, load, loads,
    remember_collection,
};
use millstream_testkit::{each_build, every_build};

/// Without the lock, the second session would fail at a table that is there.
#[tokio::test]
async fn sessions_that_make_the_tables_at_once_make_them_once() {
    each_build(async |db| {
        let schema = Schema::new("millstream");
        let mut clients = Vec::new();
        for _ in 0..4 {
            clients.push(db.client().await);
        }
        assert_eq!(schema.version(&clients[0]).await.unwrap(), None);
        assert!(!schema.exists(&clients[0]).await.unwrap());
        for made in join_all(clients.iter_mut().map(|client| schema.ensure(client))).await {
            assert_eq!(made.unwrap(), None, "nothing was restored");
        }
        assert!(schema.exists(&clients[0]).await.unwrap());
        let versions = clients[0].query("select schema_version from millstream.meta", &[]).await.unwrap();
        assert_eq!(versions.iter().map(|row| row.get(0)).collect::<Vec<i32>>(), [SCHEMA_VERSION]);
    })
    .await;
}

/// A step that forgets rows would lose where loads are. A program that writes newer tables would damage them.
#[tokio::test]
async fn older_tables_keep_their_records_and_newer_ones_are_refused() {
    every_build(async |db| {
        let (mut client, schema) = (db.client().await, Schema::new("older"));
        let first = include_str!("../src/schema.sql").replace("{distinct_walk}", DISTINCT_WALK);
        client.batch_execute(&schema.sql(first.leak())).await.unwrap();
        client
            .batch_execute(
                "insert into older.meta (schema_version, schema_name) values (1, 'older');
                 create table public.events (id text primary key, doc jsonb not null);
                 insert into older.collection (table_oid, schema_name, table_name, key)
                 values ('public.events'::regclass, 'public', 'events',
                         '[{\"name\": \"id\", \"path\": [\"id\"], \"type\": \"text\"}]');
                 insert into older.load (
                     table_oid, collection, mode, key, format, sources, slot_hash_version, state, epoch, durability,
                     layout, lanes, floor_source, floor_offset, read, resumable
                 )
                 values ('public.events'::regclass, 'public.events', 'replace', '[]', 'ndjson', '{a}', 1, 'stopped', 3,
                         'durable', 'table', 2, array_fill(0, array[256]), array_fill(77::bigint, array[256]), 12,
                         true)",
            )
            .await
            .unwrap();
        let older = schema.exists(&client).await.unwrap_err();
        assert!(matches!(older, Error::SchemaVersion { found: 1, known: SCHEMA_VERSION, .. }), "{older:?}");
        assert_eq!(older.hint().as_deref(), Some("the next `millstream load` brings them up to date"));
        for bound in [Some(1), None] {
            assert_eq!(schema.ensure(&mut client).await.unwrap().map(|bound| bound.tables), bound);
            assert_eq!(schema.version(&client).await.unwrap(), Some(SCHEMA_VERSION));
        }
        let load = loads::find(&client, &schema, 1).await.unwrap().unwrap();
        assert_eq!((load.state.as_str(), load.read, load.sources.as_slice()), ("stopped", 12, &["a".to_owned()][..]));
        let progress = load::progress(&client, &schema, 1).await.unwrap();
        assert!(progress.floors.iter().all(|floor| floor.offset == 77));
        let listed = collections::list(&client, &schema).await.unwrap();
        let listed: Vec<_> = listed.iter().map(|one| (one.present, one.loads, one.doc)).collect();
        assert_eq!(listed, [(true, 1, DocumentForm::Whole)]);

        client.batch_execute("update older.meta set schema_version = 999").await.unwrap();
        let newer = [schema.exists(&client).await.map(|_| ()), schema.ensure(&mut client).await.map(|_| ())];
        for newer in newer.map(Result::unwrap_err) {
            assert!(matches!(newer, Error::SchemaVersion { found: 999, .. }), "{newer:?}");
            assert!(newer.hint().unwrap().starts_with("use a newer millstream"), "{newer:?}");
        }
    })
    .await;
}

/// A reader who cannot use the tables would have no list of loads; one who can write them would decide about loads.
#[tokio::test]
async fn roles_see_and_write_what_they_have_rights_for() {
    every_build(async |db| {
        let mut scene = Scene::new(db).await;
        let load_id = scene.begin(&scene.identity(), 1).await;
        let (schema, oid, name) = (scene.schema.clone(), scene.table_oid, "public.events".parse().unwrap());
        let mut guest = scene.db.client().await;
        let role = format!("guest_of_{}", scene.db.name);
        guest.batch_execute(&format!("create role {role}; set role {role}")).await.unwrap();
        let outside = known_collection(&guest, &schema, oid).await.unwrap_err();
        assert_eq!(outside.kind(), ErrorKind::Rights, "{outside:?}");
        let versions = Versions { table_oid: oid, collection: &name, path: "at" };
        assert_eq!(versions.known(&guest, &schema).await.unwrap(), None);

        let reads = format!(
            "reset role; grant usage on schema millstream to {role};
             grant select on all tables in schema millstream to {role}; set role {role}"
        );
        guest.batch_execute(&reads).await.unwrap();
        // What would follow the names of tables is left to others.
        scene.client.batch_execute("alter table events rename to renamed").await.unwrap();
        assert_eq!(schema.ensure(&mut guest).await.unwrap(), None);
        assert_eq!(known_collection(&guest, &schema, oid).await.unwrap(), Some(known(KeyType::Text)));
        assert_eq!(loads::find(&guest, &schema, load_id).await.unwrap().unwrap().state, "running");
        assert!(collections::list(&guest, &schema).await.unwrap()[0].name.to_string().ends_with("renamed"));
        for refused in [
            remember_collection(&guest, &schema, oid, &name, &known(KeyType::Bigint), false).await.unwrap_err(),
            load::insert(&mut guest, &schema, &scene.identity(), 1).await.unwrap_err(),
        ] {
            assert_eq!(refused.kind(), ErrorKind::Rights, "{refused:?}");
        }
        guest.batch_execute("reset role; set default_transaction_read_only = on").await.unwrap();
        assert_eq!(schema.ensure(&mut guest).await.unwrap(), None);
        assert_eq!(scene.one::<i64>("select count(*) from millstream.load").await, 1);
        assert_eq!(scene.one::<String>("select table_name from millstream.collection").await, "events");
        // Whoever may write them follows.
        schema.ensure(&mut scene.client).await.unwrap();
        assert_eq!(scene.one::<String>("select table_name from millstream.collection").await, "renamed");
    })
    .await;
}

/// Readers of a collection put back what they find recorded. If it changed, they would show keys in documents that had none.
#[tokio::test]
async fn what_a_collection_stores_of_its_documents_is_recorded_once() {
    every_build(async |db| {
        let scene = Scene::new(db).await;
        let (client, schema) = (&scene.client, &scene.schema);
        let make = "create table public.kept (id text primary key, doc jsonb not null)";
        client.batch_execute(make).await.unwrap();
        let (oid, name) =
            (scene.one::<u32>("select 'public.kept'::regclass::oid").await, "public.kept".parse().unwrap());
        let without = Known { doc: DocumentForm::WithoutKey, ..known(KeyType::Text) };
        for again in [without.clone(), known(KeyType::Text), known(KeyType::Bigint)] {
            let recorded = remember_collection(client, schema, oid, &name, &again, false).await.unwrap();
            assert_eq!(recorded, DocumentForm::WithoutKey);
        }
        let found = known_collection(client, schema, oid).await.unwrap();
        assert_eq!(found, Some(Known { doc: DocumentForm::WithoutKey, ..known(KeyType::Bigint) }));
        let found = collections::find(client, schema, &name).await.unwrap().unwrap();
        assert_eq!(found.doc, DocumentForm::WithoutKey);
    })
    .await;
}
