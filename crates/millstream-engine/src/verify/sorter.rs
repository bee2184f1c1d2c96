//! Sorts any number of documents by key in bounded memory: writes sorted runs to disk and merges them.

use super::buffer::Buffer;
use super::record::{Header, Record};
use super::run::{RunReader, RunWriter, SortedRun};
use crate::limits::{MERGE_RUNS_MAX, RUN_BUFFER_BYTES};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::io;
use std::path::{Path, PathBuf};

/// Takes documents in the order of their positions.
#[derive(Debug)]
pub(super) struct Sorter {
    buffer: Buffer,
    /// Oldest first, so that of two runs the later one holds the newer documents.
    runs: Vec<Leveled>,
    directory: PathBuf,
    /// How many runs are merged at once.
    fan_in: usize,
}

/// A run and how often its documents were merged. Levels never rise towards the newer runs.
#[derive(Debug)]
struct Leveled {
    run: SortedRun,
    level: u32,
}

impl Sorter {
    /// A sorter that takes about `memory_bytes` of memory and writes its runs into `directory`.
    pub(super) fn new(directory: &Path, memory_bytes: usize) -> Self {
        Self {
            buffer: Buffer::new(memory_bytes),
            runs: Vec::new(),
            directory: directory.to_owned(),
            fan_in: (memory_bytes / RUN_BUFFER_BYTES).clamp(2, MERGE_RUNS_MAX),
        }
    }

    /// Whether a record fits into memory; if not, [`Sorter::spill`] makes room.
    pub(super) fn has_room(&self, header: Header) -> bool {
        self.buffer.has_room(header)
    }

    /// Adds the next document.
    pub(super) fn push(&mut self, header: Header, key: &[u8], version: &[u8], document: &[u8]) {
        self.buffer.push(header, key, version, document);
    }

    /// Writes what is in memory as a run, and merges runs if there are too many.
    pub(super) fn spill(&mut self) -> io::Result<()> {
        if !self.buffer.is_empty() {
            let mut writer = RunWriter::create(&self.directory)?;
            self.buffer.sorted().try_for_each(|record| writer.write(&[record]))?;
            self.runs.push(Leveled { run: writer.finish()?, level: 0 });
            self.buffer.clear();
        }
        while let Some(newest) = self.runs.last() {
            let level = newest.level;
            if self.runs.iter().rev().take_while(|run| run.level == level).count() < self.fan_in {
                break;
            }
            self.merge_newest(level + 1)?;
        }
        Ok(())
    }

    /// The documents in key order, those of one key in the order of their positions.
    pub(super) fn finish(mut self) -> io::Result<Merge> {
        self.spill()?;
        while self.runs.len() > self.fan_in {
            self.merge_newest(0)?;
        }
        Merge::new(self.runs)
    }

    /// Merges the newest runs into one.
    fn merge_newest(&mut self, level: u32) -> io::Result<()> {
        let newest = self.runs.split_off(self.runs.len() - self.fan_in);
        let mut merge = Merge::new(newest)?;
        let mut writer = RunWriter::create(&self.directory)?;
        let mut record = Record::default();
        while merge.next(&mut record)? {
            writer.write(&[&record.header().to_bytes(), &record.key, &record.version, &record.document])?;
        }
        self.runs.push(Leveled { run: writer.finish()?, level });
        Ok(())
    }
}

/// Runs that are read side by side.
#[derive(Debug)]
pub(super) struct Merge {
    /// The least key is on top; for equal keys, the oldest run.
    open: BinaryHeap<Open>,
}

impl Merge {
    fn new(runs: Vec<Leveled>) -> io::Result<Self> {
        let mut open = BinaryHeap::with_capacity(runs.len());
        for (age, leveled) in runs.into_iter().enumerate() {
            open.extend(RunReader::open(leveled.run)?.map(|reader| Open { reader, age }));
        }
        Ok(Self { open })
    }

    /// The next record; `false` after the last.
    pub(super) fn next(&mut self, record: &mut Record) -> io::Result<bool> {
        let Some(mut open) = self.open.peek_mut() else { return Ok(false) };
        if !open.reader.take(record)? {
            PeekMut::pop(open);
        }
        Ok(true)
    }
}

/// A run that is being read. Its order is reversed, because the heap has the greatest on top.
#[derive(Debug)]
struct Open {
    reader: RunReader,
    /// Its place among the runs, oldest first.
    age: usize,
}

impl Ord for Open {
    fn cmp(&self, other: &Self) -> Ordering {
        (&other.reader.key, other.age).cmp(&(&self.reader.key, self.age))
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

#[cfg(test)]
mod tests {
    use super::super::record::Place;
    use super::*;
    use millstream_testkit::Cases;

    fn push(sorter: &mut Sorter, record: &Record) {
        if !sorter.has_room(record.header()) {
            sorter.spill().unwrap();
        }
        sorter.push(record.header(), &record.key, &record.version, &record.document);
    }

    fn drain(mut merge: Merge) -> Vec<Record> {
        let (mut all, mut record) = (Vec::new(), Record::default());
        while merge.next(&mut record).unwrap() {
            all.push(record.clone());
        }
        all
    }

    #[test]
    fn runs_are_merged_in_order() {
        let directory = tempfile::tempdir().unwrap();
        for mut rng in Cases::new(60) {
            let mut sorter = Sorter::new(directory.path(), rng.usize(1..4000));
            let mut records: Vec<Record> = (0..rng.u64(0..600))
                .map(|line| Record {
                    key: (0..rng.usize(0..4)).map(|_| rng.u8(0..4)).collect(),
                    version: vec![b'v'; rng.usize(0..3)],
                    tombstone: rng.bool(),
                    place: Place { source: 1, line },
                    document: vec![b'd'; rng.usize(0..300)],
                })
                .collect();
            records.iter().for_each(|record| push(&mut sorter, record));
            records.sort_by(|a, b| a.key.cmp(&b.key));
            assert_eq!(drain(sorter.finish().unwrap()), records);
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "runs have no names");
    }

    #[test]
    fn the_number_of_open_runs_is_limited() {
        let directory = tempfile::tempdir().unwrap();
        let mut sorter = Sorter::new(directory.path(), 1);
        for line in 0..100 {
            let key = vec![u8::try_from(line).unwrap()];
            push(&mut sorter, &Record { key, place: Place { source: 0, line }, ..Record::default() });
            assert!(sorter.runs.len() <= 8, "{} runs", sorter.runs.len());
        }
        let merge = sorter.finish().unwrap();
        assert!(merge.open.len() <= 2);
        assert_eq!(drain(merge).len(), 100);
    }
}
