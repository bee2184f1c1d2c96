//! What is done otherwise in a copy of files than in one of a running database: a value, so that nobody asks which one it is.

use crate::entry::Hash;
use crate::hasher::Hashing;
use crate::limits::CHANGED_READS_MAX;

/// How the files of a copy are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Policy {
    /// Which files that are there already are the same.
    pub(crate) same: Same,
    /// What becomes of what the source loses while it is copied.
    pub(crate) gone: Gone,
    /// Times that a file is read because it changes meanwhile.
    pub(crate) reads_max: u32,
    /// How files of this machine are hashed.
    pub(crate) hashing: Hashing,
    /// Files are also read where the system could copy them without that, so that every one has a hash.
    pub(crate) hashes_all: bool,
    /// It is looked whether the source may be copied to the destination at all. A copy of a cluster has done so before.
    pub(crate) judges_ends: bool,
}

/// Which files that are there already, with the size and time of those of the source, are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Same {
    /// All of them.
    ByTime,
    /// Those whose bytes are, whatever an earlier copy has noted of them.
    ByBytes,
}

/// What an earlier copy has of something that the source loses while it is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gone {
    /// It stays: a source that is no longer mounted has lost everything.
    Stays,
    /// It goes: the source is a running database, which removes files at any time.
    Goes,
}

/// What proves that a file which is there, with the size and time of that of the source, is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    /// Its size and time.
    Time,
    /// This hash, which was noted when it was copied.
    Noted(Hash),
    /// The bytes of both ends.
    BothEnds,
    /// Nothing does: it is copied again.
    Nothing,
}

impl Policy {
    /// How a copy of files is made. `hash`: that every file is read was asked for.
    pub(crate) fn of_files(hash: bool) -> Self {
        Self {
            same: if hash { Same::ByBytes } else { Same::ByTime },
            gone: Gone::Stays,
            reads_max: CHANGED_READS_MAX,
            hashing: Hashing::Blake3,
            hashes_all: hash,
            judges_ends: true,
        }
    }

    /// How a running database is copied, whose files change at any time and have the hashes that PostgreSQL knows.
    pub(crate) fn of_cluster(same: Same, hashes_all: bool) -> Self {
        let (gone, hashing) = (Gone::Goes, Hashing::Sha256);
        Self { same, gone, reads_max: 1, hashing, hashes_all, judges_ends: false }
    }

    /// Whether bytes decide which files are the same: that was asked for, or what an earlier run has copied perhaps never
    /// reached the disk, which makes it `doubtful`.
    pub(crate) fn compares_bytes(&self, is_doubtful: bool) -> bool {
        self.same == Same::ByBytes || is_doubtful
    }

    /// The same for one file. `noted`: its hash, as an earlier run has noted it.
    pub(crate) fn proof(&self, is_doubtful: bool, noted: Option<Hash>) -> Proof {
        match (self.same, noted) {
            _ if !self.compares_bytes(is_doubtful) => Proof::Time,
            (Same::ByBytes, _) => Proof::BothEnds,
            (Same::ByTime, Some(hash)) => Proof::Noted(hash),
            (Same::ByTime, None) => Proof::Nothing,
        }
    }

    /// Whether the hash that an earlier run has noted of a file is that of the file now: what has its size and time may have
    /// other bytes.
    pub(crate) fn believes_notes(&self) -> bool {
        self.same == Same::ByTime
    }

    /// Whether a file that changes while it is read is a failure. A copy that reads each file once expects changes.
    pub(crate) fn minds_changes(&self) -> bool {
        self.reads_max > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_compared_if_that_is_asked_for_and_where_they_may_be_lost() {
        let hash = Some([7; 32]);
        let asked = Policy::of_files(true);
        for (is_doubtful, noted) in [(false, None), (false, hash), (true, None), (true, hash)] {
            assert!(asked.compares_bytes(is_doubtful));
            assert_eq!(asked.proof(is_doubtful, noted), Proof::BothEnds);
        }
        let usual = Policy::of_files(false);
        assert!(!usual.compares_bytes(false) && usual.compares_bytes(true));
        assert_eq!([usual.proof(false, None), usual.proof(false, hash)], [Proof::Time; 2]);
        assert_eq!([usual.proof(true, None), usual.proof(true, hash)], [Proof::Nothing, Proof::Noted([7; 32])]);
        assert!(usual.believes_notes() && !asked.believes_notes());
    }
}
