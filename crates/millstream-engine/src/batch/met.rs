//! The keys that a lane has met.

use crate::limits::MET_KEYS_PER_WORD;
use std::hint::black_box;
use xxhash_rust::xxh3::xxh3_64;

/// Keys whose words are loaded together.
const WARMED_KEYS: usize = 64;

/// A filter that knows every key that was added, and takes some others for known: a Bloom filter that keeps all bits of a
/// key in one word (Putze, Sanders, Singler, "Cache-, hash- and space-efficient Bloom filters", 2007). If it has as many
/// words as keys, it takes one of 10,000 other keys for known; with three times as many keys, one of 1,000.
#[derive(Debug)]
pub(crate) struct Met {
    words: Vec<u64>,
    /// Keys that were added and not known.
    keys: u64,
}

impl Met {
    /// An empty filter of so many words of 8 bytes.
    pub(crate) fn new(words: usize) -> Self {
        Self { words: vec![0; words.max(1)], keys: 0 }
    }

    /// Adds a key.
    pub(crate) fn put(&mut self, key: &[u8]) {
        self.add(xxh3_64(key));
    }

    /// Whether it takes more than one of about 1,000 other keys for known: it has met three keys for each word.
    pub(crate) fn is_full(&self) -> bool {
        self.keys > self.words.len() as u64 * MET_KEYS_PER_WORD
    }

    /// Adds keys. Says of each whether it was perhaps there before.
    pub(super) fn add_all<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]>, known: &mut Vec<bool>) {
        let (mut hashes, mut keys) = ([0; WARMED_KEYS], keys.fuse());
        loop {
            let mut count = 0;
            for (hash, key) in hashes.iter_mut().zip(&mut keys) {
                *hash = xxh3_64(key);
                count += 1;
            }
            let hashes = &hashes[..count];
            if hashes.is_empty() {
                return;
            }
            // The words are scattered in memory. So those of several keys are loaded into the cache together.
            black_box(hashes.iter().fold(0, |touched, hash| touched ^ self.words[self.place(*hash)]));
            known.extend(hashes.iter().map(|hash| self.add(*hash)));
        }
    }

    /// The word of a key.
    fn place(&self, hash: u64) -> usize {
        // The highest byte chose the lane.
        let place = ((hash >> 24 & u64::from(u32::MAX)) * self.words.len() as u64) >> 32;
        usize::try_from(place).expect("it is below the number of words")
    }

    fn add(&mut self, hash: u64) -> bool {
        let place = self.place(hash);
        let bits = (0..4).fold(0, |bits, n| bits | 1 << (hash >> (6 * n) & 63));
        let known = self.words[place] & bits == bits;
        self.words[place] |= bits;
        self.keys += u64::from(!known);
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_is_forgotten_and_few_others_are_taken_for_known() {
        let mut met = Met::new(1_000_000);
        let mut known_of = |numbers: std::ops::Range<u64>| {
            let keys: Vec<[u8; 8]> = numbers.map(u64::to_be_bytes).collect();
            let mut known = Vec::new();
            met.add_all(keys.iter().map(|key| &key[..]), &mut known);
            assert_eq!(known.len(), keys.len());
            known.iter().filter(|known| **known).count()
        };
        let wrong = known_of(0..1_000_000);
        assert!(wrong < 100, "{wrong}");
        assert_eq!(known_of(0..1_000_000), 1_000_000);
        let wrong = known_of(1_000_000..1_100_000);
        assert!(wrong < 50, "{wrong}");
    }

    #[test]
    fn three_keys_for_each_word_fill_it() {
        let mut met = Met::new(10);
        for (keys, is_full) in [(0..30_u64, false), (30..90, true)] {
            for key in keys {
                met.add_all(std::iter::once(&key.to_be_bytes()[..]), &mut Vec::new());
            }
            assert_eq!(met.is_full(), is_full);
        }
    }
}
