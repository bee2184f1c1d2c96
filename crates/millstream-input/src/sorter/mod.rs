//! Sorts any number of records by key in bounded memory: writes sorted runs to disk and merges them while they are read.

mod buffer;
mod merge;
mod record;
mod run;

pub use merge::Sorted;
pub use record::SortRecord;

use crate::limits::{MERGE_RUNS_MAX, RUN_BUFFER_BYTES};
use buffer::Buffer;
use run::{RunWriter, SortedRun};
use std::io;
use std::path::{Path, PathBuf};

/// Takes records in any order. Those of one key keep the order in which they come.
#[derive(Debug)]
pub struct Sorter {
    buffer: Buffer,
    /// Oldest first, so that of two runs the later one holds the newer records.
    runs: Vec<Leveled>,
    directory: PathBuf,
    /// How many runs are merged at once.
    fan_in: usize,
    bytes: u64,
}

/// A run and how often its records were merged. Levels never rise towards the newer runs.
#[derive(Debug)]
struct Leveled {
    run: SortedRun,
    level: u32,
}

impl Sorter {
    /// A sorter that takes about `memory_bytes` of memory, and writes into `directory` what needs more. Its files have
    /// no names: whatever ends the process, none is left.
    pub fn new(directory: &Path, memory_bytes: usize) -> Self {
        Self {
            buffer: Buffer::new(memory_bytes),
            runs: Vec::new(),
            directory: directory.to_owned(),
            fan_in: (memory_bytes / RUN_BUFFER_BYTES).clamp(2, MERGE_RUNS_MAX),
            bytes: 0,
        }
    }

    /// Takes a record, given by its key and the parts of its body.
    ///
    /// # Errors
    /// A run cannot be written.
    pub fn push(&mut self, key: &[u8], body: &[&[u8]]) -> io::Result<()> {
        let bytes = key.len() + body.iter().map(|part| part.len()).sum::<usize>();
        if !self.buffer.has_room(bytes) {
            self.spill()?;
        }
        self.bytes += bytes as u64;
        self.buffer.push(key, body);
        Ok(())
    }

    /// Whether a record with so many bytes of key and body fits into memory. If not, [`Sorter::push`] writes to disk
    /// first; [`Sorter::spill`] does that ahead of it.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.buffer.has_room(bytes)
    }

    /// Writes what is in memory as a run, and merges runs if there are too many.
    ///
    /// # Errors
    /// A run cannot be written or read.
    pub fn spill(&mut self) -> io::Result<()> {
        if self.buffer.len() > 0 {
            self.buffer.sort();
            let mut writer = RunWriter::create(&self.directory)?;
            self.buffer.records().try_for_each(|record| writer.write(&[record]))?;
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

    /// The records in order. If all of them fit into memory, nothing is written.
    ///
    /// # Errors
    /// A run cannot be written or read.
    pub fn finish(mut self) -> io::Result<Sorted> {
        if self.runs.is_empty() {
            self.buffer.sort();
            return Sorted::new([], Some(self.buffer), self.bytes);
        }
        // Merging needs the memory.
        self.spill()?;
        while self.runs.len() > self.fan_in {
            self.merge_newest(0)?;
        }
        Sorted::new(self.runs.into_iter().map(|leveled| leveled.run), None, self.bytes)
    }

    /// Merges the newest runs into one.
    fn merge_newest(&mut self, level: u32) -> io::Result<()> {
        let newest = self.runs.split_off(self.runs.len() - self.fan_in);
        let mut merge = Sorted::new(newest.into_iter().map(|leveled| leveled.run), None, 0)?;
        let mut writer = RunWriter::create(&self.directory)?;
        let mut record = SortRecord::default();
        while merge.next(&mut record)? {
            let header = record::header(record.key.len(), record.body.len());
            writer.write(&[&header, &record.key, &record.body])?;
        }
        self.runs.push(Leveled { run: writer.finish()?, level });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_testkit::Cases;

    fn drain(sorted: &mut Sorted) -> Vec<SortRecord> {
        let (mut all, mut record) = (Vec::new(), SortRecord::default());
        while sorted.next(&mut record).unwrap() {
            all.push(record.clone());
        }
        all
    }

    #[test]
    fn records_come_in_order_however_small_the_memory_and_any_number_of_times() {
        let directory = tempfile::tempdir().unwrap();
        for mut rng in Cases::new(60) {
            let memory_bytes = if rng.bool() { rng.usize(1..4000) } else { 1 << 20 };
            let mut sorter = Sorter::new(directory.path(), memory_bytes);
            let mut records: Vec<SortRecord> = (0..rng.usize(0..600))
                .map(|_| SortRecord {
                    key: (0..rng.usize(0..4)).map(|_| rng.u8(0..4)).collect(),
                    body: (0..rng.usize(0..300)).map(|_| rng.u8(..)).collect(),
                })
                .collect();
            for SortRecord { key, body } in &records {
                let (head, tail) = body.split_at(rng.usize(0..=body.len()));
                sorter.push(key, &[head, tail]).unwrap();
            }
            records.sort_by(|a, b| a.key.cmp(&b.key));
            let mut sorted = sorter.finish().unwrap();
            let bytes: usize = records.iter().map(|record| record.key.len() + record.body.len()).sum();
            assert_eq!(sorted.bytes(), bytes as u64);
            assert_eq!(drain(&mut sorted), records);
            for _ in 0..rng.usize(0..10) {
                sorted.next(&mut SortRecord::default()).unwrap();
            }
            sorted.rewind().unwrap();
            assert_eq!(drain(&mut sorted), records);
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "runs have no names");
    }

    #[test]
    fn the_number_of_open_runs_is_limited() {
        let directory = tempfile::tempdir().unwrap();
        let mut sorter = Sorter::new(directory.path(), 1);
        for n in 0..100_u8 {
            sorter.push(&[n], &[]).unwrap();
            assert!(sorter.runs.len() <= 8, "{} runs", sorter.runs.len());
        }
        let mut sorted = sorter.finish().unwrap();
        assert!(sorted.open() <= 2);
        assert_eq!(drain(&mut sorted).len(), 100);
    }
}
