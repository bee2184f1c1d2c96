//! Check `disk-full`: the disk of data or WAL is almost full.

use super::number;
use crate::check::{Check, Look, Seen, Task};
use crate::host::Host;
use millstream_host::{DiskSpace, disk_space};
use millstream_model::quantity::bytes;
use millstream_model::{Class, Danger, Finding, Level};

pub(super) const CHECK: Check = Check {
    id: "disk-full",
    about: "the disk of data or WAL is almost full, after which the server stops",
    class: Class::Arithmetic,
    thresholds: &[("percent", 85.0), ("critical_percent", 95.0), ("wal_times", 2.0)],
    manual: include_str!("disk_full.md"),
    looks: &[Look::Host(|host, task| Ok(seen(host, task, host.demands()?.wal_bytes)))],
};

/// What is wrong with the disks, if so many bytes of WAL may come.
fn seen(host: &Host, task: &Task, wal: u64) -> Seen {
    let (mounts, blind) = (host.mounts(), host.blind_to_disks());
    let found = mounts.into_iter().filter_map(|(role, dir, mount)| {
        // If pg_wal is a link that cannot be read, it only seems to be on the mount of the data.
        let wal = (host.wal_mount() == Some(mount) && blind.is_none()).then_some(wal);
        finding(task, role, &mount.point.display().to_string(), &disk_space(dir)?, wal)
    });
    found.collect::<Seen>().but(blind)
}

/// A finding if a disk is almost full, or has little room for WAL, of which so many bytes may come.
fn finding(task: &Task, role: &str, place: &str, space: &DiskSpace, wal: Option<u64>) -> Option<Finding> {
    let used = number::percent(space.all.saturating_sub(space.free), space.all);
    let files = number::percent(space.files.saturating_sub(space.free_files), space.files);
    let (percent, what) = if used >= files { (used, "space") } else { (files, "files") };
    let is_full = percent >= task.threshold("percent");
    let narrow = wal.filter(|wal| (space.free as f64) < task.threshold("wal_times") * *wal as f64);
    if !is_full && narrow.is_none() {
        return None;
    }
    let level = if percent >= task.threshold("critical_percent") { Level::Critical } else { Level::Warning };
    let sentence = match (is_full, narrow) {
        (false, Some(most)) => {
            format!("the disk of the WAL has {} free, and max_wal_size is {}", bytes(space.free), bytes(most))
        }
        _ => format!("the disk of the {role} is {percent:.0} % full, by {what}"),
    };
    Some(
        task.finding(level, place, sentence)
            .endangers(Danger::Service)
            .with("free", bytes(space.free), "statvfs")
            .with("size", bytes(space.all), "statvfs")
            .with_known("max_wal_size", wal.map(bytes), "pg_settings")
            .unless(match is_full {
                true => "something else on this disk, such as logs, can be deleted",
                false => "pg_wal has reached its size already and will not grow",
            })
            .repaired(
                "make room: look for replication slots that hold WAL, old logs, and tables that can be shrunk; or set \
                 max_wal_size lower",
                "never delete files of pg_wal by hand",
            ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_disk_of_the_data_is_not_judged_for_wal_that_may_be_elsewhere() {
        let own = [("percent", 101.0), ("critical_percent", 101.0), ("wal_times", 1e18)];
        let task = Task::of(&CHECK, own.map(|(name, value)| (name.to_owned(), value)).into());
        let place = tempfile::tempdir().unwrap();
        let (data, wal) = (place.path().to_owned(), place.path().join("pg_wal"));
        let host = Host::with_dirs(vec![("data", data), ("WAL", wal.clone())]);
        let hidden = seen(&host, &task, 1 << 30);
        assert!(hidden.findings.is_empty(), "{hidden:?}");
        assert!(hidden.unseen.is_some_and(|why| why.contains("the disk of the WAL")));
        std::fs::create_dir(wal).unwrap();
        let known = seen(&host, &task, 1 << 30);
        assert_eq!((known.findings.len(), known.unseen), (1, None), "it is on the same disk");
    }

    #[test]
    fn a_disk_is_full_by_space_by_files_or_by_the_wal_that_may_come() {
        let task = Task::of(&CHECK, BTreeMap::new());
        let space = |free, free_files| DiskSpace { all: 1_000, free, files: 100, free_files };
        let found = |space: DiskSpace, wal| {
            finding(&task, "data", "/", &space, wal).map(|finding| (finding.level, finding.sentence))
        };
        assert_eq!(found(space(500, 50), Some(250)), None);
        assert_eq!(found(space(500, 50), None), None, "the WAL is elsewhere");
        let narrow = "the disk of the WAL has 500 B free, and max_wal_size is 251 B".to_owned();
        assert_eq!(found(space(500, 50), Some(251)), Some((Level::Warning, narrow)));
        let full = |what: &str, percent: u32| format!("the disk of the data is {percent} % full, by {what}");
        assert_eq!(found(space(100, 50), Some(400)), Some((Level::Warning, full("space", 90))));
        assert_eq!(found(space(500, 2), None), Some((Level::Critical, full("files", 98))));
        let no_limit = DiskSpace { files: 0, free_files: 0, ..space(500, 0) };
        assert_eq!(found(no_limit, None), None, "a file system without a limit of files");
    }
}
