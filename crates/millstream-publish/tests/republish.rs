//! Models that are published again with another definition, materialized models, and models in several schemas.

use crate::publish::{asked, publish_on, refresh_on, session, wanted};
use crate::scene::{Files, request, run, schema, surroundings};
use millstream_pg::Explained;
use millstream_publish::{Figures, PublishRequest, Published, estimate, figures, publish, refresh, unpublish};
use millstream_store::{Schema, models};
use millstream_testkit::{TestDatabase, every_build, until};
use tokio_postgres::Client;

/// Documents `{"id":"kN","a":N,"b":"N"}` in the collection `things`.
pub(crate) const DOCUMENTS: i64 = 300;

pub(crate) async fn things(db: &TestDatabase) -> Client {
    let line = |n: i64| format!("{{\"id\":\"k{n}\",\"a\":{n},\"b\":\"{n}\"}}\n");
    let files = Files::new();
    run(&db.url(), &request("things", "id", &[files.write("a", (0..DOCUMENTS).map(line).collect::<String>())])).await;
    let client = db.client().await;
    client.batch_execute("analyze public.things").await.expect("the server answers");
    client
}

pub(crate) async fn number(client: &Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).await.expect("the server answers").get(0)
}

/// Waits until no session of the database holds the lock of a load: the server ends one a moment after its client.
pub(crate) async fn until_unlocked(client: &Client) {
    let sql = "select not exists (select from pg_locks where locktype = 'advisory' and objsubid = 2
               and database = (select oid from pg_database where datname = current_database()))";
    until("the locks of loads are free", async || {
        client.query_one(sql, &[]).await.expect("locks can be listed").get(0)
    })
    .await;
}

async fn figures_of(client: &Client, schema: &Schema, name: &str) -> Figures {
    let name = name.parse().expect("a name");
    let model = models::find(client, schema, &name).await.expect("the server answers").expect("a model");
    figures(client, schema, &model).await.expect("the server answers")
}

pub(crate) fn materialized(mut request: PublishRequest) -> PublishRequest {
    request.definition.materialized = true;
    request
}

#[tokio::test(flavor = "multi_thread")]
async fn republish_changes_a_model_and_keeps_its_view() {
    every_build(async |db| {
        let client = things(&db).await;
        publish_on(&db, &wanted("things", "model", &["a:int=a"], &["a"], None)).await.unwrap();
        refresh_on(&db, &["model"], None).await.unwrap();
        client
            .batch_execute(
                "create view public.mine as select id, a from public.model;
                 alter view public.model set (security_barrier = true);
                 grant select on public.model to public",
            )
            .await
            .unwrap();
        let about =
            "select oid::bigint, relacl::text, reloptions::text from pg_class where oid = 'public.model'::regclass";
        let about = async || {
            let row = client.query_one(about, &[]).await.unwrap();
            (row.get::<_, i64>(0), row.get::<_, Option<String>>(1), row.get::<_, Option<String>>(2))
        };
        let before = about().await;

        // The same rows: changed at once, whatever the order of the columns.
        let same = publish_on(&db, &wanted("things", "model", &["a:int=a"], &[], None)).await.unwrap();
        assert_eq!(same, Published::Reindexed { made: 0, dropped: 1, in_use: 0 });
        // Another condition and one more column: changed by the next refresh, whatever way is asked for.
        let other = wanted("things", "model", &["b:text=b", "a:int=a"], &["b"], Some("a >= 100"));
        assert_eq!(publish_on(&db, &other).await.unwrap(), Published::Redefined);
        assert_eq!(number(&client, "select count(*) from public.model").await, DOCUMENTS, "it is what it was");
        let conninfo = surroundings(&db.url()).0.db;
        let estimated = estimate(&conninfo, &schema(), &asked(&["model"], Some("incremental"))).await.unwrap();
        assert_eq!((estimated[0].way, estimated[0].reason.as_str()), ("swap", "its definition has changed"));
        let reader = db.client().await;
        reader.batch_execute("begin isolation level repeatable read").await.unwrap();
        assert_eq!(number(&reader, "select 1::bigint").await, 1, "it has its snapshot");
        // A refresh that fails leaves the model as it was, and the next one builds what was asked for.
        let hasty = "create function public.no() returns event_trigger language plpgsql as
                         'begin if tg_tag = ''CREATE VIEW'' then raise exception ''no''; end if; end';
                     create event trigger no on ddl_command_end execute function public.no()";
        client.batch_execute(hasty).await.unwrap();
        refresh_on(&db, &["model"], None).await.expect_err("the view cannot be replaced");
        client.batch_execute("drop event trigger no").await.unwrap();
        assert_eq!(number(&client, "select count(*) from public.model").await, DOCUMENTS, "it is what it was");
        let done = tokio::spawn({
            let conninfo = conninfo.clone();
            async move { Box::pin(refresh(&conninfo, &schema(), &asked(&["model"], None))).await }
        });
        let wide = "select count(*) from pg_attribute where attrelid = 'public.model'::regclass and attname = 'b'";
        until("the view has the column", async || {
            assert!(!done.is_finished(), "it has the column at its end");
            number(&client, wide).await > 0
        })
        .await;
        // The view is new, the snapshot is old: the reader sees the old rows, in which the new column is null.
        let then = "select count(*) + count(b) from public.model";
        assert_eq!(number(&reader, then).await, DOCUMENTS, "a transaction sees one refresh");
        reader.batch_execute("commit").await.unwrap();
        assert_eq!(done.await.unwrap().unwrap()[0].way, "swap");
        let now = "select count(*) from public.model where b = a::text and a >= 100";
        assert_eq!(number(&client, now).await, DOCUMENTS - 100);
        assert_eq!(number(&client, "select count(*) from public.mine").await, DOCUMENTS - 100);
        assert_eq!(about().await, before, "identity, grants and options stay");
        let columns = "select string_agg(attname, ' ' order by attnum) from pg_attribute
                       where attrelid = 'public.model'::regclass and attnum > 0";
        let columns: String = client.query_one(columns, &[]).await.unwrap().get(0);
        assert_eq!(columns, "id a doc b");
        client.batch_execute("update public.things set doc = doc || '{\"b\": \"x\"}' where id = 'k200'").await.unwrap();
        let changed = refresh_on(&db, &["model"], None).await.unwrap();
        assert_eq!((changed[0].way, changed[0].rows), ("incremental", 1));
        assert_eq!(number(&client, "select count(*) from public.model where b = 'x' and a = 200").await, 1);

        // A change that would break readers is refused, and leaves nothing behind.
        client.batch_execute("create domain public.small as int check (value < 1000000)").await.unwrap();
        for (columns, message) in [
            (&["a:text=a", "b:text=b"][..], "keeps its column a of type integer: it cannot become text"),
            (&["a:int=a"], "keeps its column b: a view can only get more columns"),
            (&["a:int=a", "b:text=b", "s:public.small=a"], "cannot get the column s of the domain"),
        ] {
            let error = publish_on(&db, &wanted("things", "model", columns, &[], None)).await.expect_err(message);
            assert!(error.to_string().contains(message) && error.hint().is_some(), "{error}");
        }
        let error = publish_on(&db, &materialized(other)).await.expect_err("another kind");
        assert!(error.to_string().contains("is not a materialized view"), "{error}");
        assert_eq!(refresh_on(&db, &["model"], None).await.unwrap()[0].way, "incremental");
        let left = "select count(*) from pg_class where relname ~ '^model_[0-9]+_0'";
        assert_eq!(number(&client, left).await, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unbuilt_model_keeps_its_definition_unless_given_another() {
    every_build(async |db| {
        let client = things(&db).await;
        let first = wanted("things", "model", &["a:int=a"], &["a"], Some("a >= 100"));
        let plain = wanted("things", "model", &[], &[], None);
        for request in [&first, &plain] {
            assert_eq!(publish_on(&db, request).await.unwrap(), Published::Made);
        }
        let error = publish_on(&db, &materialized(plain)).await.expect_err("another kind");
        assert!(error.to_string().contains("is not a materialized view"), "{error}");
        refresh_on(&db, &["model"], None).await.unwrap();
        assert_eq!(number(&client, "select count(a) from public.model").await, DOCUMENTS - 100);
        let indexes = "select count(*) from pg_index where indrelid = 'millstream.model_1_2'::regclass";
        assert_eq!(number(&client, indexes).await, 2, "the key's and its own");

        // A model that was never built is built by its newest definition.
        publish_on(&db, &wanted("things", "other", &["a:int=a"], &[], None)).await.unwrap();
        let text = wanted("things", "other", &["a:text=a"], &[], None);
        assert_eq!(publish_on(&db, &text).await.unwrap(), Published::Made);
        refresh_on(&db, &["other"], None).await.unwrap();
        assert_eq!(number(&client, "select count(*) from public.other where a = '7'::text").await, 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn materialized_and_other_models_show_one_snapshot() {
    every_build(async |db| {
        let client = things(&db).await;
        client.batch_execute("insert into public.things values ('odd', '{\"a\": \"odd\"}')").await.unwrap();
        let kept = materialized(wanted("things", "kept", &["a:int=a"], &["a", "using gin (doc)"], None));
        assert_eq!(publish_on(&db, &kept).await.unwrap(), Published::Made);
        let triggers = "select count(*) from pg_trigger where tgname like 'millstream%'";
        assert_eq!(number(&client, triggers).await, 0, "no changes are recorded for it");
        assert!(client.query("select from public.kept", &[]).await.is_err(), "nothing is shown before it is built");
        let built = refresh_on(&db, &["kept"], None).await.unwrap();
        assert_eq!((built[0].way, built[0].rows), ("materialized", DOCUMENTS as u64 + 1));
        assert_eq!(
            (built[0].invalid_values[0].documents, built[0].invalid_values[0].keys.clone()),
            (1, vec!["odd".to_owned()])
        );

        publish_on(&db, &wanted("things", "model", &["a:int=a"], &["a"], None)).await.unwrap();
        refresh_on(&db, &["kept", "model"], None).await.unwrap();
        let change =
            "update public.things set doc = '{\"a\": -1}' where id = 'k7'; delete from public.things where id = 'k8'";
        client.batch_execute(change).await.unwrap();
        let reader = db.client().await;
        reader.batch_execute("begin isolation level repeatable read").await.unwrap();
        assert_eq!(number(&reader, "select count(*) from public.kept where a = 7").await, 1);
        let both = refresh_on(&db, &["kept", "model"], None).await.unwrap();
        assert_eq!((both[0].way, both[0].rows), ("materialized", 3), "a row deleted, a row replaced");
        assert_eq!(both[1].way, "incremental");
        let differ = "select count(*) from ((table public.kept except table public.model)
                      union all (table public.model except table public.kept)) as d";
        assert_eq!(number(&client, differ).await, 0);
        assert_eq!(number(&client, "select count(*) from public.kept where a = -1").await, 1);
        assert_eq!(number(&reader, "select count(*) from public.kept where a in (7, 8)").await, 2, "one refresh");
        reader.batch_execute("commit").await.unwrap();

        let conninfo = surroundings(&db.url()).0.db;
        let estimated = estimate(&conninfo, &schema(), &asked(&["kept"], None)).await.unwrap();
        assert_eq!((estimated[0].way, estimated[0].reason.as_str()), ("materialized", "it is a materialized view"));
        for (model, way) in [("kept", "swap"), ("model", "materialized")] {
            let error = refresh_on(&db, &[model], Some(way)).await.expect_err(way);
            assert!(error.to_string().contains(&format!("cannot be refreshed by {way}")), "{error}");
        }
        let again = materialized(wanted("things", "kept", &["a:int=a"], &["a", "lower(doc->>'a')"], None));
        assert_eq!(publish_on(&db, &again).await.unwrap(), Published::Reindexed { made: 1, dropped: 1, in_use: 0 });
        assert_eq!(number(&client, "select count(*) from pg_index where indrelid = 'public.kept'::regclass").await, 3);
        let other = materialized(wanted("things", "kept", &[], &[], Some("a > 1")));
        let error = publish_on(&db, &other).await.expect_err("other rows");
        assert!(error.to_string().contains("only the indexes can change"), "{error}");
        let wrong = materialized(wanted("things", "bad", &[], &["no_such"], None));
        let error = publish_on(&db, &wrong).await.expect_err("a wrong index");
        assert!(error.to_string().contains("index \"no_such\""), "{error}");

        // The record ends with the last model that needs it.
        let mut connection = session(&db.url()).await;
        unpublish(&mut connection, &schema(), &"model".parse().unwrap()).await.unwrap();
        assert_eq!(number(&client, triggers).await, 0);
        assert_eq!(refresh_on(&db, &["kept"], None).await.unwrap()[0].rows, 0);
        client.batch_execute("drop materialized view public.kept").await.unwrap();
        assert!(refresh_on(&db, &["kept"], None).await.unwrap()[0].warnings[0].starts_with("its view was gone"));
        unpublish(&mut connection, &schema(), &"kept".parse().unwrap()).await.unwrap();
        let left = "select count(*) from pg_class where relname ~ '^(kept|model_[0-9]|change_[0-9])'";
        assert_eq!(number(&client, left).await, 0);
        let left = "select count(*) from pg_proc where proname ~ '^model_[0-9]+_cast'";
        assert_eq!(number(&client, left).await, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn models_of_two_schemas_follow_one_collection() {
    every_build(async |db| {
        let client = things(&db).await;
        let files = Files::new();
        let mut more = request("things", "id", &[files.write("b", "{\"id\":\"more\",\"a\":1}\n")]);
        (more.schema, more.adopt) = (Schema::new("second"), true);
        run(&db.url(), &more).await;
        let second = Schema::new("second");
        let (conninfo, mut connection) = (surroundings(&db.url()).0.db, session(&db.url()).await);
        publish_on(&db, &wanted("things", "first_read", &[], &[], None)).await.unwrap();
        publish(&mut connection, &second, &wanted("things", "second_read", &[], &[], None)).await.unwrap();
        refresh_on(&db, &["first_read"], None).await.unwrap();
        refresh(&conninfo, &second, &asked(&["second_read"], None)).await.unwrap();
        client.batch_execute("delete from public.things where id in ('k1', 'k2')").await.unwrap();
        for (schema, model) in [(&schema(), "first_read"), (&second, "second_read")] {
            assert_eq!(figures_of(&client, schema, model).await.waiting_changes, Some(2), "{model}");
            let done = refresh(&conninfo, schema, &asked(&[model], None)).await.unwrap();
            assert_eq!((done[0].way, done[0].rows), ("incremental", 2), "{model}");
        }
        let triggers = "select count(*) from pg_trigger where tgname like 'millstream\\_changed\\_%'";
        assert_eq!(number(&client, triggers).await, 12);
        unpublish(&mut connection, &second, &"second_read".parse().unwrap()).await.unwrap();
        assert_eq!(number(&client, triggers).await, 6);
        client.batch_execute("delete from public.things where id = 'k3'").await.unwrap();
        assert_eq!(refresh_on(&db, &["first_read"], None).await.unwrap()[0].way, "incremental");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_built_models_and_models_in_build_keep_changes() {
    every_build(async |db| {
        let client = things(&db).await;
        for model in ["built", "never"] {
            publish_on(&db, &wanted("things", model, &[], &[], None)).await.unwrap();
        }
        refresh_on(&db, &["built"], None).await.unwrap();
        let oid = number(&client, "select 'public.things'::regclass::oid::bigint").await;
        let kept = format!("select coalesce(sum(keys), 0)::bigint from millstream.change_{oid}");
        // As a refresh that builds the model: first this lock, then its snapshot.
        let builder = db.client().await;
        let class = 0x6d73_6c6d;
        let lock = format!(
            "select pg_advisory_lock({class}, hashoid(tableoid) # model_id) from millstream.model where model_name = 'never'"
        );
        builder.batch_execute(&lock).await.unwrap();
        client.batch_execute("delete from public.things where id = 'k1'").await.unwrap();
        refresh_on(&db, &["built"], Some("incremental")).await.unwrap();
        assert_eq!(number(&client, &kept).await, 1, "its snapshot may be older");
        builder.batch_execute("select pg_advisory_unlock_all()").await.unwrap();
        client.batch_execute("delete from public.things where id = 'k2'").await.unwrap();
        refresh_on(&db, &["built"], Some("incremental")).await.unwrap();
        assert_eq!(number(&client, &kept).await, 0);
        client.batch_execute("delete from public.things where id = 'k3'").await.unwrap();
        refresh_on(&db, &["never"], None).await.unwrap();
        assert_eq!(number(&client, "select count(*) from public.never").await, DOCUMENTS - 3);
        assert_eq!(number(&client, &kept).await, 1, "the other one does not show it yet");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unpublish_during_the_first_refresh_removes_model_and_view() {
    every_build(async |db| {
        let client = things(&db).await;
        publish_on(&db, &materialized(wanted("things", "model", &[], &[], None))).await.unwrap();
        let owner = db.client().await;
        owner.batch_execute("begin; lock table public.things in access exclusive mode").await.unwrap();
        let (conninfo, mut connection) = (surroundings(&db.url()).0.db, session(&db.url()).await);
        let refreshing =
            tokio::spawn(async move { Box::pin(refresh(&conninfo, &schema(), &asked(&["model"], None))).await });
        let held =
            "select count(*) from pg_locks w join pg_locks l using (pid) where l.locktype = 'advisory' and l.granted
                        and l.classid = 1836280941 and w.relation = 'public.things'::regclass and not w.granted";
        until("the refresh waits for the collection", async || {
            assert!(!refreshing.is_finished(), "it waits for the collection");
            number(&client, held).await > 0
        })
        .await;
        let removing =
            tokio::spawn(async move { unpublish(&mut connection, &schema(), &"model".parse().expect("a name")).await });
        let waits = "select count(*) from pg_stat_activity where datname = current_database()
                         and query like '%pg_try_advisory_xact_lock(1836280941,%' and pid <> pg_backend_pid()";
        until("the removal waits for the refresh", async || {
            assert!(!removing.is_finished(), "it waits for the refresh");
            number(&client, waits).await > 0
        })
        .await;
        owner.batch_execute("commit").await.unwrap();
        refreshing.await.unwrap().unwrap();
        removing.await.unwrap().unwrap();
        assert_eq!(number(&client, "select count(*) from pg_class where relname = 'model' and relkind = 'm'").await, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_of_locked_tables_are_unknown() {
    every_build(async |db| {
        let client = things(&db).await;
        publish_on(&db, &wanted("things", "model", &[], &[], None)).await.unwrap();
        refresh_on(&db, &["model"], None).await.unwrap();
        let other = db.client().await;
        other.batch_execute("begin; lock table millstream.model_1_2 in access exclusive mode").await.unwrap();
        let figures = figures_of(&client, &schema(), "model").await;
        assert_eq!((figures.bloat_bytes, figures.waiting_changes), (None, Some(0)));
        other.batch_execute("commit").await.unwrap();
        assert_eq!(figures_of(&client, &schema(), "model").await.bloat_bytes, Some(0));
        let timeout = client.query_one("show lock_timeout", &[]).await.unwrap();
        assert_eq!(timeout.get::<_, String>(0), "0", "the session is what it was");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_count_pending_changes_and_bloat() {
    every_build(async |db| {
        let client = things(&db).await;
        publish_on(&db, &wanted("things", "model", &[], &[], None)).await.unwrap();
        let figures = async || figures_of(&client, &schema(), "model").await;
        let nothing = Figures {
            bloat_bytes: Some(0),
            waiting_segments: Some(0),
            waiting_documents: Some(0),
            ..Figures::default()
        };
        assert_eq!(figures().await, Figures { everything_waits: true, ..nothing });
        refresh_on(&db, &["model"], None).await.unwrap();
        assert_eq!(figures().await, Figures { waiting_changes: Some(0), ..nothing });
        client.batch_execute("update public.things set doc = '{}' where id like 'k1%'").await.unwrap();
        let changed = number(&client, "select count(*) from public.things where id like 'k1%'").await;
        assert_eq!(figures().await.waiting_changes, u64::try_from(changed).ok());
        assert!(figures().await.lag_seconds.is_some_and(|age| age >= 0.0));
        // A reader that keeps the replaced rows in use.
        let reader = db.client().await;
        reader.batch_execute("begin isolation level repeatable read; select 1").await.unwrap();
        let swapped = refresh_on(&db, &["model"], Some("swap")).await.unwrap();
        let taken = number(&client, "select pg_total_relation_size('millstream.model_1_2')").await;
        assert_eq!(i64::try_from(swapped[0].bloat_bytes), Ok(taken), "the replaced rows are there");
        assert!(
            figures().await.bloat_bytes.is_some_and(|bytes| i64::try_from(bytes).is_ok_and(|bytes| bytes >= taken))
        );
        assert_eq!(number(&reader, "select count(*) from public.model where doc <> '{}'").await, DOCUMENTS);
        reader.batch_execute("commit").await.unwrap();
        refresh_on(&db, &["model"], Some("swap")).await.unwrap();
        assert_eq!(figures().await.bloat_bytes, Some(0));
        publish_on(&db, &wanted("things", "model", &[], &[], Some("id <> 'k5'"))).await.unwrap();
        assert_eq!((figures().await.waiting_changes, figures().await.everything_waits), (Some(0), true));
        refresh_on(&db, &["model"], None).await.unwrap();
        assert!(!figures().await.everything_waits);
        client.batch_execute("truncate public.things").await.unwrap();
        assert_eq!((figures().await.waiting_changes, figures().await.everything_waits), (None, true));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_is_renamed_while_its_refresh_waits_is_refreshed() {
    every_build(async |db| {
        let client = things(&db).await;
        publish_on(&db, &wanted("things", "model", &[], &[], None)).await.unwrap();
        refresh_on(&db, &["model"], None).await.unwrap();
        client.batch_execute("delete from public.things where id = 'k1'").await.unwrap();
        // The lock that another refresh holds.
        let lock = "select pg_advisory_lock(1836280941, hashoid(tableoid) # model_id) from millstream.model";
        client.batch_execute(lock).await.unwrap();
        let conninfo = surroundings(&db.url()).0.db;
        let waiter =
            tokio::spawn(async move { Box::pin(refresh(&conninfo, &schema(), &asked(&["model"], None))).await });
        let waits = "select count(*) from pg_stat_activity where datname = current_database()
                         and application_name = 'millstream refresh' and query like '%pg_try_advisory_lock%'";
        until("the refresh waits for the lock of the model", async || {
            assert!(!waiter.is_finished(), "it waits for the lock");
            number(&client, waits).await > 0
        })
        .await;
        client.batch_execute("alter view public.model rename to renamed").await.unwrap();
        client.batch_execute("select pg_advisory_unlock_all()").await.unwrap();
        let done = waiter.await.unwrap().unwrap();
        assert_eq!((done[0].model.table.as_str(), done[0].rows), ("renamed", 1), "{done:?}");
        assert_eq!(number(&client, "select count(*) from public.renamed").await, DOCUMENTS - 1);
    })
    .await;
}
