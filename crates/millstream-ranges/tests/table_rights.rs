//! Tables of PostgreSQL that are filled from a store: whose they are, and what stands in their place.

use crate::table::{Folder, name};
use millstream_pg::Explained;
use millstream_ranges::Error;
use millstream_ranges::export::{TableOptions, to_table};
use millstream_testkit::each_build;
use std::net::IpAddr;

#[tokio::test]
async fn the_table_is_replaced_with_its_rights() {
    each_build(async |db| {
        let client = db.client().await;
        let (folder, table) = (Folder::new(), name("geo.ranges"));
        client.batch_execute("create schema geo").await.unwrap();
        let first = folder.build_of(&[("1.0.0.0/24", "\"a\":1"), ("::1", "\"a\":2")]);
        assert_eq!(to_table(&client, &first, &table, &TableOptions::default()).await.unwrap(), 2);
        let owner = format!("owner_of_{}", db.name);
        let grants = format!(
            "create role {owner}; grant create on schema geo to {owner}; alter table geo.ranges owner to {owner};
             grant select on geo.ranges to public; grant update on geo.ranges to pg_monitor with grant option"
        );
        client.batch_execute(&grants).await.unwrap();
        let state = "select obj_description(c.oid, 'pg_class'), c.relowner::regrole::text,
                array(select i.indexrelid::regclass::text from pg_index i where i.indrelid = c.oid),
                has_table_privilege('public', c.oid, 'select'), has_table_privilege('public', c.oid, 'update'),
                has_table_privilege('pg_monitor', c.oid, 'update with grant option'),
                (select array_agg(k.conname::text order by k.conname) from pg_constraint k
                 where k.conrelid = c.oid and k.contype in ('c', 'p'))
            from pg_class c where c.oid = 'geo.ranges'::regclass";
        let refused = to_table(&client, &first, &table, &TableOptions::default()).await.unwrap_err();
        assert!(refused.to_string().contains(&format!("belongs to role {owner}, which would own")), "{refused}");
        assert!(refused.hint().unwrap().contains(&format!("trust-owner {owner}")), "{refused}");
        let oid = client.query_one("select relowner from pg_class where oid = 'geo.ranges'::regclass", &[]).await;
        let options = TableOptions { owners: vec![oid.unwrap().get(0)], ..TableOptions::default() };
        drop(first);
        for generation in [2, 3] {
            let ranges = format!("2001:db8::{generation}");
            let next = folder.build_of(&[(&*ranges, "\"a\":3")]);
            assert_eq!(to_table(&client, &next, &table, &options).await.unwrap(), 1);
            let row = client.query_one(state, &[]).await.unwrap();
            let store = folder.store();
            let comment = format!("IP ranges by Millstream: generation {generation} of {}, 1 ranges", store.display());
            assert_eq!(row.get::<_, String>(0), comment);
            assert_eq!(row.get::<_, String>(1), owner);
            assert_eq!(row.get::<_, Vec<String>>(2), ["geo.ranges_pkey"]);
            assert_eq!([3, 4, 5].map(|column| row.get::<_, bool>(column)), [true, false, true]);
            assert_eq!(row.get::<_, Vec<String>>(6), ["is_a_range", "ranges_pkey"]);
            let start: IpAddr = client.query_one("select start from geo.ranges", &[]).await.unwrap().get(0);
            assert_eq!(start.to_string(), ranges);
        }
        // Rights that default privileges would give to a new table do not come back, and those on columns stay.
        let reader = format!("reader_of_{}", db.name);
        let revoked = format!(
            "create role {reader}; alter default privileges grant select, delete on tables to {reader};
             revoke all on geo.ranges from {reader}, public; grant select (start) on geo.ranges to {reader}"
        );
        client.batch_execute(&revoked).await.unwrap();
        let next = folder.build_of(&[("2001:db8::4", "\"a\":3")]);
        to_table(&client, &next, &table, &options).await.unwrap();
        let rights = format!(
            "select has_table_privilege('{reader}', c.oid, 'select'), has_table_privilege('{reader}', c.oid, 'delete'),
                    has_table_privilege('public', c.oid, 'select'), has_column_privilege('{reader}', c.oid, 'start', 'select'),
                    has_table_privilege('pg_monitor', c.oid, 'update with grant option')
             from pg_class c where c.oid = 'geo.ranges'::regclass"
        );
        let row = client.query_one(&rights, &[]).await.unwrap();
        assert_eq!([0, 1, 2, 3, 4].map(|n| row.get::<_, bool>(n)), [false, false, false, true, true]);
        let refused = to_table(&client, &next, &name("pg_temp.ranges"), &TableOptions::default()).await.unwrap_err();
        assert!(refused.to_string().contains("PostgreSQL keeps for itself"), "{refused}");
        let tables: i64 = client
            .query_one("select count(*) from pg_class where relname like 'millstream_new%'", &[])
            .await
            .unwrap()
            .get(0);
        assert_eq!(tables, 0);
        let broken = "insert into geo.ranges values ('1.0.0.9', '1.0.0.1', '{}')";
        for values in [broken, &broken.replace("1.0.0.1'", "::1'")] {
            let error = client.batch_execute(values).await.unwrap_err();
            assert_eq!(error.as_db_error().unwrap().constraint(), Some("is_a_range"));
        }
    })
    .await;
}

#[tokio::test]
async fn a_name_that_is_taken_by_something_else_is_refused() {
    let folder = Folder::new();
    let generation = folder.build_of(&[("1.0.0.0/24", "\"a\":1")]);
    each_build(async |db| {
        let client = db.client().await;
        client
            .batch_execute(
                "create table mine (start inet primary key, \"end\" inet, doc jsonb); insert into mine values ('::1');
                 create view seen as select 1; create sequence counted",
            )
            .await
            .unwrap();
        for taken in ["mine", "seen", "counted"] {
            let error = to_table(&client, &generation, &name(taken), &TableOptions::default()).await.unwrap_err();
            let says = format!("{taken} is there already, and it is not a table that Millstream exported");
            assert_eq!(error.to_string(), says);
        }
        let rows: i64 = client.query_one("select count(*) from mine", &[]).await.unwrap().get(0);
        assert_eq!(rows, 1);
        let ours = name("ours");
        to_table(&client, &generation, &ours, &TableOptions::default()).await.unwrap();
        client.batch_execute("alter table ours enable row level security").await.unwrap();
        let error = to_table(&client, &generation, &ours, &TableOptions::default()).await.unwrap_err();
        assert!(error.to_string().starts_with("ours has row security"), "{error}");
        client.batch_execute("alter table ours disable row level security; create view v as table ours").await.unwrap();
        let error = to_table(&client, &generation, &ours, &TableOptions::default()).await.unwrap_err();
        assert!(matches!(&error, Error::Postgres(error) if error.sqlstate() == Some("2BP01")), "{error:?}");
        let rows: i64 = client.query_one("select count(*) from v", &[]).await.unwrap().get(0);
        assert_eq!(rows, 1);
    })
    .await;
}

#[tokio::test]
async fn a_role_that_owns_nothing_of_ours_can_fill_a_table() {
    let folder = Folder::new();
    let generation = folder.build_of(&[("1.0.0.0/24", "\"a\":1")]);
    each_build(async |db| {
        let client = db.client().await;
        to_table(&client, &generation, &name("first"), &TableOptions::default()).await.unwrap();
        let role = format!("filler_of_{}", db.name);
        let sql = format!(
            "create role {role}; create schema own authorization {role}; grant usage on schema millstream to {role};
             set role {role}"
        );
        client.batch_execute(&sql).await.unwrap();
        let table = name("own.ranges");
        for _ in 0..2 {
            to_table(&client, &generation, &table, &TableOptions::default()).await.unwrap();
        }
        let found = "select count(*) from millstream.range_of('own.ranges', '1.0.0.77')";
        let found: i64 = client.query_one(found, &[]).await.unwrap().get(0);
        assert_eq!(found, 1);
        let denied = client.query_one("select count(*) from millstream.range_of('first', '1.0.0.77')", &[]).await;
        assert_eq!(denied.unwrap_err().code().map(|code| code.code()), Some("42501"));
        client.batch_execute("reset role").await.unwrap();
    })
    .await;
}
