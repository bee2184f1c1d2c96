//! Where the kernel's sources look: the devices of data and WAL, and the control groups.

use millstream_host::kernel::{BlockDevice, cgroup, mount};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What is found once, when the recorder starts.
#[derive(Debug, Default)]
pub(super) struct Surroundings {
    /// Roles and devices: `data`, and `wal` if it is on a device of its own.
    pub(super) disks: Vec<(&'static str, BlockDevice)>,
    /// Directories of the groups of the recorder and of the server, and those above, for the controller `cpu`.
    pub(super) cgroups: BTreeSet<PathBuf>,
}

impl Surroundings {
    /// Looks at this machine. Without `wal`, the WAL is below the data directory. Adds what is missing to the notes.
    pub(super) fn of(data: Option<&Path>, wal: Option<&Path>, notes: &mut Vec<String>) -> Self {
        let mounts = mount::mounts();
        let mut device = |role: &str, dir: &Path| {
            let mount = mount::of(&mounts, dir)?;
            let found = BlockDevice::of(mount, Path::new("/sys"));
            if found.is_none() {
                notes.push(format!("the {role} is on {}, which has no block device to watch", mount.file_system));
            }
            found
        };
        let data_disk = data.and_then(|dir| device("data", dir));
        let wal = wal.map(Path::to_owned).or_else(|| Some(data?.join("pg_wal")));
        let wal_disk = wal.and_then(|dir| device("WAL", &dir)).filter(|wal| Some(wal) != data_disk.as_ref());
        let disks = [("data", data_disk), ("wal", wal_disk)];
        let server = data.and_then(cgroup::server_process);
        let processes = ["self"].into_iter().chain(server.as_deref());
        let cgroups = processes.filter_map(|process| cgroup::of(process, "cpu", &mounts)).flat_map(|group| group.dirs);
        let disks = disks.into_iter().filter_map(|(role, disk)| Some((role, disk?))).collect();
        Self { disks, cgroups: cgroups.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_without_a_device_is_noted() {
        let mut notes = Vec::new();
        let place = Surroundings::of(Some(Path::new("/proc")), None, &mut notes);
        assert!(place.disks.is_empty(), "{place:?}");
        assert_eq!(notes[0], "the data is on proc, which has no block device to watch");
    }
}
