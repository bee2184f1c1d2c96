//! Logins that succeed or fail: passwords, databases, addresses where nobody answers.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use millstream_pg::{ConnInfo, Environment, ErrorKind, Explained, SessionSettings};
use millstream_testkit as testkit;

use crate::{connected, nowhere, refused};

#[tokio::test]
async fn login_errors_say_what_is_wrong() {
    let database = testkit::database().await;
    let port = database.server.port();
    let error = refused(&format!("postgres://millstream:wr0ng@127.0.0.1:{port}/postgres")).await;
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Auth, Some("28P01")));
    assert!(!format!("{error:?}").contains("wr0ng"));

    let error = refused(&format!("postgres://millstream@127.0.0.1:{port}/postgres")).await;
    assert_eq!(error.kind(), ErrorKind::Auth);
    assert!(error.to_string().contains("asks for the password of \"millstream\""), "{error}");
    assert!(error.hint().expect("a way out").contains("PGPASSWORD"));

    let error = refused(&database.server.url("no%20such")).await;
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::NotFound, Some("3D000")));
    assert!(error.hint().expect("a way out").contains("createdb"));
}

#[tokio::test]
async fn connection_errors_name_the_address() {
    let own = testkit::Port::new();
    let port = own.number;
    let listener = std::net::TcpListener::bind(("127.0.0.1", port)).expect("it is free");
    let silent = refused(&format!("host=127.0.0.1 port={port} user=u connect_timeout=1")).await;
    assert_eq!(silent.kind(), ErrorKind::Unreachable);
    assert!(silent.to_string().contains("no answer in time"), "{silent}");
    drop(listener);
    // A process that another test starts at this moment has the listener too, until it runs its program.
    testkit::until("nobody has the listener any more", async || {
        let connected = std::net::TcpStream::connect(("127.0.0.1", port));
        connected.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
    })
    .await;

    let error = refused(&format!("host=127.0.0.1 port={port} user=u")).await;
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert_eq!(error.to_string(), format!("cannot connect to 127.0.0.1:{port}: connection refused"));
    assert!(error.hint().expect("a way out").contains("`millstream db start` starts"));

    let error = refused("host=/nowhere/at/all user=u").await;
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(error.to_string().contains("no such socket"), "{error}");

    let error = refused("host=nowhere.invalid user=u").await;
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(error.to_string().contains("host name"), "{error}");
}

#[tokio::test]
async fn a_server_of_another_user_is_sent_nothing_unless_its_directory_is_named() {
    if !testkit::machine_has(&[testkit::Need::Root]) {
        return;
    }
    let database = testkit::database().await;
    let shared = tempfile::tempdir().expect("a directory");
    fs::set_permissions(shared.path(), fs::Permissions::from_mode(0o1777)).expect("set");
    let port = database.server.port();
    let socket = format!(".s.PGSQL.{port}");
    // The link is root's, as one of an administrator, but not the server behind it.
    symlink(database.server.socket_dir().join(&socket), shared.path().join(&socket)).expect("linked");
    let environment = Environment::default().with_user("u").with_socket_dirs(vec![shared.path().to_owned()]);
    let searched = ConnInfo::parse(&format!("port={port}"), &environment).expect("parses");
    let error =
        millstream_pg::connect(&searched, &SessionSettings::named("millstream test")).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("another user of this machine"), "{error}");
    let place = format!("host={}", shared.path().display());
    assert!(error.hint().expect("a way out").ends_with(&place));

    connected(&format!("{place} port={port} user=millstream dbname=postgres")).await;
}

#[tokio::test]
async fn a_name_with_several_addresses_is_tried_to_the_end() {
    let database = testkit::database().await;
    let url = database.server.url_at(&format!("localhost:{}", database.server.port()), &database.name);
    assert_eq!(connected(&url).await.server.host, format!("localhost:{}", database.server.port()));
}

#[tokio::test]
async fn a_refused_password_ends_the_search_and_a_dead_host_does_not() {
    let database = testkit::database().await;
    let (port, password) = (database.server.port(), database.server.password());
    let alive = format!("postgres://millstream:{password}@127.0.0.1:1,127.0.0.1:{port}/postgres");
    connected(&alive).await;
    let wrong = format!("postgres://millstream:wrong@127.0.0.1:{port},127.0.0.1:1/postgres");
    assert_eq!(refused(&wrong).await.sqlstate(), Some("28P01"));
    let random = ConnInfo::parse(&format!("{alive}?load_balance_hosts=random"), &nowhere()).expect("a URL");
    for _ in 0..8 {
        millstream_pg::connect(&random, &SessionSettings::control()).await.expect("the living host is found");
    }
}

#[tokio::test]
async fn a_full_server_may_be_retried() {
    let build = testkit::default_build().await;
    let few = testkit::Settings::with(&["max_connections = 4", "superuser_reserved_connections = 0"]);
    let server = testkit::Server::start(build, few).await;
    let mut open = Vec::new();
    let error = loop {
        match crate::connect(&server.url("postgres")).await {
            Ok(connection) => open.push(connection),
            Err(error) => break error,
        }
        assert!(open.len() <= 4);
    };
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::TooManyConnections, Some("53300")));
    assert!(error.hint().expect("a way out").contains("fewer lanes"));
    assert!(millstream_pg::may_pass(error.kind()));
}
