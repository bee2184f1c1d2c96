//! What reading a source brought.

/// What a read brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Got {
    Bytes(usize),
    End,
    Damaged(String),
}
