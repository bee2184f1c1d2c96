//! Reads the facts of this machine from the kernel.

use crate::kernel::{BlockDevice, Mount, cgroup, file, mount};
use crate::process::kilobytes;
use millstream_model::MachineFacts;
use std::fs;
use std::num::NonZero;
use std::path::Path;

/// Processors that this process may use; a cgroup's quota counts. 1 if they are unknown.
pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// Examines this machine and the disk of a directory. For unknown numbers it assumes 512 MiB of memory, one processor,
/// no free space and a disk that does not rotate.
pub fn facts(dir: &Path) -> MachineFacts {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let mounts = mount::mounts();
    let on = mount::of(&mounts, dir);
    MachineFacts {
        kernel: format!("{} {}", std::env::consts::OS, read("/proc/sys/kernel/osrelease")).trim().to_owned(),
        processor: file::value(&read("/proc/cpuinfo"), "model name").map(str::to_owned),
        cores: u32::try_from(cpus()).unwrap_or(u32::MAX),
        memory_bytes: kilobytes(&read("/proc/meminfo"), "MemTotal:").unwrap_or(512 << 20),
        cgroup_bytes: cgroup::of("self", "memory", &mounts).and_then(|group| group.memory_bytes()),
        load_average: read("/proc/loadavg").split(' ').next().and_then(|average| average.parse().ok()),
        file_system: on.map(|mount| mount.file_system.clone()),
        disk_free_bytes: disk_free_bytes(dir).unwrap_or(0),
        rotational: on.and_then(rotational).unwrap_or(false),
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

/// Whether the device of a mount rotates, as the kernel reports it.
fn rotational(mount: &Mount) -> Option<bool> {
    let device = BlockDevice::of(mount, Path::new("/sys"))?;
    let says = file::word(device.dir.join("queue/rotational"))?;
    Some(says == "1" && !is_virtual(&device.name))
}

/// Virtual disks report that they rotate, whatever is below them.
fn is_virtual(disk: &str) -> bool {
    disk.starts_with("vd") || disk.starts_with("xvd")
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
}
