//! The block device below a directory: the disk of a partition, and the disks of a composed device.

use super::mount::{self, Mount};
use crate::limits::DEVICE_DEPTH_MAX;
use std::fs;
use std::path::{Path, PathBuf};

/// A device with a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockDevice {
    /// Name of the device, such as `sda`, `dm-0` or `md1`. For a partition that of its disk: partitions have no queue,
    /// and the kernel counts flushes by disk.
    pub name: String,
    /// Its directory below `/sys`.
    pub dir: PathBuf,
    /// Names of the disks that it is composed of; its own name if it is a disk.
    pub disks: Vec<String>,
}

impl BlockDevice {
    /// The device of a mount, with `/sys` at `sys`. `None` for a file system without a block device, such as tmpfs or
    /// overlay.
    pub fn of(mount: &Mount, sys: &Path) -> Option<Self> {
        let by_number = sys.join("dev/block").join(&mount.device).canonicalize().ok();
        // btrfs and others have a number of their own, but say what is mounted.
        let dir = by_number.or_else(|| {
            let source = Path::new(&mount.source);
            let node =
                source.starts_with("/dev").then(|| source.canonicalize().unwrap_or_else(|_| source.to_owned()))?;
            sys.join("class/block").join(node.file_name()?).canonicalize().ok()
        })?;
        let dir = disk_of(dir);
        let mut disks = Vec::new();
        add_disks(&dir, DEVICE_DEPTH_MAX, &mut disks);
        Some(Self { name: name(&dir)?, dir, disks })
    }
}

/// The directories of the queues of the disks that hold a directory. None without a block device.
pub fn queues_below(dir: &Path) -> Vec<PathBuf> {
    let mounts = mount::mounts();
    let device = mount::of(&mounts, dir).and_then(|mount| BlockDevice::of(mount, Path::new("/sys")));
    let disks = device.map(|device| device.disks).unwrap_or_default();
    let queues = disks.iter().map(|disk| Path::new("/sys/block").join(disk).join("queue"));
    queues.filter(|queue| queue.is_dir()).collect()
}

fn name(dir: &Path) -> Option<String> {
    Some(dir.file_name()?.to_str()?.to_owned())
}

/// The disk's directory is the one above its partition's.
fn disk_of(dir: PathBuf) -> PathBuf {
    match dir.parent() {
        Some(parent) if dir.join("partition").exists() => parent.to_owned(),
        _ => dir,
    }
}

/// Adds the disks below a device: those that its `slaves` are, or are composed of.
fn add_disks(dir: &Path, depth: usize, found: &mut Vec<String>) {
    let entries = fs::read_dir(dir.join("slaves")).into_iter().flatten().flatten();
    let mut below: Vec<PathBuf> = entries.filter_map(|entry| entry.path().canonicalize().ok()).map(disk_of).collect();
    below.sort();
    if below.is_empty() || depth == 0 {
        found.extend(name(dir).filter(|name| !found.contains(name)));
        return;
    }
    below.iter().for_each(|dir| add_disks(dir, depth - 1, found));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A `/sys` with disk `sda`, its partition `sda1`, disk `sdb`, and `dm-0` over `sda1` and `sdb`.
    fn sys() -> tempfile::TempDir {
        let sys = tempfile::tempdir().unwrap();
        let make = |path: &str| fs::create_dir_all(sys.path().join(path)).unwrap();
        let link = |to: &str, at: &str| symlink(sys.path().join(to), sys.path().join(at)).unwrap();
        for path in ["devices/sda/sda1", "devices/sdb", "devices/dm-0/slaves", "dev/block", "class/block"] {
            make(path);
        }
        fs::write(sys.path().join("devices/sda/sda1/partition"), "1\n").unwrap();
        link("devices/sda/sda1", "dev/block/8:1");
        link("devices/sdb", "dev/block/8:16");
        link("devices/dm-0", "dev/block/253:0");
        link("devices/sdb", "class/block/sdb");
        link("devices/sda/sda1", "devices/dm-0/slaves/sda1");
        link("devices/sdb", "devices/dm-0/slaves/sdb");
        sys
    }

    fn found(device: &str, source: &str) -> Option<(String, Vec<String>)> {
        let sys = sys();
        let line = format!("1 1 {device} / / rw - ext4 {source} rw");
        let found = BlockDevice::of(&mount::parsed(&line)[0], sys.path())?;
        assert!(found.dir.ends_with(&found.name));
        Some((found.name, found.disks))
    }

    #[test]
    fn a_partition_belongs_to_its_disk() {
        assert_eq!(found("8:1", "/dev/sda1"), Some(("sda".to_owned(), vec!["sda".to_owned()])));
    }

    #[test]
    fn a_composed_device_names_its_disks() {
        assert_eq!(
            found("253:0", "/dev/mapper/x"),
            Some(("dm-0".to_owned(), vec!["sda".to_owned(), "sdb".to_owned()]))
        );
    }

    #[test]
    fn a_file_system_with_a_number_of_its_own_is_found_by_its_source() {
        assert_eq!(found("0:40", "/dev/sdb").unwrap().0, "sdb");
        assert_eq!(found("0:41", "tmpfs"), None);
        assert_eq!(found("0:42", "overlay"), None);
    }
}
