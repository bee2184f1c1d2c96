//! The beginning of a source, identified by its hash.

/// The beginning of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    /// Its length in uncompressed bytes: a chunk's `end`.
    pub length: u64,
    /// Its hash: that chunk's `prefix_hash`.
    pub hash: u128,
}
