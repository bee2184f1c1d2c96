//! Compares what addresses get from two generations.

use crate::error::Error;
use crate::store::Generation;
use crate::value;
use millstream_model::range::Range;
use serde::Serialize;
use std::borrow::Cow;

/// Addresses that get different answers from two generations, as one range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The addresses. No address beside them has the same difference.
    pub range: Range,
    /// What they get from the first generation: members as JSON without the braces. `None`: nothing.
    pub before: Option<String>,
    /// What they get from the second one.
    pub after: Option<String>,
}

/// How much two generations differ.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Differences {
    /// Ranges that are only in the first one.
    pub only_a: u64,
    /// Ranges that are only in the second one.
    pub only_b: u64,
    /// Ranges that have other members.
    pub changed: u64,
    /// Addresses that are only in the first one; all counts of addresses stop at 2^128 - 1.
    pub only_a_addresses: u128,
    /// Addresses that are only in the second one.
    pub only_b_addresses: u128,
    /// Addresses that get other members.
    pub changed_addresses: u128,
}

impl Differences {
    /// Whether every address gets the same from both.
    pub fn is_empty(&self) -> bool {
        self.only_a + self.only_b + self.changed == 0
    }

    fn add(&mut self, difference: &Difference) {
        let (ranges, addresses) = match (&difference.before, &difference.after) {
            (Some(_), Some(_)) => (&mut self.changed, &mut self.changed_addresses),
            (Some(_), None) => (&mut self.only_a, &mut self.only_a_addresses),
            (None, _) => (&mut self.only_b, &mut self.only_b_addresses),
        };
        *ranges += 1;
        *addresses = addresses.saturating_add(difference.range.size_less_one()).saturating_add(1);
    }
}

/// Compares two generations in one pass over both. Calls `each` for every difference, in order: IPv4 first.
///
/// Only what an address gets counts. A range that is cut in two with equal members is not a difference. Members are
/// equal if they have the same names and the values are written alike, in any order.
///
/// # Errors
/// Those of the stores and of `each`. Entries that hold no range are errors.
pub fn diff(
    a: &Generation,
    b: &Generation,
    each: &mut dyn FnMut(Difference) -> Result<(), Error>,
) -> Result<Differences, Error> {
    compare(answers(a)?, answers(b)?, each)
}

/// A range and the members that its addresses get.
type Answer<'a> = Result<(Range, Cow<'a, str>), Error>;

/// What addresses get from a generation, as ranges in order that do not overlap. Ranges in files of other programs may
/// overlap. A look-up then finds the one that begins last, so the others end before it here.
///
/// # Errors
/// The file cannot be read. Entries that hold no range, or are out of order, are errors of their own.
pub(crate) fn answers(generation: &Generation) -> Result<impl Iterator<Item = Answer<'_>>, Error> {
    let mut all = generation.ranges()?.peekable();
    let damaged = move |problem: String| Error::Damaged { path: generation.path().to_owned(), problem };
    Ok(std::iter::from_fn(move || {
        let found = match all.next()? {
            Ok(found) => found,
            Err(error) => return Some(Err(error)),
        };
        let mut range = found.range;
        if let Some(Ok(next)) = all.peek()
            && next.range.family == range.family
        {
            if next.range.start <= range.start {
                return Some(Err(damaged(format!("{} comes after {range}, which begins later", next.range))));
            }
            range.end = range.end.min(next.range.start - 1);
        }
        Some(found.members().map(|members| (range, members)).map_err(&damaged))
    }))
}

/// The pass over both. It looks at one piece after the other: addresses that both sides answer by one range or not at
/// all.
fn compare<'a, 'b>(
    a: impl Iterator<Item = Answer<'a>>,
    b: impl Iterator<Item = Answer<'b>>,
    each: &mut dyn FnMut(Difference) -> Result<(), Error>,
) -> Result<Differences, Error> {
    let (mut a, mut b) = (Side::new(a)?, Side::new(b)?);
    let mut found = Joined { pending: None, counted: Differences::default(), each };
    while let Some(piece) = piece([a.range(), b.range()]) {
        found.push(piece, a.members(piece), b.members(piece))?;
        a.pass(piece)?;
        b.pass(piece)?;
    }
    found.flush()?;
    Ok(found.counted)
}

/// The next piece, given the range that comes next on each side.
fn piece(heads: [Option<Range>; 2]) -> Option<Range> {
    let heads = || heads.into_iter().flatten();
    let first = heads().min()?;
    let (family, start) = (first.family, first.start);
    let same_family = heads().filter(|head| head.family == family);
    // A range that begins later ends the piece before it.
    let ends = same_family.map(|head| if head.start == start { head.end } else { head.start - 1 });
    Some(Range { family, start, end: ends.min()? })
}

/// One of the two.
struct Side<'a, I> {
    answers: I,
    /// What is left of the range that comes next, and its members.
    next: Option<(Range, Cow<'a, str>)>,
}

impl<'a, I: Iterator<Item = Answer<'a>>> Side<'a, I> {
    fn new(mut answers: I) -> Result<Self, Error> {
        let next = answers.next().transpose()?;
        Ok(Self { answers, next })
    }

    fn range(&self) -> Option<Range> {
        self.next.as_ref().map(|(range, _)| *range)
    }

    /// What the addresses of a piece get.
    fn members(&self, piece: Range) -> Option<&str> {
        let (range, members) = self.next.as_ref()?;
        (range.family == piece.family && range.start == piece.start).then_some(&**members)
    }

    /// Moves behind a piece.
    fn pass(&mut self, piece: Range) -> Result<(), Error> {
        let Some((range, _)) = &mut self.next else { return Ok(()) };
        if range.family != piece.family || range.start != piece.start {
            return Ok(());
        }
        if range.end == piece.end {
            self.next = self.answers.next().transpose()?;
        } else {
            range.start = piece.end + 1;
        }
        Ok(())
    }
}

/// Joins pieces to differences.
struct Joined<'e> {
    /// The last difference, to which the next piece may belong.
    pending: Option<Difference>,
    counted: Differences,
    each: &'e mut dyn FnMut(Difference) -> Result<(), Error>,
}

impl Joined<'_> {
    fn push(&mut self, range: Range, before: Option<&str>, after: Option<&str>) -> Result<(), Error> {
        if alike(before, after) {
            return Ok(());
        }
        if let Some(last) = &mut self.pending
            && last.range.family == range.family
            && last.range.end.checked_add(1) == Some(range.start)
            && alike(last.before.as_deref(), before)
            && alike(last.after.as_deref(), after)
        {
            last.range.end = range.end;
            return Ok(());
        }
        self.flush()?;
        self.pending = Some(Difference { range, before: before.map(str::to_owned), after: after.map(str::to_owned) });
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        let Some(difference) = self.pending.take() else { return Ok(()) };
        self.counted.add(&difference);
        (self.each)(difference)
    }
}

fn alike(one: Option<&str>, other: Option<&str>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one == other || sorted(one).is_some_and(|one| Some(one) == sorted(other)),
        (one, other) => one.is_none() && other.is_none(),
    }
}

/// Members by name, values as they are written. `None`: it is not JSON.
fn sorted(members: &str) -> Option<Vec<(String, String)>> {
    let text = value::braced(members);
    let members = value::object(&text).ok()?.into_iter();
    let mut members: Vec<(String, String)> = members.map(|(name, value)| (name, value.get().to_owned())).collect();
    // Stable: of two members with one name, the later one counts.
    members.sort_by(|one, other| one.0.cmp(&other.0));
    Some(members)
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_model::range::{FAMILIES, Family};
    use millstream_testkit::Cases;

    /// Addresses that the property test looks at, of each family.
    const ADDRESSES: u128 = 64;
    /// The first two mean the same.
    const MEMBERS: [&str; 4] = ["\"a\":1,\"b\":2", "\"b\" : 2, \"a\":1", "\"a\":1", ""];

    fn range(family: Family, start: u128, end: u128) -> Range {
        Range { family, start, end }
    }

    fn compared(a: &[(Range, &str)], b: &[(Range, &str)]) -> (Vec<Difference>, Differences) {
        let mut differences = Vec::new();
        let a = a.iter().map(|(range, members)| Ok((*range, Cow::Borrowed(*members))));
        let b = b.iter().map(|(range, members)| Ok((*range, Cow::Borrowed(*members))));
        let counted = compare(a, b, &mut |difference| {
            differences.push(difference);
            Ok(())
        });
        (differences, counted.unwrap())
    }

    fn random(rng: &mut fastrand::Rng) -> Vec<(Range, &'static str)> {
        let mut all = Vec::new();
        for family in FAMILIES {
            let mut next = u128::from(rng.u32(..4));
            while next < ADDRESSES && rng.u8(..20) > 0 {
                let end = (next + u128::from(rng.u32(..9))).min(ADDRESSES - 1);
                all.push((range(family, next, end), MEMBERS[rng.usize(..MEMBERS.len())]));
                next = end + 1 + u128::from(rng.u32(..3));
            }
        }
        all
    }

    /// The same address by address.
    fn expected(a: &[(Range, &str)], b: &[(Range, &str)]) -> Vec<(Range, Option<usize>, Option<usize>)> {
        let answer = |side: &[(Range, &str)], family: Family, number: u128| {
            let found = side.iter().find(|(range, _)| range.contains(family.address(number)));
            let meaning = |members: &str| MEMBERS.iter().position(|one| *one == members).unwrap().max(1);
            found.map(|(_, members)| meaning(members))
        };
        let mut all: Vec<(Range, Option<usize>, Option<usize>)> = Vec::new();
        for family in FAMILIES {
            for number in 0..ADDRESSES {
                let (before, after) = (answer(a, family, number), answer(b, family, number));
                if before == after {
                    continue;
                }
                match all.last_mut() {
                    Some((last, x, y))
                        if last.family == family && last.end + 1 == number && *x == before && *y == after =>
                    {
                        last.end = number;
                    }
                    _ => all.push((range(family, number, number), before, after)),
                }
            }
        }
        all
    }

    /// A range, and what its addresses get from each store.
    type Expected = (Range, Option<usize>, Option<usize>);

    #[test]
    fn differences_are_those_of_every_address() {
        for mut rng in Cases::new(5_000) {
            let (a, b) = (random(&mut rng), random(&mut rng));
            let (differences, counted) = compared(&a, &b);
            let meaning = |members: &Option<String>| {
                members.as_ref().map(|members| MEMBERS.iter().position(|one| one == members).unwrap().max(1))
            };
            let found: Vec<_> = differences.iter().map(|d| (d.range, meaning(&d.before), meaning(&d.after))).collect();
            let expected = expected(&a, &b);
            assert_eq!(found, expected, "{a:?} {b:?}");
            let of = |kind: fn(&Expected) -> bool| {
                let all = expected.iter().filter(|one| kind(one)).map(|one| one.0.size_less_one() + 1);
                (all.clone().count() as u64, all.sum::<u128>())
            };
            assert_eq!((counted.only_a, counted.only_a_addresses), of(|one| one.2.is_none()));
            assert_eq!((counted.only_b, counted.only_b_addresses), of(|one| one.1.is_none()));
            assert_eq!((counted.changed, counted.changed_addresses), of(|one| one.1.is_some() && one.2.is_some()));
            assert_eq!(counted.is_empty(), expected.is_empty());
            assert!(compared(&a, &a).1.is_empty());
        }
    }

    #[test]
    fn a_range_that_is_cut_in_two_is_no_difference() {
        let whole = [(range(Family::V4, 0, 9), "\"a\":1")];
        let cut = [(range(Family::V4, 0, 4), "\"a\":1"), (range(Family::V4, 5, 9), " \"a\" : 1 ")];
        assert_eq!(compared(&whole, &cut), (Vec::new(), Differences::default()));
    }

    #[test]
    fn the_last_address_of_a_family_is_not_beside_the_first_of_the_other() {
        let all = [(range(Family::V4, 0, Family::V4.last()), "\"a\":1"), (range(Family::V6, 0, u128::MAX), "\"a\":1")];
        let (differences, counted) = compared(&all, &[]);
        let ranges: Vec<Range> = differences.iter().map(|difference| difference.range).collect();
        assert_eq!(ranges, all.map(|(range, _)| range));
        assert_eq!((counted.only_a, counted.only_a_addresses), (2, u128::MAX));
    }

    #[test]
    fn numbers_that_are_written_in_two_ways_differ() {
        let of = |members| [(range(Family::V6, 7, 7), members)];
        let (differences, counted) = compared(&of("\"a\":1"), &of("\"a\":1.0"));
        assert_eq!((differences.len(), counted.changed, counted.changed_addresses), (1, 1, 1));
    }

    #[test]
    fn an_error_of_the_caller_ends_the_pass() {
        let a = [(range(Family::V4, 0, 0), ""), (range(Family::V4, 2, 2), "")];
        let answers = a.iter().map(|(range, members)| Ok((*range, Cow::Borrowed(*members))));
        let mut calls = 0;
        let result = compare(answers, std::iter::empty(), &mut |_| {
            calls += 1;
            Err(Error::Stopped)
        });
        assert!(matches!(result, Err(Error::Stopped)) && calls == 1);
    }
}
