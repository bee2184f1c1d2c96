//! What a worker has done, counted.

use crate::entry::Facts;

/// Counts of a worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) copied: u64,
    pub(crate) same: u64,
    pub(crate) linked: u64,
    pub(crate) skipped: u64,
    pub(crate) failed: u64,
    pub(crate) changed: u64,
    pub(crate) copied_bytes: u64,
}

impl Counts {
    pub(crate) fn copied(&mut self, facts: &Facts) {
        self.copied += 1;
        self.copied_bytes += facts.size();
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            copied: self.copied + other.copied,
            same: self.same + other.same,
            linked: self.linked + other.linked,
            skipped: self.skipped + other.skipped,
            failed: self.failed + other.failed,
            changed: self.changed + other.changed,
            copied_bytes: self.copied_bytes + other.copied_bytes,
        }
    }

    /// So many folders, which were counted as copied or the same, have failed after all.
    pub(crate) fn fail(&mut self, folders: u64) {
        let same = folders.min(self.same);
        self.same -= same;
        self.copied -= folders - same;
        self.failed += folders;
    }

    /// Entries that are accounted for.
    pub(crate) fn sum(self) -> u64 {
        self.copied + self.same + self.linked + self.skipped + self.failed
    }
}
