//! Sorts records by range within a bounded memory: sorted runs on disk, merged while they are read.

use crate::error::Error;
use crate::limits::{RUNS_MAX, VALUE_BYTES_MAX};
use millstream_model::range::{Family, Range};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A range with its members and its place in the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) range: Range,
    pub(crate) place: Place,
    /// Members besides `end`, as JSON without the braces.
    pub(crate) members: Arc<str>,
}

/// Where a record stands: number of its input and line. The order of places is the order of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) input: u32,
    pub(crate) line: u64,
}

impl Record {
    fn order(&self) -> (Family, u128, Place) {
        (self.range.family, self.range.start, self.place)
    }

    /// Memory that it takes, about: allocation of the members included.
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.members.len() + 32
    }
}

/// Takes records in any order.
pub(crate) struct Sorter {
    records: Vec<Record>,
    bytes: usize,
    bytes_max: usize,
    runs: Vec<File>,
    /// Where runs are written. They have no names, so that a killed build leaves none.
    folder: PathBuf,
}

/// Records that can be read in order, any number of times.
pub(crate) struct Sorted {
    records: Vec<Record>,
    /// Bytes of all records, in memory and on disk.
    bytes: u64,
    runs: Vec<File>,
    folder: PathBuf,
}

impl Sorter {
    pub(crate) fn new(folder: &Path, bytes_max: usize) -> Self {
        Self { records: Vec::new(), bytes: 0, bytes_max, runs: Vec::new(), folder: folder.to_owned() }
    }

    /// Takes a record.
    ///
    /// # Errors
    /// A run cannot be written.
    pub(crate) fn push(&mut self, record: Record) -> Result<(), Error> {
        self.bytes += record.bytes();
        self.records.push(record);
        if self.bytes >= self.bytes_max {
            self.spill().map_err(Error::file("write", &self.folder))?;
        }
        Ok(())
    }

    fn spill(&mut self) -> io::Result<()> {
        self.records.sort_unstable_by_key(Record::order);
        if self.runs.len() == RUNS_MAX {
            let merged = merge(&mut self.runs, &[])?;
            let run = write_run(&self.folder, merged)?;
            self.runs = vec![run];
        }
        let run = write_run(&self.folder, self.records.drain(..).map(Ok))?;
        self.runs.push(run);
        self.bytes = 0;
        Ok(())
    }

    /// All records, sorted.
    ///
    /// # Errors
    /// A run cannot be read.
    pub(crate) fn finish(mut self) -> Result<Sorted, Error> {
        self.records.sort_unstable_by_key(Record::order);
        let mut bytes = self.bytes as u64;
        for run in &self.runs {
            bytes += run.metadata().map_err(Error::file("read", &self.folder))?.len();
        }
        Ok(Sorted { records: self.records, bytes, runs: self.runs, folder: self.folder })
    }
}

impl Sorted {
    /// Bytes of all records, about.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Everything in order.
    ///
    /// # Errors
    /// A run cannot be read.
    pub(crate) fn records(&mut self) -> Result<impl Iterator<Item = Result<Record, Error>> + use<'_>, Error> {
        let folder = self.folder.clone();
        let merged = merge(&mut self.runs, &self.records).map_err(Error::file("read", &folder))?;
        Ok(merged.map(move |record| record.map_err(Error::file("read", &folder))))
    }
}

/// Merges runs and sorted records.
fn merge<'a>(
    runs: &'a mut [File],
    records: &'a [Record],
) -> io::Result<impl Iterator<Item = io::Result<Record>> + use<'a>> {
    let mut streams: Vec<Box<dyn Iterator<Item = io::Result<Record>> + 'a>> = Vec::new();
    for run in runs {
        run.rewind()?;
        let mut run = BufReader::new(&*run);
        streams.push(Box::new(std::iter::from_fn(move || read_record(&mut run).transpose())));
    }
    let mut records = records.iter().cloned();
    let alone = streams.is_empty();
    let mut heads = BinaryHeap::new();
    if !alone {
        streams.push(Box::new(std::iter::from_fn({
            let mut records = std::mem::take(&mut records);
            move || records.next().map(Ok)
        })));
        for (number, stream) in streams.iter_mut().enumerate() {
            if let Some(record) = stream.next() {
                heads.push(Reverse(Head { record: record?, stream: number }));
            }
        }
    }
    Ok(std::iter::from_fn(move || {
        if alone {
            return records.next().map(Ok);
        }
        let Reverse(Head { record, stream }) = heads.pop()?;
        match streams[stream].next() {
            Some(Ok(next)) => heads.push(Reverse(Head { record: next, stream })),
            Some(Err(error)) => return Some(Err(error)),
            None => {}
        }
        Some(Ok(record))
    }))
}

/// The next record of a stream, ordered as records are.
struct Head {
    record: Record,
    stream: usize,
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.record.order().cmp(&other.record.order())
    }
}

fn write_run(folder: &Path, records: impl Iterator<Item = io::Result<Record>>) -> io::Result<File> {
    let mut run = BufWriter::new(tempfile::tempfile_in(folder)?);
    for record in records {
        let Record { range, place, members } = record?;
        run.write_all(&[range.family as u8])?;
        run.write_all(&range.start.to_le_bytes())?;
        run.write_all(&range.end.to_le_bytes())?;
        run.write_all(&place.input.to_le_bytes())?;
        run.write_all(&place.line.to_le_bytes())?;
        let length = u32::try_from(members.len()).map_err(io::Error::other)?;
        run.write_all(&length.to_le_bytes())?;
        run.write_all(members.as_bytes())?;
    }
    run.into_inner().map_err(io::IntoInnerError::into_error)
}

fn read_record(run: &mut impl Read) -> io::Result<Option<Record>> {
    let mut family = [0];
    if run.read(&mut family)? == 0 {
        return Ok(None);
    }
    let family = if family == [Family::V4 as u8] { Family::V4 } else { Family::V6 };
    let start = u128::from_le_bytes(read_bytes(run)?);
    let end = u128::from_le_bytes(read_bytes(run)?);
    let input = u32::from_le_bytes(read_bytes(run)?);
    let line = u64::from_le_bytes(read_bytes(run)?);
    let length = u32::from_le_bytes(read_bytes(run)?) as usize;
    if length > VALUE_BYTES_MAX {
        return Err(io::Error::other("a sorted run is damaged"));
    }
    let mut members = vec![0; length];
    run.read_exact(&mut members)?;
    let members = String::from_utf8(members).map_err(io::Error::other)?;
    Ok(Some(Record { range: Range { family, start, end }, place: Place { input, line }, members: members.into() }))
}

fn read_bytes<const N: usize>(run: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    run.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_out_in_order_however_little_memory_there_is() {
        let folder = tempfile::tempdir().unwrap();
        let mut rng = fastrand::Rng::with_seed(3);
        let records: Vec<Record> = (0..2_000)
            .map(|line| {
                let family = if rng.bool() { Family::V4 } else { Family::V6 };
                let start = u128::from(rng.u32(..1_000));
                let range = Range { family, start, end: start + 1 };
                let members = format!("\"n\":{line}").into();
                Record { range, place: Place { input: rng.u32(..2), line }, members }
            })
            .collect();
        let mut expected = records.clone();
        expected.sort_by_key(Record::order);
        // One run; a few runs and memory; more runs than are merged at once.
        for bytes_max in [usize::MAX, 50_000, 1_000] {
            let mut sorter = Sorter::new(folder.path(), bytes_max);
            for record in &records {
                sorter.push(record.clone()).unwrap();
            }
            let mut sorted = sorter.finish().unwrap();
            assert_eq!(sorted.runs.is_empty(), bytes_max == usize::MAX);
            for _ in 0..2 {
                let found: Vec<Record> = sorted.records().unwrap().collect::<Result<_, _>>().unwrap();
                assert!(found == expected, "{bytes_max}");
            }
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "runs have no names");
    }
}
