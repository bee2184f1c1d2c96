//! Every limit of this crate.

/// Longest line of the made text. A longer row is damage: no document of this length is stored.
pub const LINE_BYTES_MAX: usize = 1 << 28;
