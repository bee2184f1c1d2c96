//! The result of reading from a source.

/// What a read returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Got {
    Bytes(usize),
    End,
    Damaged(String),
}
