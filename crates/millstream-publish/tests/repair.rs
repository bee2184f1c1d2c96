//! Change records that became unreliable: the next refresh is a swap and says why, the one after that is not.

use crate::publish::{asked, publish_on, refresh_on, wanted};
use crate::republish::{number, things};
use crate::scene::{schema, surroundings};
use millstream_publish::{estimate, refresh};
use millstream_testkit::{TestDatabase, every_build};
use tokio_postgres::Client;

/// What damages the record of `things`, and the cause that a refresh reports.
const DAMAGES: &[(&str, &str)] = &[
    ("drop trigger {trigger}delete on public.things", "a trigger of the collection was dropped"),
    ("drop function {record}_key() cascade", "a trigger of the collection was dropped"),
    ("drop table {record}; drop function {record}_record(), {record}_key() cascade", "it was dropped"),
    ("alter table public.things disable trigger {trigger}update", "a trigger of the collection is disabled"),
    ("alter table public.things disable trigger user", "a trigger of the collection is disabled"),
    ("alter table public.things disable trigger {trigger}row", "a trigger of the collection is disabled"),
    ("drop trigger {trigger}row on public.things", "no trigger of the collection records what a replication applies"),
    (
        "alter table public.things disable trigger all; alter table public.things enable trigger all",
        "a trigger of the collection was disabled for a while, or altered",
    ),
    (
        "alter table public.things disable trigger {trigger}key;
         alter table public.things enable always trigger {trigger}key",
        "a trigger of the collection was disabled for a while, or altered",
    ),
    ("alter table public.things set unlogged", "the collection was made unlogged, the record not"),
    ("alter table public.things set logged", "the collection was made logged, the record not"),
    ("alter table public.things alter doc type jsonb using doc - 'b'", "a column of the collection was altered"),
    (
        "alter table public.things rename doc to other; alter table public.things rename other to doc",
        "a column of the collection was altered",
    ),
];

async fn why(db: &TestDatabase, model: &str) -> String {
    let conninfo = surroundings(&db.url()).0.db;
    Box::pin(estimate(&conninfo, &schema(), &asked(&[model], None))).await.expect("a model").remove(0).reason
}

/// `things` with two models that show it.
async fn two_models(db: &TestDatabase) -> Client {
    let client = things(db).await;
    for model in ["first", "second"] {
        publish_on(db, &wanted("things", model, &["a:int=a"], &["a"], None)).await.expect("a database");
    }
    refresh_on(db, &["first", "second"], None).await.expect("a database");
    client
}

/// The table of the record of `things`, and the prefix of its triggers' names.
async fn names(client: &Client) -> (String, String) {
    let names = "select 'millstream.change_' || 'public.things'::regclass::oid,
                        'millstream_changed_' || 'millstream'::regnamespace::oid || '_'";
    let names = client.query_one(names, &[]).await.expect("a database");
    (names.get(0), names.get(1))
}

/// Rows in which both models differ from the collection.
async fn differences(client: &Client) -> i64 {
    let pair = |model: &str| {
        format!(
            "(select count(*) from (select id, doc from public.things except select id, doc from public.{model}) d)
             + (select count(*) from (select id, doc from public.{model} except select id, doc from public.things) d)"
        )
    };
    number(client, &format!("select {} + {}", pair("first"), pair("second"))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_record_is_made_again_with_one_swap() {
    every_build(async |db| {
        let client = two_models(&db).await;
        let (record, trigger) = names(&client).await;
        for (n, (damage, cause)) in DAMAGES.iter().enumerate() {
            let damage = damage.replace("{trigger}", &trigger).replace("{record}", &record);
            client.batch_execute(&damage).await.unwrap();
            let unrecorded = format!(
                "delete from public.things where id = 'k{n}';
                 update public.things set doc = '{{\"a\": -{n}}}' where id = 'k10';
                 update public.things set id = 'new{n}' where id = 'k{}'",
                n + 20
            );
            client.batch_execute(&unrecorded).await.unwrap();
            assert_eq!(why(&db, "first").await, format!("some changes are not recorded: {cause}"), "{damage}");
            let warning = format!("some changes were not recorded, because {cause}; the record was created again");
            let done = refresh_on(&db, &["first"], None).await.unwrap();
            assert_eq!((done[0].way, &done[0].warnings), ("swap", &vec![warning]), "{damage}");
            // The other model has missed the changes too.
            assert_eq!(why(&db, "second").await, "everything may have changed", "{damage}");
            let done = refresh_on(&db, &["second"], Some("incremental")).await.unwrap();
            let warnings = ["incremental was asked for, but everything may have changed: it was built anew"];
            assert!(done[0].way == "swap" && done[0].warnings == warnings, "{damage}: {done:?}");
            assert_eq!(differences(&client).await, 0, "{damage}");

            let recorded = format!(
                "insert into public.things values ('more{n}', '{{}}');
                 update public.things set doc = '{{\"a\": 1}}' where id = 'k10';
                 update public.things set id = 'k{}' where id = 'new{n}';
                 delete from public.things where id = 'k1{n}0'",
                n + 20
            );
            client.batch_execute(&recorded).await.unwrap();
            let done = refresh_on(&db, &["first", "second"], None).await.unwrap();
            assert!(done.iter().all(|one| one.way == "incremental" && one.warnings.is_empty()), "{damage}: {done:?}");
            assert_eq!(differences(&client).await, 0, "{damage}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_cannot_be_made_again_is_a_warning_each_time() {
    every_build(async |db| {
        let client = things(&db).await;
        publish_on(&db, &wanted("things", "first", &["a:int=a"], &["a"], None)).await.unwrap();
        refresh_on(&db, &["first"], None).await.unwrap();
        client
            .batch_execute("alter table public.things disable trigger user; delete from public.things where id = 'k1'")
            .await
            .unwrap();
        let reader = db.client().await;
        reader.batch_execute("begin; select from public.things").await.unwrap();
        let done = refresh_on(&db, &["first"], None).await.unwrap();
        assert_eq!(done[0].way, "swap");
        assert!(
            done[0].warnings[0].starts_with("every refresh builds it anew: some changes are not recorded, because")
                && done[0].warnings[0].contains("could not be created again: things could not be locked"),
            "{done:?}"
        );
        assert_eq!(number(&client, "select count(*) from public.first").await, 299);
        reader.batch_execute("commit").await.unwrap();
        let done = refresh_on(&db, &["first"], None).await.unwrap();
        assert!(done[0].way == "swap" && done[0].warnings[0].ends_with("the record was created again"), "{done:?}");
        assert_eq!(refresh_on(&db, &["first"], None).await.unwrap()[0].way, "incremental");

        let record =
            client.query_one("select 'millstream.change_' || 'public.things'::regclass::oid", &[]).await.unwrap();
        let (record, other) = (record.get::<_, String>(0), format!("{}_keeper", db.name));
        let given = format!(
            "create role {other}; grant create on schema millstream to {other}; alter table {record} owner to {other};
             alter table public.things disable trigger user"
        );
        client.batch_execute(&given).await.unwrap();
        let refused = refresh_on(&db, &["first"], None).await.expect_err("a superuser does not trust it");
        assert!(refused.to_string().contains(&other), "{refused}");
        let trusting = schema().trusting(vec![other.clone()]);
        let conninfo = surroundings(&db.url()).0.db;
        let done = Box::pin(refresh(&conninfo, &trusting, &asked(&["first"], None))).await.unwrap();
        assert!(done[0].way == "swap" && done[0].warnings[0].contains(&format!("it belongs to the role {other}")));
        let back = format!("alter table {record} owner to current_user; drop owned by {other}; drop role {other}");
        client.batch_execute(&back).await.unwrap();
        let done = refresh_on(&db, &["first"], None).await.unwrap();
        assert!(done[0].warnings[0].ends_with("the record was created again"), "{done:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_model_misses_changes_that_a_crash_removed_from_the_record() {
    every_build(async |db| {
        let client = two_models(&db).await;
        // Empties the record and keeps the collection, as a crash does if only the record is unlogged.
        client.batch_execute("update public.things set doc = '{\"a\": 77}' where id = 'k10'").await.unwrap();
        client.batch_execute(&format!("delete from {}", names(&client).await.0)).await.unwrap();
        for model in ["first", "second"] {
            assert_eq!(why(&db, model).await, "everything may have changed", "{model}");
            let done = refresh_on(&db, &[model], None).await.unwrap();
            assert_eq!((done[0].way, done[0].warnings.len()), ("swap", 0), "{model}");
        }
        assert_eq!(differences(&client).await, 0);
        client.batch_execute("update public.things set doc = '{\"a\": 78}' where id = 'k11'").await.unwrap();
        let done = refresh_on(&db, &["first", "second"], None).await.unwrap();
        assert_eq!(done.iter().map(|one| one.way).collect::<Vec<_>>(), ["incremental", "incremental"]);
        assert_eq!(differences(&client).await, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_through_a_child_table_are_not_missed() {
    every_build(async |db| {
        let client = two_models(&db).await;
        let kid =
            "create table public.kid () inherits (public.things); insert into public.kid values ('kid', '{\"a\": 1}')";
        client.batch_execute(kid).await.unwrap();
        for _ in 0..2 {
            let done = refresh_on(&db, &["first", "second"], Some("incremental")).await.unwrap();
            for one in &done {
                let warnings = one.warnings.join("; ");
                assert_eq!(one.way, "swap", "{warnings}");
                assert!(
                    warnings.contains("every refresh builds it anew") && warnings.contains("inherited from"),
                    "{warnings}"
                );
                assert!(
                    warnings.contains("incremental was asked for, but some changes are not recorded"),
                    "{warnings}"
                );
            }
            assert_eq!(differences(&client).await, 0);
            client.batch_execute("insert into public.kid values ('other', '{\"a\": 2}')").await.unwrap();
        }
        // Its rows are dropped with it, and no trigger of the collection fires.
        client.batch_execute("drop table public.kid").await.unwrap();
        for model in ["first", "second"] {
            assert_eq!(refresh_on(&db, &[model], None).await.unwrap()[0].way, "swap", "{model}");
        }
        assert_eq!(differences(&client).await, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_key_column_blocks_no_writer_and_is_not_cast() {
    every_build(async |db| {
        let client = two_models(&db).await;
        let (record, trigger) = names(&client).await;
        // The owner makes a cast that the record's functions would call with the publisher's rights.
        client.batch_execute("alter table public.things rename id to name").await.unwrap();
        let error = refresh_on(&db, &["first"], None).await.expect_err("its key is gone");
        assert!(error.to_string().contains("needs the column id, which things does not have any more"), "{error}");
        let renamed = "update public.things set doc = '{\"a\": 5}' where name = 'k10';
             update public.things set name = 'new' where name = 'k11';
             alter table public.things rename name to id";
        let cast = format!(
            "drop trigger {trigger}key on public.things;
             create type public.tag as (text text);
             create table public.called ();
             create function public.untag(public.tag[]) returns text[] language plpgsql
                 as $$begin insert into public.called default values; return null; end$$;
             create cast (public.tag[] as text[]) with function public.untag(public.tag[]) as assignment;
             alter table public.things alter id type public.tag using row(id)::public.tag;
             update public.things set doc = '{{\"a\": 6}}' where (id).text = 'k10';
             delete from public.things where (id).text = 'k12';
             insert into public.things values (row('k13b'), '{{}}')"
        );
        for change in [renamed, &cast] {
            client.batch_execute(change).await.unwrap_or_else(|error| panic!("{error:?}: {change}"));
            let everything = format!("select count(*) from {record} where everything");
            assert!(number(&client, &everything).await > 0, "{change}");
        }
        assert_eq!(number(&client, "select count(*) from public.called").await, 0);
        client
            .batch_execute("alter table public.things alter id type text collate \"C\" using (id).text")
            .await
            .unwrap();
        for model in ["first", "second"] {
            assert_eq!(refresh_on(&db, &[model], None).await.unwrap()[0].way, "swap", "{model}");
        }
        assert_eq!(differences(&client).await, 0);
    })
    .await;
}
