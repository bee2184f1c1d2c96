//! The facts of tables and connections, against a real catalog of every version.

use millstream_pg::catalog::{self, RowSecurity, Trigger};
use millstream_testkit as testkit;
use tokio_postgres::Client;

use crate::{connected, one};

#[tokio::test]
async fn table_facts_are_read() {
    testkit::every_build(async |database| {
        let connection = connected(&database.url()).await;
        let client = &connection.client;
        client.batch_execute(include_str!("catalog.sql")).await.expect("made");
        let table = catalog::table(client, "Odd Schema", "A table").await.expect("read").expect("there");

        assert_eq!((table.kind, table.persistence), ('r', 'p'));
        assert_eq!(table.owner, connection.server.role);
        let names: Vec<&str> = table.columns.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["Key A", "b", "c", "d", "doc"]);
        let key = table.column("Key A").expect("a column");
        assert_eq!((key.type_name.as_str(), key.base_type_oid), ("\"Odd Schema\".code", 25));
        assert_eq!(key.collation, Some(("pg_catalog".into(), "C".into())));
        assert!(key.not_null && !key.has_default && key.deterministic);
        let b = table.column("b").expect("a column");
        assert_eq!((b.type_name.as_str(), b.collation.clone()), ("numeric(10,2)", None));
        assert!(b.has_default && b.not_null, "the primary key makes it not null");
        let c = table.column("c").expect("a column");
        assert_eq!((c.identity, c.has_default, c.generated), (Some('a'), true, false));
        let d = table.column("d").expect("a column");
        assert!(d.generated && !d.has_default);
        assert_eq!(table.column("gone"), None);

        let indexes: Vec<_> = table.unique_indexes.iter().map(|i| (i.name.as_str(), i.columns.join(","))).collect();
        assert_eq!(indexes, [("A key", "b,Key A".to_owned()), ("plain", "c".to_owned())]);
        assert!(table.unique_indexes[0].primary && !table.unique_indexes[1].primary);
        assert!(table.unique_index_on(&["Key A", "b"]).is_some() && table.unique_index_on(&["b"]).is_none());
        assert_eq!((table.other_unique.len(), table.other_indexes), (3, 4), "{:?}", table.other_unique);

        let trigger = |name: &str| Trigger {
            name: name.to_owned(),
            insert: false,
            update: false,
            delete: false,
            before: false,
            row: false,
        };
        let before = Trigger { insert: true, update: true, before: true, row: true, ..trigger("before_row") };
        let after = Trigger { delete: true, ..trigger("after_all") };
        assert_eq!(table.triggers, [after, before]);
        assert_eq!(table.rules, ["quiet"]);
        assert_eq!((&table.checks[..], &table.foreign_keys[..]), (&["positive".into()][..], &["own".into()][..]));
        assert_eq!(table.row_security, RowSecurity { enabled: true, applies: false });
        assert!(table.privileges.own && table.privileges.delete);

        let other = catalog::table(client, "public", "parted_0").await.expect("read").expect("there");
        assert!(!other.has_children && other.unique_indexes[0].primary);
        let parted = catalog::table(client, "public", "parted").await.expect("read").expect("there");
        assert!(parted.kind == 'p' && parted.has_children && parted.unique_indexes[0].primary);
        let fleeting = catalog::table(client, "public", "fleeting").await.expect("read").expect("there");
        assert_eq!(fleeting.persistence, 'u');
        assert_eq!(catalog::table(client, "public", "seen").await.expect("read").expect("there").kind, 'v');
        assert_eq!(catalog::table(client, "public", "A table").await.expect("read"), None);

        client.batch_execute("set role catalog_reader").await.expect("set");
        let table = catalog::table(client, "Odd Schema", "A table").await.expect("read").expect("there");
        let rights = table.privileges;
        assert!(rights.schema_usage && rights.select && rights.insert);
        assert!(!rights.update && !rights.delete && !rights.own);
        assert!(table.row_security.applies);
        client
            .batch_execute("reset role; drop owned by catalog_reader; drop role catalog_reader")
            .await
            .expect("dropped");
    })
    .await;
}

#[tokio::test]
async fn free_connections_respect_every_limit() {
    let build = testkit::default_build().await;
    // A worker of autovacuum would be a connection in use.
    let conf = ["max_connections = 30", "superuser_reserved_connections = 5", "autovacuum = off"];
    let server = testkit::Server::start(build, testkit::Settings::with(&conf)).await;
    let admin = connected(&server.url("postgres")).await;
    let free = async |client: &Client| catalog::free_connections(client).await.expect("read");
    let used = "select sum(numbackends)::int4 from pg_stat_database";
    let used: i32 = admin.client.query_one(used, &[]).await.expect("read").get(0);
    assert_eq!(free(&admin.client).await, 30 - used, "nothing is held back from a superuser");

    let password = server.password();
    let create = format!("create role few login connection limit 7 password '{password}'");
    admin.client.batch_execute(&create).await.expect("created");
    let url = format!("postgres://few:{password}@127.0.0.1:{}/postgres", server.port());
    let few = connected(&url).await;
    assert_eq!(free(&few.client).await, 6, "the role's own connection counts");
    admin.client.batch_execute("alter role few connection limit -1").await.expect("altered");
    assert_eq!(free(&few.client).await, 30 - 5 - (used + 1));
    assert_eq!(one(&few, "select current_user").await, "few");
}
