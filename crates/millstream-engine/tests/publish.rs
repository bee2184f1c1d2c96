//! Read models: equal to what they are derived from, at every moment a whole refresh.

use crate::scene::{Files, Stream, request, run, surroundings};
use millstream_engine::store::Schema;
use millstream_engine::{
    Definition, Error, PublishRequest, Published, RefreshRequest, Refreshed, estimate, publish, refresh, unpublish,
};
use millstream_pg::SessionSettings;
use millstream_testkit::{TestDatabase, each_build};
use tokio_postgres::Client;

fn schema() -> Schema {
    Schema::new("millstream")
}

fn wanted(collection: &str, model: &str, columns: &[&str], indexes: &[&str], condition: Option<&str>) -> PublishRequest {
    PublishRequest {
        collection: collection.parse().unwrap(),
        model: model.parse().unwrap(),
        definition: Definition {
            columns: columns.iter().map(|column| column.parse().unwrap()).collect(),
            indexes: indexes.iter().map(|index| (*index).to_owned()).collect(),
            condition: condition.map(str::to_owned),
            select: None,
        },
    }
}

async fn publish_on(db: &TestDatabase, request: &PublishRequest) -> Result<Published, Error> {
    let conninfo = surroundings(&db.url()).0.db;
    let mut connection = millstream_pg::connect(&conninfo, &SessionSettings::control()).await.unwrap();
    publish(&mut connection, &schema(), request).await
}

fn asked(models: &[&str], way: Option<&str>) -> RefreshRequest {
    RefreshRequest {
        models: models.iter().map(|name| name.parse().unwrap()).collect(),
        way: way.map(str::to_owned),
        workers: Some(2),
    }
}

async fn refresh_on(db: &TestDatabase, models: &[&str], way: Option<&str>) -> Result<Vec<Refreshed>, Error> {
    Box::pin(refresh(&surroundings(&db.url()).0.db, &schema(), &asked(models, way))).await
}

/// Rows in which the model and what it is derived from differ.
async fn differences(client: &Client) -> i64 {
    let sql = "
        with derived as (select id, (doc->>'value')::int as value, doc from public.things where (doc->>'value')::int % 3 <> 0)
        select (select count(*) from (table derived except table public.model) d)
             + (select count(*) from (table public.model except table derived) d)";
    client.query_one(sql, &[]).await.unwrap().get(0)
}

async fn rows(client: &Client, table: &str) -> i64 {
    client.query_one(&format!("select count(*) from {table}"), &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_equals_what_it_is_derived_from() {
    each_build(async |db| {
        let files = Files::new();
        let mut rng = fastrand::Rng::with_seed(7);
        let url = db.url();
        let load = async |name: &str, documents, keys| {
            let stream = Stream::random(&mut fastrand::Rng::with_seed(documents as u64), documents, keys);
            run(&url, &request("things", "id", &[files.write(name, stream.text)])).await;
        };
        load("a", 20_000, 5_000).await;
        let client = db.client().await;
        client.batch_execute("analyze public.things").await.unwrap();
        let indexes = ["value", "lower(doc->>'note')", "doc->>'note'", "using gin (doc jsonb_path_ops)", "(value) where value > 5"];
        let definition = wanted("things", "model", &["value:int=value"], &indexes, Some("value % 3 <> 0"));
        assert_eq!(publish_on(&db, &definition).await.unwrap(), Published::Made);
        let first = refresh_on(&db, &["model"], None).await.unwrap();
        assert_eq!(first[0].way, "swap");
        assert_eq!(differences(&client).await, 0);
        let oid = "select 'public.model'::regclass::oid";
        let before: u32 = client.query_one(oid, &[]).await.unwrap().get(0);

        // Our own writers, new, changed and equal documents.
        load("b", 500, 6_000).await;
        assert!(differences(&client).await > 0);
        let second = refresh_on(&db, &["model"], None).await.unwrap();
        assert_eq!((second[0].way, second[0].lag_seconds), ("incremental", None));
        assert_eq!(differences(&client).await, 0);

        // Anything else: rows changed, deleted, renamed, emptied.
        for statement in [
            "update public.things set doc = doc || '{\"value\": 7}' where id < 'key-000100'",
            "delete from public.things where id like 'key-0001%'",
            "update public.things set id = 'new-' || id where id like 'key-0002%'",
            "insert into public.things select 'x' || n, jsonb_build_object('value', n) from generate_series(1, 50) n",
            "truncate public.things; insert into public.things values ('one', '{\"value\": 1}')",
        ] {
            client.batch_execute(statement).await.unwrap();
            let changed = refresh_on(&db, &["model"], None).await.unwrap();
            assert!(changed[0].rows > 0, "{statement}: {changed:?}");
            assert_eq!(differences(&client).await, 0, "{statement}");
        }
        assert_eq!(rows(&client, "public.model").await, 1);
        let after: u32 = client.query_one(oid, &[]).await.unwrap().get(0);
        assert_eq!(before, after, "the model is one object for life");
        load("c", 5_000, 5_000).await;
        for way in ["incremental", "swap", "swap", "incremental"] {
            client.execute(&format!("delete from public.things where id like '%{}'", rng.u8(0..10)), &[]).await.unwrap();
            let done = refresh_on(&db, &["model"], Some(way)).await.unwrap();
            assert_eq!((done[0].way, done[0].bloat_bytes), (way, 0));
            assert_eq!(differences(&client).await, 0, "{way}");
        }
        let left: i64 = client
            .query_one("select count(*) from pg_trigger where tgname like 'millstream_changed_%'", &[])
            .await
            .unwrap()
            .get(0);
        assert_eq!(left, 5);
        let conninfo = surroundings(&url).0.db;
        let mut connection = millstream_pg::connect(&conninfo, &SessionSettings::control()).await.unwrap();
        unpublish(&mut connection, &schema(), &"model".parse().unwrap()).await.unwrap();
        let sql = "select count(*) from pg_class where relnamespace = 'millstream'::regnamespace and relname ~ '^(model_|change_)[0-9]'";
        assert_eq!(client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0), 0);
        let sql = "select count(*) from pg_trigger where tgname like 'millstream_changed_%'";
        assert_eq!(client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0), 0);
        assert!(estimate(&conninfo, &schema(), &asked(&["model"], None)).await.is_err());
    })
    .await;
}
