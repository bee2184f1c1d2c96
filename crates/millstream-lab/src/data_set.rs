//! A data set: documents under unique keys, in waves, each wave a file that can be made again from the seed.

use crate::document;
use crate::error::Error;
use crate::limits::{COPY_MESSAGE_BYTES, DOCUMENTS_MIN};
use fastrand::Rng;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Signature, flags and extension length (PostgreSQL manual, COPY, "Binary Format").
const COPY_HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// What ends a binary COPY stream.
const COPY_END: [u8; 2] = (-1_i16).to_be_bytes();

/// Version byte in front of the JSON text of a binary jsonb value (`jsonb_recv`).
const JSONB_VERSION: u8 = 1;

/// Columns of the table: the key, `doc`.
const COLUMNS: i16 = 2;

/// How the keys of a data set arrive in its first wave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Keys {
    /// 16 random hexadecimal digits: every insert meets another page of the index.
    Random,
    /// 16 decimal digits, counted up: every insert meets the last page.
    Sequential,
}

/// Every way, in the order of the report.
pub const KEYS: &[Keys] = &[Keys::Random, Keys::Sequential];

impl Keys {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Sequential => "sequential",
        }
    }

    /// The key of document `n`. No two of one seed are equal: each step of the mixing can be undone.
    fn key(self, seed: u64, n: u64) -> String {
        match self {
            Self::Random => format!("{:016x}", mixed(seed.wrapping_add(n))),
            Self::Sequential => format!("{n:016}"),
        }
    }
}

/// Documents of one length with one kind of key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataSet {
    /// Kind and length, such as `random-150`.
    pub name: String,
    /// How keys arrive.
    pub keys: Keys,
    /// Length of a document in bytes, without newline.
    pub document_bytes: usize,
    /// Documents of a wave. Every wave has the same keys.
    pub documents: u64,
    /// Seed of keys, documents and orders.
    pub seed: u64,
}

/// What a table holds once a wave is in it, as the generator knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// Rows.
    pub rows: u64,
    /// Sum of the number in every document, which is random and another one in each wave.
    pub sum: u128,
}

impl DataSet {
    /// As many documents as make about the bytes of `documents` of `document_bytes_base`.
    pub fn new(keys: Keys, document_bytes: usize, documents: u64, document_bytes_base: usize, seed: u64) -> Self {
        let scaled = documents.saturating_mul(document_bytes_base as u64) / document_bytes as u64;
        Self {
            name: format!("{}-{document_bytes}", keys.name()),
            keys,
            document_bytes,
            documents: scaled.max(DOCUMENTS_MIN.min(documents)),
            seed,
        }
    }

    /// Bytes of a wave's file.
    pub fn source_bytes(&self) -> u64 {
        self.documents * (self.document_bytes as u64 + 1)
    }

    /// Writes a wave as NDJSON. Wave 1 is in arrival order, later ones are shuffled.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_wave(&self, wave: u32, path: &Path) -> Result<Expected, Error> {
        self.write_first(wave, self.documents, path)
    }

    /// Writes the first documents of a wave.
    pub(crate) fn write_first(&self, wave: u32, documents: u64, path: &Path) -> Result<Expected, Error> {
        let failed = || Error::io("write", path);
        let mut file = BufWriter::new(File::create(path).map_err(failed())?);
        let mut line = Vec::with_capacity(self.document_bytes + 1);
        let mut expected = Expected { rows: 0, sum: 0 };
        for n in self.order(wave).take(usize::try_from(documents).unwrap_or(usize::MAX)) {
            line.clear();
            let (_, number) = self.put(&mut line, wave, n);
            line.push(b'\n');
            file.write_all(&line).map_err(failed())?;
            expected.rows += 1;
            expected.sum += u128::from(number);
        }
        file.flush().map_err(failed())?;
        Ok(expected)
    }

    /// Writes the first wave as binary COPY streams, dealt out one document after the other.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write_copy_streams(&self, streams: u16, dir: &Path) -> Result<Vec<PathBuf>, Error> {
        let paths: Vec<PathBuf> = (0..streams).map(|n| dir.join(format!("stream-{n}.pgcopy"))).collect();
        let mut files = Vec::new();
        for path in &paths {
            let file = File::create(path).map_err(Error::io("write", path))?;
            files.push(BufWriter::with_capacity(COPY_MESSAGE_BYTES, file));
        }
        let failed = || Error::io("write", dir);
        for file in &mut files {
            file.write_all(COPY_HEADER).map_err(failed())?;
        }
        let mut document = Vec::with_capacity(self.document_bytes);
        let mut row = Vec::new();
        for (at, n) in self.order(1).enumerate() {
            document.clear();
            row.clear();
            let (key, _) = self.put(&mut document, 1, n);
            put_copy_row(&mut row, &key, &document);
            files[at % usize::from(streams)].write_all(&row).map_err(failed())?;
        }
        for file in &mut files {
            file.write_all(&COPY_END).and_then(|()| file.flush()).map_err(failed())?;
        }
        Ok(paths)
    }

    /// Appends document `n` of a wave; returns its key and its number.
    fn put(&self, out: &mut Vec<u8>, wave: u32, n: u64) -> (String, u64) {
        let key = self.keys.key(self.seed, n);
        let mut rng = Rng::with_seed(mixed(self.seed ^ mixed(u64::from(wave) << 32 | n)));
        let number = document::put(out, &key, self.document_bytes, &mut rng);
        (key, number)
    }

    /// The documents of a wave in the order in which they arrive.
    fn order(&self, wave: u32) -> impl Iterator<Item = u64> + use<> {
        let documents = u32::try_from(self.documents).expect("their number is limited");
        let mut shuffled = Vec::new();
        if wave > 1 {
            shuffled.extend(0..documents);
            Rng::with_seed(self.seed ^ u64::from(wave)).shuffle(&mut shuffled);
        }
        (0..documents).map(move |n| u64::from(shuffled.get(n as usize).copied().unwrap_or(n)))
    }
}

fn put_copy_row(out: &mut Vec<u8>, key: &str, document: &[u8]) {
    let len = |bytes: usize| i32::try_from(bytes).expect("documents are far below 2 GiB").to_be_bytes();
    out.extend(COLUMNS.to_be_bytes());
    out.extend(len(key.len()));
    out.extend(key.as_bytes());
    out.extend(len(document.len() + 1));
    out.push(JSONB_VERSION);
    out.extend(document);
}

/// The output step of splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
/// OOPSLA 2014): a permutation of the 64-bit numbers.
fn mixed(n: u64) -> u64 {
    let mut z = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn lines(set: &DataSet, wave: u32) -> (Vec<String>, Expected) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("wave");
        let expected = set.write_wave(wave, &path).unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(text.len() as u64, set.source_bytes());
        (text.lines().map(str::to_owned).collect(), expected)
    }

    fn field(line: &str, name: &str) -> serde_json::Value {
        serde_json::from_str::<serde_json::Value>(line).unwrap()[name].clone()
    }

    #[test]
    fn waves_share_keys_and_nothing_else() {
        for keys in KEYS {
            let set = DataSet::new(*keys, 150, 2_000, 150, 42);
            let waves: Vec<(Vec<String>, Expected)> = (1..=3).map(|wave| lines(&set, wave)).collect();
            let ids = |n: usize| waves[n].0.iter().map(|line| field(line, "id").to_string()).collect::<Vec<_>>();
            let first: BTreeSet<String> = ids(0).into_iter().collect();
            assert_eq!(first.len(), 2_000, "no key twice");
            assert!(first.iter().all(|id| id.len() == 16 + 2));
            for (n, (lines, expected)) in waves.iter().enumerate() {
                assert_eq!(ids(n).into_iter().collect::<BTreeSet<_>>(), first);
                assert_eq!(expected.rows, 2_000);
                let sum: u128 = lines.iter().map(|line| u128::from(field(line, "n").as_u64().unwrap())).sum();
                assert_eq!(expected.sum, sum);
            }
            assert_ne!(ids(1), ids(0), "another order");
            assert_ne!(ids(2), ids(1), "another order");
            assert_ne!(waves[0].1.sum, waves[1].1.sum);
            assert_ne!(waves[1].1.sum, waves[2].1.sum);
            let documents: BTreeSet<&String> = waves.iter().flat_map(|(lines, _)| lines).collect();
            assert_eq!(documents.len(), 6_000, "every document changed");
        }
    }

    #[test]
    fn random_keys_jump_and_sequential_ones_count() {
        let ids = |keys| {
            let (lines, _) = lines(&DataSet::new(keys, 150, 200, 150, 1), 1);
            lines.iter().map(|line| field(line, "id").to_string()).collect::<Vec<_>>()
        };
        assert!(ids(Keys::Sequential).is_sorted());
        assert!(!ids(Keys::Random).is_sorted());
    }

    #[test]
    fn larger_documents_are_fewer_so_that_bytes_are_about_equal() {
        let small = DataSet::new(Keys::Random, 150, 1_000_000, 150, 1);
        let large = DataSet::new(Keys::Random, 20_480, 1_000_000, 150, 1);
        assert_eq!(small.documents, 1_000_000);
        assert_eq!(large.documents, 7_324);
        assert_eq!(DataSet::new(Keys::Random, 20_480, 20_000, 150, 1).documents, 146);
        assert_eq!(DataSet::new(Keys::Random, 20_480, 2_000, 150, 1).documents, DOCUMENTS_MIN);
        assert_eq!(DataSet::new(Keys::Random, 20_480, 20, 150, 1).documents, 20);
    }

    #[test]
    fn copy_streams_hold_every_document_once_in_turn() {
        let set = DataSet::new(Keys::Random, 200, 101, 200, 3);
        let (lines, _) = lines(&set, 1);
        let dir = tempfile::tempdir().unwrap();
        let paths = set.write_copy_streams(2, dir.path()).unwrap();
        for (stream, path) in paths.iter().enumerate() {
            let bytes = std::fs::read(path).unwrap();
            let mut rest = bytes.strip_prefix(COPY_HEADER).unwrap();
            for line in lines.iter().skip(stream).step_by(2) {
                let mut row = Vec::new();
                put_copy_row(&mut row, field(line, "id").as_str().unwrap(), line.as_bytes());
                rest = rest.strip_prefix(&row[..]).unwrap();
            }
            assert_eq!(rest, COPY_END);
        }
    }
}
