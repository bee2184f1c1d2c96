//! A slow disk over a file, for measurements: a block device whose reads, writes and flushes take as long as is asked.
//!
//! Linux can delay a block device by itself (`dm-delay`), in whole milliseconds and where its kernel has that. This way needs
//! less: a FUSE file system that is one file, which a process of ours serves, a loop device over that file, and a usual file
//! system on it. What is written lies in a file of the disk below, and a flush flushes that file, too: so data are as safe
//! here as there.

mod message;
mod pace;
mod service;

pub use self::pace::Slowness;
pub use self::service::serve_slow_disk;

use self::service::FUSE;
use crate::child::Child;
use crate::command::{Command, Ended};
use crate::error::Error;
use crate::facts::disk_free_bytes;
use crate::limits::{
    SANDBOX_POLL, SANDBOX_READY_MAX, SLOW_DISK_BYTES_LEFT, SLOW_DISK_BYTES_MAX, SLOW_DISK_BYTES_MIN, SLOW_DISK_END_MAX,
};
use crate::own_file::{make_folder, own_file};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The file that holds the disk's bytes, the file that shows them later, and where the file system is mounted.
const BYTES: &str = "bytes";
const DEVICE: &str = "device";
const POINT: &str = "disk";

/// A file system that a slow disk may have.
#[derive(Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// Its name.
    pub name: &'static str,
    /// Arguments of its `mkfs`: the file is empty, so that nothing has to be discarded or zeroed.
    make: &'static [&'static str],
    /// Options of each mount, so that nothing works in the background.
    options: &'static str,
}

/// File systems that a slow disk may have. The first one is the usual one.
pub const FILE_SYSTEMS: &[FileSystem] = &[
    FileSystem {
        name: "ext4",
        make: &["-q", "-F", "-E", "nodiscard,lazy_itable_init=1,lazy_journal_init=1"],
        options: "noinit_itable",
    },
    FileSystem { name: "xfs", make: &["-q", "-f", "-K"], options: "nodiscard" },
];

/// What is on a slow disk.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Format {
    /// One of [`FILE_SYSTEMS`], by its name.
    pub file_system: String,
    /// More options of its mount, with commas between them.
    pub options: String,
}

/// A slow disk, mounted. When this is dropped, it is unmounted and its bytes are removed. After a kill, it stays until
/// [`SlowDisk::remove_left`]; what uses it goes on, at full speed.
#[derive(Debug)]
pub struct SlowDisk {
    dir: PathBuf,
    service: Child,
}

impl SlowDisk {
    /// What a slow disk is, for people.
    pub const WAY: &'static str = "a loop device over a file that a FUSE server of ours delays";

    /// Makes one in a directory, which is made, too. `serve` is a program that calls [`serve_slow_disk`] with the two paths
    /// that it gets as its last arguments.
    ///
    /// # Errors
    /// [`Error::SlowDisk`] without FUSE or room, or without root; [`Error::Missing`] and [`Error::Failed`] of the programs
    /// `losetup`, `mkfs` and `mount`.
    pub fn make(serve: &mut Command, dir: &Path, format: &Format) -> Result<Self, Error> {
        fs::metadata(FUSE).map_err(Error::slow_disk("find", Path::new(FUSE)))?;
        let system = FILE_SYSTEMS.iter().find(|one| one.name == format.file_system);
        let system = system.ok_or_else(|| Error::slow_disk("make", dir)(io::Error::other("unknown file system")))?;
        let above = dir.parent().unwrap_or(dir);
        let free = disk_free_bytes(above).unwrap_or(SLOW_DISK_BYTES_MAX).saturating_sub(SLOW_DISK_BYTES_LEFT);
        if free < SLOW_DISK_BYTES_MIN {
            return Err(Error::slow_disk("make", dir)(io::ErrorKind::StorageFull.into()));
        }
        // Whole megabytes.
        let bytes = free.min(SLOW_DISK_BYTES_MAX) >> 20 << 20;
        let [file, device, point] = [BYTES, DEVICE, POINT].map(|name| dir.join(name));
        Self::remove_left(dir);
        make_folder(&point).map_err(Error::slow_disk("make", &point))?;
        let new = |path: &Path| own_file(0o600).write(true).create_new(true).open(path);
        let made = new(&device).and_then(|_| new(&file)?.set_len(bytes));
        made.map_err(Error::slow_disk("make", &file))?;
        let service = serve.arg(&file).arg(&device).start().inspect_err(|_| Self::remove_left(dir))?;
        // From here on, a failure removes what is there.
        let mut disk = Self { dir: dir.to_owned(), service };
        disk.wait_for(&device, bytes, serve.program())?;
        let done = |name: &str, args: &[&str], paths: &[&Path]| {
            Command::new(name).args(args).args(paths).run_blocking().and_then(Ended::succeeded)
        };
        let found = done("losetup", &["--find", "--show", "--direct-io=on"], &[&device])?.stdout;
        let block = Path::new(found.trim());
        let options = [system.options, &format.options].into_iter().filter(|options| !options.is_empty());
        let options = options.collect::<Vec<_>>().join(",");
        let mounted = done(&format!("mkfs.{}", system.name), system.make, &[block])
            .and_then(|_| done("mount", &["-t", system.name, "-o", &options], &[block, &point]));
        // Once it is mounted, the kernel keeps the device until it no longer is.
        let detached = done("losetup", &["--detach"], &[block]);
        mounted.and(detached)?;
        Ok(disk)
    }

    /// Where it is mounted. Only root may write there.
    pub fn point(&self) -> PathBuf {
        Self::point_in(&self.dir)
    }

    /// Where the disk in a directory is mounted.
    pub fn point_in(dir: &Path) -> PathBuf {
        dir.join(POINT)
    }

    /// Sets how slow it is from now on.
    ///
    /// # Errors
    /// [`Error::SlowDisk`] if what serves it has ended.
    pub fn set(&self, slowness: &Slowness) -> Result<(), Error> {
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        let told = self.service.0.stdin.as_ref().ok_or_else(gone);
        let told = told.and_then(|mut input| input.write_all(slowness.line().as_bytes()));
        told.map_err(Error::slow_disk("delay", &self.dir))
    }

    /// Unmounts and removes the disk in a directory, which a killed process has left. What is still at work there loses its
    /// files.
    pub fn remove_left(dir: &Path) {
        for name in [POINT, DEVICE] {
            let place = dir.join(name);
            if name == DEVICE {
                detach(dir);
            }
            // Something may still be at work there, such as a server that does not stop.
            if unmount(place.as_path(), UnmountFlags::NOFOLLOW) == Err(Errno::BUSY) {
                let _ = unmount(place.as_path(), UnmountFlags::NOFOLLOW | UnmountFlags::DETACH);
            }
        }
        for file in [DEVICE, BYTES] {
            let _ = fs::remove_file(dir.join(file));
        }
        // Neither is removed if there is anything in it.
        let _ = fs::remove_dir(dir.join(POINT)).and_then(|()| fs::remove_dir(dir));
    }

    /// Waits until the service shows the file.
    fn wait_for(&mut self, device: &Path, bytes: u64, program: &Path) -> Result<(), Error> {
        let begun = Instant::now();
        while begun.elapsed() < SANDBOX_READY_MAX && self.service.ended().is_none() {
            if fs::metadata(device).is_ok_and(|facts| facts.len() == bytes) {
                return Ok(());
            }
            std::thread::sleep(SANDBOX_POLL);
        }
        Err(Error::NotReady { program: program.to_owned() })
    }
}

/// Detaches loop devices over the device in a directory. A mounted one goes by itself when it is unmounted; one that a kill has
/// left before its mount would stay, and with it the service.
fn detach(dir: &Path) {
    let device = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned()).join(DEVICE);
    let is_over = |block: &fs::DirEntry| {
        let file = fs::read_to_string(block.path().join("loop/backing_file"));
        file.is_ok_and(|file| Path::new(file.trim_end()) == device)
    };
    for block in fs::read_dir("/sys/block").into_iter().flatten().flatten().filter(is_over) {
        let block = Path::new("/dev").join(block.file_name());
        let _ = Command::new("losetup").arg("--detach").arg(block).run_blocking();
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        // Unmounting writes what is in the page cache.
        let _ = self.set(&Slowness::default());
        Self::remove_left(&self.dir);
        let begun = Instant::now();
        while self.service.ended().is_none() && begun.elapsed() < SLOW_DISK_END_MAX {
            std::thread::sleep(SANDBOX_POLL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::mount;
    use millstream_testkit::{Need, machine_has};
    use std::os::unix::fs::FileExt;

    /// With these paths, the test below is the service. It must be another process: one that waits for its own answers
    /// cannot be killed.
    const PATHS: [&str; 2] = ["SLOW_DISK_FILE", "SLOW_DISK_DEVICE"];

    #[test]
    fn serves() {
        let [Some(file), Some(device)] = PATHS.map(std::env::var_os) else { return };
        serve_slow_disk(Path::new(&file), Path::new(&device)).unwrap();
    }

    /// A program that serves a slow disk, as a test of this file.
    fn service() -> Command {
        let mut shell = Command::new("/bin/sh");
        let [file, device] = PATHS;
        let script =
            format!("export {file}=\"$1\" {device}=\"$2\"; exec \"$0\" --exact slow_disk::tests::serves --nocapture");
        shell.args(["-c", &script]).arg(std::env::current_exe().unwrap());
        shell
    }

    fn made(dir: &Path, file_system: &str) -> Option<SlowDisk> {
        let name = if file_system == "xfs" { "mkfs.xfs" } else { "mkfs.ext4" };
        let package = if file_system == "xfs" { "xfsprogs" } else { "e2fsprogs" };
        let losetup = Need::Program { name: "losetup", package: "mount" };
        if !machine_has(&[Need::Root, losetup, Need::Program { name, package }]) {
            return None;
        }
        let format = Format { file_system: file_system.to_owned(), options: "noatime".to_owned() };
        match SlowDisk::make(&mut service(), dir, &format) {
            Ok(disk) => Some(disk),
            Err(error) => {
                millstream_testkit::skip(&format!("it needs FUSE, loop devices and {file_system}: {error}"));
                None
            }
        }
    }

    fn is_mounted(dir: &Path) -> bool {
        mount::mounts().iter().any(|one| one.point.starts_with(dir))
    }

    #[test]
    fn a_disk_is_as_slow_as_is_asked_and_nothing_of_it_is_left() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().canonicalize().unwrap().join("slow");
        let Some(disk) = made(&dir, "ext4") else { return };
        let file = fs::File::create_new(disk.point().join("file")).unwrap();
        file.write_all_at(&[1; 8_192], 0).unwrap();
        file.sync_all().unwrap();
        disk.set(&Slowness { flush_ms: 20.0, ..Slowness::default() }).unwrap();
        // The service reads its input at its leisure. Once a flush is slow, each one is.
        let flush = || {
            file.write_all_at(&[2; 8_192], 0).unwrap();
            let begun = Instant::now();
            file.sync_data().unwrap();
            begun.elapsed().as_millis()
        };
        while flush() < 20 {}
        assert!((0..5).all(|_| flush() >= 20));
        let options = mount::mounts().into_iter().find(|one| one.point == disk.point()).unwrap().options;
        assert!(options.contains("noatime"), "{options}");
        drop(file);
        drop(disk);
        assert!(!is_mounted(&dir) && !dir.exists());
    }

    #[test]
    fn what_a_killed_process_has_left_is_removed_with_its_bytes_and_its_service() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().canonicalize().unwrap().join("slow");
        let Some(mut disk) = made(&dir, "xfs") else { return };
        disk.set(&Slowness { flush_ms: 1e3, ..Slowness::default() }).unwrap();
        // As if we were killed: the pipe closes.
        disk.service.0.stdin = None;
        fs::write(disk.point().join("file"), "text").unwrap();
        // As if it had been before a mount.
        let mut attach = Command::new("losetup");
        attach.arg("--find").arg(dir.join(DEVICE)).run_blocking().and_then(Ended::succeeded).unwrap();
        SlowDisk::remove_left(&dir);
        assert!(!is_mounted(&dir) && !dir.exists());
        disk.service.finish();
        assert!(disk.service.ended().unwrap().success());
    }

    #[test]
    fn without_a_service_no_disk_is_made_and_nothing_stays() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("slow");
        let format = Format { file_system: "ext4".to_owned(), options: String::new() };
        assert!(SlowDisk::make(&mut Command::new("false"), &dir, &format).is_err());
        assert!(!dir.exists());
    }
}
