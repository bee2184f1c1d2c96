//! The settings of a session, and what it knows about its server.

use millstream_pg::{ConnInfo, ErrorKind, Explained, SessionSettings};
use millstream_testkit as testkit;

use crate::{connect, connected, nowhere, one, refused};

#[tokio::test]
async fn connecting_reads_facts_about_the_server() {
    testkit::every_build(async |database| {
        let connection = connected(&database.url()).await;
        let server = &connection.server;
        assert_eq!(u32::try_from(server.version_num / 10_000), Ok(database.build().major()));
        assert_eq!(server.database, database.name);
        assert_eq!(server.role, one(&connection, "select current_user").await);
        assert_eq!(server.lz4, database.build().has(&[testkit::Feature::Lz4]));
        assert!(!server.in_recovery && !server.read_only);
        connection.require_writable().expect("a primary takes writes");
        let same = format!(
            "select count(*) from pg_stat_activity where pid = {} and backend_start = '{}'::timestamptz",
            server.backend_pid, server.backend_start
        );
        assert_eq!(one(&connection, &same).await, "1", "the start casts back to the same instant");
        connection.close().await;
        let socket = connected(&database.socket_url()).await;
        assert!(socket.server.host.contains("/.s.PGSQL."), "{}", socket.server.host);
    })
    .await;
}

#[tokio::test]
async fn our_session_settings_override_all_others() {
    testkit::every_build(async |database| {
        let admin = database.client().await;
        let alter = format!("alter database {} set", database.name);
        for setting in [
            "timezone = 'Asia/Tokyo'",
            "datestyle = 'SQL, DMY'",
            "statement_timeout = 7",
            "jit = on",
            "quote_all_identifiers = on",
        ] {
            admin.batch_execute(&format!("{alter} {setting}")).await.expect("altered");
        }
        let url = format!(
            "{}?application_name=etl&options=-c%20extra_float_digits%3D-15%20-c%20lock_timeout%3D1%20-c%20\
             default_transaction_isolation%3Dserializable%20-c%20bytea_output%3Descape",
            database.url()
        );
        let info = ConnInfo::parse(&url, &nowhere()).expect("a URL");
        let session = SessionSettings::lane(3).with("work_mem", "9MB");
        let connection = millstream_pg::connect(&info, &session).await.expect("connects");
        for (setting, value) in [
            ("timezone", "UTC"),
            ("datestyle", "ISO, MDY"),
            ("intervalstyle", "postgres"),
            ("client_encoding", "UTF8"),
            ("extra_float_digits", "1"),
            ("bytea_output", "hex"),
            ("default_transaction_isolation", "read committed"),
            ("quote_all_identifiers", "off"),
            ("jit", "off"),
            ("synchronize_seqscans", "off"),
            ("statement_timeout", "0"),
            ("lock_timeout", "1min"),
            ("idle_in_transaction_session_timeout", "5min"),
            ("work_mem", "9MB"),
            ("application_name", "etl (millstream lane 3)"),
        ] {
            assert_eq!(one(&connection, &format!("show {setting}")).await, value, "{setting}");
        }
    })
    .await;
}

#[tokio::test]
async fn the_search_path_stays_the_databases_own() {
    let database = testkit::database().await;
    let admin = database.client().await;
    admin.batch_execute("create schema \"My App\"").await.expect("created");
    let set = |path: &str| format!("alter database {} set search_path = {path}", database.name);
    for (path, kept) in [
        ("\"My App\", public", "\"My App\", public"),
        ("\"$user\", public", "\"$user\", public"),
        ("pg_catalog, public", "pg_catalog, public"),
        ("\"My App\", pg_catalog, public", "\"My App\", public"),
    ] {
        admin.batch_execute(&set(path)).await.expect("altered");
        let connection = connected(&database.url()).await;
        assert_eq!(one(&connection, "show search_path").await, kept, "{path}");
        assert_eq!(one(&connection, "select (current_schemas(true))[1]").await, "pg_catalog", "{path}");
    }
}

#[tokio::test]
async fn a_session_without_views_reads_tables_and_the_servers_own_views() {
    testkit::every_build(async |database| {
        let admin = database.client().await;
        admin.batch_execute("create table t (a int); create view v as select a from t").await.expect("made");
        let info = ConnInfo::parse(&database.url(), &nowhere()).expect("a URL");
        for (session, refuses) in [
            (SessionSettings::control(), false),
            (SessionSettings::control().with_own_names().without_views(), true),
            // This role is a superuser.
            (SessionSettings::control().without_views_past_policies(), true),
        ] {
            let connection = millstream_pg::connect(&info, &session).await.expect("connects");
            assert_eq!(one(&connection, "select count(*) from public.t").await, "0");
            let known = "select count(*) from pg_settings where name = 'restrict_nonsystem_relation_kind'";
            let can_refuse = one(&connection, known).await == "1";
            let read = connection.client.batch_execute("select from public.v").await;
            assert_eq!(read.is_err(), refuses && can_refuse, "{read:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_database_that_is_not_utf8_is_refused() {
    let database = testkit::database().await;
    let admin = database.client().await;
    for (name, encoding) in [("latin", "LATIN1"), ("ascii", "SQL_ASCII")] {
        let create = format!("create database {name} encoding '{encoding}' locale 'C' template template0");
        admin.batch_execute(&create).await.expect("created");
        let error = refused(&database.server.url(name)).await;
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains(encoding), "{error}");
        assert!(error.hint().expect("a way out").contains("encoding 'UTF8'"));
    }
}

#[tokio::test]
async fn a_set_role_that_cannot_see_its_session_gets_a_hint() {
    testkit::every_build(async |database| {
        let admin = database.client().await;
        let team = format!("{}_team", database.name);
        admin.batch_execute(&format!("create role {team}")).await.expect("a role");
        let url = format!("{}?options=-crole%3D{team}", database.url());
        let error = refused(&url).await;
        assert_eq!(error.kind(), ErrorKind::Rights);
        assert!(error.to_string().contains(&team), "{error}");
        let grant = format!("grant pg_read_all_stats to \"{team}\"");
        assert!(error.hint().expect("a way out").ends_with(&grant), "{:?}", error.hint());
        admin.batch_execute(&grant).await.expect("granted");
        assert_eq!(connected(&url).await.server.role, team);
        admin.batch_execute(&format!("drop role {team}")).await.expect("nothing is its own");
    })
    .await;
}

#[tokio::test]
async fn a_read_only_session_says_why() {
    let database = testkit::database().await;
    let url = format!("{}?options=-cdefault_transaction_read_only%3Don", database.url());
    let connection = connected(&url).await;
    let error = connection.require_writable().expect_err("read-only");
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
    assert!(error.to_string().contains("default_transaction_read_only"), "{error}");
}

#[tokio::test]
async fn hosts_are_chosen_by_target_session_attrs() {
    let build = testkit::default_build().await;
    let primary = testkit::Server::start(build, testkit::Settings::default()).await;
    let standby = testkit::Server::start(build, testkit::Settings::default()).await;
    standby.stop(testkit::StopMode::Fast).await;
    standby.write("standby.signal", "").await;
    standby.start_again().await;
    let own = format!("127.0.0.1:{}", standby.port());
    // Each server has its own password, but a URL has one for all hosts. So the passwords come from the password file.
    let home = tempfile::tempdir().expect("a directory");
    let lines = [&primary, &standby].map(|s| format!("127.0.0.1:{}:*:millstream:{}", s.port(), s.password()));
    let file = home.path().join(".pgpass");
    std::fs::write(&file, lines.join("\n")).expect("written");
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("mode set");
    let env = nowhere().with_home(home.path());

    let try_hosts = async |hosts: &str, target: &str| {
        let url = format!("postgres://millstream@{hosts}/postgres?target_session_attrs={target}");
        let info = ConnInfo::parse(&url, &env).expect("a URL");
        millstream_pg::connect(&info, &SessionSettings::control()).await
    };
    let both = format!("{own},127.0.0.1:{}", primary.port());
    for (target, in_recovery) in [
        ("any", true),
        ("read-write", false),
        ("primary", false),
        ("read-only", true),
        ("standby", true),
        ("prefer-standby", true),
    ] {
        let connection = try_hosts(&both, target).await.unwrap_or_else(|error| panic!("{target}: {error}"));
        assert_eq!(connection.server.in_recovery, in_recovery, "{target}");
    }
    let alone = format!("127.0.0.1:1,127.0.0.1:{}", primary.port());
    assert!(!try_hosts(&alone, "prefer-standby").await.expect("falls back").server.in_recovery);

    let error = try_hosts(&own, "read-write").await.expect_err("a standby");
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
    assert!(error.to_string().contains("is a standby, but target_session_attrs=read-write"), "{error}");
    let error = try_hosts(&format!("127.0.0.1:1,{own}"), "primary").await.expect_err("none fits");
    assert!(error.to_string().contains("connection refused") && error.to_string().contains("a standby"), "{error}");

    let connection = try_hosts(&own, "any").await.expect("any will do");
    let error = connection.require_writable().expect_err("a standby takes no writes");
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
    let written: Result<_, tokio_postgres::Error> = connection.client.batch_execute("create table t (a int)").await;
    assert_eq!(millstream_pg::Error::from(written.expect_err("refused")).kind(), ErrorKind::ReadOnly);
}

#[tokio::test]
async fn dropping_a_connection_ends_its_backend() {
    let database = testkit::database().await;
    let watcher = connected(&database.url()).await;
    for close in [true, false] {
        let connection = connect(&database.url()).await.expect("connects");
        let pid = connection.server.backend_pid;
        if close {
            connection.close().await;
        } else {
            drop(connection);
        }
        let gone = format!("select count(*) from pg_stat_activity where pid = {pid}");
        testkit::until("the backend of a dropped connection ends", async || one(&watcher, &gone).await == "0").await;
    }
}
