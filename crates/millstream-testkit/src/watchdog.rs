//! A process that outlives a test and cleans up after it, even if the test was killed.

use crate::limits::MEMORY_BYTES_MIN;
use crate::port::Port;
use millstream_host::{Child, Command, facts};
use std::path::{Path, PathBuf};

/// Waits for the end of its input, then stops the server in a directory and removes the directory.
const SCRIPT: &str = include_str!("watchdog.sh");

/// Stops the server in `DIR/data` and removes the directory when this is dropped or this process ends. It also works
/// after `kill -9`, because the pipe between them closes in every case.
#[derive(Debug)]
pub(crate) struct Watchdog {
    child: Child,
}

impl Watchdog {
    /// Starts the watchdog.
    pub(crate) fn over(dir: &Path) -> Self {
        let mut shell = Command::new("/bin/sh");
        let child = shell.args(["-c", SCRIPT, "sh"]).arg(dir).start();
        Self { child: child.expect("a shell can be started") }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.child.finish();
    }
}

/// A home for a local server (`MILLSTREAM_HOME`), which remembers a port of its own. It is removed with the test, and
/// its server stopped.
#[derive(Debug)]
pub struct LocalHome {
    /// The directory. Only the remembered port is in it, and the account that runs servers can enter it.
    pub dir: PathBuf,
    _port: Port,
    _watchdog: Watchdog,
}

impl LocalHome {
    /// A new one.
    #[expect(clippy::new_without_default, reason = "a directory is made")]
    pub fn new() -> Self {
        let dir = directory(0o755);
        let watchdog = Watchdog::over(&dir);
        let port = Port::new();
        std::fs::write(dir.join("port"), format!("{}\n", port.number)).expect("there is room for a file");
        Self { dir, _port: port, _watchdog: watchdog }
    }
}

/// A new directory with that mode, in memory if there is plenty: making a thousand small files takes a tenth of the
/// time there. Its watchdog removes it.
pub(crate) fn directory(mode: u32) -> PathBuf {
    let memory = Path::new("/dev/shm");
    let facts = facts(memory);
    let plenty = facts.disk_free_bytes.min(facts.usable_bytes()) >= MEMORY_BYTES_MIN;
    let parent = if memory.is_dir() && plenty { memory.to_owned() } else { std::env::temp_dir() };
    directory_in(&parent, mode)
}

/// A new directory with that mode on a disk.
pub(crate) fn directory_on_disk(mode: u32) -> PathBuf {
    directory_in(&std::env::temp_dir(), mode)
}

fn directory_in(parent: &Path, mode: u32) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let mut builder = tempfile::Builder::new();
    let dir = builder.prefix("millstream-test-").tempdir_in(parent).expect("there is room for a directory");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(mode)).expect("it is our own");
    dir.keep()
}
