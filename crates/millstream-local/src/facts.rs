//! Facts about the machine that decide a server's settings.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The machine, as a server on it sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Memory of the machine, in bytes.
    pub memory_bytes: u64,
    /// The tightest memory limit of our cgroups, in bytes, if there is one.
    pub cgroup_bytes: Option<u64>,
    /// Processors that we may use; a cgroup's quota counts.
    pub cores: u32,
    /// Free space on the disk of the data directory, in bytes.
    pub disk_free_bytes: u64,
    /// The data directory is on a rotating disk.
    pub rotational: bool,
}

impl Facts {
    /// Examines this machine; `dir` is on the disk of the data directory. For unknown facts it assumes 512 MiB of
    /// memory, one processor, no free space and a disk that does not rotate.
    pub fn gather(dir: &Path) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        Self {
            memory_bytes: memory_bytes().unwrap_or(512 << 20),
            cgroup_bytes: cgroup_bytes(Path::new("/sys/fs/cgroup")),
            cores: u32::try_from(cores).unwrap_or(u32::MAX),
            disk_free_bytes: disk_free_bytes(dir).unwrap_or(0),
            rotational: rotational(dir).unwrap_or(false),
        }
    }

    /// Memory that the server and all other programs can use, in bytes.
    pub fn usable_bytes(&self) -> u64 {
        self.cgroup_bytes.map_or(self.memory_bytes, |limit| limit.min(self.memory_bytes))
    }
}

/// Space on the disk of a directory that an unprivileged account can use, in bytes, if known.
pub(crate) fn disk_free_bytes(dir: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(dir).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

fn memory_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes << 10)
}

/// The tightest memory limit from our cgroup up to the root, for both cgroup versions.
fn cgroup_bytes(mount: &Path) -> Option<u64> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    limit_files(&text, mount).into_iter().filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok()).min()
}

/// Files that may hold a memory limit. For "no limit" version 1 has a number near 2^63, version 2 the word `max`. In a
/// container the path is often the host's, so the top of the mount is read too.
fn limit_files(cgroups: &str, mount: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in cgroups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        let (top, name) = match controllers {
            "" => (mount.to_owned(), "memory.max"),
            list if list.split(',').any(|one| one == "memory") => (mount.join("memory"), "memory.limit_in_bytes"),
            _ => continue,
        };
        let inner = Path::new(path.trim_start_matches('/'));
        files.extend(inner.ancestors().map(|dir| top.join(dir).join(name)));
    }
    files
}

/// Whether the disk of a directory rotates, as the kernel reports it. A partition has no queue of its own; its disk is
/// the directory above.
fn rotational(dir: &Path) -> Option<bool> {
    let device = fs::metadata(dir).ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let block = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    let disk = block.ancestors().take(2).find(|dir| dir.join("queue").is_dir())?;
    let says = fs::read_to_string(disk.join("queue/rotational")).ok()?;
    Some(says.trim() == "1" && !is_virtual(&disk.file_name()?.to_string_lossy()))
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
        let facts = Facts::gather(Path::new("/tmp"));
        assert!(facts.memory_bytes > 64 << 20 && facts.cores >= 1, "{facts:?}");
        assert!(facts.disk_free_bytes > 0, "{facts:?}");
    }

    #[test]
    fn virtual_disks_are_known_by_name() {
        assert!(is_virtual("vda") && is_virtual("xvdb"));
        assert!(!is_virtual("sda") && !is_virtual("nvme0n1") && !is_virtual("md0"));
    }

    #[test]
    fn limits_are_looked_for_from_our_cgroup_up_to_the_root() {
        let mount = Path::new("/cg");
        let two = limit_files("0::/a/b\n", mount);
        let expected = ["/cg/a/b/memory.max", "/cg/a/memory.max", "/cg/memory.max"];
        assert_eq!(two, expected.map(PathBuf::from));
        let one = limit_files("4:cpu:/x\n3:memory,hugetlb:/d\nbroken\n", mount);
        let expected = ["/cg/memory/d/memory.limit_in_bytes", "/cg/memory/memory.limit_in_bytes"];
        assert_eq!(one, expected.map(PathBuf::from));
    }
}
