//! Sorts records by path within a bounded memory: sorted parts on disk, merged while they are read.

use super::frame;
use crate::limits::{PARTS_MAX, SORT_BYTES_MAX};
use crate::path::order;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};

/// Takes records in any order. Those of one path stay in the order in which they came.
pub(crate) struct Sorter {
    /// Frames, one after the other.
    bytes: Vec<u8>,
    /// Where each begins.
    starts: Vec<usize>,
    bytes_max: usize,
    parts: Vec<File>,
    /// Where parts are written. They have no names, so that a killed copy leaves none.
    folder: PathBuf,
}

/// A record: its path and its bytes.
pub(crate) struct Record {
    pub(crate) path: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

/// Records in order.
pub(crate) struct Sorted {
    memory: Memory,
    parts: Vec<BufReader<File>>,
    /// The next record of each part and of the memory, which counts as the last part.
    heads: BinaryHeap<Reverse<Head>>,
}

struct Memory {
    bytes: Vec<u8>,
    starts: std::vec::IntoIter<usize>,
}

struct Head {
    record: Record,
    part: usize,
}

impl Sorter {
    pub(crate) fn new(folder: &Path) -> Self {
        Self::bounded(folder, SORT_BYTES_MAX)
    }

    fn bounded(folder: &Path, bytes_max: usize) -> Self {
        Self { bytes: Vec::new(), starts: Vec::new(), bytes_max, parts: Vec::new(), folder: folder.to_owned() }
    }

    /// Takes a record.
    ///
    /// # Errors
    /// A part cannot be written.
    pub(crate) fn push(&mut self, path: &[u8], body: &[u8]) -> io::Result<()> {
        let start = self.bytes.len();
        frame::write(&mut self.bytes, path, body)?;
        self.starts.push(start);
        if self.bytes.len() + self.starts.len() * size_of::<usize>() >= self.bytes_max {
            self.spill()?;
        }
        Ok(())
    }

    /// The records in order.
    ///
    /// # Errors
    /// A part cannot be read.
    pub(crate) fn finish(mut self) -> io::Result<Sorted> {
        self.sort();
        Sorted::of(self.parts, Memory { bytes: self.bytes, starts: self.starts.into_iter() })
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        self.starts.sort_by(|a, b| order(parts_of(bytes, *a).0, parts_of(bytes, *b).0));
    }

    fn spill(&mut self) -> io::Result<()> {
        self.sort();
        if self.parts.len() == PARTS_MAX {
            let empty = Memory { bytes: Vec::new(), starts: Vec::new().into_iter() };
            let mut all = Sorted::of(std::mem::take(&mut self.parts), empty)?;
            self.parts.push(write_part(&self.folder, |file| {
                while let Some(record) = all.next()? {
                    frame::write(file, &record.path, &record.body)?;
                }
                Ok(())
            })?);
        }
        self.parts.push(write_part(&self.folder, |file| {
            for start in &self.starts {
                let (path, body) = parts_of(&self.bytes, *start);
                frame::write(file, path, body)?;
            }
            Ok(())
        })?);
        self.bytes.clear();
        self.starts.clear();
        Ok(())
    }
}

fn write_part(folder: &Path, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> io::Result<File> {
    let mut file = BufWriter::new(tempfile::tempfile_in(folder)?);
    write(&mut file)?;
    let mut file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.flush()?;
    file.rewind()?;
    Ok(file)
}

/// Path and body of the frame that begins here.
fn parts_of(bytes: &[u8], start: usize) -> (&[u8], &[u8]) {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize;
    let (all, path) = (word(start), word(start + 4));
    let data = &bytes[start + frame::HEAD_BYTES..][..all];
    data.split_at(path)
}

impl Sorted {
    fn of(parts: Vec<File>, memory: Memory) -> io::Result<Self> {
        let parts: Vec<_> = parts.into_iter().map(|file| BufReader::with_capacity(64 << 10, file)).collect();
        let mut sorted = Self { memory, parts, heads: BinaryHeap::new() };
        for part in 0..=sorted.parts.len() {
            sorted.advance(part)?;
        }
        Ok(sorted)
    }

    /// The next record.
    ///
    /// # Errors
    /// A part cannot be read.
    pub(crate) fn next(&mut self) -> io::Result<Option<Record>> {
        let Some(Reverse(Head { record, part })) = self.heads.pop() else { return Ok(None) };
        self.advance(part)?;
        Ok(Some(record))
    }

    fn advance(&mut self, part: usize) -> io::Result<()> {
        let record = match self.parts.get_mut(part) {
            Some(file) => {
                let mut path = Vec::new();
                frame::read(file, &mut path)?.map(|len| {
                    let body = path.split_off(len);
                    Record { path, body }
                })
            }
            None => self.memory.starts.next().map(|start| {
                let (path, body) = parts_of(&self.memory.bytes, start);
                Record { path: path.to_vec(), body: body.to_vec() }
            }),
        };
        self.heads.extend(record.map(|record| Reverse(Head { record, part })));
        Ok(())
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        order(&self.record.path, &other.record.path).then(self.part.cmp(&other.part))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_in_order_however_small_the_memory() {
        let dir = tempfile::tempdir().unwrap();
        let mut random = fastrand::Rng::with_seed(7);
        let records: Vec<(Vec<u8>, Vec<u8>)> = (0..3_000_u32)
            .map(|n| {
                let path = (0..random.usize(0..4)).flat_map(|_| [random.u8(b'-'..=b'1'), random.u8(b'-'..=b'1')]);
                (path.collect(), n.to_le_bytes().to_vec())
            })
            .collect();
        let mut expected = records.clone();
        expected.sort_by(|a, b| order(&a.0, &b.0));
        // The smallest makes more parts than may be merged at once.
        for bytes_max in [500, 100_000, usize::MAX] {
            let mut sorter = Sorter::bounded(dir.path(), bytes_max);
            for (path, body) in &records {
                sorter.push(path, body).unwrap();
            }
            let mut sorted = sorter.finish().unwrap();
            for (path, body) in &expected {
                let record = sorted.next().unwrap().unwrap();
                assert_eq!((&record.path, &record.body), (path, body), "{bytes_max}");
            }
            assert!(sorted.next().unwrap().is_none());
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
