//! Read models: they equal what they are derived from, and always show one whole refresh.

use crate::contention::BUILD_HELD;
use crate::scene::{Files, Stream, request, run, schema, surroundings};
use millstream_pg::{Connection, Explained, SessionSettings};
use millstream_publish::{
    Error, PublishRequest, Published, RefreshRequest, Refreshed, estimate, publish, refresh, unpublish,
};
use millstream_store::Definition;
use millstream_store::{Schema, collections};
use millstream_testkit::{Server, Settings, StopMode, TestDatabase, builds, connect, database, every_build};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio_postgres::Client;

/// Rows of the models that are read while they are refreshed.
const KEYS: i64 = 2_000;

pub(crate) fn wanted(
    collection: &str,
    model: &str,
    columns: &[&str],
    indexes: &[&str],
    condition: Option<&str>,
) -> PublishRequest {
    PublishRequest {
        collection: collection.parse().expect("it is written so in the test"),
        model: model.parse().expect("it is written so in the test"),
        definition: Definition {
            columns: columns.iter().map(|column| column.parse().expect("it is written so in the test")).collect(),
            indexes: indexes.iter().map(|index| (*index).to_owned()).collect(),
            condition: condition.map(str::to_owned),
            ..Definition::default()
        },
        warn: |_, _| {},
    }
}

pub(crate) async fn session(url: &str) -> Connection {
    millstream_pg::connect(&surroundings(url).0.db, &SessionSettings::control()).await.expect("a session")
}

pub(crate) async fn publish_on(db: &TestDatabase, request: &PublishRequest) -> Result<Published, Error> {
    publish(&mut session(&db.url()).await, &schema(), request).await
}

pub(crate) fn asked(models: &[&str], way: Option<&str>) -> RefreshRequest {
    let models = models.iter().map(|name| name.parse().expect("it is written so in the test")).collect();
    RefreshRequest { way: way.map(str::to_owned), workers: Some(2), ..RefreshRequest::new(models) }
}

pub(crate) async fn refresh_on(db: &TestDatabase, models: &[&str], way: Option<&str>) -> Result<Vec<Refreshed>, Error> {
    Box::pin(refresh(&surroundings(&db.url()).0.db, &schema(), &asked(models, way))).await
}

/// Rows in which the model and what it is derived from differ.
async fn differences(client: &Client) -> i64 {
    let sql = "
        with derived as (select id, (doc->>'value')::int as value, doc from public.things where (doc->>'value')::int % 3 <> 0)
        select (select count(*) from (table derived except table public.model) d)
             + (select count(*) from (table public.model except table derived) d)";
    client.query_one(sql, &[]).await.expect("the server answers").get(0)
}

async fn rows(client: &Client, table: &str) -> i64 {
    client.query_one(&format!("select count(*) from {table}"), &[]).await.expect("the server answers").get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_equals_its_definition_after_every_refresh() {
    every_build(async |db| {
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
        let swap = asked(&["model"], Some("swap"));
        let needed = estimate(&surroundings(&url).0.db, &schema(), &swap).await.unwrap()[0].bytes;
        let taken = "select pg_total_relation_size('millstream.model_1_2')";
        let taken: i64 = client.query_one(taken, &[]).await.unwrap().get(0);
        assert_eq!(i64::try_from(needed), Ok(taken), "rows and indexes");
        let oid = "select 'public.model'::regclass::oid";
        let before: u32 = client.query_one(oid, &[]).await.unwrap().get(0);

        // Our own writers, new, changed and equal documents.
        load("b", 500, 6_000).await;
        assert!(differences(&client).await > 0);
        let second = refresh_on(&db, &["model"], None).await.unwrap();
        assert_eq!((second[0].way, second[0].lag_seconds), ("incremental", None));
        assert_eq!(differences(&client).await, 0);

        // Changes by other SQL: rows updated, deleted, renamed keys, truncate.
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
            assert_eq!(done[0].way, way);
            assert!(way == "incremental" || done[0].bloat_bytes == 0, "{done:?}");
            assert_eq!(differences(&client).await, 0, "{way}");
        }
        let left: i64 = client
            .query_one("select count(*) from pg_trigger where tgname like 'millstream_changed_%'", &[])
            .await
            .unwrap()
            .get(0);
        assert_eq!(left, 6);
        unpublish(&mut session(&url).await, &schema(), &"model".parse().unwrap()).await.unwrap();
        let sql = "select count(*) from pg_class where relnamespace = 'millstream'::regnamespace and relname ~ '^(model_|change_)[0-9]'";
        assert_eq!(client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0), 0);
        let sql = "select count(*) from pg_trigger where tgname like 'millstream_changed_%'";
        assert_eq!(client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0), 0);
        assert!(estimate(&surroundings(&url).0.db, &schema(), &asked(&["model"], None)).await.is_err());
    })
    .await;
}

/// Reads both models again and again, in short statements and in longer transactions. Every read must see one stamp and
/// no error.
async fn read_until(url: String, done: Arc<AtomicBool>) -> u64 {
    let client = connect(&url).await;
    // A swap locks the view while it is replaced. On a busy machine that moment is longer, but never as long as this.
    client.batch_execute("set lock_timeout = '60s'").await.expect("the server answers");
    let stamps = "select count(distinct doc->>'value'), coalesce(min(doc->>'value'), ''), count(*) from public.";
    let mut looks = 0;
    while !done.load(Relaxed) {
        let row = client.query_one(&format!("{stamps}first"), &[]).await.expect("the server answers");
        assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(2)), (1, KEYS), "a statement sees one refresh");
        client.batch_execute("begin isolation level repeatable read").await.expect("the server answers");
        let mut seen = BTreeSet::new();
        for model in ["second", "first", "second"] {
            let row = client.query_one(&format!("{stamps}{model}"), &[]).await.expect("the server answers");
            assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(2)), (1, KEYS), "{model}");
            seen.insert(row.get::<_, String>(1));
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        client.batch_execute("commit").await.expect("the server answers");
        assert_eq!(seen.len(), 1, "a transaction sees one refresh of both models: {seen:?}");
        looks += 1;
    }
    looks
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_see_whole_refreshes_and_never_wait() {
    every_build(async |db| {
        let client = db.client().await;
        let url = db.url();
        let files = Files::new();
        let wave = |stamp: u32| {
            let line = |n: i64| format!("{{\"id\":\"k{n:05}\",\"value\":{stamp}}}\n");
            files.write(&format!("wave-{stamp}"), (0..KEYS).map(line).collect::<String>())
        };
        run(&url, &request("waves", "id", &[wave(0)])).await;
        client.batch_execute("analyze public.waves").await.unwrap();
        for model in ["first", "second"] {
            publish_on(&db, &wanted("waves", model, &["value:int=value"], &["value"], None)).await.unwrap();
        }
        refresh_on(&db, &["first", "second"], None).await.unwrap();
        let done = Arc::new(AtomicBool::new(false));
        let readers: Vec<_> = (0..3).map(|_| tokio::spawn(read_until(url.clone(), Arc::clone(&done)))).collect();
        for stamp in 1..=8 {
            run(&url, &request("waves", "id", &[wave(stamp)])).await;
            let way = ["swap", "incremental"][stamp as usize % 2];
            let refreshed = refresh_on(&db, &["first", "second"], Some(way)).await.unwrap();
            assert!(refreshed.iter().all(|one| one.way == way && one.rows == KEYS as u64), "{refreshed:?}");
        }
        done.store(true, Relaxed);
        for reader in readers {
            assert!(reader.await.unwrap() > 0);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_commit_is_in_the_next_refresh() {
    every_build(async |db| {
        let (client, late) = (db.client().await, db.client().await);
        let files = Files::new();
        run(
            &db.url(),
            &request(
                "things",
                "id",
                &[files.write("a", Stream::random(&mut fastrand::Rng::with_seed(1), 500, 200).text)],
            ),
        )
        .await;
        publish_on(&db, &wanted("things", "model", &["value:int=value"], &[], Some("value % 3 <> 0"))).await.unwrap();
        refresh_on(&db, &["model"], None).await.unwrap();
        late.batch_execute("begin; insert into public.things values ('late', '{\"value\": 1}')").await.unwrap();
        client.batch_execute("insert into public.things values ('soon', '{\"value\": 2}')").await.unwrap();
        let first = refresh_on(&db, &["model"], Some("incremental")).await.unwrap();
        assert_eq!((first[0].rows, first[0].lag_seconds), (1, None));
        late.batch_execute("commit").await.unwrap();
        assert_eq!(differences(&client).await, 1);
        let second = refresh_on(&db, &["model"], Some("incremental")).await.unwrap();
        assert_eq!(second[0].rows, 1);
        assert_eq!(differences(&client).await, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_definitions_are_refused_before_anything_is_built() {
    every_build(async |db| {
        let client = db.client().await;
        let files = Files::new();
        run(
            &db.url(),
            &request("things", "id", &[files.write("a", "{\"id\":\"a\",\"value\":\"x\"}\n{\"id\":\"b\"}\n")]),
        )
        .await;
        client
            .batch_execute(
                "create table public.mine (n int);
                 create function public.loose(jsonb) returns int language sql as 'select 1'",
            )
            .await
            .unwrap();
        for (wrong, message) in [
            (wanted("things", "m", &[], &["no_such_column"], None), "index \"no_such_column\""),
            (wanted("things", "m", &["a:no_type=value"], &[], None), "there is no type no_type"),
            (wanted("things", "m", &[], &[], Some("nonsense >")), "the server refuses the model"),
            (wanted("nothing", "m", &[], &[], None), "there is no collection nothing"),
            (wanted("things", "mine", &[], &[], None), "is not a read model"),
            (wanted("things", "millstream.m", &[], &[], None), "in the schema of Millstream's own tables"),
            (wanted("things", "m", &[], &[], Some("random() > 0.5")), "the volatile function "),
            (wanted("things", "m", &[], &[], Some("public.loose(doc) > 0")), "loose(jsonb)"),
            (wanted("things", "m", &[], &[], Some("id in (select n::text from public.mine)")), "a subselect reads "),
            (wanted("things", "m", &[], &[], Some("id = (select max(id) from public.things)")), "a subselect reads "),
        ] {
            let error = publish_on(&db, &wrong).await.expect_err(message);
            assert!(error.to_string().contains(message) && error.hint().is_some(), "{error}");
            assert!(!error.hint().unwrap().contains("unpublish"), "{error}: {:?}", error.hint());
        }
        let left = "select count(*) from pg_class where relname ~ '^(model_|change_)[0-9]'";
        assert_eq!(client.query_one(left, &[]).await.unwrap().get::<_, i64>(0), 0);

        // A value that does not fit its column's type is null there, and the refresh reports it.
        publish_on(&db, &wanted("things", "m", &["value:int=value"], &["value"], None)).await.unwrap();
        let built = refresh_on(&db, &["m"], None).await.unwrap();
        assert_eq!(
            (built[0].invalid_values[0].documents, built[0].invalid_values[0].keys.clone()),
            (1, vec!["a".to_owned()])
        );
        client.batch_execute("insert into public.things values ('c', '{\"value\": 1.5}')").await.unwrap();
        let changed = refresh_on(&db, &["m"], Some("incremental")).await.unwrap();
        assert_eq!(changed[0].invalid_values[0].keys, ["c"]);
        let reindexed =
            publish_on(&db, &wanted("things", "m", &["value:int=value"], &["lower(doc->>'x')"], None)).await;
        assert_eq!(reindexed.unwrap(), Published::Reindexed { made: 1, dropped: 1, in_use: 0 });
        let other = publish_on(&db, &wanted("things", "m", &["value:text=value"], &[], None)).await;
        let message = "keeps its column value of type integer: it cannot become text";
        assert!(other.expect_err("another type").to_string().contains(message));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_cannot_smuggle_in_other_statements() {
    every_build(async |db| {
        let client = db.client().await;
        let files = Files::new();
        run(&db.url(), &request("things", "id", &[files.write("a", "{\"id\":\"a\",\"n\":1}\n{\"id\":\"b\"}\n")])).await;
        client.batch_execute("create table public.mine (n int)").await.unwrap();
        let drop = "drop table public.mine";
        let conditions = [
            format!("true); {drop}; --"),
            format!("true\n); {drop}; select (1"),
            format!("true) with no data; {drop}; create table public.x as select (1"),
            format!("true)) as derived with no data; {drop}; --"),
            format!("true /* ); {drop}; */; {drop}"),
            "true) as".to_owned(),
            "true /*".to_owned(),
        ];
        let selects = [
            format!("doc from public.things; {drop}; select doc"),
            format!("doc from public.things as stored) as derived with no data; {drop}; --"),
            "doc into public.taken".to_owned(),
        ];
        let indexes = [
            format!("id); {drop}; --"),
            format!("id)); {drop}; --"),
            format!("(id); {drop}"),
            format!("using gin (doc); {drop}"),
        ];
        let plain = wanted("things", "m", &["n:int=n"], &[], None);
        let mut hostile = Vec::new();
        for text in &conditions {
            hostile.push(wanted("things", "m", &["n:int=n"], &[], Some(text)));
        }
        for text in selects {
            let mut request = plain.clone();
            request.definition.select = Some(text);
            hostile.push(request);
        }
        for text in &indexes {
            hostile.push(wanted("things", "m", &["n:int=n"], &[text], None));
        }
        hostile.push(wanted("things", "m", &[&format!("n:int); {drop}; --=n")], &[], None));
        for request in hostile {
            for materialized in [false, true] {
                let mut request = request.clone();
                request.definition.materialized = materialized;
                let error = publish_on(&db, &request).await.expect_err(&format!("{request:?}"));
                assert!(matches!(error, Error::Refused(_)), "{request:?}: {error}");
            }
        }
        assert_eq!(rows(&client, "public.mine").await, 0, "it is there");
        assert_eq!(rows(&client, "pg_class where relname in ('m', 'x', 'taken') or relname ~ '^model_[0-9]'").await, 0);

        // A comment is one.
        let mut commented =
            wanted("things", "m", &["n:int=n"], &["n -- as asked", "lower(id) -- )"], Some("n > 0 -- )"));
        commented.definition.select = Some("doc -- all of it".to_owned());
        publish_on(&db, &commented).await.unwrap();
        refresh_on(&db, &["m"], None).await.unwrap();
        client.batch_execute("insert into public.things values ('c', '{\"n\": 1}')").await.unwrap();
        assert_eq!(refresh_on(&db, &["m"], Some("incremental")).await.unwrap()[0].rows, 1);
        assert_eq!(rows(&client, "public.m").await, 2);
        // The same for a model that was built.
        for text in &indexes {
            publish_on(&db, &wanted("things", "m", &["n:int=n"], &[text], None)).await.expect_err(text);
            let mut same = commented.clone();
            same.definition.indexes = vec![text.clone()];
            publish_on(&db, &same).await.expect_err(text);
        }
        assert_eq!(rows(&client, "public.mine").await, 0, "it is there");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_column_keeps_the_length_and_the_scale_of_its_type() {
    every_build(async |db| {
        let client = db.client().await;
        let files = Files::new();
        let text = "{\"id\":\"a\",\"price\":1.239,\"code\":\"abc\"}\n\
                    {\"id\":\"b\",\"price\":123456789.5,\"code\":\"abcd\"}\n\
                    {\"id\":\"c\",\"price\":\"x\"}\n";
        run(&db.url(), &request("things", "id", &[files.write("a", text)])).await;
        client.batch_execute("create domain public.short as varchar(3)").await.unwrap();
        let columns = ["price:numeric(10,2)=price", "code:varchar(3)=code", "short:short=code"];
        publish_on(&db, &wanted("things", "m", &columns, &[], None)).await.unwrap();
        for way in ["swap", "incremental"] {
            let built = refresh_on(&db, &["m"], Some(way)).await.unwrap();
            let sorted =
                |keys: &[String]| keys.iter().cloned().collect::<BTreeSet<_>>().into_iter().collect::<String>();
            let invalid_values: Vec<_> =
                built[0].invalid_values.iter().map(|one| format!("{}: {}", one.column, sorted(&one.keys))).collect();
            assert_eq!(invalid_values, ["price: bc", "code: b", "short: b"], "{way}");
            let types = "select string_agg(format_type(atttypid, atttypmod), ' ' order by attnum) from pg_attribute
                         where attrelid = 'public.m'::regclass and attnum > 1";
            let types: String = client.query_one(types, &[]).await.unwrap().get(0);
            assert_eq!(types, "numeric(10,2) character varying(3) short jsonb");
            let shown =
                "public.m where (id, price::text, code) = ('a', '1.24', 'abc') or code is null and price is null";
            assert_eq!(rows(&client, shown).await, 3, "{way}");
            client.batch_execute("update public.things set doc = doc || '{\"more\": 1}'").await.unwrap();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_that_empties_an_unlogged_collection_empties_the_model() {
    for build in builds().await {
        let server = Server::start(build, Settings { durable: true, ..Settings::default() }).await;
        let url = server.url("postgres");
        let files = Files::new();
        let mut first = request("things", "id", &[files.write("a", "{\"id\":\"a\",\"value\":1}\n")]);
        first.durability = millstream_engine::Durability::by_name("unlogged").unwrap();
        run(&url, &first).await;
        let conninfo = surroundings(&url).0.db;
        publish(&mut session(&url).await, &schema(), &wanted("things", "model", &[], &[], None)).await.unwrap();
        refresh(&conninfo, &schema(), &asked(&["model"], None)).await.unwrap();
        server.restart(StopMode::Immediate).await;
        let done = refresh(&conninfo, &schema(), &asked(&["model"], None)).await.unwrap();
        assert_eq!(done[0].way, "swap");
        let client = connect(&url).await;
        client.batch_execute("insert into public.things values ('b', '{}')").await.unwrap();
        let done = refresh(&conninfo, &schema(), &asked(&["model"], Some("incremental"))).await.unwrap();
        assert_eq!((done[0].way, done[0].rows), ("incremental", 1));
        assert_eq!(rows(&client, "public.model").await, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collection_with_a_model_is_not_dropped() {
    every_build(async |db| {
        let files = Files::new();
        run(&db.url(), &request("things", "id", &[files.write("a", "{\"id\":\"a\"}\n")])).await;
        publish_on(&db, &wanted("things", "model", &[], &[], None)).await.unwrap();
        let mut connection = session(&db.url()).await;
        let name = "things".parse().unwrap();
        let collection = collections::find(&connection.client, &schema(), &name).await.unwrap().unwrap();
        let error = collections::drop(&mut connection.client, &schema(), &collection, true).await.expect_err("a model");
        assert_eq!(error.to_string(), "model is derived from it");
        unpublish(&mut connection, &schema(), &"model".parse().unwrap()).await.unwrap();
        assert!(collections::drop(&mut connection.client, &schema(), &collection, true).await.unwrap().table);
    })
    .await;
}

/// Two collections, each with a model named after it.
async fn two_models(db: &TestDatabase) {
    let files = Files::new();
    for name in ["things", "others"] {
        run(&db.url(), &request(name, "id", &[files.write(name, "{\"id\":\"a\",\"value\":1}\n")])).await;
        publish_on(db, &wanted(name, &format!("{name}_read"), &["value:int=value"], &["value"], None))
            .await
            .expect("the server answers");
        refresh_on(db, &[&format!("{name}_read")], None).await.expect("the server answers");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_index_is_dropped_by_the_next_publish() {
    every_build(async |db| {
        two_models(&db).await;
        let reader = db.client().await;
        reader.batch_execute("begin; select * from public.things_read").await.unwrap();
        let other = wanted("things", "things_read", &["value:int=value"], &["lower(doc->>'x')"], None);
        let done = publish_on(&db, &other).await.unwrap();
        assert_eq!(done, Published::Reindexed { made: 1, dropped: 1, in_use: 1 }, "the reader does not let go");
        let at_once = wanted("things", "things_read", &["value:int=value"], &["value"], None);
        let error = publish_on(&db, &at_once).await.expect_err("it is still there");
        assert!(error.to_string().contains("index \"(value)\" could not be removed yet"), "{error}");
        reader.batch_execute("commit").await.unwrap();
        let client = db.client().await;
        let indexes = "select count(*), count(*) filter (where not indisvalid) from pg_index where indrelid = \
                       (select format('millstream.model_%s_%s', model_id, serving)::regclass from millstream.model \
                       where model_name = 'things_read')";
        let row = client.query_one(indexes, &[]).await.unwrap();
        assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (3, 1), "the drop was broken off");
        let again = wanted("things", "things_read", &["value:int=value"], &["value"], None);
        let done = publish_on(&db, &again).await.unwrap();
        assert_eq!(done, Published::Reindexed { made: 1, dropped: 1, in_use: 0 });
        let row = client.query_one(indexes, &[]).await.unwrap();
        assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (2, 0));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publish_beside_another_fails_instead_of_waiting_for_ever() {
    every_build(async |db| {
        two_models(&db).await;
        let other = db.client().await;
        other.batch_execute(&format!("select pg_advisory_lock({})", 0x6d73_6c70_7562_6c73_i64)).await.unwrap();
        let more = wanted("things", "more", &[], &[], None);
        let error = publish_on(&db, &more).await.expect_err("the other one holds the lock");
        assert!(matches!(error, Error::PublishBusy) && error.hint().is_some(), "{error}");
        other.batch_execute("select pg_advisory_unlock_all()").await.unwrap();
        assert_eq!(publish_on(&db, &more).await.unwrap(), Published::Made);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_that_fails_leaves_nothing() {
    every_build(async |db| {
        two_models(&db).await;
        let client = db.client().await;
        let fragile = wanted("things", "things_read", &["value:int=value"], &["value"], Some("1 / (value - 7) <> 5"));
        assert_eq!(publish_on(&db, &fragile).await.unwrap(), Published::Redefined);
        client.batch_execute("insert into public.things values ('bad', '{\"value\": 7}')").await.unwrap();
        let error = refresh_on(&db, &["things_read", "others_read"], Some("swap")).await.expect_err("a division");
        assert!(error.to_string().contains("division by zero"), "{error}");
        let generations = "select count(*) from pg_class where relname ~ '^model_[0-9]+_[12]$'";
        assert_eq!(client.query_one(generations, &[]).await.unwrap().get::<_, i64>(0), 2, "those that are shown");
        client.batch_execute("delete from public.things where id = 'bad'").await.unwrap();
        assert_eq!(refresh_on(&db, &["things_read"], None).await.unwrap()[0].way, "swap");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_on_new_rows_delays_the_swap_and_no_reader() {
    every_build(async |db| {
        two_models(&db).await;
        let client = db.client().await;
        let held = "create function public.held() returns boolean language plpgsql stable as \
                    'begin perform pg_advisory_xact_lock_shared(7); return true; end'";
        client.batch_execute(held).await.unwrap();
        let waits = wanted("others", "others_read", &["value:int=value"], &["value"], Some("public.held()"));
        assert_eq!(publish_on(&db, &waits).await.unwrap(), Published::Redefined);
        client.batch_execute("select pg_advisory_lock(7)").await.unwrap();
        let conninfo = surroundings(&db.url()).0.db;
        let both = asked(&["things_read", "others_read"], Some("swap"));
        let swap = tokio::spawn(async move { Box::pin(refresh(&conninfo, &schema(), &both)).await });
        let until = async |sql: &str| {
            millstream_testkit::until(&format!("there is one of {sql}"), async || {
                assert!(!swap.is_finished(), "it waits: {sql}");
                rows(&client, sql).await > 0
            })
            .await;
        };
        until(BUILD_HELD).await;
        let kept =
            "pg_class where relname ~ '^model_[0-9]+_[12]$' and reloptions::text like '%autovacuum_enabled=off%'";
        assert_eq!(rows(&client, kept).await, 2, "autovacuum keeps away from what is built");
        let other = db.client().await;
        // The lock that a manual vacuum holds.
        other.batch_execute("begin; lock table millstream.model_1_1 in share update exclusive mode").await.unwrap();
        client.batch_execute("select pg_advisory_unlock(7)").await.unwrap();
        until(
            "pg_stat_activity where datname = current_database() and application_name = 'millstream refresh' \
             and query ~ 'locked|lock table|attach partition'",
        )
        .await;
        let reader = db.client().await;
        reader.batch_execute("set lock_timeout = '10s'").await.unwrap();
        for _ in 0..20 {
            assert_eq!(rows(&reader, "public.things_read").await, 1);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(!swap.is_finished(), "it waits for the lock");
        other.batch_execute("commit").await.unwrap();
        let done = swap.await.unwrap().unwrap();
        assert!(done.iter().all(|one| one.way == "swap" && one.bloat_bytes == 0), "{done:?}");
        assert_eq!(rows(&client, kept).await, 0, "autovacuum looks after what is shown");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn locked_replaced_rows_are_removed_by_the_next_refresh() {
    every_build(async |db| {
        two_models(&db).await;
        let other = db.client().await;
        // The lock that a manual vacuum holds.
        other.batch_execute("begin; lock table millstream.model_1_2 in share update exclusive mode").await.unwrap();
        let done = refresh_on(&db, &["things_read"], Some("swap")).await.unwrap();
        assert!(done[0].warnings.is_empty() && done[0].bloat_bytes > 0, "{done:?}");
        other.batch_execute("commit").await.unwrap();
        for way in ["incremental", "swap"] {
            let done = refresh_on(&db, &["things_read"], Some(way)).await.unwrap();
            assert!(done[0].warnings.is_empty() && done[0].bloat_bytes == 0, "{done:?}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_cleanup_is_a_warning_and_other_models_are_cleaned_up() {
    every_build(async |db| {
        two_models(&db).await;
        let client = db.client().await;
        client
            .batch_execute(
                "create function public.no() returns trigger language plpgsql as 'begin raise exception ''no''; end';
                 do $$ begin execute format('create trigger no before delete on millstream.change_%s
                     execute function public.no()', 'public.things'::regclass::oid); end $$;
                 insert into public.things values ('b', '{}');
                 insert into public.others values ('b', '{}')",
            )
            .await
            .unwrap();
        for way in ["incremental", "swap"] {
            let done = refresh_on(&db, &["things_read", "others_read"], Some(way)).await.unwrap();
            assert!(done[0].warnings[0].contains(": no (SQLSTATE") && done[0].warnings.len() == 1, "{done:?}");
            assert!(done[1].warnings.is_empty(), "{done:?}");
            assert_eq!((rows(&client, "public.things_read").await, rows(&client, "public.others_read").await), (2, 2));
        }
        let left = "select format('millstream.change_%s', 'public.others'::regclass::oid)";
        let record: String = client.query_one(left, &[]).await.unwrap().get(0);
        assert_eq!(rows(&client, &record).await, 1, "the first line of the record stays, the changes are forgotten");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_that_was_dropped_by_hand_is_made_again() {
    every_build(async |db| {
        two_models(&db).await;
        let client = db.client().await;
        client.batch_execute("drop view public.things_read").await.unwrap();
        let done = refresh_on(&db, &["things_read"], None).await.unwrap();
        assert!(done[0].warnings[0].starts_with("its view was gone"), "{done:?}");
        assert_eq!(rows(&client, "public.things_read").await, 1);
        assert!(refresh_on(&db, &["things_read"], None).await.unwrap()[0].warnings.is_empty());

        client
            .batch_execute("drop view public.things_read; create view public.things_read as select 7 as n")
            .await
            .unwrap();
        let error = refresh_on(&db, &["things_read"], None).await.expect_err("the name is taken");
        assert!(error.to_string().contains("something else has its name"), "{error}");
        unpublish(&mut session(&db.url()).await, &schema(), &"things_read".parse().unwrap()).await.unwrap();
        assert_eq!(rows(&client, "public.things_read").await, 1, "a view that is not ours stays");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_rewritten_before_a_refresh_is_shown_whole() {
    every_build(async |db| {
        two_models(&db).await;
        let (client, gate, writer) = (db.client().await, db.client().await, db.client().await);
        // Stops the refresh of both after it created the second table to fill, before its transaction begins.
        client
            .batch_execute(
                "create function public.stop() returns event_trigger language plpgsql as $$ begin
                     if exists (select from pg_catalog.pg_event_trigger_ddl_commands()
                                where object_identity like 'millstream.model_2\\_%') then
                         perform pg_catalog.pg_advisory_xact_lock_shared(7);
                     end if; end $$;
                 create event trigger stop on ddl_command_end when tag in ('CREATE TABLE AS') execute function public.stop()",
            )
            .await
            .unwrap();
        gate.batch_execute("select pg_advisory_lock(7)").await.unwrap();
        let waits = async |what: &str| {
            let sql = format!("select count(*) from pg_locks where not granted and {what}");
            millstream_testkit::until(&format!("a session waits for a lock where {what}"), async || {
                client.query_one(&sql, &[]).await.unwrap().get::<_, i64>(0) > 0
            })
            .await;
        };
        let conninfo = surroundings(&db.url()).0.db;
        let both = asked(&["things_read", "others_read"], Some("swap"));
        let refreshing = tokio::spawn(async move { Box::pin(refresh(&conninfo, &schema(), &both)).await });
        waits("locktype = 'advisory' and objid = 7 and database = (select oid from pg_database where datname = current_database())").await;
        let rewriting = tokio::spawn(async move {
            let rewrite = "begin; alter table public.others add column n float8 default random()";
            writer.batch_execute(rewrite).await.map(|()| writer)
        });
        waits("relation = 'public.others'::regclass").await;
        gate.batch_execute("select pg_advisory_unlock(7)").await.unwrap();
        let writer = rewriting.await.unwrap().unwrap();
        waits("relation = 'public.others'::regclass").await;
        writer.batch_execute("commit").await.unwrap();
        refreshing.await.unwrap().unwrap();
        assert_eq!((rows(&client, "public.things_read").await, rows(&client, "public.others_read").await), (1, 1));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn models_of_two_schemas_do_not_wait_for_each_other() {
    every_build(async |db| {
        two_models(&db).await;
        let files = Files::new();
        let mut third = request("thirds", "id", &[files.write("a", "{\"id\":\"a\"}\n")]);
        third.schema = Schema::new("second");
        run(&db.url(), &third).await;
        let second = Schema::new("second");
        publish(&mut session(&db.url()).await, &second, &wanted("thirds", "thirds_read", &[], &[], None))
            .await
            .unwrap();
        let client = db.client().await;
        let hold = "select pg_advisory_lock(1836280941, hashoid('millstream.model'::regclass) # 1)";
        client.batch_execute(hold).await.unwrap();
        refresh(&surroundings(&db.url()).0.db, &second, &asked(&["thirds_read"], None)).await.unwrap();
        let busy = refresh_on(&db, &["things_read"], None).await.expect_err("it is held");
        assert!(matches!(busy, Error::ModelBusy { .. }), "{busy}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_column_can_be_of_a_type_in_any_schema_of_the_path() {
    every_build(async |db| {
        let client = db.client().await;
        client
            .batch_execute(
                "create schema elsewhere; create domain elsewhere.positive as int check (value > 0);
                 do $$ begin execute format('alter database %I set search_path = public, elsewhere',
                     current_database()); end $$",
            )
            .await
            .unwrap();
        let files = Files::new();
        let text = "{\"id\":\"a\",\"value\":1}\n{\"id\":\"b\",\"value\":-1}\n";
        run(&db.url(), &request("things", "id", &[files.write("a", text)])).await;
        publish_on(&db, &wanted("things", "model", &["value:positive=value"], &["value"], None)).await.unwrap();
        let built = refresh_on(&db, &["model"], None).await.unwrap();
        assert_eq!(
            (built[0].invalid_values[0].documents, built[0].invalid_values[0].keys.clone()),
            (1, vec!["b".to_owned()])
        );
        assert_eq!(rows(&client, "public.model where value is not null").await, 1);
        let mut kept = wanted("things", "kept", &["value:positive=value"], &["value"], None);
        kept.definition.materialized = true;
        publish_on(&db, &kept).await.unwrap();
        for _ in 0..2 {
            assert_eq!(refresh_on(&db, &["kept"], None).await.unwrap()[0].invalid_values[0].documents, 1);
        }
        assert_eq!(rows(&client, "public.kept where value is not null").await, 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_expression_names_the_key_of_the_document() {
    every_build(async |db| {
        let (client, files) = (db.client().await, Files::new());
        let mut text = String::new();
        for n in 0..5_000 {
            let value = if n == 3_210 { "\"odd\"".to_owned() } else { n.to_string() };
            text.push_str(&format!("{{\"id\":\"k{n}\",\"value\":{value}}}\n"));
        }
        run(&db.url(), &request("things", "id", &[files.write("a", text)])).await;
        let failing = PublishRequest {
            definition: Definition { select: Some("(doc->>'value')::int as value".into()), ..Definition::default() },
            ..wanted("things", "m", &[], &[], None)
        };
        publish_on(&db, &failing).await.unwrap();
        for _ in 0..2 {
            let error = refresh_on(&db, &["m"], None).await.expect_err("a value is not a number");
            let message = error.to_string();
            assert!(
                message.contains("m cannot be built from the document with key k3210: invalid input syntax"),
                "{message}"
            );
            assert_eq!(error.kind(), millstream_pg::ErrorKind::Config);
        }
        client.batch_execute("update public.things set doc = '{\"value\": 1}' where id = 'k3210'").await.unwrap();
        refresh_on(&db, &["m"], Some("swap")).await.unwrap();
        client.batch_execute("update public.things set doc = '{\"value\": true}' where id = 'k77'").await.unwrap();
        let message = refresh_on(&db, &["m"], Some("incremental")).await.expect_err("again").to_string();
        assert!(message.contains("with key k77: "), "{message}");
    })
    .await;
}

#[tokio::test]
async fn a_table_without_jsonb_has_no_model() {
    every_build(async |db| {
        let files = Files::new();
        run(&db.url(), &request("texts", "id", &[files.write("a", "{\"id\":\"a\",\"v\":1}\n")])).await;
        let client = db.client().await;
        client.batch_execute("alter table texts alter column doc type json").await.unwrap();
        let model = wanted("public.texts", "public.model", &["v:int=v"], &[], None);
        let error = publish_on(&db, &model).await.expect_err("a refresh could not change the column back");
        assert!(error.to_string().contains("of type json, not jsonb"), "{error}");
        client.batch_execute("alter table texts alter column doc type jsonb").await.unwrap();
        publish_on(&db, &model).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_partitioned_table_has_no_model() {
    let db = database().await;
    let files = Files::new();
    let client = db.client().await;
    let made = "create table public.parted (id text primary key, doc jsonb not null) partition by hash (id);
                create table public.parted_0 partition of public.parted for values with (modulus 1, remainder 0)";
    client.batch_execute(made).await.unwrap();
    let mut load = request("public.parted", "id", &[files.write("a", "{\"id\":\"a\"}\n")]);
    load.adopt = true;
    run(&db.url(), &load).await;
    let error = publish_on(&db, &wanted("public.parted", "public.m", &[], &["id"], None)).await.expect_err("refused");
    assert!(error.to_string().contains("partition"), "{error}");
}
