//! The classes of keys by which documents find their lane.

use millstream_model::limits::SLOTS;
use millstream_model::{HashedColumn, Position, Slot};

/// How a load divides the keys among its lanes. A key is always in the same class, and a class belongs to one lane.
#[derive(Debug)]
pub(crate) struct Classes {
    /// What decides the class of a key; `None` if it is the slot.
    shards: Option<ShardRanges>,
    lane_of_class: Vec<u16>,
    /// The position before which an earlier run of the load has committed all documents of a class.
    floors: Vec<Position>,
}

/// The shards of a distributed table, by their hashes.
#[derive(Debug, Clone)]
pub(crate) struct ShardRanges {
    column: HashedColumn,
    /// The least hash of each shard, in ascending order. The first is the least of all hashes.
    firsts: Vec<i32>,
}

impl Classes {
    /// One class for each slot.
    pub(crate) fn slots(lane_of_slot: [u16; SLOTS], floors: &[Position; SLOTS]) -> Self {
        Self { shards: None, lane_of_class: lane_of_slot.to_vec(), floors: floors.to_vec() }
    }

    /// One class and one lane for each shard.
    ///
    /// # Panics
    /// If there is not one floor for each shard.
    pub(crate) fn shards(shards: ShardRanges, floors: Vec<Position>) -> Self {
        assert_eq!(shards.firsts.len(), floors.len(), "each shard has a lane");
        let lanes = u16::try_from(floors.len()).expect("shards are few");
        Self { shards: Some(shards), lane_of_class: (0..lanes).collect(), floors }
    }

    pub(crate) fn lanes(&self) -> usize {
        self.lane_of_class.iter().max().map_or(0, |lane| usize::from(*lane) + 1)
    }

    /// Whether any floor is above zero.
    pub(crate) fn resumed(&self) -> bool {
        self.floors.iter().any(|floor| *floor > Position::default())
    }

    /// The class of a document; `key` is `None` if it has no usable key.
    #[inline]
    pub(crate) fn class(&self, key: Option<&[u8]>, position: Position) -> usize {
        let slot = |key: Option<&[u8]>| key.map_or_else(|| Slot::of_position(position), Slot::of_key);
        let Some(shards) = &self.shards else { return slot(key).index() };
        let hash = match key {
            Some(key) => shards.column.hash(key),
            // It stays at its hash, so that it is counted once even if a shard is split between two runs.
            None => i32::from_be_bytes([slot(None).0, 0, 0, 0]),
        };
        shards.shard(hash)
    }

    #[inline]
    pub(crate) fn lane(&self, class: usize) -> usize {
        usize::from(self.lane_of_class[class])
    }

    #[inline]
    pub(crate) fn floor(&self, class: usize) -> Position {
        self.floors[class]
    }
}

impl ShardRanges {
    /// `None` if they do not take every hash once. `ranges` are the least and the greatest of each, in ascending order.
    pub(crate) fn new(column: HashedColumn, ranges: &[(i32, i32)]) -> Option<Self> {
        let mut next = Some(i32::MIN);
        for (first, last) in ranges {
            if next != Some(*first) || last < first {
                return None;
            }
            next = last.checked_add(1);
        }
        let complete = next.is_none();
        complete.then(|| Self { column, firsts: ranges.iter().map(|(first, _)| *first).collect() })
    }

    #[inline]
    fn shard(&self, hash: i32) -> usize {
        self.firsts.partition_point(|first| *first <= hash) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_model::KeyType;
    use millstream_model::key_bytes::put_i64;

    const RANGES: [(i32, i32); 3] = [(i32::MIN, -7), (-6, 1_000), (1_001, i32::MAX)];

    fn column() -> HashedColumn {
        HashedColumn::new(&[KeyType::Bigint], 0).unwrap()
    }

    #[test]
    fn shards_take_every_hash_once_or_are_refused() {
        let shards = ShardRanges::new(column(), &RANGES).unwrap();
        for (hash, shard) in [(i32::MIN, 0), (-7, 0), (-6, 1), (0, 1), (1_000, 1), (1_001, 2), (i32::MAX, 2)] {
            assert_eq!(shards.shard(hash), shard, "{hash}");
        }
        assert!(ShardRanges::new(column(), &[(i32::MIN, i32::MAX)]).is_some());
        for ranges in [
            &[][..],
            &RANGES[1..],
            &RANGES[..2],
            &[RANGES[0], RANGES[2]],
            &[(i32::MIN, 5), (5, i32::MAX)],
            &[(i32::MIN, i32::MAX), (i32::MIN, i32::MAX)],
        ] {
            assert!(ShardRanges::new(column(), ranges).is_none(), "{ranges:?}");
        }
    }

    #[test]
    fn documents_go_by_the_hash_of_their_key_or_by_their_position() {
        let floors = vec![Position::default(), Position { source: 0, offset: 9 }, Position::default()];
        let classes = Classes::shards(ShardRanges::new(column(), &RANGES).unwrap(), floors);
        assert!(classes.resumed() && classes.lanes() == 3);
        let at = |offset| Position { source: 0, offset };
        let class = |value: i64| {
            let mut key = Vec::new();
            put_i64(value, &mut key);
            classes.class(Some(&key), at(1))
        };
        // The hashes of 0 and -1 are -272711505 and 385747274.
        assert_eq!([class(0), class(-1)], [0, 2]);
        assert_eq!(classes.floor(1), at(9));
        let seen: std::collections::HashSet<usize> = (0..1_000).map(|n| classes.class(None, at(n))).collect();
        assert!(seen.len() >= 2, "documents without a key do not all go to one shard");
    }
}
