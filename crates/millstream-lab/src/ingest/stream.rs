//! A stream: which documents arrive in which order, written as a file, and what a table holds after it.

use crate::core::DataSet;
use crate::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// A condition that nine of ten documents of any wave meet, as SQL. [`Ledger::accepted`] has the same condition.
pub(crate) const ACCEPTED: &str = "(doc->>'n')::bigint % 10 <> 0";

/// Documents that a phase loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    /// Documents of a key differ between versions and, if the key is repeated, within a version.
    version: u32,
    picks: Picks,
}

/// Which keys, and their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Picks {
    /// Each key once. Order 1 is the order of arrival, the others are shuffled.
    Each { order: u32 },
    /// Every n-th key, in order of arrival.
    OneOf(u64),
    /// As many documents as there are keys, for the first n keys in turn.
    Hot(u64),
    /// New keys: a part of all keys, in order of arrival.
    Part(Part),
    /// Random keys below the part, as many documents as the part has.
    Below(Part),
    /// As many documents as there are keys. So many of 10,000 have any earlier key, the others the next new one in order
    /// of arrival.
    Repeating(u64),
}

/// A part of a data set's keys: of `of` equal pieces, those from `from` up to, but not including, `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) of: u64,
}

/// What a table holds after a stream, as the generator knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// Documents of the stream.
    pub documents: u64,
    /// Rows.
    pub rows: u64,
    /// Sum of the random numbers in the documents.
    pub sum: u128,
}

/// The number in the stored document of each key.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Vec<Option<u64>>);

impl Stream {
    /// A wave: every key once. The first wave is in order of arrival; later ones are shuffled, and every document is
    /// changed.
    pub const fn wave(n: u32) -> Self {
        Self { version: n, picks: Picks::Each { order: n } }
    }

    /// The documents of a wave once more, in the order of another.
    pub const fn again(version: u32, order: u32) -> Self {
        Self { version, picks: Picks::Each { order } }
    }

    /// Every n-th document of the first wave.
    pub const fn one_of(every: u64) -> Self {
        Self { version: 1, picks: Picks::OneOf(every) }
    }

    /// A changed document for every n-th key.
    pub(crate) const fn changed_one_of(version: u32, every: u64) -> Self {
        Self { version, picks: Picks::OneOf(every) }
    }

    /// As many documents as a wave has, for the first `keys` keys.
    pub const fn hot(version: u32, keys: u64) -> Self {
        Self { version, picks: Picks::Hot(keys) }
    }

    /// Part of the first wave.
    pub(crate) const fn part(part: Part) -> Self {
        Self { version: 1, picks: Picks::Part(part) }
    }

    /// As many documents as the part has, for random keys before it.
    pub(crate) const fn below(version: u32, part: Part) -> Self {
        Self { version, picks: Picks::Below(part) }
    }

    /// As many documents as a wave has; so many of 10,000, evenly spread, have the key of an earlier one.
    pub(crate) const fn repeating(version: u32, of_ten_thousand: u64) -> Self {
        Self { version, picks: Picks::Repeating(of_ten_thousand) }
    }

    /// Whether it is the first wave, which yardsticks have encoded.
    pub(crate) fn is_first_wave(self) -> bool {
        self == Self::wave(1)
    }

    /// How many documents it has.
    pub(crate) fn documents(self, set: &DataSet) -> u64 {
        let keys = set.documents;
        match self.picks {
            Picks::Each { .. } | Picks::Hot(_) | Picks::Repeating(_) => keys,
            Picks::OneOf(every) => keys.div_ceil(every),
            Picks::Part(part) | Picks::Below(part) => part.end(keys) - part.first(keys),
        }
    }

    /// Writes the documents as NDJSON and records them in the ledger of a table.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write(self, set: &DataSet, ledger: &mut Ledger, path: &Path) -> Result<Expected, Error> {
        let failed = || Error::io("write", path);
        let mut file = BufWriter::with_capacity(1 << 20, File::create(path).map_err(failed())?);
        let mut line = Vec::with_capacity(set.document_bytes + 1);
        let mut documents = 0;
        for (n, content) in self.picks(set) {
            line.clear();
            let (_, number) = set.put(&mut line, self.version, n, content);
            line.push(b'\n');
            file.write_all(&line).map_err(failed())?;
            ledger.enter(n, number);
            documents += 1;
        }
        file.flush().map_err(failed())?;
        Ok(Expected { documents, ..ledger.expected() })
    }

    /// Numbers of the keys, each with the content number of its document.
    fn picks(self, set: &DataSet) -> Box<dyn Iterator<Item = (u64, u64)>> {
        let keys = set.documents;
        match self.picks {
            Picks::Each { order } => Box::new(set.order(order).map(|n| (n, n))),
            Picks::OneOf(every) => Box::new((0..keys).step_by(usize::try_from(every).unwrap_or(1)).map(|n| (n, n))),
            Picks::Hot(hot) => Box::new((0..keys).map(move |n| (n % hot.min(keys), n))),
            Picks::Part(part) => Box::new((part.first(keys)..part.end(keys)).map(|n| (n, n))),
            Picks::Below(part) => {
                let (first, documents) = (part.first(keys), part.end(keys) - part.first(keys));
                let mut rng = set.rng(self.version);
                Box::new((0..documents).map(move |n| (rng.u64(..first.max(1)), n)))
            }
            Picks::Repeating(of_ten_thousand) => {
                let mut rng = set.rng(self.version);
                let repeats = move |documents| documents * of_ten_thousand / 10_000;
                Box::new((0..keys).map(move |n| {
                    let new = n - repeats(n);
                    (if repeats(n + 1) > repeats(n) { rng.u64(..new) } else { new }, n)
                }))
            }
        }
    }
}

impl Part {
    fn first(self, keys: u64) -> u64 {
        keys * self.from / self.of
    }

    fn end(self, keys: u64) -> u64 {
        keys * self.to / self.of
    }
}

impl Ledger {
    fn enter(&mut self, key: u64, number: u64) {
        let at = usize::try_from(key).expect("the number of keys is limited");
        if self.0.len() <= at {
            self.0.resize(at + 1, None);
        }
        self.0[at] = Some(number);
    }

    fn expected(&self) -> Expected {
        self.of(|_| true)
    }

    /// What a table that refuses documents holds, if each key came once.
    pub(crate) fn accepted(&self, documents: u64) -> Expected {
        Expected { documents, ..self.of(|number| number % 10 != 0) }
    }

    fn of(&self, is_stored: fn(u64) -> bool) -> Expected {
        let stored = self.0.iter().flatten().filter(|number| is_stored(**number));
        Expected { documents: 0, rows: stored.clone().count() as u64, sum: stored.map(|n| u128::from(*n)).sum() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{KEYS, Keys};
    use std::collections::{BTreeMap, BTreeSet};

    /// Writes streams one after the other, as phases do, and checks what the ledger says after each with a map.
    fn written(set: &DataSet, streams: &[Stream]) -> Vec<(Vec<String>, Expected)> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stream");
        let mut ledger = Ledger::default();
        let mut table = BTreeMap::new();
        let write = |stream: &Stream| {
            let expected = stream.write(set, &mut ledger, &path).unwrap();
            let lines: Vec<String> = std::fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
            for line in &lines {
                assert_eq!(line.len(), set.document_bytes);
                table.insert(field(line, "id"), field(line, "n").parse::<u128>().unwrap());
            }
            let sum = table.values().sum();
            assert_eq!(stream.documents(set), lines.len() as u64);
            assert_eq!(expected, Expected { documents: lines.len() as u64, rows: table.len() as u64, sum });
            (lines, expected)
        };
        streams.iter().map(write).collect()
    }

    fn field(line: &str, name: &str) -> String {
        serde_json::from_str::<serde_json::Value>(line).unwrap()[name].to_string()
    }

    fn ids(lines: &[String]) -> Vec<String> {
        lines.iter().map(|line| field(line, "id")).collect()
    }

    #[test]
    fn waves_share_keys_and_nothing_else() {
        for keys in KEYS {
            let set = DataSet::new("x", *keys, 150, 2_000, 150, 42);
            let waves = written(&set, &[Stream::wave(1), Stream::wave(2), Stream::wave(3)]);
            let first: BTreeSet<String> = ids(&waves[0].0).into_iter().collect();
            assert_eq!(first.len(), 2_000, "no key twice");
            assert!(first.iter().all(|id| id.len() == 16 + 2));
            assert!(waves.iter().all(|(lines, _)| ids(lines).into_iter().collect::<BTreeSet<_>>() == first));
            assert_ne!(ids(&waves[1].0), ids(&waves[0].0), "another order");
            assert_ne!(ids(&waves[2].0), ids(&waves[1].0), "another order");
            let documents: BTreeSet<&String> = waves.iter().flat_map(|(lines, _)| lines).collect();
            assert_eq!(documents.len(), 6_000, "every document changed");
        }
    }

    #[test]
    fn random_keys_jump_and_sequential_ones_count() {
        let first = |keys| ids(&written(&DataSet::new("x", keys, 150, 200, 150, 1), &[Stream::wave(1)])[0].0);
        assert!(first(Keys::Sequential).is_sorted());
        assert!(!first(Keys::Random).is_sorted());
    }

    #[test]
    fn a_repeated_wave_has_the_same_documents_in_another_order() {
        let set = DataSet::new("x", Keys::Random, 150, 500, 150, 3);
        let both = written(&set, &[Stream::wave(2), Stream::again(2, 9)]);
        assert_ne!(both[0].0, both[1].0);
        let sorted = |n: usize| both[n].0.iter().collect::<BTreeSet<_>>();
        assert_eq!(sorted(0), sorted(1));
        assert_eq!(both[0].1, both[1].1);
    }

    #[test]
    fn hot_streams_have_few_keys_and_no_equal_documents() {
        let set = DataSet::new("x", Keys::Random, 150, 1_000, 150, 3);
        let all = written(&set, &[Stream::wave(1), Stream::hot(2, 100), Stream::hot(3, 1)]);
        for (at, keys) in [(1, 100), (2, 1)] {
            assert_eq!(ids(&all[at].0).into_iter().collect::<BTreeSet<_>>().len(), keys);
            assert_eq!(all[at].0.iter().collect::<BTreeSet<_>>().len(), 1_000);
            assert_eq!(all[at].1.rows, 1_000, "the others are still there");
        }
    }

    #[test]
    fn parts_have_new_keys_and_below_has_stored_ones() {
        let set = DataSet::new("x", Keys::Random, 150, 1_000, 150, 3);
        let part = Part { from: 2, to: 5, of: 10 };
        let streams = [Stream::part(Part { from: 0, to: 2, of: 10 }), Stream::part(part), Stream::below(2, part)];
        let all = written(&set, &streams);
        assert_eq!(all.iter().map(|(lines, _)| lines.len()).collect::<Vec<_>>(), [200, 300, 300]);
        assert_eq!(all[1].1.rows, 500, "no key of the part was there");
        let before: BTreeSet<String> = ids(&all[0].0).into_iter().collect();
        assert!(ids(&all[2].0).iter().all(|id| before.contains(id)));
    }

    #[test]
    fn a_share_of_the_documents_repeats_earlier_keys() {
        let set = DataSet::new("x", Keys::Random, 150, 1_001, 150, 3);
        for (share, every) in [(5_000, 2), (1_000, 10), (20, 500)] {
            let (lines, expected) = written(&set, &[Stream::repeating(2, share)]).remove(0);
            assert_eq!((expected.documents, expected.rows), (1_001, 1_001 - 1_001 / every));
            let mut seen = BTreeSet::new();
            for (n, id) in (0..).zip(ids(&lines)) {
                assert_eq!(seen.insert(id), n % every != every - 1, "document {n}");
            }
            assert_eq!(lines.iter().collect::<BTreeSet<_>>().len(), 1_001, "never the same document");
        }
    }

    #[test]
    fn a_sample_takes_documents_of_the_first_wave() {
        let set = DataSet::new("x", Keys::Random, 150, 1_000, 150, 3);
        let all = written(&set, &[Stream::one_of(100), Stream::wave(1)]);
        assert_eq!(all[0].0.len(), 10);
        assert!(all[0].0.iter().all(|line| all[1].0.contains(line)));
    }
}
