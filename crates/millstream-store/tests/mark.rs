//! What a load relies on of its table: every change of it is seen, and what does not matter is none.

use crate::scene::Scene;
use millstream_store::{GUARD, GUARD_SQLSTATE, Judged, TableMark};
use millstream_testkit::every_build;

const CHECKS: &str = "its checks or generated columns";
const INDEXES: &str = "its indexes or foreign keys";

/// Changes of the table, and what of it they change.
const CHANGES: [(&str, Option<&str>); 17] = [
    ("add column n int not null default 7", None),
    ("alter column doc drop not null", None),
    ("set (fillfactor = 50)", None),
    ("replica identity full", None),
    ("alter column id type varchar(20)", Some("the type of a key column or of doc")),
    ("alter column doc type json", Some("the type of a key column or of doc")),
    ("drop constraint events_pkey", Some("the unique index of its key")),
    ("rename column id to key", Some("the type of a key column or of doc")),
    ("add check (id <> '')", Some(CHECKS)),
    ("add column n int generated always as (1) stored", Some(CHECKS)),
    ("add foreign key (id) references others", Some(INDEXES)),
    ("add unique (id, doc)", Some(INDEXES)),
    ("add exclude using btree (id with =)", Some(INDEXES)),
    ("inherit parent", None),
    (
        "rename to of_others; create table child () inherits (of_others)",
        Some("its kind, or the tables that inherit from it"),
    ),
    (
        "owner to current_user; create trigger t before update on events for each row \
         execute function suppress_redundant_updates_trigger()",
        Some("its triggers"),
    ),
    ("owner to current_user; create rule r as on insert to events do also select 1", Some("its rules")),
];

/// A change that is not seen lets a load write rows as the old table would have taken them. One that is seen in vain
/// ends a load. From PostgreSQL 18 on, a column that is not null has a constraint.
#[tokio::test]
async fn every_change_that_matters_is_named_and_no_other() {
    every_build(async |db| {
        let Scene { client, table_oid, .. } = Scene::new(db).await;
        client.batch_execute("create table others (id text primary key); create table parent ()").await.unwrap();
        let mark = TableMark::read_judging(&client, table_oid, ["id"], Judged::Rows, None).await.unwrap().unwrap();
        client.batch_execute(&mark.guard()).await.unwrap();
        for (change, expected) in CHANGES {
            client.batch_execute(GUARD).await.unwrap();
            client.batch_execute(&format!("begin; alter table events {change}")).await.unwrap();
            let now = mark.again(&client).await.unwrap().unwrap();
            assert_eq!(mark.difference(&now, true), expected, "{change}");
            let unjudged = expected.filter(|what| ![CHECKS, INDEXES].contains(what));
            assert_eq!(mark.difference(&now, false), unjudged, "{change}");
            // A batch fails at whatever differs, and its table is then looked at again.
            let guarded = client.batch_execute(GUARD).await.map_err(|error| error.code().unwrap().code().to_owned());
            let is_same = mark == now;
            assert_eq!(guarded, if is_same { Ok(()) } else { Err(GUARD_SQLSTATE.to_owned()) }, "{change}");
            client.batch_execute("rollback").await.unwrap();
        }
        // For others, the table's judgement does not matter at all.
        let mark = TableMark::read(&client, table_oid, ["id"]).await.unwrap().unwrap();
        client.batch_execute("alter table events add check (id <> ''), add unique (id, doc)").await.unwrap();
        assert_eq!(mark.again(&client).await.unwrap(), Some(mark.clone()));
        client.batch_execute("drop table events").await.unwrap();
        assert_eq!(mark.again(&client).await.unwrap(), None);
    })
    .await;
}
