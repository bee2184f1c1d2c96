//! A small disk, for tests that fill it.

use crate::build::account;
use crate::loop_disk::is_done;
use crate::watchdog::directory;
use millstream_host::Command;
use std::path::{Path, PathBuf};

/// A file system in memory, which is unmounted when dropped.
#[derive(Debug)]
pub struct SmallDisk {
    /// An empty directory on it. It belongs to the account of the servers and can be a tablespace.
    pub dir: PathBuf,
    /// The directory above, which is root's: a home of Millstream must not be in one of another account.
    pub mount: PathBuf,
}

impl SmallDisk {
    /// Mounts a file system of so many bytes. Only root can; for others it prints that the test is skipped and returns
    /// `None`.
    ///
    /// # Panics
    /// If the directory cannot be made.
    pub fn mount(bytes: u64) -> Option<Self> {
        let mount = directory(0o755);
        if !mounted(&mount, &format!("size={bytes},mode=0755")) {
            let _ = std::fs::remove_dir(&mount);
            crate::skip("a small disk can be mounted only by root");
            return None;
        }
        let dir = mount.join("space");
        std::fs::create_dir(&dir).expect("the disk is empty");
        account().own(&dir).unwrap_or_else(|error| panic!("{error}"));
        Some(Self { dir, mount })
    }

    /// Changes its size.
    ///
    /// # Panics
    /// If it cannot be remounted.
    pub fn grow(&self, bytes: u64) {
        assert!(mounted(&self.mount, &format!("remount,size={bytes}")), "the small disk can grow");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Unmount lazily, because a server may still have files open there.
        let _ = Command::new("umount").arg("-l").arg(&self.mount).run_blocking();
        let _ = std::fs::remove_dir(&self.mount);
    }
}

fn mounted(mount: &Path, options: &str) -> bool {
    is_done(Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(mount))
}
