//! What else may have the name of a collection, and tables that lose their name while a load begins.

use crate::scene::{Files, execute, request, run, surroundings, until_held_up};
use millstream_engine::{Error, dry_run, load};
use millstream_pg::Explained;
use millstream_testkit::{TestDatabase, each_build};

const DOCUMENT: &str = "{\"id\":\"a\"}\n";

async fn exists(db: &TestDatabase, table: &str) -> bool {
    let sql = "select to_regclass($1) is not null";
    db.client().await.query_one(sql, &[&table]).await.expect("the server answers").get(0)
}

#[tokio::test]
async fn a_table_renamed_in_another_transaction_is_named_and_not_made_again() {
    each_build(async |db| {
        for checked in [false, true] {
            let files = Files::new();
            execute(&db, "create table public.t (id text collate \"C\" primary key, doc jsonb not null)").await;
            let mut wanted = request("public.t", "id:text", &[files.write("a", DOCUMENT)]);
            wanted.adopt = true;
            wanted.checks.extend(checked.then(|| "doc ? 'id'".to_owned()));
            let (around, _) = surroundings(&db.url());
            let holder = db.client().await;
            holder.batch_execute("begin; alter table public.t rename to t_old").await.expect("renamed");
            let renaming = async {
                until_held_up(&db, "millstream control").await;
                holder.batch_execute("commit").await.expect("committed");
            };
            let (ended, ()) = tokio::join!(Box::pin(load(&wanted, &around)), renaming);
            let error = ended.expect_err("the table has lost its name");
            assert!(error.to_string().contains("was renamed to t_old"), "{error}");
            assert!(error.hint().is_some_and(|hint| hint.contains("t_old")), "{error:?}");

            let error = Box::pin(load(&wanted, &around)).await.expect_err("there is nothing to adopt");
            assert!(error.to_string().contains("there is no such table to adopt"), "{error}");
            let planned = dry_run(&wanted, &around.db).await.expect_err("nor in a dry run");
            assert_eq!(planned.to_string(), error.to_string());
            assert!(!exists(&db, "public.t").await, "no second table is made");
            wanted.adopt = false;
            assert_eq!(run(&db.url(), &wanted).await.receipt.counters.inserted, 1, "what the hint says");
            execute(&db, "drop table public.t, public.t_old").await;
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_no_table_is_called_what_it_is() {
    each_build(async |db| {
        execute(
            &db,
            "create table public.plain (id text collate \"C\" primary key, doc jsonb not null);
             create view public.seen as select * from public.plain;
             create materialized view public.kept as select * from public.plain;
             create sequence public.counted;
             create index sorted on public.plain (doc);
             create type public.composed as (id text, doc jsonb);
             create foreign data wrapper nothing;
             create server nowhere foreign data wrapper nothing;
             create foreign table public.far (id text, doc jsonb) server nowhere;
             create domain public.checked as text;
             create type public.listed as enum ('a');
             create type public.spanned as range (subtype = text, multirange_type_name = public.spans)",
        )
        .await;
        let files = Files::new();
        for (table, kind) in [
            ("seen", "a view"),
            ("kept", "a materialized view"),
            ("counted", "a sequence"),
            ("sorted", "an index"),
            ("composed", "a composite type"),
            ("far", "a foreign table"),
            ("checked", "a domain"),
            ("listed", "an enum"),
            ("spanned", "a range type"),
            ("spans", "a multirange type"),
        ] {
            for adopt in [false, true] {
                let mut wanted = request(&format!("public.{table}"), "id:text", &[files.write("a", DOCUMENT)]);
                wanted.adopt = adopt;
                let around = surroundings(&db.url()).0;
                for error in [
                    Box::pin(load(&wanted, &around)).await.expect_err(table),
                    dry_run(&wanted, &around.db).await.expect_err(table),
                ] {
                    assert!(matches!(error, Error::Collection { .. }), "{table}: {error}");
                    assert!(error.to_string().contains(&format!("it is {kind}")), "{table}: {error}");
                    assert!(error.hint().is_some_and(|hint| !hint.contains("adopt")), "{table}: {error:?}");
                }
            }
        }
        // The type of the arrays of `plain` makes room.
        let wanted = request("public._plain", "id:text", &[files.write("a", DOCUMENT)]);
        assert_eq!(run(&db.url(), &wanted).await.receipt.counters.inserted, 1);
    })
    .await;
}
