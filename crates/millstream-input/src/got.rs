//! The result of reading from an input.

/// What a read returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Got {
    /// So many bytes, never zero for a buffer that is not empty.
    Bytes(usize),
    /// There are no more.
    End,
    /// The data cannot be decompressed or converted further, and why.
    Damaged(String),
}
