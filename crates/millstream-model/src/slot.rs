//! The fixed classes of keys that decide which lane writes a document.

use crate::Position;
use crate::limits::SLOTS;
use xxhash_rust::xxh3::xxh3_64;

/// Version of the hash below. Watermarks are kept per slot, so another hash is another version,
/// and a load begun under one version cannot be resumed under another.
pub const SLOT_HASH_VERSION: i16 = 1;

/// One of [`SLOTS`] classes of keys. A key always has the same slot, and a lane owns whole slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u8);

impl Slot {
    /// The slot of a canonical key (see the key encoding): the top byte of its XXH3-64.
    #[inline]
    pub fn of_key(canonical: &[u8]) -> Self {
        Self((xxh3_64(canonical) >> 56) as u8)
    }

    /// The slot of a document without a usable key.
    pub fn of_position(position: Position) -> Self {
        let mut bytes = [0u8; 12];
        bytes[..4].copy_from_slice(&position.source.to_le_bytes());
        bytes[4..].copy_from_slice(&position.offset.to_le_bytes());
        Self((xxh3_64(&bytes) >> 56) as u8)
    }

    /// Every slot, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..SLOTS).map(|n| Self(u8::try_from(n).expect("256 slots fit a byte")))
    }

    /// The slot as an index.
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_never_changes_within_a_version() {
        assert_eq!(SLOT_HASH_VERSION, 1);
        let slots: Vec<u8> = ["", "a"].iter().map(|k| Slot::of_key(k.as_bytes()).0).collect();
        assert_eq!(slots, [0x2d, 0xe6]);
    }

    #[test]
    fn positions_spread_over_slots() {
        let seen: std::collections::HashSet<u8> =
            (0..4096).map(|offset| Slot::of_position(Position { source: 0, offset }).0).collect();
        assert_eq!(seen.len(), SLOTS);
    }
}
