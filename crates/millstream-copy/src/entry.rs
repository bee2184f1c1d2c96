//! One thing in a tree: what a manifest says about it.

use crate::limits::{LARGE_PIECES_MAX, LARGE_PIECES_MIN};
use rustix::fs::{FileType, Stat};
use serde::{Deserialize, Serialize};

/// A BLAKE3 hash of a file's bytes, as `b3sum` prints it in hex.
pub(crate) type Hash = [u8; 32];

/// A file, a folder or another thing of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its path below the root of the tree; empty for the root.
    pub(crate) path: Vec<u8>,
    /// Everything else.
    pub(crate) facts: Facts,
}

/// What a manifest says about an entry besides its path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Facts {
    /// What it is.
    pub(crate) kind: EntryKind,
    /// Its rights: the lower twelve bits of the mode.
    pub(crate) mode: u32,
    /// Its owner.
    pub(crate) uid: u32,
    /// Its group.
    pub(crate) gid: u32,
    /// When its content was changed.
    pub(crate) modified: Time,
    /// Its inode, if it has several names: those of one inode are one file.
    pub(crate) shared: Option<Inode>,
    /// Extended attributes, ACLs among them, if they were asked for.
    pub(crate) attributes: Vec<Attribute>,
    /// A folder that was not entered, because another file system is mounted there.
    pub(crate) is_closed: bool,
}

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum EntryKind {
    /// A folder.
    Folder,
    /// A regular file.
    File {
        /// Bytes.
        size: u64,
        /// The hash of the bytes. `None` if nobody has read them, as when a file is cloned.
        hash: Option<Hash>,
    },
    /// A symbolic link.
    Link {
        /// What it holds.
        target: Vec<u8>,
    },
    /// A named pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A device.
    Device {
        /// Whether it is a block device.
        is_block: bool,
        /// Its number.
        number: u64,
    },
}

/// A point in time, as file systems keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Time {
    /// Seconds since 1970.
    pub(crate) seconds: i64,
    /// Nanoseconds.
    pub(crate) nanos: u32,
}

/// The number of a file in its file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Inode {
    /// The file system.
    pub(crate) device: u64,
    /// The number.
    pub(crate) number: u64,
}

/// An extended attribute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attribute {
    /// Its name, such as `user.note` or `system.posix_acl_access`.
    pub(crate) name: Vec<u8>,
    /// Its value.
    pub(crate) value: Vec<u8>,
}

impl Facts {
    /// What the system says of a file. A link's target and the attributes are still missing.
    pub(crate) fn of(stat: &Stat) -> Self {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => EntryKind::Folder,
            FileType::Symlink => EntryKind::Link { target: Vec::new() },
            FileType::Fifo => EntryKind::Pipe,
            FileType::Socket => EntryKind::Socket,
            FileType::BlockDevice => EntryKind::Device { is_block: true, number: stat.st_rdev },
            FileType::CharacterDevice => EntryKind::Device { is_block: false, number: stat.st_rdev },
            FileType::RegularFile | FileType::Unknown => EntryKind::File { size: size_of(stat), hash: None },
        };
        let is_shared = stat.st_nlink > 1 && kind != EntryKind::Folder;
        Self {
            kind,
            mode: stat.st_mode & 0o7777,
            uid: stat.st_uid,
            gid: stat.st_gid,
            modified: modified(stat),
            shared: is_shared.then_some(inode(stat)),
            attributes: Vec::new(),
            is_closed: false,
        }
    }

    /// Bytes of a file; 0 for everything else.
    pub(crate) fn size(&self) -> u64 {
        match self.kind {
            EntryKind::File { size, .. } => size,
            _ => 0,
        }
    }

    /// Whether it is a file that is copied in pieces of so many bytes.
    pub(crate) fn is_large(&self, piece_bytes: u64) -> bool {
        let most = LARGE_PIECES_MAX.saturating_mul(piece_bytes);
        (LARGE_PIECES_MIN.saturating_mul(piece_bytes)..=most).contains(&self.size()) && self.shared.is_none()
    }

    /// The hash of a file, if it is known.
    pub(crate) fn hash(&self) -> Option<Hash> {
        match self.kind {
            EntryKind::File { hash, .. } => hash,
            _ => None,
        }
    }

    pub(crate) fn set_hash(&mut self, known: Hash) {
        if let EntryKind::File { hash, .. } = &mut self.kind {
            *hash = Some(known);
        }
    }

    pub(crate) fn without_hash(mut self) -> Self {
        if let EntryKind::File { hash, .. } = &mut self.kind {
            *hash = None;
        }
        self
    }

    /// Its rights on a copy with this owner and group. The right to act as another one is left out.
    pub(crate) fn mode_as(&self, uid: u32, gid: u32) -> u32 {
        let of_owner = if uid == self.uid { 0 } else { 0o4000 };
        let of_group = if gid == self.gid { 0 } else { 0o2000 };
        self.mode & !(of_owner | of_group)
    }

    /// Whether it is a file that gives the right to act as its owner or group.
    pub(crate) fn is_privileged(&self) -> bool {
        matches!(self.kind, EntryKind::File { .. }) && self.mode & 0o6000 != 0
    }

    /// Whether both are files of the same size and time: then nothing was changed, as far as one sees without reading.
    /// `copy` is about the copy, whose file system may keep times less exactly.
    pub(crate) fn is_same_file(&self, copy: &Self) -> bool {
        let sizes = match (&self.kind, &copy.kind) {
            (EntryKind::File { size: a, .. }, EntryKind::File { size: b, .. }) => a == b,
            _ => false,
        };
        sizes && self.modified.is_kept_as(copy.modified)
    }
}

impl Time {
    /// Whether a file system may have made the other time of this one, by cutting it to its own unit.
    pub(crate) fn is_kept_as(self, kept: Self) -> bool {
        // Nanoseconds of a unit: NTFS, network protocols, exFAT, and the older ext4.
        const UNITS: [u32; 6] = [1, 100, 1_000, 1_000_000, 10_000_000, 1_000_000_000];
        self.seconds == kept.seconds && UNITS.iter().any(|unit| kept.nanos == self.nanos - self.nanos % unit)
    }
}

/// When the content was changed.
pub(crate) fn modified(stat: &Stat) -> Time {
    Time { seconds: stat.st_mtime, nanos: u32::try_from(stat.st_mtime_nsec).unwrap_or_default() }
}

/// When anything about the file was changed.
pub(crate) fn changed(stat: &Stat) -> Time {
    Time { seconds: stat.st_ctime, nanos: u32::try_from(stat.st_ctime_nsec).unwrap_or_default() }
}

/// The file's number.
pub(crate) fn inode(stat: &Stat) -> Inode {
    Inode { device: stat.st_dev, number: stat.st_ino }
}

/// The file's bytes.
pub(crate) fn size_of(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or_default()
}

/// Whether parts of a file take no room on its disk.
pub(crate) fn is_sparse(stat: &Stat) -> bool {
    // The system counts blocks of 512 bytes, whatever the file system's are.
    u64::try_from(stat.st_blocks).unwrap_or_default() * 512 < size_of(stat)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_may_be_cut_to_the_unit_of_a_file_system() {
        let time = |nanos| Time { seconds: 7, nanos };
        for kept in [0, 120_000_000, 123_000_000, 123_456_000, 123_456_700, 123_456_789] {
            assert!(time(123_456_789).is_kept_as(time(kept)), "{kept}");
        }
        assert!(!time(123_456_789).is_kept_as(time(123_456_790)) && !time(0).is_kept_as(time(1)));
        assert!(!time(5).is_kept_as(Time { seconds: 8, nanos: 5 }));
    }

    #[test]
    fn rights_to_act_as_another_are_given_only_with_that_owner_or_group() {
        let mode_as = |uid, gid| Facts { mode: 0o6755, uid: 1, gid: 2, ..facts() }.mode_as(uid, gid);
        assert_eq!((mode_as(1, 2), mode_as(9, 2), mode_as(1, 9), mode_as(9, 9)), (0o6755, 0o2755, 0o4755, 0o755));
    }

    fn facts() -> Facts {
        let file = std::fs::File::open("/dev/null").unwrap();
        Facts::of(&rustix::fs::fstat(file).unwrap())
    }
}
