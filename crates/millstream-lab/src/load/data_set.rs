//! The documents of a data set: with unique keys, in waves.
//!
//! Each wave is a file that can be generated again from the seed.

use super::document;
use crate::error::Error;
use crate::limits::COPY_MESSAGE_BYTES;
use fastrand::Rng;
use millstream_host::own_file;
use millstream_pg::copy;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Columns of the table: the key and `doc`.
const COLUMNS: usize = 2;

/// How the keys of a data set arrive in its first wave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// 16 random hexadecimal digits: each insert touches another page of the index.
    Random,
    /// 16 decimal digits, counting up: each insert touches the last page of the index.
    Sequential,
}

/// Documents of one length, with one kind of key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataSet {
    /// How keys arrive.
    pub keys: Keys,
    /// Length of a document in bytes, without newline.
    pub document_bytes: usize,
    /// Number of keys, and so of documents in a wave. Every wave has the same keys.
    pub documents: u64,
    /// Seed of keys, documents and orders.
    pub seed: u64,
    /// Every wave comes in the order of the first one, and not shuffled.
    pub in_first_order: bool,
}

impl Keys {
    /// The key of document `n`. Keys of one seed are unique, because each step of the mixing is reversible.
    fn key(self, seed: u64, n: u64) -> String {
        match self {
            Self::Random => format!("{:016x}", mixed(seed.wrapping_add(n))),
            Self::Sequential => format!("{n:016}"),
        }
    }
}

impl DataSet {
    /// Writes the first wave as binary COPY streams. The documents are dealt out in turn.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write_copy_streams(&self, streams: u16, dir: &Path) -> Result<Vec<PathBuf>, Error> {
        let paths: Vec<PathBuf> = (0..streams).map(|n| dir.join(format!("stream-{n}.pgcopy"))).collect();
        let mut files = Vec::new();
        for path in &paths {
            let file = own_file(0o644).write(true).create(true).truncate(true).open(path);
            files.push(BufWriter::with_capacity(COPY_MESSAGE_BYTES, file.map_err(Error::io("write", path))?));
        }
        let failed = || Error::io("write", dir);
        for file in &mut files {
            file.write_all(copy::HEADER).map_err(failed())?;
        }
        let mut document = Vec::with_capacity(self.document_bytes);
        let mut row = Vec::new();
        for (at, n) in self.order(1).enumerate() {
            document.clear();
            row.clear();
            let (key, _) = self.put(&mut document, 1, n, n);
            put_copy_row(&mut row, &key, &document);
            files[at % usize::from(streams)].write_all(&row).map_err(failed())?;
        }
        for file in &mut files {
            file.write_all(&copy::END).and_then(|()| file.flush()).map_err(failed())?;
        }
        Ok(paths)
    }

    /// Appends the document of key `n` that has this content number in this version. Returns its key and the number in
    /// it.
    pub(crate) fn put(&self, out: &mut Vec<u8>, version: u32, n: u64, content: u64) -> (String, u64) {
        let key = self.keys.key(self.seed, n);
        let mut rng = Rng::with_seed(mixed(self.seed ^ mixed(u64::from(version) << 32 | content)));
        let number = document::put(out, &key, self.document_bytes, &mut rng);
        (key, number)
    }

    /// Random numbers for a version's order.
    pub(crate) fn rng(&self, version: u32) -> Rng {
        Rng::with_seed(self.seed ^ u64::from(version))
    }

    /// The keys of a wave in the order in which they arrive.
    pub(crate) fn order(&self, wave: u32) -> impl Iterator<Item = u64> + use<> {
        let documents = u32::try_from(self.documents).expect("their number is limited");
        let mut shuffled = Vec::new();
        if wave > 1 && !self.in_first_order {
            shuffled.extend(0..documents);
            self.rng(wave).shuffle(&mut shuffled);
        }
        (0..documents).map(move |n| u64::from(shuffled.get(n as usize).copied().unwrap_or(n)))
    }
}

fn put_copy_row(out: &mut Vec<u8>, key: &str, document: &[u8]) {
    copy::begin_row(out, COLUMNS);
    copy::put_column(out, key.as_bytes());
    copy::begin_jsonb(out, document.len());
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
    use crate::load::stream::{Ledger, Stream};

    fn lines(set: &DataSet) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("wave");
        Stream::wave(1).write(set, &mut Ledger::default(), &path).unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    fn id(line: &str) -> String {
        serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].as_str().unwrap().to_owned()
    }

    #[test]
    fn copy_streams_hold_every_document_once_in_turn() {
        let set = DataSet { keys: Keys::Random, document_bytes: 200, documents: 101, seed: 3, in_first_order: false };
        let lines = lines(&set);
        let dir = tempfile::tempdir().unwrap();
        let paths = set.write_copy_streams(2, dir.path()).unwrap();
        for (stream, path) in paths.iter().enumerate() {
            let bytes = std::fs::read(path).unwrap();
            let mut rest = bytes.strip_prefix(copy::HEADER).unwrap();
            for line in lines.iter().skip(stream).step_by(2) {
                let mut row = Vec::new();
                put_copy_row(&mut row, &id(line), line.as_bytes());
                rest = rest.strip_prefix(&row[..]).unwrap();
            }
            assert_eq!(rest, copy::END);
        }
    }
}
