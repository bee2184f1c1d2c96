//! All ranges of a store in memory, for look-ups by the million. Equal values are kept once.

use crate::error::Error;
use crate::export::jsonb;
use crate::limits::{INDEX_BYTES_MAX, VALUE_BYTES_MAX};
use crate::pick::Pick;
use crate::range::Family;
use crate::store::Generation;
use crate::value::braced;
use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// Ranges that stand together in memory. Their first addresses fill a cache line for IPv4.
const BLOCK: usize = 16;

/// What each address gets, as JSON objects.
#[derive(Debug)]
pub struct Index {
    v4: Ranges<u32>,
    v6: Ranges<u128>,
    values: Vec<Box<str>>,
}

/// The ranges of a family, in order.
#[derive(Debug)]
struct Ranges<N> {
    /// The first address of each block. A look-up searches here first, so that it touches one block only.
    starts: Vec<N>,
    blocks: Vec<Block<N>>,
    count: usize,
}

/// Neighbours. What a look-up needs of them lies in one page of memory.
#[derive(Debug)]
struct Block<N> {
    starts: [N; BLOCK],
    ends: [N; BLOCK],
    values: [u32; BLOCK],
}

/// Numbers that are looked up together, and the place of each among all addresses.
#[derive(Debug)]
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
        let mut index = Self { v4: Ranges::default(), v6: Ranges::default(), values: Vec::new() };
        // Equal members have one value. To compare the members would take longer than all else, because each lies
        // elsewhere in the file. Nobody knows the seed, so two of a billion have one hash once in 10^20 times.
        let mut numbers: HashMap<u128, Option<u32>> = HashMap::new();
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
                    let number = u32::try_from(index.values.len()).map_err(|_| damaged("too many values".into()))?;
                    let value = object.is_some().then_some(number);
                    bytes += 2 * size_of::<(u128, Option<u32>)>();
                    if let Some(object) = object {
                        bytes += object.len();
                        index.values.push(object.into());
                    }
                    *entry.insert(value)
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
                return Err(Error::Memory { path: generation.path().to_owned(), bytes, most: INDEX_BYTES_MAX });
            }
        }
        let unseen = pick.map(|pick| pick.unseen(&seen)).unwrap_or_default();
        if !unseen.is_empty() {
            return Err(Error::Request {
                problem: format!("no value of {} has a member {}", generation.path().display(), unseen.join(", ")),
                hint: "see which members there are: millstream ranges export STORE --to ndjson | head".into(),
            });
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
        value.map(|value| &*self.values[value as usize])
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
        let mut append = |value: u32| {
            let begin = json.len();
            json.push_str(&self.values[value as usize]);
            begin..json.len()
        };
        values.into_iter().map(|value| value.map(&mut append)).collect()
    }

    /// Why PostgreSQL's type jsonb refuses one of the values, except for numbers that are too large; `None` if it does not.
    pub fn jsonb_problem(&self) -> Option<&'static str> {
        self.values.iter().find_map(|value| jsonb::problem(value))
    }

    /// Length of the longest value, in bytes.
    pub fn value_bytes_max(&self) -> usize {
        self.values.iter().map(|value| value.len()).max().unwrap_or(0)
    }
}

impl<N> Asked<N> {
    fn push(&mut self, place: usize, number: N) {
        self.places.push(place);
        self.numbers.push(number);
    }
}

impl<N> Default for Asked<N> {
    fn default() -> Self {
        Self { numbers: Vec::new(), places: Vec::new() }
    }
}

impl<N> Default for Ranges<N> {
    fn default() -> Self {
        Self { starts: Vec::new(), blocks: Vec::new(), count: 0 }
    }
}

impl<N: Copy + Ord> Ranges<N> {
    /// Adds a range behind the others. Returns the memory that it takes.
    fn push(&mut self, start: N, end: N, value: u32) -> usize {
        let at = self.count % BLOCK;
        self.count += 1;
        match self.blocks.last_mut().filter(|_| at > 0) {
            Some(block) => (block.starts[at], block.ends[at], block.values[at]) = (start, end, value),
            None => {
                self.starts.push(start);
                self.blocks.push(Block { starts: [start; BLOCK], ends: [end; BLOCK], values: [value; BLOCK] });
            }
        }
        size_of::<Block<N>>() / BLOCK + size_of::<N>() / BLOCK
    }

    /// The value of the range that begins last at or before the number, if that range reaches it.
    #[inline]
    fn get(&self, number: N) -> Option<u32> {
        let block = self.starts.partition_point(|start| *start <= number).checked_sub(1)?;
        self.get_in(block, number)
    }

    /// Looks up many numbers. Each part of the work is done for all of them before the next: what one number needs from
    /// memory waits for what it got before, and does not wait for the other numbers.
    fn get_all(&self, asked: &Asked<N>, values: &mut [Option<u32>]) {
        let Some(first) = self.starts.first() else { return };
        let mut blocks = vec![0; asked.numbers.len()];
        let mut left = self.starts.len();
        while left > 1 {
            let half = left / 2;
            for (block, number) in blocks.iter_mut().zip(&asked.numbers) {
                let middle = *block + half;
                *block = if self.starts[middle] <= *number { middle } else { *block };
            }
            left -= half;
        }
        for ((block, number), place) in blocks.into_iter().zip(&asked.numbers).zip(&asked.places) {
            if first <= number {
                values[*place] = self.get_in(block, *number);
            }
        }
    }

    /// The same as [`Ranges::get`], if the block is known that holds the last range at or before the number.
    #[inline]
    fn get_in(&self, number_of_block: usize, number: N) -> Option<u32> {
        let block = &self.blocks[number_of_block];
        let filled = (self.count - number_of_block * BLOCK).min(BLOCK);
        let at = block.starts[..filled].partition_point(|start| *start <= number) - 1;
        (number <= block.ends[at]).then_some(block.values[at])
    }
}

const _: () = assert!(VALUE_BYTES_MAX < INDEX_BYTES_MAX);

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_testkit::Cases;

    #[test]
    fn a_number_gets_the_value_of_the_range_around_it() {
        for mut rng in Cases::new(300) {
            let (mut ranges, mut plain, mut next) = (Ranges::default(), Vec::new(), rng.u32(..3));
            for value in 0..rng.u32(..400) {
                let end = next + rng.u32(..3);
                ranges.push(next, end, value);
                plain.push((next, end, value));
                next = end + 1 + rng.u32(..3);
            }
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
        last.push(u128::MAX, u128::MAX, 1);
        assert_eq!((last.get(u128::MAX), last.get(0)), (Some(1), None));
    }
}
