//! Mounts, as proc(5)'s `mountinfo` lists them.

use super::file;
use std::path::{Path, PathBuf};

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Major and minor number of the device, such as `8:1`. File systems without a device of their own have major 0.
    pub device: String,
    /// Where it is mounted.
    pub point: PathBuf,
    /// Options of the mount.
    pub options: String,
    /// Type of the file system.
    pub file_system: String,
    /// What is mounted, such as `/dev/sda1`.
    pub source: String,
    /// Options of the file system.
    pub super_options: String,
}

/// The mounts that this process sees.
pub fn mounts() -> Vec<Mount> {
    parsed(&file::text("/proc/self/mountinfo").unwrap_or_default())
}

/// The mount that holds a path. Links in the path are resolved as far as we may read them.
pub fn of<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    // Of two mounts at one point the later one hides the other.
    mounts.iter().filter(|mount| path.starts_with(&mount.point)).max_by_key(|mount| mount.point.components().count())
}

/// The lines of `mountinfo`: `ID PARENT DEVICE ROOT POINT OPTIONS [TAG..] - TYPE SOURCE SUPER_OPTIONS`.
pub fn parsed(text: &str) -> Vec<Mount> {
    let mount = |line: &str| {
        let (left, right) = line.split_once(" - ")?;
        let left: Vec<&str> = left.split(' ').collect();
        let mut right = right.split(' ');
        Some(Mount {
            device: (*left.get(2)?).to_owned(),
            point: PathBuf::from(unescaped(left.get(4)?)),
            options: (*left.get(5)?).to_owned(),
            file_system: right.next()?.to_owned(),
            source: unescaped(right.next()?),
            super_options: right.next().unwrap_or_default().to_owned(),
        })
    };
    text.lines().filter_map(mount).collect()
}

/// Replaces `\040` and the like, by which the kernel writes space, tab, newline and backslash.
fn unescaped(text: &str) -> String {
    let pairs = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    pairs.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,discard
30 22 8:16 / /with\\040space rw,noatime - xfs /dev/sdb rw,attr2
31 22 0:26 / /with\\040space/tmp rw - tmpfs tmpfs rw
32 22 0:27 / /with\\040space/tmp rw - btrfs /dev/sdc rw
broken line
";

    #[test]
    fn a_path_lies_on_the_innermost_and_latest_mount() {
        let mounts = parsed(TEXT);
        assert_eq!(mounts.len(), 4);
        let of = |path: &str| of(&mounts, Path::new(path)).map(|mount| mount.source.as_str());
        assert_eq!(of("/with space/pg/data"), Some("/dev/sdb"));
        assert_eq!(of("/with space/tmp/x"), Some("/dev/sdc"));
        assert_eq!(of("/with spaces"), Some("/dev/sda1"));
        assert_eq!(mounts[0].super_options, "rw,discard");
        assert_eq!(mounts[1].options, "rw,noatime");
    }

    #[test]
    fn this_machine_has_a_root() {
        assert!(of(&mounts(), Path::new("/")).is_some());
    }
}
