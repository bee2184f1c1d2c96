//! Which documents of a key are folded into one row, where the table may refuse documents.

/// Which documents of a key a batch folds into one row.
///
/// A table judges each document as it arrives, and the row that it makes. Folding must not change what it refuses,
/// because later rows depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Folding {
    /// All of them.
    Always,
    /// What may refuse a document reads only its key, so it says the same about every document of a key. But after a
    /// tombstone, nobody would know that a document before it was refused.
    ByKey,
    /// As [`ByKey`](Self::ByKey), but before a batch is written, every document and every row between the stored one and
    /// the new one is tried in a table of the lane's own.
    Tried,
    /// None of them: each is written by itself.
    Never,
}

impl Folding {
    /// Whether the documents of a key are written one by one. `tombstones`: whether one of them deletes.
    pub(crate) fn is_alone(self, tombstones: bool) -> bool {
        match self {
            Self::Always => false,
            Self::ByKey | Self::Tried => tombstones,
            Self::Never => true,
        }
    }

    /// How a batch is folded that is written row by row, because something in it was refused.
    pub(crate) fn of_replay(self) -> Self {
        if self == Self::Tried { Self::Never } else { self }
    }
}
