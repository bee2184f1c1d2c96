//! Reads the facts of this machine from the kernel.

use crate::process::kilobytes;
use millstream_model::MachineFacts;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Examines this machine and the disk of a directory. For unknown numbers it assumes 512 MiB of memory, one processor,
/// no free space and a disk that does not rotate.
pub fn facts(dir: &Path) -> MachineFacts {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let device = device(dir);
    MachineFacts {
        kernel: format!("{} {}", std::env::consts::OS, read("/proc/sys/kernel/osrelease")).trim().to_owned(),
        processor: value(&read("/proc/cpuinfo"), "model name"),
        cores: u32::try_from(cores).unwrap_or(u32::MAX),
        memory_bytes: kilobytes(&read("/proc/meminfo"), "MemTotal:").unwrap_or(512 << 20),
        cgroup_bytes: cgroup_bytes(Path::new("/sys/fs/cgroup")),
        load_average: read("/proc/loadavg").split(' ').next().and_then(|average| average.parse().ok()),
        file_system: device.as_deref().and_then(|device| file_system(&read("/proc/self/mountinfo"), device)),
        disk_free_bytes: disk_free_bytes(dir).unwrap_or(0),
        rotational: device.as_deref().and_then(rotational).unwrap_or(false),
    }
}

/// Space on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpace {
    /// Its size that an unprivileged account can use, in bytes.
    pub all: u64,
    /// What is left of it, in bytes.
    pub free: u64,
    /// Files that it can hold; 0 without a limit.
    pub files: u64,
    /// How many more it can hold.
    pub free_files: u64,
}

/// Space on the disk of a directory, if known.
pub fn disk_space(dir: &Path) -> Option<DiskSpace> {
    let stat = rustix::fs::statvfs(dir).ok()?;
    let reserved = stat.f_bfree.saturating_sub(stat.f_bavail);
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    let all = bytes(stat.f_blocks.saturating_sub(reserved));
    Some(DiskSpace { all, free: bytes(stat.f_bavail), files: stat.f_files, free_files: stat.f_favail })
}

/// Space on the disk of a directory that an unprivileged account can use, in bytes, if known.
pub fn disk_free_bytes(dir: &Path) -> Option<u64> {
    disk_space(dir).map(|space| space.free)
}

/// The tightest memory limit from our cgroup up to the root, for both cgroup versions.
fn cgroup_bytes(mount: &Path) -> Option<u64> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    limit_files(&text, mount).into_iter().filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok()).min()
}

/// Files that may hold a memory limit. For "no limit" version 1 has a number near 2^63, version 2 the word `max`. In a
/// container the path is often the host's, so the top of the mount is read too.
fn limit_files(cgroups: &str, mount: &Path) -> Vec<PathBuf> {
    let files = |line: &str| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let (top, name) = match controllers {
            "" => (mount.to_owned(), "memory.max"),
            list if list.split(',').any(|one| one == "memory") => (mount.join("memory"), "memory.limit_in_bytes"),
            _ => return None,
        };
        let inner = Path::new(path.trim_start_matches('/'));
        Some(inner.ancestors().map(|dir| top.join(dir).join(name)).collect::<Vec<_>>())
    };
    cgroups.lines().filter_map(files).flatten().collect()
}

/// Major and minor number of the device that holds a directory.
fn device(dir: &Path) -> Option<String> {
    let device = fs::metadata(dir).ok()?.dev();
    Some(format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device)))
}

/// Whether a disk rotates, as the kernel reports it. A partition has no queue of its own; its disk is the directory
/// above.
fn rotational(device: &str) -> Option<bool> {
    let block = fs::canonicalize(Path::new("/sys/dev/block").join(device)).ok()?;
    let disk = block.ancestors().take(2).find(|dir| dir.join("queue").is_dir())?;
    let says = fs::read_to_string(disk.join("queue/rotational")).ok()?;
    Some(says.trim() == "1" && !is_virtual(&disk.file_name()?.to_string_lossy()))
}

/// Virtual disks report that they rotate, whatever is below them.
fn is_virtual(disk: &str) -> bool {
    disk.starts_with("vd") || disk.starts_with("xvd")
}

/// The type of the file system on a device, from proc(5)'s mountinfo.
fn file_system(mounts: &str, device: &str) -> Option<String> {
    let line = mounts.lines().find(|line| line.split(' ').nth(2) == Some(device))?;
    let (_, rest) = line.split_once(" - ")?;
    Some(rest.split(' ').next()?.to_owned())
}

/// The value of the first line `name : value` of one of the kernel's files.
fn value(text: &str, name: &str) -> Option<String> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_memory_a_core_and_a_disk() {
        let facts = facts(Path::new("/tmp"));
        assert!(facts.memory_bytes > 64 << 20 && facts.cores >= 1, "{facts:?}");
        assert!(facts.disk_free_bytes > 0 && !facts.kernel.is_empty(), "{facts:?}");
    }

    #[test]
    fn virtual_disks_are_known_by_name() {
        assert!(is_virtual("vda") && is_virtual("xvdb"));
        assert!(!is_virtual("sda") && !is_virtual("nvme0n1") && !is_virtual("md0"));
    }

    #[test]
    fn memory_limits_are_read_from_our_cgroup_up_to_the_root() {
        let mount = Path::new("/cg");
        let two = limit_files("0::/a/b\n", mount);
        let expected = ["/cg/a/b/memory.max", "/cg/a/memory.max", "/cg/memory.max"];
        assert_eq!(two, expected.map(PathBuf::from));
        let one = limit_files("4:cpu:/x\n3:memory,hugetlb:/d\nbroken\n", mount);
        let expected = ["/cg/memory/d/memory.limit_in_bytes", "/cg/memory/memory.limit_in_bytes"];
        assert_eq!(one, expected.map(PathBuf::from));
    }

    #[test]
    fn a_file_system_is_known_by_its_device() {
        let mounts = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 22 0:26 / /tmp rw shared:3 - tmpfs tmpfs rw\n";
        assert_eq!(file_system(mounts, "0:26").as_deref(), Some("tmpfs"));
        assert_eq!(file_system(mounts, "9:9"), None);
    }
}
