//! All ranges of a store in memory, for look-ups by the million. Equal values are kept once.

use crate::error::Error;
use crate::jsonb;
use crate::limits::{INDEX_BYTES_MAX, VALUE_BYTES_MAX};
use crate::pick::Pick;
use crate::store::Generation;
use crate::value::braced;
use millstream_model::range::Family;
use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// Ranges that stand together in memory. Their first addresses fill a cache line for IPv4.
const BLOCK: usize = 16;

/// What each address gets, as JSON objects.
#[derive(Debug, Default)]
pub struct Index {
    v4: Ranges<u32>,
    v6: Ranges<u128>,
    /// All values, one behind the other.
    values: String,
    value_bytes_max: usize,
}

/// A value's place in the text of all values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TextSpan {
    start: u32,
    len: u32,
}

/// Parts into which the addresses of a family are divided, at most. The number of the first block of each part takes as
/// much memory as a processor's cache holds.
const PARTS_MAX: u32 = 1 << 16;

/// The ranges of a family, in order.
#[derive(Debug, Default)]
struct Ranges<N> {
    /// The first address of each block. A look-up searches here first, so that it touches one block only.
    starts: Vec<N>,
    blocks: Vec<Block<N>>,
    count: usize,
    /// How many blocks begin before each part of the addresses. A look-up searches only the blocks of one part.
    parts: Vec<u32>,
    /// An address is in the part of this number, counted from the first address: the bits above these.
    part_bits: u32,
}

/// Neighbours. What a look-up needs of them lies in two cache lines.
#[derive(Debug)]
struct Block<N> {
    starts: [N; BLOCK],
    rest: [Rest<N>; BLOCK],
}

/// What a range has besides its first address.
#[derive(Debug, Clone, Copy)]
struct Rest<N> {
    end: N,
    value: TextSpan,
}

/// Numbers that are looked up together, and the place of each among all addresses.
#[derive(Debug, Default)]
struct Asked<N> {
    numbers: Vec<N>,
    places: Vec<usize>,
}

impl Index {
    /// Reads a generation. With `pick`, an address gets these members of its range's value, else all but `end`.
    ///
    /// # Errors
    /// The store cannot be read; [`Error::Memory`].
    pub fn read(generation: &Generation, pick: Option<&Pick>) -> Result<Self, Error> {
        let damaged = |problem| Error::Damaged { path: generation.path().to_owned(), problem };
        let too_large = |bytes| Error::Memory { path: generation.path().to_owned(), bytes, most: INDEX_BYTES_MAX };
        let mut index = Self::default();
        // Equal members have one value. To compare the members would take longer than all else, because each lies
        // elsewhere in the file. Nobody knows the seed, so two of a billion have one hash once in 10^20 times.
        let mut numbers: HashMap<u128, Option<TextSpan>> = HashMap::new();
        let seed = RandomState::new().hash_one(0);
        let (mut bytes, mut seen) = (0, vec![false; pick.map_or(0, Pick::count)]);
        for found in generation.ranges()? {
            let found = found?;
            let members = found.members().map_err(damaged)?;
            let value = match numbers.entry(xxh3_128_with_seed(members.as_bytes(), seed)) {
                Entry::Occupied(value) => *value.get(),
                Entry::Vacant(entry) => {
                    let object = match pick {
                        Some(pick) => pick.object(&members, &mut seen).map_err(damaged)?,
                        None => Some(braced(&members)),
                    };
                    bytes += 2 * size_of::<(u128, Option<TextSpan>)>() + object.as_ref().map_or(0, String::len);
                    if bytes > INDEX_BYTES_MAX {
                        return Err(too_large(bytes));
                    }
                    *entry.insert(object.map(|object| index.add_value(&object)))
                }
            };
            // Without one of the picked members, there is nothing to know about its addresses.
            let Some(value) = value else { continue };
            let range = found.range;
            bytes += match range.family {
                #[expect(clippy::cast_possible_truncation, reason = "an IPv4 address has 32 bits")]
                Family::V4 => index.v4.push(range.start as u32, range.end as u32, value),
                Family::V6 => index.v6.push(range.start, range.end, value),
            };
            if bytes > INDEX_BYTES_MAX {
                return Err(too_large(bytes));
            }
        }
        index.v4.divide();
        index.v6.divide();
        let unseen = pick.map(|pick| pick.unseen(&seen)).unwrap_or_default();
        if !unseen.is_empty() {
            let problem = format!("no value of {} has a member {}", generation.path().display(), unseen.join(", "));
            return Err(Error::refused(
                problem,
                "see which members there are: millstream ranges export STORE --to ndjson | head",
            ));
        }
        Ok(index)
    }

    /// What an address gets.
    #[inline]
    pub fn get(&self, address: IpAddr) -> Option<&str> {
        let value = match address {
            IpAddr::V4(address) => self.v4.get(address.to_bits()),
            IpAddr::V6(address) => self.v6.get(address.to_bits()),
        };
        value.map(|value| self.value(value))
    }

    /// What each of some addresses gets: appends it to `json`, and returns its place there. This is faster than
    /// [`Index::get`] for each, because the look-ups wait for memory together.
    pub fn get_all(&self, addresses: &[Option<IpAddr>], json: &mut String) -> Vec<Option<Range<usize>>> {
        let mut values = vec![None; addresses.len()];
        let (mut v4, mut v6) = (Asked::default(), Asked::default());
        for (place, address) in addresses.iter().enumerate() {
            match address {
                Some(IpAddr::V4(address)) => v4.push(place, address.to_bits()),
                Some(IpAddr::V6(address)) => v6.push(place, address.to_bits()),
                None => {}
            }
        }
        self.v4.get_all(&v4, &mut values);
        self.v6.get_all(&v6, &mut values);
        let mut append = |value: TextSpan| {
            let begin = json.len();
            json.push_str(self.value(value));
            begin..json.len()
        };
        values.into_iter().map(|value| value.map(&mut append)).collect()
    }

    /// Why PostgreSQL's type jsonb refuses one of the values, except for numbers that are too large; `None` if it does not.
    pub fn jsonb_problem(&self) -> Option<&'static str> {
        // A string ends before its value does, so the values can be looked at as one text.
        jsonb::problem(&self.values)
    }

    /// Length of the longest value, in bytes.
    pub fn value_bytes_max(&self) -> usize {
        self.value_bytes_max
    }

    /// Adds a value. There is room for it: [`INDEX_BYTES_MAX`] is below the largest place.
    fn add_value(&mut self, value: &str) -> TextSpan {
        let place = |bytes: usize| u32::try_from(bytes).expect("the values of an index are bounded");
        let added = TextSpan { start: place(self.values.len()), len: place(value.len()) };
        self.values.push_str(value);
        self.value_bytes_max = self.value_bytes_max.max(value.len());
        added
    }

    #[inline]
    fn value(&self, TextSpan { start, len }: TextSpan) -> &str {
        &self.values[start as usize..][..len as usize]
    }
}

impl<N> Asked<N> {
    fn push(&mut self, place: usize, number: N) {
        self.places.push(place);
        self.numbers.push(number);
    }
}

impl<N: Copy + Ord + Into<u128>> Ranges<N> {
    /// Adds a range behind the others. Returns the memory that it takes.
    fn push(&mut self, start: N, end: N, value: TextSpan) -> usize {
        let at = self.count % BLOCK;
        self.count += 1;
        match self.blocks.last_mut().filter(|_| at > 0) {
            Some(block) => (block.starts[at], block.rest[at]) = (start, Rest { end, value }),
            None => {
                self.starts.push(start);
                self.blocks.push(Block { starts: [start; BLOCK], rest: [Rest { end, value }; BLOCK] });
            }
        }
        size_of::<Block<N>>() / BLOCK + size_of::<N>() / BLOCK
    }

    /// Divides the addresses into parts. No range is added after that.
    fn divide(&mut self) {
        let (Some(first), Some(last)) = (self.starts.first(), self.starts.last()) else { return };
        let (first, last): (u128, u128) = ((*first).into(), (*last).into());
        self.part_bits = (u128::BITS - (last - first).leading_zeros()).saturating_sub(PARTS_MAX.ilog2());
        let parts = ((last - first) >> self.part_bits) + 1;
        let mut before = 0;
        for part in 0..parts {
            self.parts.push(u32::try_from(before).expect("an index has fewer blocks than bytes"));
            let in_part = |start: &N| ((*start).into() - first) >> self.part_bits == part;
            before += self.starts[before..].iter().take_while(|start| in_part(start)).count();
        }
        self.parts.push(u32::try_from(before).expect("an index has fewer blocks than bytes"));
    }

    /// The value of the range that begins last at or before the number, if that range reaches it.
    #[inline]
    fn get(&self, number: N) -> Option<TextSpan> {
        let blocks = self.part(number)?;
        self.get_in(self.block(blocks, number), number)
    }

    /// Looks up many numbers. Each part of the work is done for all of them before the next: what one number needs from
    /// memory waits for what it got before, and does not wait for the other numbers.
    fn get_all(&self, asked: &Asked<N>, values: &mut [Option<TextSpan>]) {
        let parts: Vec<_> = asked.numbers.iter().map(|number| self.part(*number)).collect();
        let found = parts.into_iter().zip(&asked.numbers);
        let blocks: Vec<_> = found.map(|(part, number)| Some(self.block(part?, *number))).collect();
        for ((block, number), place) in blocks.into_iter().zip(&asked.numbers).zip(&asked.places) {
            values[*place] = block.and_then(|block| self.get_in(block, *number));
        }
    }

    /// The blocks that begin in the part of a number. `None`: all ranges are above the number.
    #[inline]
    fn part(&self, number: N) -> Option<(u32, u32)> {
        let first = *self.starts.first()?;
        if number < first {
            return None;
        }
        let part = (number.into() - first.into()) >> self.part_bits;
        let last = self.parts.len() - 2;
        let part = usize::try_from(part).map_or(last, |part| part.min(last));
        Some((self.parts[part], self.parts[part + 1]))
    }

    /// The last block that begins at or before a number. Where none of the part does, it is the one before.
    #[inline]
    fn block(&self, (begin, end): (u32, u32), number: N) -> usize {
        let before = self.starts[begin as usize..end as usize].partition_point(|start| *start <= number);
        (begin as usize + before).saturating_sub(1)
    }

    /// The same as [`Ranges::get`], if the block is known that holds the last range at or before the number.
    #[inline]
    fn get_in(&self, number_of_block: usize, number: N) -> Option<TextSpan> {
        let block = &self.blocks[number_of_block];
        let filled = (self.count - number_of_block * BLOCK).min(BLOCK);
        let at = block.starts[..filled].partition_point(|start| *start <= number) - 1;
        let Rest { end, value } = block.rest[at];
        (number <= end).then_some(value)
    }
}

const _: () = assert!(VALUE_BYTES_MAX < INDEX_BYTES_MAX && INDEX_BYTES_MAX <= 1 << u32::BITS);

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_testkit::Cases;

    #[test]
    fn a_number_gets_the_value_of_the_range_around_it() {
        for mut rng in Cases::new(300) {
            let (mut ranges, mut plain, mut next) = (Ranges::default(), Vec::new(), rng.u32(..3));
            for value in (0..rng.u32(..400)).map(|start| TextSpan { start, len: 1 }) {
                let end = next + rng.u32(..3);
                ranges.push(next, end, value);
                plain.push((next, end, value));
                next = end + 1 + rng.u32(..3);
            }
            ranges.divide();
            for number in 0..next + 3 {
                let expected = plain.iter().find(|(start, end, _)| (*start..=*end).contains(&number));
                assert_eq!(ranges.get(number), expected.map(|(_, _, value)| *value), "{number}");
            }
            let asked = Asked { numbers: (0..next + 3).collect(), places: (0..next as usize + 3).collect() };
            let mut values = vec![None; asked.numbers.len()];
            ranges.get_all(&asked, &mut values);
            assert!(asked.numbers.iter().zip(&values).all(|(number, value)| ranges.get(*number) == *value));
            assert_eq!(ranges.get(u32::MAX), None);
        }
        let mut last = Ranges::default();
        let value = TextSpan { start: 1, len: 2 };
        last.push(u128::MAX, u128::MAX, value);
        last.divide();
        assert_eq!((last.get(u128::MAX), last.get(0)), (Some(value), None));
    }
}
