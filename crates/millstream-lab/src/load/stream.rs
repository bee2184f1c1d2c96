//! A stream: which documents arrive in which order, written as a file, and what a table holds after it.

use super::data_set::DataSet;
use crate::error::Error;
use millstream_host::own_file;
use serde::{Deserialize, Serialize};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::str::FromStr;

/// Documents that are loaded in one go.
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expected {
    /// Documents of the stream.
    pub documents: u64,
    /// In a table that takes every document.
    pub all: Stored,
    /// In a table that refuses those whose random number ends with 0.
    pub accepted: Stored,
}

/// Rows of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// Their number.
    pub rows: u64,
    /// Sum of the random numbers in the documents, in decimal: it does not fit a number of JSON.
    pub sum: String,
}

/// The number in the stored document of each key.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Vec<Option<u64>>);

impl Stream {
    /// A wave: every key once. The first wave is in order of arrival; later ones are shuffled, and every document is
    /// changed.
    #[cfg(test)]
    pub(crate) const fn wave(n: u32) -> Self {
        Self { version: n, picks: Picks::Each { order: n } }
    }

    /// Writes the documents as NDJSON and records them in the ledger of a table.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write(self, set: &DataSet, ledger: &mut Ledger, path: &Path) -> Result<Expected, Error> {
        let failed = || Error::io("write", path);
        let file = own_file(0o644).write(true).create(true).truncate(true).open(path);
        let mut file = BufWriter::with_capacity(1 << 20, file.map_err(failed())?);
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
        Ok(Expected { documents, all: ledger.of(|_| true), accepted: ledger.of(|number| number % 10 != 0) })
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

/// Parses the name of a kind of stream with its numbers, such as `hot:3:100`.
impl FromStr for Stream {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split(':');
        let kind = words.next().unwrap_or_default();
        let numbers: Result<Vec<u64>, _> = words.map(str::parse).collect();
        let wrong = || format!("{text} is no stream: {KINDS}");
        let numbers = numbers.map_err(|_| wrong())?;
        let part = |from, to, of| Part { from, to, of };
        let (version, picks) = match (kind, numbers.as_slice()) {
            ("wave", [version] | [version, _]) => {
                let order = u32::try_from(*numbers.last().unwrap_or(version)).map_err(|_| wrong())?;
                (*version, Picks::Each { order })
            }
            ("every", [version, nth]) if *nth > 0 => (*version, Picks::OneOf(*nth)),
            ("hot", [version, keys]) if *keys > 0 => (*version, Picks::Hot(*keys)),
            ("part", [from, to, of]) if from <= to && to <= of && *of > 0 => (1, Picks::Part(part(*from, *to, *of))),
            ("below", [version, from, to, of]) if 0 < *from && from <= to && to <= of => {
                (*version, Picks::Below(part(*from, *to, *of)))
            }
            ("repeating", [version, share]) if *share < 10_000 => (*version, Picks::Repeating(*share)),
            _ => return Err(wrong()),
        };
        Ok(Self { version: u32::try_from(version).map_err(|_| wrong())?, picks })
    }
}

/// The kinds of streams, for an error.
const KINDS: &str = "one of wave:VERSION[:ORDER], every:VERSION:NTH, hot:VERSION:KEYS, part:FROM:TO:OF, \
                     below:VERSION:FROM:TO:OF, repeating:VERSION:OF_TEN_THOUSAND";

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

    fn of(&self, is_stored: fn(u64) -> bool) -> Stored {
        let stored = self.0.iter().flatten().filter(|number| is_stored(**number));
        let sum: u128 = stored.clone().map(|number| u128::from(*number)).sum();
        Stored { rows: stored.count() as u64, sum: sum.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::data_set::Keys;
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
            let stored = |of: &dyn Fn(&&u128) -> bool| Stored {
                rows: table.values().filter(of).count() as u64,
                sum: table.values().filter(of).sum::<u128>().to_string(),
            };
            let (all, accepted) = (stored(&|_| true), stored(&|number| **number % 10 != 0));
            assert_eq!(expected, Expected { documents: lines.len() as u64, all, accepted });
            (lines, expected)
        };
        streams.iter().map(write).collect()
    }

    fn field(line: &str, name: &str) -> String {
        serde_json::from_str::<serde_json::Value>(line).unwrap()[name].to_string()
    }

    fn set(documents: u64, seed: u64) -> DataSet {
        DataSet { keys: Keys::Random, document_bytes: 150, documents, seed, in_first_order: false }
    }

    fn streams(texts: &[&str]) -> Vec<Stream> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn ids(lines: &[String]) -> Vec<String> {
        lines.iter().map(|line| field(line, "id")).collect()
    }

    #[test]
    fn waves_share_keys_and_nothing_else() {
        for keys in [Keys::Random, Keys::Sequential] {
            let set = DataSet { keys, ..set(2_000, 42) };
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
        let first = |keys| ids(&written(&DataSet { keys, ..set(200, 1) }, &[Stream::wave(1)])[0].0);
        assert!(first(Keys::Sequential).is_sorted());
        assert!(!first(Keys::Random).is_sorted());
    }

    #[test]
    fn a_repeated_wave_has_the_same_documents_in_another_order() {
        let set = set(500, 3);
        let both = written(&set, &streams(&["wave:2", "wave:2:9"]));
        assert_ne!(both[0].0, both[1].0);
        let sorted = |n: usize| both[n].0.iter().collect::<BTreeSet<_>>();
        assert_eq!(sorted(0), sorted(1));
        assert_eq!(both[0].1, both[1].1);
    }

    #[test]
    fn hot_streams_have_few_keys_and_no_equal_documents() {
        let set = set(1_000, 3);
        let all = written(&set, &streams(&["wave:1", "hot:2:100", "hot:3:1"]));
        for (at, keys) in [(1, 100), (2, 1)] {
            assert_eq!(ids(&all[at].0).into_iter().collect::<BTreeSet<_>>().len(), keys);
            assert_eq!(all[at].0.iter().collect::<BTreeSet<_>>().len(), 1_000);
            assert_eq!(all[at].1.all.rows, 1_000, "the others are still there");
        }
    }

    #[test]
    fn parts_have_new_keys_and_below_has_stored_ones() {
        let set = set(1_000, 3);
        let all = written(&set, &streams(&["part:0:2:10", "part:2:5:10", "below:2:2:5:10"]));
        assert_eq!(all.iter().map(|(lines, _)| lines.len()).collect::<Vec<_>>(), [200, 300, 300]);
        assert_eq!(all[1].1.all.rows, 500, "no key of the part was there");
        let before: BTreeSet<String> = ids(&all[0].0).into_iter().collect();
        assert!(ids(&all[2].0).iter().all(|id| before.contains(id)));
    }

    #[test]
    fn a_share_of_the_documents_repeats_earlier_keys() {
        let set = set(1_001, 3);
        for (share, every) in [(5_000, 2), (1_000, 10), (20, 500)] {
            let (lines, expected) = written(&set, &streams(&[&format!("repeating:2:{share}")])).remove(0);
            assert_eq!((expected.documents, expected.all.rows), (1_001, 1_001 - 1_001 / every));
            let mut seen = BTreeSet::new();
            for (n, id) in (0..).zip(ids(&lines)) {
                assert_eq!(seen.insert(id), n % every != every - 1, "document {n}");
            }
            assert_eq!(lines.iter().collect::<BTreeSet<_>>().len(), 1_001, "never the same document");
        }
    }

    #[test]
    fn a_sample_takes_documents_of_the_first_wave() {
        let set = set(1_000, 3);
        let all = written(&set, &streams(&["every:1:100", "wave:1"]));
        assert_eq!(all[0].0.len(), 10);
        assert!(all[0].0.iter().all(|line| all[1].0.contains(line)));
    }

    #[test]
    fn a_stream_that_is_none_is_refused_with_what_there_is() {
        for text in
            ["", "wave", "wave:x", "waves:1", "hot:1:0", "part:3:2:10", "part:0:11:10", "below:1:0:1:2", "every:1:0"]
        {
            let error = text.parse::<Stream>().unwrap_err();
            assert!(error.starts_with(&format!("{text} is no stream: one of wave:VERSION")), "{error}");
        }
    }
}
