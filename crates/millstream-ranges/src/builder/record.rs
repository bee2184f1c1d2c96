//! A range with its members, as it is sorted.

use millstream_model::range::{Family, Range};
use std::sync::Arc;

/// A range with its members and its place in the input.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RangeRecord {
    pub(crate) range: Range,
    pub(crate) place: InputPosition,
    /// Members besides `end`, as JSON without the braces.
    pub(crate) members: Arc<str>,
}

/// Where a record stands: number of its input and line. The order of places is the order of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct InputPosition {
    pub(crate) input: u32,
    pub(crate) line: u64,
}

/// Bytes of an address of version 4; the others are zero.
const V4_BYTES: usize = 4;

impl RangeRecord {
    /// Writes a key whose bytes give the order: family, start, place.
    pub(super) fn put_key(&self, key: &mut Vec<u8>) {
        let Self { range: Range { family, start, .. }, place, .. } = self;
        let start = start.to_be_bytes();
        key.clear();
        key.push(*family as u8);
        // A shorter key is compared faster.
        key.extend_from_slice(if *family == Family::V4 { &start[start.len() - V4_BYTES..] } else { &start });
        key.extend_from_slice(&place.input.to_be_bytes());
        key.extend_from_slice(&place.line.to_be_bytes());
    }

    /// The record with this key, the last address and the members. `None` if the bytes are none of ours.
    pub(super) fn of(key: &[u8], end: [u8; 16], members: &[u8]) -> Option<Self> {
        let end = u128::from_le_bytes(end);
        let (family, rest) = key.split_first()?;
        let family = if *family == Family::V4 as u8 { Family::V4 } else { Family::V6 };
        let (address, place) = rest.split_at_checked(if family == Family::V4 { V4_BYTES } else { 16 })?;
        let start = address.iter().fold(0, |start: u128, byte| start << 8 | u128::from(*byte));
        let (input, line) = place.split_first_chunk()?;
        let place =
            InputPosition { input: u32::from_be_bytes(*input), line: u64::from_be_bytes(line.try_into().ok()?) };
        let members = std::str::from_utf8(members).ok()?.into();
        Some(Self { range: Range { family, start, end }, place, members })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_ordered_as_records_are() {
        let mut rng = fastrand::Rng::with_seed(3);
        let mut key_of = || {
            let family = if rng.bool() { Family::V4 } else { Family::V6 };
            let start = if family == Family::V4 { rng.u128(..3 << 30) } else { rng.u128(..) } >> rng.u8(..32);
            let place = InputPosition { input: rng.u32(..2), line: rng.u64(..) >> rng.u8(..64) };
            let record = RangeRecord { range: Range { family, start, end: start }, place, members: "\"n\":1".into() };
            let mut key = Vec::new();
            record.put_key(&mut key);
            assert_eq!(RangeRecord::of(&key, start.to_le_bytes(), record.members.as_bytes()), Some(record.clone()));
            (key, (family, start, place))
        };
        let mut all: Vec<_> = (0..2_000).map(|_| key_of()).collect();
        all.sort();
        assert!(all.is_sorted_by_key(|(_, order)| *order));
        assert_eq!(RangeRecord::of(b"", [0; 16], b""), None);
    }
}
