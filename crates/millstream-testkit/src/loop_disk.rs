//! A disk over a file, for tests of what the kernel says of a disk.

use crate::build::account;
use crate::watchdog::directory;
use millstream_host::kernel::{BlockDevice, mount};
use millstream_host::{Command, Ended};
use std::path::{Path, PathBuf};

/// A loop device with a file system, which is unmounted and removed when dropped.
#[derive(Debug)]
pub struct LoopDisk {
    /// An empty directory on it. It belongs to the account of the servers.
    pub dir: PathBuf,
    /// The directory above, which is root's: a home of Millstream must not be in one of another account.
    pub mount: PathBuf,
    /// The kernel's name of the device, such as `loop3`.
    pub name: String,
    place: PathBuf,
}

impl LoopDisk {
    /// Makes one of so many bytes. Only root can, where the kernel has loop devices; otherwise it prints that the test is
    /// skipped and returns `None`.
    ///
    /// # Panics
    /// If the file cannot be made, or the device is not found.
    pub fn mount(bytes: u64) -> Option<Self> {
        Self::mount_as("ext4", &["-q", "-F"], bytes)
    }

    /// The same with a file system that keeps times in whole seconds.
    pub fn mount_coarse(bytes: u64) -> Option<Self> {
        Self::mount_as("ext4", &["-q", "-F", "-I", "128"], bytes)
    }

    /// The same with a file system that can share the bytes of files, which takes at least 300 MB.
    pub fn mount_sharing(bytes: u64) -> Option<Self> {
        Self::mount_as("xfs", &["-q", "-f"], bytes)
    }

    /// The same with exFAT, where names are the same if they differ in upper and lower case alone, everything belongs to root
    /// and everybody may write.
    ///
    /// # Panics
    /// As [`Self::mount`].
    pub fn mount_folding(bytes: u64) -> Option<Self> {
        Self::mount_by("exfat", &[], "exfat-fuse", bytes)
    }

    fn mount_as(kind: &str, options: &[&str], bytes: u64) -> Option<Self> {
        let disk = Self::mount_by(kind, options, kind, bytes)?;
        account().own(&disk.dir).unwrap_or_else(|error| panic!("{error}"));
        Some(disk)
    }

    fn mount_by(kind: &str, options: &[&str], mounted_as: &str, bytes: u64) -> Option<Self> {
        let place = directory(0o755);
        let (image, point) = (place.join("image"), place.join("disk"));
        let file = std::fs::File::create(&image).expect("there is room for a file");
        file.set_len(bytes).expect("a file may have holes");
        std::fs::create_dir(&point).expect("the directory is empty");
        // The kernel removes the device when it is unmounted.
        let made = is_done(Command::new(format!("mkfs.{kind}")).args(options).arg(&image))
            && is_done(Command::new("mount").args(["-t", mounted_as, "-o", "loop"]).arg(&image).arg(&point));
        if !made {
            let _ = std::fs::remove_dir_all(&place);
            crate::skip(&format!(
                "a disk over a file needs root, mkfs.{kind}, loop devices and the file system {mounted_as}"
            ));
            return None;
        }
        let mounts = mount::mounts();
        let device = mount::of(&mounts, &point).and_then(|mount| BlockDevice::of(mount, Path::new("/sys")));
        let name = device.expect("what is mounted has a device").name;
        let disk = Self { dir: point.join("space"), mount: point, name, place };
        std::fs::create_dir(&disk.dir).expect("the disk has room");
        Some(disk)
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        // Unmount lazily, because a server may still have files open there.
        let _ = Command::new("umount").arg("-l").arg(self.place.join("disk")).run_blocking();
        let _ = std::fs::remove_file(self.place.join("image"));
        let _ = std::fs::remove_dir(self.place.join("disk"));
        let _ = std::fs::remove_dir(&self.place);
    }
}

pub(crate) fn is_done(command: &mut Command) -> bool {
    command.run_blocking().and_then(Ended::succeeded).is_ok()
}
