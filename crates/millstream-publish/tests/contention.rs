//! Publishing and refreshing while others publish, change the collections or read the models.

use crate::publish::{asked, publish_on, refresh_on, session, wanted};
use crate::republish::{number, things};
use crate::scene::{Files, request, run, schema, surroundings};
use millstream_pg::advisory::MODEL;
use millstream_publish::{Error, PublishRequest, Published, RefreshRequest, publish, refresh};
use millstream_testkit::{TestDatabase, each_build};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_postgres::Client;

/// The advisory lock under which models are created and removed.
const PUBLISHING: i64 = 0x6d73_6c70_7562_6c73;

/// The collections `things` and `others`, whose documents have a number `a`, each with a model of the rows in which it
/// is below 100.
async fn two_models(db: &TestDatabase) -> Client {
    let client = things(db).await;
    let files = Files::new();
    run(&db.url(), &request("others", "id", &[files.write("others", "{\"id\":\"o\",\"a\":1}\n")])).await;
    for (collection, model) in [("things", "things_read"), ("others", "others_read")] {
        publish_on(db, &small(collection, model)).await.expect("it is published");
    }
    refresh_on(db, &["things_read", "others_read"], None).await.expect("they are built");
    client
        .batch_execute(
            "create function public.held() returns boolean language plpgsql stable as
                 'begin perform pg_advisory_xact_lock_shared(7); return true; end'",
        )
        .await
        .expect("the server answers");
    client
}

fn small(collection: &str, model: &str) -> PublishRequest {
    wanted(collection, model, &["a:int=a"], &["a"], Some("a < 100"))
}

/// The model `things_read` with other rows. Its build waits while someone holds lock 7.
fn held() -> PublishRequest {
    wanted("things", "things_read", &["a:int=a"], &["a"], Some("a >= 100 and public.held()"))
}

fn refreshing(db: &TestDatabase, request: RefreshRequest) -> JoinHandle<Result<Vec<&'static str>, Error>> {
    let conninfo = surroundings(&db.url()).0.db;
    tokio::spawn(async move {
        let done = Box::pin(refresh(&conninfo, &schema(), &request)).await?;
        Ok(done.iter().map(|one| one.way).collect())
    })
}

/// Waits until a count is above zero, while a task runs.
async fn until<T>(client: &Client, task: &JoinHandle<T>, what: &str) {
    millstream_testkit::until(&format!("there is one of {what}"), async || {
        assert!(!task.is_finished(), "it waits: {what}");
        number(client, &format!("select count(*) from {what}")).await > 0
    })
    .await;
}

/// A build that waits for the lock 7 in this database.
pub(crate) const BUILD_HELD: &str = "pg_locks where locktype = 'advisory' and objid = 7 and not granted
    and database = (select oid from pg_database where datname = current_database())";

#[tokio::test(flavor = "multi_thread")]
async fn a_publish_sees_the_refresh_it_waited_for() {
    each_build(async |db| {
        let client = two_models(&db).await;
        assert_eq!(publish_on(&db, &held()).await.unwrap(), Published::Redefined);
        let hold = format!("select pg_advisory_lock(7), pg_advisory_lock({PUBLISHING})");
        client.batch_execute(&hold).await.unwrap();
        let mut connection = session(&db.url()).await;
        // The definition that is shown now. When this publish gets its turn, the model shows another one.
        let publishing =
            tokio::spawn(async move { publish(&mut connection, &schema(), &small("things", "things_read")).await });
        let tries = |lock: &str| {
            format!(
                "pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
                 and query like '%pg_try_advisory_xact_lock({lock}%'"
            )
        };
        until(&client, &publishing, &tries(&PUBLISHING.to_string())).await;
        let refreshed = refreshing(&db, asked(&["things_read"], None));
        until(&client, &refreshed, BUILD_HELD).await;
        client.batch_execute(&format!("select pg_advisory_unlock({PUBLISHING})")).await.unwrap();
        until(&client, &publishing, &tries(&MODEL.0.to_string())).await;
        client.batch_execute("select pg_advisory_unlock(7)").await.unwrap();
        assert_eq!(refreshed.await.unwrap().unwrap(), ["swap"]);
        assert_eq!(publishing.await.unwrap().unwrap(), Published::Redefined);
        refresh_on(&db, &["things_read"], None).await.unwrap();
        let shown = "select count(*) filter (where a < 100) * 1000 + count(*) from public.things_read";
        assert_eq!(number(&client, shown).await, 100_100);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_lets_a_waiting_table_change_go_first() {
    each_build(async |db| {
        let client = two_models(&db).await;
        assert_eq!(publish_on(&db, &held()).await.unwrap(), Published::Redefined);
        client.batch_execute("select pg_advisory_lock(7)").await.unwrap();
        let refreshed = refreshing(&db, asked(&["things_read", "others_read"], Some("swap")));
        until(&client, &refreshed, BUILD_HELD).await;
        // This session waits for the refresh, and the refresh's second build would wait for this session.
        let changer = db.client().await;
        let changing = tokio::spawn(async move {
            changer.batch_execute("set lock_timeout = '30s'; alter table public.others add column more int").await
        });
        until(&client, &changing, "pg_locks where relation = 'public.others'::regclass and not granted").await;
        client.batch_execute("select pg_advisory_unlock(7)").await.unwrap();
        changing.await.unwrap().expect("the refresh lets it in");
        assert_eq!(refreshed.await.unwrap().unwrap(), ["swap", "swap"]);
        let shown = "select (select count(*) from public.things_read) + (select count(*) from public.others_read)";
        assert_eq!(number(&client, shown).await, 201);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_chooses_again_if_everything_has_changed_since() {
    each_build(async |db| {
        let client = two_models(&db).await;
        // Stops the refresh once, between its choice and its snapshot.
        let stop = "create function public.stop() returns event_trigger language plpgsql as $$ begin
                        if exists (select from pg_catalog.pg_event_trigger_ddl_commands()
                                   where object_identity like 'millstream.model_1\\_%') then
                            perform pg_catalog.pg_advisory_xact_lock_shared(7);
                        end if; end $$;
                    create event trigger stop on ddl_command_end when tag in ('CREATE TABLE AS')
                        execute function public.stop()";
        assert_eq!(publish_on(&db, &held()).await.unwrap(), Published::Redefined);
        client.batch_execute(&format!("{stop}; select pg_advisory_lock(7)")).await.unwrap();
        client.batch_execute("update public.others set doc = '{\"a\": 2}'").await.unwrap();
        let refreshed = refreshing(&db, asked(&["things_read", "others_read"], Some("incremental")));
        until(&client, &refreshed, BUILD_HELD).await;
        // As a truncation records it, which would wait for the refresh.
        let change =
            "do $$ begin execute format('insert into millstream.change_%s (keys, everything) values (0, true)',
                                                 'public.others'::regclass::oid); end $$;
                      delete from public.others; insert into public.others values ('one', '{\"a\": 3}')";
        client.batch_execute(change).await.unwrap();
        // Apart from the change: an advisory lock is free at once, and the change is seen only after its commit.
        client.batch_execute("select pg_advisory_unlock(7)").await.unwrap();
        assert_eq!(refreshed.await.unwrap().unwrap(), ["swap", "swap"], "one is made of other rows, one was emptied");
        assert_eq!(number(&client, "select count(*) from public.others_read where id = 'one' and a = 3").await, 1);
        assert_eq!(number(&client, "select count(*) from public.others_read").await, 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_swap_that_readers_block_fails_and_changes_nothing() {
    each_build(async |db| {
        let client = two_models(&db).await;
        client.batch_execute("update public.things set doc = '{\"a\": 7}'").await.unwrap();
        let hasty =
            || RefreshRequest { patience: Duration::from_millis(300), ..asked(&["things_read", "others_read"], None) };
        let hasty = || RefreshRequest { way: Some("swap".into()), ..hasty() };
        let reader = db.client().await;
        reader.batch_execute("begin; select from public.things_read").await.unwrap();
        // The first swap cannot show what it built. The next ones cannot even remove what must go before a build.
        let message = refreshing(&db, hasty()).await.unwrap().expect_err("the reader does not let go").to_string();
        assert!(message.contains("things_read is in use all the time"), "{message}");
        assert_eq!(number(&client, "select count(*) from public.things_read").await, 100, "it is what it was");
        reader.batch_execute("commit").await.unwrap();
        assert_eq!(refreshing(&db, hasty()).await.unwrap().unwrap(), ["swap", "swap"]);
        assert_eq!(number(&client, "select count(*) from public.things_read").await, 300);
        let generations = "select count(*) from pg_class where relname ~ '^model_[0-9]+_[12]$'";
        assert_eq!(number(&client, generations).await, 2, "nothing is left");

        // An old snapshot may still see the replaced rows, although its transaction reads no model.
        reader.batch_execute("begin isolation level repeatable read; select from public.others").await.unwrap();
        let done = refresh_on(&db, &["others_read"], Some("swap")).await.unwrap();
        assert!(done[0].bloat_bytes > 0, "{done:?}");
        let message = refreshing(&db, hasty()).await.unwrap().expect_err("the snapshot is still there").to_string();
        assert!(message.contains("is in use all the time"), "{message}");
        reader.batch_execute("commit").await.unwrap();
        let done = refresh_on(&db, &["others_read"], Some("swap")).await.unwrap();
        assert_eq!(done[0].bloat_bytes, 0, "{done:?}");
    })
    .await;
}

#[tokio::test]
async fn a_refresh_survives_the_end_of_its_sessions() {
    each_build(async |db| {
        let (files, client) = (Files::new(), db.client().await);
        let load = async |name: &str, text: &str| {
            run(&db.url(), &request("ended", "id:text", &[files.write(name, text)])).await;
        };
        load("a", "{\"id\":\"a\",\"value\":1}\n").await;
        publish_on(&db, &wanted("ended", "ended_model", &["value:int=value"], &[], None)).await.expect("it is made");
        for (n, way) in [(1, "swap"), (2, "incremental"), (3, "swap")] {
            load(&n.to_string(), &format!("{{\"id\":\"{n}\",\"value\":{n}}}\n")).await;
            client.batch_execute("begin; lock table public.ended in access exclusive mode").await.unwrap();
            let ending = async {
                let other = db.client().await;
                let waits =
                    "select exists (select from pg_stat_activity where application_name like 'millstream refresh%'
                                 and wait_event_type = 'Lock' and datname = current_database())";
                millstream_testkit::until("a session of the refresh waits for a lock", async || {
                    other.query_one(waits, &[]).await.expect("a row").get(0)
                })
                .await;
                let end = "select pg_terminate_backend(pid) from pg_stat_activity
                           where application_name like 'millstream refresh%' and datname = current_database()";
                other.query(end, &[]).await.expect("they are ended");
                client.batch_execute("rollback").await.unwrap();
            };
            let (refreshed, ()) = tokio::join!(refresh_on(&db, &["ended_model"], Some(way)), ending);
            refreshed.expect("it begins again");
            let shown = client.query_one("select count(*), max(value) from ended_model", &[]).await.unwrap();
            assert_eq!((shown.get::<_, i64>(0), shown.get::<_, i32>(1)), (1 + i64::from(n), n), "{way}");
        }
    })
    .await;
}
