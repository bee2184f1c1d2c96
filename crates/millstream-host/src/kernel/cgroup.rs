//! Control groups of a process, both versions: where the files of a controller are.

use super::file;
use super::mount::Mount;
use crate::limits::{CGROUP_DEPTH_MAX, KERNEL_FILE_BYTES_MAX};
use crate::plain_file::read_plain;
use std::path::{Path, PathBuf};

/// The group of a process for one controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cgroup {
    /// Version of the interface: 1 or 2.
    pub version: u8,
    /// The group is not the root.
    pub below_root: bool,
    /// Directories with the group's files, from the group up to the root. A limit of any of them counts.
    pub dirs: Vec<PathBuf>,
}

impl Cgroup {
    /// The name of one of the group's files, which differs between the versions.
    pub fn file<'a>(&self, first: &'a str, second: &'a str) -> &'a str {
        if self.version == 1 { first } else { second }
    }

    /// The same, but not the root if its directory has files that the root lacks. In a container with a namespace of its
    /// own, the group is called `/` as well. Linux, cgroup-v2: these files exist on non-root groups.
    #[must_use]
    pub fn seen(mut self) -> Self {
        let has = |name: &str| self.dirs.first().is_some_and(|dir| dir.join(name).exists());
        self.below_root |= self.version == 2 && ["cgroup.type", "memory.events"].into_iter().any(has);
        self
    }

    /// The tightest limit of the memory of the group and those above it, in bytes. `None` if there is none.
    pub fn memory_bytes(&self) -> Option<u64> {
        let name = self.file("memory.limit_in_bytes", "memory.max");
        // For "no limit", version 1 has a number near 2^63, version 2 the word `max`.
        let limit = |dir: &PathBuf| file::word(dir.join(name))?.parse().ok().filter(|bytes| *bytes < 1 << 62);
        self.dirs.iter().filter_map(limit).min()
    }
}

/// The group of a process, `self` or a number, for a controller such as `cpu`.
pub fn of(process: &str, controller: &str, mounts: &[Mount]) -> Option<Cgroup> {
    Some(parsed(&file::text(format!("/proc/{process}/cgroup"))?, controller, mounts)?.seen())
}

/// The number of the server's process, if we may read the file in its data directory that holds it.
pub fn server_process(data: &Path) -> Option<String> {
    let text = read_plain(&data.join("postmaster.pid"), KERNEL_FILE_BYTES_MAX).ok()??;
    let pid: u32 = text.lines().next()?.trim().parse().ok()?;
    Some(pid.to_string())
}

/// Reads `/proc/PID/cgroup`, whose lines are `NUMBER:CONTROLLERS:PATH`. With version 2 there are no controllers. Whether
/// the group is the root is decided by the path alone; [`Cgroup::seen`] looks at its files, too.
///
/// Both versions may be mounted. Then a controller of version 1 counts, because a controller has only one of them.
pub fn parsed(text: &str, controller: &str, mounts: &[Mount]) -> Option<Cgroup> {
    let lines = || text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let has = |list: &str| list.split(',').any(|one| one == controller);
    let first = lines().find(|(controllers, _)| has(controllers)).and_then(|(_, path)| {
        let mount = mounts.iter().find(|mount| mount.file_system == "cgroup" && has(&mount.super_options))?;
        Some((1, path, mount))
    });
    let second = || {
        let (_, path) = lines().find(|(controllers, _)| controllers.is_empty())?;
        Some((2, path, mounts.iter().find(|mount| mount.file_system == "cgroup2")?))
    };
    let (version, path, mount) = first.or_else(second)?;
    let inner = Path::new(path.trim_start_matches('/'));
    let dirs = inner.ancestors().take(CGROUP_DEPTH_MAX).map(|dir| mount.point.join(dir)).collect();
    Some(Cgroup { version, below_root: path != "/", dirs })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::mount;

    const MOUNTS: &str = "\
1 1 0:1 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct
2 1 0:2 / /cg/unified rw - cgroup2 cgroup2 rw
";

    #[test]
    fn a_controller_of_version_1_comes_before_version_2() {
        let mounts = mount::parsed(MOUNTS);
        let text = "4:cpu,cpuacct:/a/b\n3:memory:/m\n0::/c\n";
        let cpu = parsed(text, "cpu", &mounts).unwrap();
        assert_eq!((cpu.version, cpu.below_root), (1, true));
        assert_eq!(cpu.dirs, ["/cg/cpu/a/b", "/cg/cpu/a", "/cg/cpu/"].map(PathBuf::from));
        let io = parsed(text, "io", &mounts).unwrap();
        assert_eq!((io.version, io.below_root), (2, true));
        assert_eq!(io.dirs, ["/cg/unified/c", "/cg/unified/"].map(PathBuf::from));
    }

    #[test]
    fn the_root_group_is_known() {
        let mounts = mount::parsed(MOUNTS);
        assert!(!parsed("0::/\n", "cpu", &mounts).unwrap().below_root);
        assert_eq!(parsed("0::/\n", "cpu", &[]), None);
        assert_eq!(parsed("broken", "cpu", &mounts), None);
    }

    #[test]
    fn a_group_that_only_looks_like_the_root_has_files_that_the_root_lacks() {
        let dir = tempfile::tempdir().unwrap();
        let group = || Cgroup { version: 2, below_root: false, dirs: vec![dir.path().to_owned()] };
        std::fs::write(dir.path().join("cgroup.procs"), "1\n").unwrap();
        assert!(!group().seen().below_root);
        std::fs::write(dir.path().join("cgroup.type"), "domain\n").unwrap();
        assert!(group().seen().below_root);
    }
}
