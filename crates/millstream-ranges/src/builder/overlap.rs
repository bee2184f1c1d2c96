//! Which range counts where several overlap. Records come in order of their first address; what is stored comes out.
//!
//! A line sweeps over the addresses. A heap holds the records that cover its place; the one on top counts there.

use super::record::{InputPosition, RangeRecord};
use super::write::{Put, Stored};
use crate::error::Error;
use crate::limits::{DEPTH_MAX, OVERLAPS_NAMED};
use millstream_model::range::{Family, Range};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// What happens where ranges of the input overlap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Overlap {
    /// The build fails, and names them.
    #[default]
    Error,
    /// The range with the fewest addresses counts; of two of one size, the first.
    Narrowest,
    /// The range that comes first in the input counts.
    First,
    /// The range that comes last in the input counts.
    Last,
}

impl Overlap {
    /// Each with its name and meaning.
    pub const ALL: [(Self, &'static str, &'static str); 4] = [
        (Self::Error, "error", "fail, and name the lines"),
        (Self::Narrowest, "narrowest", "the range with the fewest addresses counts"),
        (Self::First, "first", "the range that comes first in the input counts"),
        (Self::Last, "last", "the range that comes last in the input counts"),
    ];

    /// The rank of a record: the highest counts.
    fn rank(self, record: &RangeRecord) -> Rank {
        let InputPosition { input, line } = record.place;
        let order = (u128::from(input) << 64) | u128::from(line);
        match self {
            Self::Error | Self::First => (Reverse(order), Reverse(0)),
            Self::Last => (Reverse(u128::MAX - order), Reverse(0)),
            Self::Narrowest => (Reverse(record.range.size_less_one()), Reverse(order)),
        }
    }
}

type Rank = (Reverse<u128>, Reverse<u128>);

/// What became of the records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) whole: u64,
    pub(crate) merged: u64,
    pub(crate) cut: u64,
    pub(crate) covered: u64,
    /// By family.
    pub(crate) stored: [u64; 2],
}

/// The sweeping line.
pub(crate) struct Sweep<'a> {
    overlap: Overlap,
    merge: bool,
    /// Names of the inputs.
    names: &'a [String],
    family: Family,
    /// The first address that nothing was decided about. `None` behind the last of the family.
    at: Option<u128>,
    active: BinaryHeap<Active>,
    /// The record that reaches farthest; only for [`Overlap::Error`].
    farthest: Option<RangeRecord>,
    overlaps: u64,
    overlaps_named: Vec<String>,
    /// Addresses of one record, one after the other, that may go on.
    piece: Option<Piece>,
    /// The last range, held back while the next may be merged with it.
    last: Option<(Range, Arc<str>)>,
    counts: Counts,
}

/// A record that covers the place of the line. Its rank, which no other record has, comes first and gives the order.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Active {
    rank: Rank,
    record: RangeRecord,
    /// Addresses that it counts for, modulo 2^128.
    given: u128,
    /// Whether it counts for any.
    any: bool,
}

struct Piece {
    owner: RangeRecord,
    start: u128,
    end: u128,
}

impl<'a> Sweep<'a> {
    pub(crate) fn new(overlap: Overlap, merge: bool, names: &'a [String]) -> Self {
        Self {
            overlap,
            merge,
            names,
            family: Family::V4,
            at: Some(0),
            active: BinaryHeap::new(),
            farthest: None,
            overlaps: 0,
            overlaps_named: Vec::new(),
            piece: None,
            last: None,
            counts: Counts::default(),
        }
    }

    /// Takes the next record in order.
    ///
    /// # Errors
    /// Those of `put`; too many ranges overlap.
    pub(crate) fn push(&mut self, record: RangeRecord, put: Put<'_>) -> Result<(), Error> {
        if record.range.family != self.family {
            self.advance(None, put)?;
            (self.family, self.at, self.farthest) = (record.range.family, Some(0), None);
        }
        if self.overlap == Overlap::Error && self.overlaps_before(&record) {
            return Ok(());
        }
        self.advance(Some(record.range.start), put)?;
        let rank = self.overlap.rank(&record);
        if self.active.peek().is_some_and(|top| top.rank > rank && top.record.range.end >= record.range.end) {
            self.counts.covered += 1;
            return Ok(());
        }
        self.active.push(Active { rank, record, given: 0, any: false });
        if self.active.len() > 2 * DEPTH_MAX { self.forget_passed() } else { Ok(()) }
    }

    /// Decides about the rest, and says what became of all records.
    ///
    /// # Errors
    /// Those of `put`; [`Error::Overlap`].
    pub(crate) fn finish(mut self, put: Put<'_>) -> Result<Counts, Error> {
        self.advance(None, put)?;
        self.end_piece(put)?;
        self.put_last(put)?;
        if self.overlaps > 0 {
            return Err(Error::Overlap { count: self.overlaps, named: self.overlaps_named });
        }
        Ok(self.counts)
    }

    /// Whether a record overlaps one before it; notes it.
    fn overlaps_before(&mut self, record: &RangeRecord) -> bool {
        let before = self.farthest.as_ref().filter(|before| before.range.end >= record.range.start);
        let overlaps = before.is_some();
        if let Some(before) = before {
            self.overlaps += 1;
            if self.overlaps_named.len() < OVERLAPS_NAMED {
                let named = format!("{} and {}", self.named(before), self.named(record));
                self.overlaps_named.push(named);
            }
        }
        if self.farthest.as_ref().is_none_or(|before| before.range.end < record.range.end) {
            self.farthest = Some(record.clone());
        }
        overlaps
    }

    fn named(&self, record: &RangeRecord) -> String {
        let name = self.names.get(record.place.input as usize).map_or("", String::as_str);
        format!("{name}:{} {}", record.place.line, record.range)
    }

    /// Decides about all addresses before `until`; about all of the family if there is none.
    fn advance(&mut self, until: Option<u128>, put: Put<'_>) -> Result<(), Error> {
        while let Some(at) = self.at.filter(|at| until.is_none_or(|until| *at < until)) {
            let Some(mut top) = self.active.peek_mut() else {
                self.at = until;
                return Ok(());
            };
            let end = top.record.range.end;
            if end < at {
                let passed = std::collections::binary_heap::PeekMut::pop(top);
                self.count(&passed);
                continue;
            }
            let to = until.map_or(end, |until| end.min(until - 1));
            top.given = top.given.wrapping_add(to - at).wrapping_add(1);
            top.any = true;
            let owner = (self.piece.as_ref())
                .is_none_or(|piece| piece.owner.place != top.record.place || piece.end.checked_add(1) != Some(at))
                .then(|| top.record.clone());
            drop(top);
            if let Some(owner) = owner {
                self.end_piece(put)?;
                self.piece = Some(Piece { owner, start: at, end: to });
            } else if let Some(piece) = &mut self.piece {
                piece.end = to;
            }
            self.at = to.checked_add(1).filter(|next| *next <= self.family.last());
        }
        if until.is_none() {
            self.end_piece(put)?;
            for passed in std::mem::take(&mut self.active) {
                self.count(&passed);
            }
        }
        Ok(())
    }

    /// Counts a record that covers no address ahead, unless it is stored whole: then its piece is counted.
    fn count(&mut self, passed: &Active) {
        let whole = passed.any && passed.given == passed.record.range.size_less_one().wrapping_add(1);
        match (passed.any, whole) {
            (false, _) => self.counts.covered += 1,
            (true, false) => self.counts.cut += 1,
            (true, true) => {}
        }
    }

    /// Removes records that the line has passed from below the top of the heap.
    fn forget_passed(&mut self) -> Result<(), Error> {
        let at = self.at.unwrap_or(u128::MAX);
        let (passed, ahead): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.active).into_iter().partition(|active| active.record.range.end < at);
        passed.iter().for_each(|passed| self.count(passed));
        self.active = ahead.into();
        // Half of what may gather, so that this does not happen again with the next record.
        if self.active.len() > DEPTH_MAX {
            return Err(Error::TooDeep { address: self.family.address(at) });
        }
        Ok(())
    }

    /// Hands over the piece: no more of its addresses follow.
    fn end_piece(&mut self, put: Put<'_>) -> Result<(), Error> {
        let Some(Piece { owner, start, end }) = self.piece.take() else { return Ok(()) };
        let range = Range { start, end, ..owner.range };
        let joined = self.merge
            && self.last.as_mut().is_some_and(|(last, members)| {
                let adjacent = last.family == range.family && last.end.checked_add(1) == Some(start);
                if adjacent && *members == owner.members {
                    last.end = end;
                    return true;
                }
                false
            });
        if range == owner.range {
            *(if joined { &mut self.counts.merged } else { &mut self.counts.whole }) += 1;
        }
        if !joined {
            self.put_last(put)?;
            self.last = Some((range, owner.members));
        }
        Ok(())
    }

    fn put_last(&mut self, put: Put<'_>) -> Result<(), Error> {
        let Some((range, members)) = self.last.take() else { return Ok(()) };
        self.counts.stored[range.family as usize] += 1;
        // An error is certain; what is written is discarded.
        if self.overlaps > 0 { Ok(()) } else { put(Stored { range, members: &members }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_testkit::Cases;

    fn record(line: u64, family: Family, start: u128, end: u128, members: &str) -> RangeRecord {
        let place = InputPosition { input: 0, line };
        RangeRecord { range: Range { family, start, end }, place, members: members.into() }
    }

    fn swept(
        overlap: Overlap,
        merge: bool,
        mut records: Vec<RangeRecord>,
    ) -> (Result<Counts, Error>, Vec<(Range, String)>) {
        records.sort_by_key(|record| (record.range.family, record.range.start, record.place));
        let names = ["in.csv".to_owned()];
        let (mut sweep, mut stored) = (Sweep::new(overlap, merge, &names), Vec::new());
        let mut put = |piece: Stored<'_>| {
            stored.push((piece.range, piece.members.to_owned()));
            Ok(())
        };
        for record in records {
            sweep.push(record, &mut put).unwrap();
        }
        let counts = sweep.finish(&mut put);
        (counts, stored)
    }

    #[test]
    fn each_address_gets_the_range_that_counts() {
        for mut rng in Cases::new(2_000) {
            let family = if rng.bool() { Family::V4 } else { Family::V6 };
            // Also at the far end, where the next address does not exist.
            let base = if rng.bool() { 0 } else { family.last() - 40 };
            let records: Vec<RangeRecord> = (1..=rng.u64(0..12))
                .map(|line| {
                    let (a, b) = (u128::from(rng.u8(0..=40)), u128::from(rng.u8(0..=40)));
                    record(line, family, base + a.min(b), base + a.max(b), &format!("\"m\":{}", rng.u8(..3)))
                })
                .collect();
            for overlap in [Overlap::Narrowest, Overlap::First, Overlap::Last] {
                for merge in [false, true] {
                    let (counts, stored) = swept(overlap, merge, records.clone());
                    let counts = counts.unwrap();
                    let told = counts.whole + counts.merged + counts.cut + counts.covered;
                    assert_eq!(told, records.len() as u64, "{counts:?}");
                    assert_eq!(counts.stored[family as usize], stored.len() as u64);
                    let mut last = None;
                    for (range, members) in &stored {
                        let (end, before) = last.replace((range.end, members)).unzip();
                        assert!(end.is_none_or(|end| end < range.start), "in order and apart");
                        let adjacent = end.is_some_and(|end| end + 1 == range.start) && before == Some(members);
                        assert!(!(merge && adjacent), "merged");
                    }
                    for address in base..=base + 40 {
                        let covers = records.iter().filter(|r| (r.range.start..=r.range.end).contains(&address));
                        let expected = covers.max_by_key(|record| overlap.rank(record)).map(|r| &*r.members);
                        let found = stored.iter().find(|(range, _)| (range.start..=range.end).contains(&address));
                        assert_eq!(found.map(|(_, members)| members.as_str()), expected, "{overlap:?} {address}");
                    }
                    if !merge {
                        let is_whole = |r: &&RangeRecord| stored.contains(&(r.range, r.members.to_string()));
                        assert!(counts.whole <= records.iter().filter(is_whole).count() as u64);
                        assert_eq!(counts.merged, 0);
                    }
                }
            }
        }
    }

    #[test]
    fn what_became_of_a_record_is_counted() {
        let v4 = |line, start, end, members| record(line, Family::V4, start, end, members);
        let nested = || vec![v4(1, 0, 100, "a"), v4(2, 10, 20, "b"), v4(3, 12, 15, "b"), v4(4, 101, 110, "a")];
        let counts = |overlap, merge| swept(overlap, merge, nested()).0.unwrap();
        let expected =
            |whole, merged, cut, covered, stored| Counts { whole, merged, cut, covered, stored: [stored, 0] };
        assert_eq!(counts(Overlap::First, false), expected(2, 0, 0, 2, 2));
        assert_eq!(counts(Overlap::First, true), expected(1, 1, 0, 2, 1));
        assert_eq!(counts(Overlap::Last, false), expected(2, 0, 2, 0, 6));
        assert_eq!(counts(Overlap::Narrowest, true), expected(0, 2, 2, 0, 3));
    }

    #[test]
    fn the_whole_address_space_is_a_range() {
        for family in [Family::V4, Family::V6] {
            let all = record(1, family, 0, family.last(), "a");
            let (counts, stored) = swept(Overlap::Error, false, vec![all.clone()]);
            assert_eq!((counts.unwrap().whole, stored.len()), (1, 1));
            let middle = record(2, family, 7, 9, "b");
            let (counts, stored) = swept(Overlap::Narrowest, false, vec![all, middle]);
            let counts = counts.unwrap();
            assert_eq!((counts.whole, counts.cut, stored.len()), (1, 1, 3));
        }
    }

    #[test]
    fn overlaps_are_named_with_both_lines() {
        let records = vec![
            record(3, Family::V4, 0x0100_0000, 0x0100_00ff, "a"),
            record(17, Family::V4, 0x0100_00ff, 0x0100_01ff, "b"),
            record(18, Family::V4, 0x0100_0200, 0x0100_02ff, "c"),
            record(19, Family::V4, 0x0100_0200, 0x0100_02ff, "c"),
        ];
        let (counts, _) = swept(Overlap::Error, false, records);
        let said = counts.unwrap_err().to_string();
        assert_eq!(
            said,
            "2 ranges overlap others before them: in.csv:3 1.0.0.0-1.0.0.255 and in.csv:17 1.0.0.255-1.0.1.255; \
             in.csv:18 1.0.2.0-1.0.2.255 and in.csv:19 1.0.2.0-1.0.2.255"
        );
    }

    #[test]
    fn many_ranges_below_one_take_no_memory() {
        let all = record(1, Family::V4, 0, u128::from(u32::MAX), "a");
        let below = (2..=DEPTH_MAX as u64 + 10).map(|n| record(n, Family::V4, u128::from(n), u128::from(n), "b"));
        let (counts, stored) = swept(Overlap::First, false, std::iter::once(all).chain(below).collect());
        assert_eq!((counts.unwrap().covered, stored.len()), (DEPTH_MAX as u64 + 9, 1));
        let nested = (0..=2 * DEPTH_MAX as u64)
            .map(|n| record(n, Family::V4, u128::from(n), u128::from(u32::MAX) - u128::from(n), "b"));
        let names = ["in.csv".to_owned()];
        let mut sweep = Sweep::new(Overlap::Narrowest, false, &names);
        let pushed = nested.map(|record| sweep.push(record, &mut |_| Ok(()))).find_map(Result::err);
        assert!(matches!(pushed, Some(Error::TooDeep { .. })));
    }
}
