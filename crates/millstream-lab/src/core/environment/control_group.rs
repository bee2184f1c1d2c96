//! Section `control_group`: limits of memory and processor, and whether the group makes autogroups ineffective.
//!
//! The groups are the server's if we may read its process id, else our own.

use super::{Facts, Ground, Section, facts};
use millstream_host::kernel::file::word;
use millstream_host::kernel::{Cgroup, cgroup};
use std::path::Path;

pub(super) const SECTION: Section = Section { name: "control_group", read };

fn read(ground: &Ground) -> Facts {
    let of = |controller: &str| cgroup::of(&ground.process, controller, &ground.mounts);
    let (cpu, memory) = (of("cpu"), of("memory"));
    // By sched(7), autogroups take effect only in the root group of the controller `cpu`.
    let below = cpu.as_ref().map(|cpu| cpu.below_root.to_string());
    facts([
        ("of", Some(if ground.process == "self" { "the lab" } else { "the server" }.to_owned())),
        ("version", cpu.as_ref().map(|cpu| cpu.version.to_string())),
        ("below_root", below),
        ("cpu_quota_percent", cpu.as_ref().and_then(|cpu| smallest(cpu, quota_percent)).map(|quota| quota.to_string())),
        ("cpu_weight", cpu.as_ref().and_then(|cpu| word(cpu.dirs.first()?.join(cpu.file("cpu.shares", "cpu.weight"))))),
        ("memory_bytes", memory.as_ref().and_then(Cgroup::memory_bytes).map(|bytes| bytes.to_string())),
    ])
}

/// The tightest limit of a group and those above it.
fn smallest(group: &Cgroup, limit: fn(&Cgroup, &Path) -> Option<f64>) -> Option<f64> {
    group.dirs.iter().filter_map(|dir| limit(group, dir)).reduce(f64::min)
}

/// Processor time that a group may use, in percent of one processor. `None` if there is no limit.
fn quota_percent(group: &Cgroup, dir: &Path) -> Option<f64> {
    let pair = if group.version == 1 {
        format!("{} {}", word(dir.join("cpu.cfs_quota_us"))?, word(dir.join("cpu.cfs_period_us"))?)
    } else {
        word(dir.join("cpu.max"))?
    };
    let (quota, period) = pair.split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (quota > 0.0 && period > 0.0).then(|| (quota / period * 100.0).round())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_tightest_limit_from_the_group_to_the_root_counts() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("a");
        fs::create_dir(&inner).unwrap();
        fs::write(inner.join("cpu.max"), "max 100000\n").unwrap();
        fs::write(dir.path().join("cpu.max"), "150000 100000\n").unwrap();
        fs::write(inner.join("memory.max"), "1048576\n").unwrap();
        fs::write(dir.path().join("memory.max"), "max\n").unwrap();
        let group = Cgroup { version: 2, below_root: true, dirs: vec![inner, dir.path().to_owned()] };
        assert_eq!(smallest(&group, quota_percent), Some(150.0));
        assert_eq!(group.memory_bytes(), Some(1_048_576));
    }

    #[test]
    fn version_1_has_no_limit_as_numbers() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("cpu.cfs_quota_us"), "-1\n").unwrap();
        fs::write(dir.path().join("cpu.cfs_period_us"), "100000\n").unwrap();
        fs::write(dir.path().join("memory.limit_in_bytes"), "9223372036854771712\n").unwrap();
        let group = Cgroup { version: 1, below_root: false, dirs: vec![dir.path().to_owned()] };
        assert_eq!((smallest(&group, quota_percent), group.memory_bytes()), (None, None));
        fs::write(dir.path().join("cpu.cfs_quota_us"), "50000\n").unwrap();
        assert_eq!(smallest(&group, quota_percent), Some(50.0));
    }
}
