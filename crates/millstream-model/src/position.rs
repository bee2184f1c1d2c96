//! Where a document stands in its source.

use serde::{Deserialize, Serialize};

/// Place of a document: the source in the order given, then the byte offset in its uncompressed
/// stream. The order of positions is the order in which documents take effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Position {
    /// Index of the source in the order given, from 0.
    pub source: u32,
    /// Byte offset in the uncompressed source, from 0.
    pub offset: u64,
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.source, self.offset)
    }
}
