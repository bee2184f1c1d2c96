//! A real PgBouncer in front of a server.

use crate::need::Need;
use crate::port::Port;
use crate::server::Server;
use crate::wait::until;
use millstream_host::{Child, Command};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// A running PgBouncer; it ends when dropped.
#[derive(Debug)]
pub struct Pooler {
    child: Child,
    port: Port,
    _dir: tempfile::TempDir,
}

impl Pooler {
    /// Starts one in front of the server. As root it becomes `nobody`, because it refuses to run as root.
    ///
    /// # Panics
    /// If the machine has none, or if it ends at once.
    pub async fn start(server: &Server, settings: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let port = Port::new();
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
        let mut command = Command::new(Need::PGBOUNCER.file());
        if is_root(dir.path()) {
            command.args(["-u", "nobody"]);
        }
        let child = command.arg("-q").arg(&file).start().expect("it starts");
        let mut pooler = Self { child, port, _dir: dir };
        until("pgbouncer answers at its port", async || {
            assert_eq!(pooler.child.ended(), None, "pgbouncer ended at once");
            TcpStream::connect(("127.0.0.1", pooler.port.number)).is_ok()
        })
        .await;
        pooler
    }

    /// The connection string of a database behind it.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://millstream@127.0.0.1:{}/{database}", self.port.number)
    }
}

fn is_root(own: &Path) -> bool {
    std::fs::metadata(own).is_ok_and(|metadata| metadata.uid() == 0)
}
