//! A real PgBouncer between us and the server: transaction pooling is refused, session pooling is not.

use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use millstream_pg::{ErrorKind, Explained, ensure_session_pooling};
use millstream_testkit as testkit;

use crate::connected;

/// A running PgBouncer; it ends when dropped.
struct Pooler {
    process: Child,
    port: testkit::Port,
    _dir: tempfile::TempDir,
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Pooler {
    /// Starts one in front of the server; as root it becomes `nobody`, for it refuses to run as root.
    async fn start(server: &testkit::Server, settings: &str) -> Pooler {
        let dir = tempfile::tempdir().expect("a directory");
        let port = testkit::Port::new();
        let file = dir.path().join("pgbouncer.ini");
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={} user=millstream password={}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {}\nunix_socket_dir =\nauth_type = any\n{settings}\n",
            server.port(),
            server.password(),
            port.number
        );
        std::fs::write(&file, text).expect("written");
        for (path, mode) in [(dir.path(), 0o755), (file.as_path(), 0o644)] {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("mode set");
        }
        let mut command = Command::new(testkit::Need::PGBOUNCER.file());
        if is_root(dir.path()) {
            command.args(["-u", "nobody"]);
        }
        let process = command.arg("-q").arg(&file).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut pooler = Pooler { process: process.expect("it starts"), port, _dir: dir };
        testkit::until("pgbouncer answers at its port", async || {
            assert_eq!(pooler.process.try_wait().expect("a child"), None, "pgbouncer ended at once");
            TcpStream::connect(("127.0.0.1", pooler.port.number)).is_ok()
        })
        .await;
        pooler
    }

    fn url(&self) -> String {
        format!("postgres://millstream@127.0.0.1:{}/postgres", self.port.number)
    }
}

fn is_root(own: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(own).is_ok_and(|metadata| metadata.uid() == 0)
}

#[tokio::test]
async fn a_transaction_pooler_is_refused_however_it_chooses_backends() {
    if !testkit::machine_has(&[testkit::Need::PGBOUNCER]) {
        return;
    }
    let database = testkit::database().await;
    for settings in [
        "pool_mode = transaction",
        "pool_mode = transaction\nserver_round_robin = 1",
        "pool_mode = transaction\ndefault_pool_size = 1",
        "pool_mode = transaction\nmin_pool_size = 5",
        "pool_mode = statement",
    ] {
        let pooler = Pooler::start(database.server, settings).await;
        let (first, second) = (connected(&pooler.url()).await, connected(&pooler.url()).await);
        let error = ensure_session_pooling(&first, &second).await.expect_err(settings);
        assert_eq!(error.kind(), ErrorKind::Config, "{settings}: {error}");
        assert!(error.to_string().contains("another backend"), "{settings}: {error}");
        assert!(error.hint().expect("a way out").contains("pool_mode=session"));
    }
}

#[tokio::test]
async fn a_session_pooler_and_no_pooler_pass() {
    if !testkit::machine_has(&[testkit::Need::PGBOUNCER]) {
        return;
    }
    let database = testkit::database().await;
    let pooler = Pooler::start(database.server, "pool_mode = session").await;
    for url in [pooler.url(), database.url()] {
        let (first, second) = (connected(&url).await, connected(&url).await);
        ensure_session_pooling(&first, &second).await.unwrap_or_else(|error| panic!("{url}: {error}"));
        for one in [&first, &second] {
            let idle = "create temporary table proof (); drop table proof";
            one.client.batch_execute(idle).await.expect("no transaction is left open");
        }
    }
}

#[tokio::test]
async fn a_pooler_that_refuses_options_is_named() {
    if !testkit::machine_has(&[testkit::Need::PGBOUNCER]) {
        return;
    }
    let database = testkit::database().await;
    let pooler = Pooler::start(database.server, "pool_mode = session").await;
    let error = crate::refused(&format!("{}?options=-c%20geqo%3Doff", pooler.url())).await;
    assert!(error.hint().expect("a way out").contains("ignore_startup_parameters"), "{error}");
}
