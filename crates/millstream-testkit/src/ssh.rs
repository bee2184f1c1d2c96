//! A server of ssh, and a daemon of rsync, on this machine.

use crate::loop_disk::is_done;
use crate::need::{Need, machine_has};
use crate::port::Port;
use crate::wait::until_blocking;
use millstream_host::{Child, Command};
use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A server of ssh that lets in whoever has its key. It ends when this is dropped.
#[derive(Debug)]
pub struct SshServer {
    dir: tempfile::TempDir,
    port: Port,
    _child: Child,
}

/// A daemon of rsync with one module, `files`. It ends when this is dropped.
#[derive(Debug)]
pub struct RsyncDaemon {
    _dir: tempfile::TempDir,
    port: Port,
    _child: Child,
}

impl SshServer {
    /// Starts one. Without sshd, ssh, rsync and root it prints that the test is skipped and returns `None`.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start() -> Option<Self> {
        // A copy between machines runs rsync on both.
        if !machine_has(&[Need::Root, Need::SSHD, Need::SSH, Need::RSYNC]) {
            return None;
        }
        // It changes to this directory and refuses to start without.
        fs::create_dir_all("/run/sshd").expect("root may make it");
        let dir = tempfile::tempdir().expect("there is room for a directory");
        let path = |name: &str| dir.path().join(name);
        for key in ["host", "key"] {
            let made = is_done(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path(key)));
            assert!(made, "ssh-keygen makes a key");
        }
        fs::rename(path("key.pub"), path("allowed")).expect("the key was made");
        let port = Port::new();
        // The user's own shell settings would only take time.
        let config = format!(
            "Port {}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPasswordAuthentication no\nUsePAM no\n\
             StrictModes no\nPidFile none\nSetEnv HOME=/nonexistent\n",
            port.number,
            path("host").display(),
            path("allowed").display()
        );
        fs::write(path("config"), config).expect("there is room for a file");
        let child =
            Command::new(Need::SSHD.file()).args(["-D", "-f"]).arg(path("config")).arg("-E").arg(path("log")).start();
        let mut child = child.expect("sshd starts");
        answers(port.number, &mut child);
        Some(Self { dir, port, _child: child })
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port.number
    }

    /// The command that connects to it, or to what stands before it at another port.
    pub fn shell(&self, port: u16) -> String {
        let key = self.dir.path().join("key");
        // The default exchange of keys takes seven times as much of the processor.
        let options = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o BatchMode=yes \
                       -o KexAlgorithms=curve25519-sha256";
        format!("ssh -F none -p {port} -i {} {options}", key.display())
    }
}

impl RsyncDaemon {
    /// Starts one whose module is a directory that may be written. Without rsync and root it prints that the test is
    /// skipped and returns `None`.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(files: &Path) -> Option<Self> {
        Self::start_as(files, 0)
    }

    /// The same as this user and the group of the same number.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub fn start_as(files: &Path, user: u32) -> Option<Self> {
        if !machine_has(&[Need::Root, Need::RSYNC]) {
            return None;
        }
        let dir = tempfile::tempdir().expect("there is room for a directory");
        let config: PathBuf = dir.path().join("config");
        let text = format!(
            "use chroot = yes\nmunge symlinks = no\nuid = {user}\ngid = {user}\nlog file = {}\n[files]\npath = {}\nread only = no\n",
            dir.path().join("log").display(),
            files.display()
        );
        fs::write(&config, text).expect("there is room for a file");
        fs::set_permissions(&config, fs::Permissions::from_mode(0o600)).expect("it is ours");
        let port = Port::new();
        let mut command = Command::new("rsync");
        command.args(["--daemon", "--no-detach", "--address=127.0.0.1", "--port", &port.number.to_string()]);
        let mut config_option = std::ffi::OsString::from("--config=");
        config_option.push(&config);
        let mut child = command.arg(config_option).start().expect("rsync starts");
        answers(port.number, &mut child);
        Some(Self { _dir: dir, port, _child: child })
    }

    /// The address of its module.
    pub fn address(&self) -> String {
        format!("rsync://127.0.0.1:{}/files", self.port.number)
    }
}

fn answers(port: u16, child: &mut Child) {
    until_blocking(&format!("a server answers at port {port}"), || {
        assert_eq!(child.ended(), None, "the server of port {port} has ended");
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
}
