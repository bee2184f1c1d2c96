//! The place of an arm's server: which PostgreSQL it is, how its data were made, and on which disk they lie.

use super::arm::Setup;
use millstream_host::Format;

/// How the names of directories of slow disks begin.
pub(super) const SLOW: &str = "slow-";

/// Name of the directory of a server that is not installed.
const DOWNLOADED: &str = "downloaded";

/// What arms have in common that run on the same server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// A major version, or the directory of the programs; `None`: the newest.
    pub(crate) postgres: Option<String>,
    /// Megabytes of a segment of the WAL, if not the usual ones.
    pub(crate) wal_segment_mb: Option<u32>,
    /// The slow disk, if it lies on one.
    pub(crate) disk: Option<Format>,
}

impl Place {
    /// The place of a setup. `usual`: the PostgreSQL for arms that name none.
    pub(crate) fn of(setup: &Setup, usual: Option<&String>) -> Self {
        Self {
            postgres: setup.postgres.as_ref().or(usual).cloned(),
            wal_segment_mb: setup.wal_segment_mb,
            disk: setup.slow_disk().map(|disk| disk.format),
        }
    }

    /// Its name in a record.
    pub(crate) fn name(&self) -> String {
        let segments = self.wal_segment_mb.map(|mb| format!("WAL segments of {mb} MB"));
        let disk = self.disk.as_ref().map(|Format { file_system, options }| match options.as_str() {
            "" => format!("slow disk with {file_system}"),
            options => format!("slow disk with {file_system} ({options})"),
        });
        let parts: Vec<String> = self.postgres.clone().into_iter().chain(segments).chain(disk).collect();
        parts.join(", ")
    }

    /// The name of its directory, unlike those of other places. It is short, because a socket lies below.
    pub(crate) fn folder(&self) -> String {
        let slow = self.disk.as_ref().map_or("", |_| SLOW);
        let postgres = self.postgres.as_deref().unwrap_or(DOWNLOADED).trim_matches('/');
        let segments = self.wal_segment_mb.map(|mb| format!("-wal{mb}")).unwrap_or_default();
        let disk = self.disk.as_ref().map(|format| format!("-{}-{}", format.file_system, format.options));
        let all = format!("{slow}{postgres}{segments}{}", disk.unwrap_or_default());
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        all.chars().map(plain).collect::<String>().trim_end_matches('-').to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_a_name_and_a_directory_of_its_own() {
        let place = |disk: Option<&str>, wal_segment_mb| {
            let setup = Setup { disk: disk.map(str::to_owned), wal_segment_mb, ..Setup::default() };
            let place = Place::of(&setup, Some(&"18".to_owned()));
            (place.name(), place.folder())
        };
        let pair = |name: &str, folder: &str| (name.to_owned(), folder.to_owned());
        assert_eq!(place(None, None), pair("18", "18"));
        assert_eq!(place(Some("own"), None), pair("18", "18"));
        assert_eq!(place(None, Some(64)), pair("18, WAL segments of 64 MB", "18-wal64"));
        assert_eq!(place(Some("hdd"), None), pair("18, slow disk with ext4", "slow-18-ext4"));
        let xfs = place(Some("hdd,file_system=xfs,mount=noatime+inode64"), Some(1));
        let name = "18, WAL segments of 1 MB, slow disk with xfs (noatime,inode64)";
        assert_eq!(xfs, pair(name, "slow-18-wal1-xfs-noatime-inode64"));
        let plain = Place::of(&Setup::default(), None);
        assert_eq!((plain.name(), plain.folder()), pair("", "downloaded"));
        let dir = Place { postgres: Some("/usr/lib/pg/".to_owned()), ..Place::default() };
        assert_eq!(dir.folder(), "usr-lib-pg");
    }
}
