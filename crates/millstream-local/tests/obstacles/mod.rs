//! What may prevent a start of the local server.

use crate::{options, start, stop, value};
use millstream_local::{Error, LocalOptions, PostgresBin, processes, server_account};
use millstream_pg::Explained;
use millstream_testkit::process::send;
use millstream_testkit::{LocalHome, Need, machine_has, until, until_some};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

/// All files of a directory with their contents, to show that nothing was touched.
fn content(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut list: Vec<(String, Vec<u8>)> = fs::read_dir(dir)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path())
        .map(|path| (path.display().to_string(), fs::read(path).unwrap_or_default()))
        .collect();
    list.sort();
    list
}

#[tokio::test]
async fn a_killed_server_recovers_on_the_next_start() {
    let home = LocalHome::new();
    let options = options(&home).await;
    let running = start(&options).await.unwrap();
    let client = millstream_testkit::connect(&running.url()).await;
    client.batch_execute("create table t as select 1 a").await.unwrap();
    // A child that does not notice the end of the postmaster: stopped, it cannot end by itself.
    let child: i32 = client.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
    send("STOP", child.unsigned_abs());
    send("KILL", running.pid);
    let account = server_account().unwrap();
    until("the killed server is gone", async || !processes(&account, &running.data).contains(&running.pid)).await;

    let again = start(&options).await.unwrap();
    assert_ne!(again.pid, running.pid);
    assert_eq!(value(&again.url(), "select a::text from t").await, "1");
    assert!(!processes(&account, &again.data).contains(&child.unsigned_abs()));
}

#[tokio::test]
async fn a_stale_pid_file_does_not_stop_another_process() {
    let home = LocalHome::new();
    let options = options(&home).await;
    let running = start(&options).await.unwrap();
    let pid_file = running.data.join("postmaster.pid");
    let text = fs::read_to_string(&pid_file).unwrap();
    assert!(stop(&options).await);

    let account = server_account().unwrap();
    let mut stranger = account.command("sleep").arg("600").start().unwrap();
    let stale = text.replacen(&running.pid.to_string(), &stranger.id().to_string(), 1);
    let socket_lock = running.socket_dir.as_ref().unwrap().join(format!(".s.PGSQL.{}.lock", running.port));
    for file in [&pid_file, &socket_lock] {
        fs::write(file, &stale).unwrap();
        account.own(file).unwrap();
    }
    assert_eq!(millstream_local::status(&options).unwrap().phase, None);
    assert!(!stop(&options).await, "a stranger is not stopped");
    start(&options).await.unwrap();
    assert_eq!(stranger.ended(), None, "the stranger lives");
}

/// Listens on a port. For a moment it may be the local port of another connection.
async fn occupied(port: u16) -> TcpListener {
    until_some(&format!("port {port} is free"), async || TcpListener::bind(("127.0.0.1", port)).ok()).await
}

#[tokio::test]
async fn a_busy_port_moves_the_server_for_good() {
    let home = LocalHome::new();
    let options = options(&home).await;
    let first = start(&options).await.unwrap().port;
    assert!(stop(&options).await);
    let busy = occupied(first).await;
    let second = start(&options).await.unwrap().port;
    assert_ne!(second, first);
    drop(busy);
    assert!(stop(&options).await);
    assert_eq!(start(&options).await.unwrap().port, second, "remembered");
}

#[tokio::test]
async fn concurrent_starts_make_one_server() {
    let home = LocalHome::new();
    let options = options(&home).await;
    let (one, two, three) = tokio::join!(start(&options), start(&options), start(&options));
    let one = one.unwrap();
    assert_eq!(one, two.unwrap());
    assert_eq!(one, three.unwrap());
}

#[tokio::test]
async fn an_interrupted_first_start_does_not_block_the_next() {
    let home = LocalHome::new();
    let options = options(&home).await;
    let half = home.dir.join(".new-0123");
    fs::create_dir(&half).unwrap();
    fs::write(half.join("PG_VERSION"), "18\n").unwrap();
    // Stopped as soon as the new cluster is being made.
    let (begun, making) = tokio::sync::oneshot::channel();
    let mut begun = Some(begun);
    let mut progress = |_: &str| {
        if let Some(begun) = begun.take() {
            begun.send(()).unwrap();
        }
    };
    tokio::select! {
        _ = millstream_local::start(&options, &mut progress) => panic!("this takes longer"),
        _ = making => {}
    }
    assert!(!home.dir.join("data").exists());
    start(&options).await.unwrap();
    let left: Vec<(String, Vec<u8>)> = content(&home.dir);
    assert!(left.iter().all(|(name, _)| !name.contains("/.new-")), "{left:?}");
}

#[tokio::test]
async fn data_of_another_version_is_refused_and_unchanged() {
    let home = LocalHome::new();
    let data = home.dir.join("data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("PG_VERSION"), "14\n").unwrap();
    fs::write(data.join("precious"), "yes").unwrap();
    let before = content(&data);
    let mut options = options(&home).await;
    for postgres_bin in [options.postgres_bin.clone(), PostgresBin::Auto, PostgresBin::Download] {
        options.postgres_bin = postgres_bin;
        let error = start(&options).await.unwrap_err();
        let (text, hint) = (error.to_string(), error.hint().unwrap());
        assert!(text.contains(&*data.to_string_lossy()) && text.contains("PostgreSQL 14"), "{text}");
        assert!(hint.contains("with --postgres-bin DIR") && hint.contains("MILLSTREAM_HOME"), "{hint}");
    }
    assert_eq!(content(&data), before);
}

#[tokio::test]
async fn a_directory_with_other_content_is_refused_and_unchanged() {
    let home = LocalHome::new();
    let data = home.dir.join("data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("thesis.txt"), "mine").unwrap();
    let options = options(&home).await;
    assert!(matches!(start(&options).await, Err(Error::NotData { .. })));
    assert_eq!(fs::read_to_string(data.join("thesis.txt")).unwrap(), "mine");

    fs::remove_dir_all(&data).unwrap();
    fs::write(&data, "a file").unwrap();
    assert!(matches!(start(&options).await, Err(Error::NotData { .. })));
    assert_eq!(fs::read_to_string(&data).unwrap(), "a file");
}

#[tokio::test]
async fn an_unwritable_home_is_named() {
    // Nobody makes directories here, not even root.
    let options = LocalOptions { home: Some("/sys/millstream".into()), ..LocalOptions::default() };
    let error = start(&options).await.unwrap_err();
    assert!(matches!(error, Error::NoRights { .. }), "{error}");
    assert!(error.to_string().contains("/sys/millstream"));
    assert!(error.hint().unwrap().contains("MILLSTREAM_HOME"));
}

#[tokio::test]
async fn a_home_of_another_user_is_named_with_the_way_out() {
    if !machine_has(&[Need::Root]) {
        return;
    }
    let home = LocalHome::new();
    let options = options(&home).await;
    chown(&home.dir, Some(65_534), Some(65_534)).unwrap();
    let error = start(&options).await.unwrap_err();
    assert!(matches!(error, Error::NotOurs(_)), "{error}");
    assert!(error.to_string().contains(&format!("{} belongs to ", home.dir.display())), "{error}");
    let hint = error.hint().unwrap();
    assert!(hint.starts_with("run this as ") && hint.contains("set MILLSTREAM_HOME"), "{hint}");
    assert!(matches!(millstream_local::status(&options), Err(Error::NotOurs(_))));
}

#[tokio::test]
async fn links_in_the_home_are_not_followed() {
    let (home, other) = (LocalHome::new(), tempfile::tempdir().unwrap());
    let options = options(&home).await;
    start(&options).await.unwrap();
    let victim = other.path().join("victim");
    fs::write(&victim, "victim").unwrap();
    fs::set_permissions(&victim, fs::Permissions::from_mode(0o644)).unwrap();
    let [stopped, lock] = ["stopped", "lock"].map(|name| home.dir.join(name));
    symlink(&victim, &stopped).unwrap();
    assert!(stop(&options).await);
    assert!(stopped.exists() && !stopped.is_symlink(), "it is a file of ours");
    fs::remove_file(&lock).unwrap();
    symlink(&victim, &lock).unwrap();
    let error = start(&options).await.unwrap_err().to_string();
    assert!(error.ends_with("it is a link"), "{error}");
    let mode = fs::metadata(&victim).unwrap().permissions().mode();
    assert_eq!((fs::read_to_string(&victim).unwrap().as_str(), mode & 0o777), ("victim", 0o644));
}

#[tokio::test]
async fn a_server_that_does_not_start_shows_its_log() {
    let home = LocalHome::new();
    let options = options(&home).await;
    let running = start(&options).await.unwrap();
    let client = millstream_testkit::connect(&running.url()).await;
    let broken = "alter system set shared_preload_libraries = 'no_such_library'";
    client.batch_execute(broken).await.unwrap();
    assert!(stop(&options).await);
    let error = start(&options).await.unwrap_err();
    assert!(matches!(error, Error::Start { .. }), "{error}");
    assert!(error.to_string().contains("no_such_library"), "{error}");
}

#[tokio::test]
async fn a_lost_password_is_named() {
    let home = LocalHome::new();
    let options = options(&home).await;
    start(&options).await.unwrap();
    let path = home.dir.join("password");
    fs::rename(&path, home.dir.join("elsewhere")).unwrap();
    let error = start(&options).await.unwrap_err();
    assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
    assert!(stop(&options).await, "it can still be stopped");
}
