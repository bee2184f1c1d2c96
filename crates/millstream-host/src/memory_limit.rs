//! A limit of memory for a process and its descendants, by a control group.

use crate::error::Error;
use crate::kernel::{Mount, cgroup, mount};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Name of the group.
const GROUP: &str = "millstream-lab";

/// Longest search for processes that were forked while others were moved.
const ROUNDS_MAX: usize = 10;

/// A limit that is in force. It is lifted when this is dropped; after a kill, by [`MemoryLimit::lift_left`].
#[derive(Debug)]
pub struct MemoryLimit {
    hierarchy: Hierarchy,
    /// The group from which the process came, to which it goes back. After a kill nobody knows it: then it is the root.
    origin: PathBuf,
}

/// Where control groups with the controller `memory` are.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hierarchy {
    root: PathBuf,
    /// The file of a group that holds its limit: version 1 or 2 of the interface.
    limit: &'static str,
}

impl MemoryLimit {
    /// Lets a process, its descendants, and the page cache that they fill, use at most so many bytes. Memory that they
    /// use already does not count. The page cache of the machine is emptied, because files in it would not count.
    ///
    /// # Errors
    /// [`Error::Setting`] without such groups, or without the right to make one.
    pub fn impose(pid: u32, bytes: u64) -> Result<Self, Error> {
        let mounts = mount::mounts();
        let hierarchy = Hierarchy::of(&mounts).ok_or_else(|| {
            Error::setting("find", Path::new("/sys/fs/cgroup"))(std::io::Error::other("no group can limit memory"))
        })?;
        let group = hierarchy.group();
        match fs::create_dir(&group) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(Error::setting("make", &group)(error));
            }
            Ok(()) | Err(_) => {}
        }
        let origin = cgroup::of(&pid.to_string(), "memory", &mounts);
        let origin = origin.and_then(|group| group.dirs.into_iter().next());
        // A process that an earlier run has left in our group came from an unknown one.
        let origin = origin.filter(|dir| *dir != group && dir.starts_with(&hierarchy.root));
        let limit = Self { origin: origin.unwrap_or_else(|| hierarchy.root.clone()), hierarchy };
        let file = group.join(limit.hierarchy.limit);
        fs::write(&file, bytes.to_string()).map_err(Error::setting("change", &file))?;
        let procs = group.join("cgroup.procs");
        for _ in 0..ROUNDS_MAX {
            let inside = pids(&procs);
            let outside: Vec<u32> = family(pid).into_iter().filter(|pid| !inside.contains(pid)).collect();
            if outside.is_empty() {
                break;
            }
            for one in outside {
                // A process may have ended meanwhile. Only the first one must be there.
                let moved = fs::write(&procs, one.to_string());
                if one == pid {
                    moved.map_err(Error::setting("change", &procs))?;
                }
            }
        }
        let cache = Path::new("/proc/sys/vm/drop_caches");
        rustix::fs::sync();
        fs::write(cache, "1").map_err(Error::setting("change", cache))?;
        Ok(limit)
    }

    /// Whether a limit is in force, perhaps because a process was killed.
    pub fn is_left() -> bool {
        left().is_some()
    }

    /// Lifts a limit that a killed process has left. Only for a process that holds the lock of [`crate::HostChanges`]:
    /// the limit of another run looks alike.
    pub fn lift_left() {
        drop(left().map(|hierarchy| Self { origin: hierarchy.root.clone(), hierarchy }));
    }
}

fn left() -> Option<Hierarchy> {
    Hierarchy::of(&mount::mounts()).filter(|hierarchy| hierarchy.group().is_dir())
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        let group = self.hierarchy.group();
        for _ in 0..ROUNDS_MAX {
            let inside = pids(&group.join("cgroup.procs"));
            if inside.is_empty() {
                break;
            }
            for pid in inside {
                // The group may be gone meanwhile.
                let [origin, root] = [&self.origin, &self.hierarchy.root].map(|dir| dir.join("cgroup.procs"));
                let _ = fs::write(origin, pid.to_string()).or_else(|_| fs::write(root, pid.to_string()));
            }
        }
        let _ = fs::remove_dir(&group);
    }
}

impl Hierarchy {
    fn of(mounts: &[Mount]) -> Option<Self> {
        let has_memory = |mount: &&Mount| mount.super_options.split(',').any(|one| one == "memory");
        let first = mounts.iter().filter(|mount| mount.file_system == "cgroup").find(has_memory);
        let second = || mounts.iter().find(|mount| mount.file_system == "cgroup2");
        let (mount, limit) = match first {
            Some(mount) => (mount, "memory.limit_in_bytes"),
            None => (second()?, "memory.max"),
        };
        Some(Self { root: mount.point.clone(), limit })
    }

    fn group(&self) -> PathBuf {
        self.root.join(GROUP)
    }
}

fn pids(file: &Path) -> BTreeSet<u32> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().filter_map(|line| line.trim().parse().ok()).collect()
}

/// A process and its descendants.
fn family(pid: u32) -> BTreeSet<u32> {
    let all = procfs::process::all_processes().into_iter().flatten().flatten();
    let stats = all.filter_map(|process| process.stat().ok());
    let parents: Vec<(u32, u32)> = stats.map(|stat| (stat.pid.cast_unsigned(), stat.ppid.cast_unsigned())).collect();
    let mut family = BTreeSet::from([pid]);
    loop {
        let more = parents.iter().filter(|(one, parent)| family.contains(parent) && !family.contains(one));
        let more: Vec<u32> = more.map(|(one, _)| *one).collect();
        if more.is_empty() {
            return family;
        }
        family.extend(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Command, wait_until};
    use std::time::Duration;

    #[test]
    fn both_versions_of_groups_are_found() {
        let line = |point: &str, kind: &str, options: &str| format!("1 2 0:3 / {point} rw - {kind} {kind} {options}\n");
        let of = |lines: &[String]| Hierarchy::of(&mount::parsed(&lines.concat()));
        let first = [
            line("/cg", "tmpfs", "rw"),
            line("/cg/cpu", "cgroup", "rw,cpu"),
            line("/cg/memory", "cgroup", "rw,memory"),
        ];
        let expected = Hierarchy { root: PathBuf::from("/cg/memory"), limit: "memory.limit_in_bytes" };
        assert_eq!(of(&first), Some(expected));
        let second = [line("/cg", "cgroup2", "rw,nsdelegate")];
        assert_eq!(of(&second), Some(Hierarchy { root: PathBuf::from("/cg"), limit: "memory.max" }));
        assert_eq!(of(&[line("/proc", "proc", "rw")]), None);
    }

    #[tokio::test]
    async fn a_family_is_a_process_with_its_descendants() {
        let parent = Command::new("/bin/sh").args(["-c", "sleep 60 & wait"]).start().unwrap();
        let own = std::process::id();
        let (limit, step) = (Duration::from_secs(60), Duration::from_millis(5));
        let found = wait_until(limit, step, || Some(family(parent.id())).filter(|family| family.len() == 2)).await;
        let found = found.unwrap();
        assert!(found.contains(&parent.id()) && !found.contains(&own));
        assert!(family(own).is_superset(&found));
    }
}
