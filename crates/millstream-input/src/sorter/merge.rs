//! Sorted runs, and what is in memory, read side by side.

use super::buffer::Buffer;
use super::record::SortRecord;
use super::run::{RunReader, SortedRun};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::io;

/// Records in the order of their keys, those of a key in the order in which they came.
#[derive(Debug)]
pub struct Sorted {
    /// The least key is on top; for equal keys, the oldest.
    open: BinaryHeap<Open>,
    /// Those that are read to their end.
    ended: Vec<Open>,
    bytes: u64,
}

impl Sorted {
    /// Runs, oldest first, then the sorted records in memory. `bytes` is what all of them have.
    pub(super) fn new(
        runs: impl IntoIterator<Item = SortedRun>,
        memory: Option<Buffer>,
        bytes: u64,
    ) -> io::Result<Self> {
        let runs = runs.into_iter().map(|run| Stream::Run(RunReader::open(run)));
        let memory = memory.map(|buffer| Stream::Memory { buffer, next: 0, key: Vec::new() });
        let ended = (0..).zip(runs.chain(memory)).map(|(age, stream)| Open { stream, age }).collect();
        let mut sorted = Self { open: BinaryHeap::new(), ended, bytes };
        sorted.rewind()?;
        Ok(sorted)
    }

    /// Bytes of all keys and bodies.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Begins again with the first record.
    ///
    /// # Errors
    /// A run cannot be read.
    pub fn rewind(&mut self) -> io::Result<()> {
        for mut open in self.open.drain().chain(std::mem::take(&mut self.ended)).collect::<Vec<_>>() {
            match open.stream.rewind()? {
                true => self.open.push(open),
                false => self.ended.push(open),
            }
        }
        Ok(())
    }

    /// Reads the next record; `false` after the last.
    ///
    /// # Errors
    /// A run cannot be read.
    pub fn next(&mut self, record: &mut SortRecord) -> io::Result<bool> {
        let Some(mut open) = self.open.peek_mut() else { return Ok(false) };
        if !open.stream.take(record)? {
            self.ended.push(PeekMut::pop(open));
        }
        Ok(true)
    }

    /// How many runs are open.
    #[cfg(test)]
    pub(super) fn open(&self) -> usize {
        self.open.len()
    }
}

/// One of what is read side by side. Its order is reversed, because the heap has the greatest on top.
#[derive(Debug)]
struct Open {
    stream: Stream,
    /// Its place among the others, oldest first.
    age: usize,
}

#[derive(Debug)]
enum Stream {
    Run(RunReader),
    Memory { buffer: Buffer, next: usize, key: Vec<u8> },
}

impl Stream {
    fn key(&self) -> &[u8] {
        match self {
            Self::Run(run) => &run.key,
            Self::Memory { key, .. } => key,
        }
    }

    fn rewind(&mut self) -> io::Result<bool> {
        match self {
            Self::Run(run) => run.rewind(),
            Self::Memory { buffer, next, key } => {
                *next = 0;
                Ok(copy_key(buffer, *next, key))
            }
        }
    }

    fn take(&mut self, record: &mut SortRecord) -> io::Result<bool> {
        match self {
            Self::Run(run) => run.take(record),
            Self::Memory { buffer, next, key } => {
                std::mem::swap(&mut record.key, key);
                record.body.clear();
                record.body.extend_from_slice(buffer.get(*next).map_or(b"", |(_, body)| body));
                *next += 1;
                Ok(copy_key(buffer, *next, key))
            }
        }
    }
}

/// Copies the key of a record in memory; `false` if there is no such record.
fn copy_key(buffer: &Buffer, place: usize, key: &mut Vec<u8>) -> bool {
    key.clear();
    let record = buffer.get(place);
    key.extend_from_slice(record.map_or(b"", |(key, _)| key));
    record.is_some()
}

impl Ord for Open {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.stream.key(), other.age).cmp(&(self.stream.key(), self.age))
    }
}

impl PartialOrd for Open {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Open {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Open {}
