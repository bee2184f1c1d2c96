//! A sorted run: records on disk in the order of their keys, those of a key in the order in which they came.

use super::record::{Header, Place, Record};
use crate::limits::RUN_BUFFER_BYTES;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::Path;

/// A run that is complete.
#[derive(Debug)]
pub(super) struct SortedRun {
    file: File,
    records: u64,
}

/// A run while it is written.
#[derive(Debug)]
pub(super) struct RunWriter {
    file: BufWriter<File>,
    records: u64,
}

impl RunWriter {
    /// Begins a run in a file without a name. The operating system frees it however the process ends.
    pub(super) fn create(directory: &Path) -> io::Result<Self> {
        let file = tempfile::tempfile_in(directory)?;
        Ok(Self { file: BufWriter::with_capacity(RUN_BUFFER_BYTES, file), records: 0 })
    }

    /// Appends a record, given in parts.
    pub(super) fn write(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        self.records += 1;
        parts.iter().try_for_each(|part| self.file.write_all(part))
    }

    pub(super) fn finish(self) -> io::Result<SortedRun> {
        let mut file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        Ok(SortedRun { file, records: self.records })
    }
}

/// Reads a run from its first key to its last. A document is read only when it is taken, so that many open runs hold
/// one key each in memory and not one document each.
#[derive(Debug)]
pub(super) struct RunReader {
    file: BufReader<File>,
    records_left: u64,
    header: Header,
    pub(super) key: Vec<u8>,
}

impl RunReader {
    /// Opens a run at its first record; `None` when it has none.
    pub(super) fn open(run: SortedRun) -> io::Result<Option<Self>> {
        let header = Header::new(&[], &[], &[], false, Place::default());
        let file = BufReader::with_capacity(RUN_BUFFER_BYTES, run.file);
        let mut reader = Self { file, records_left: run.records, header, key: Vec::new() };
        Ok(reader.advance()?.then_some(reader))
    }

    /// Takes the record and moves to the next one; `false` when there is none.
    pub(super) fn take(&mut self, record: &mut Record) -> io::Result<bool> {
        std::mem::swap(&mut record.key, &mut self.key);
        record.tombstone = self.header.tombstone;
        record.place = self.header.place;
        record.version.resize(self.header.version_bytes as usize, 0);
        self.file.read_exact(&mut record.version)?;
        record.document.resize(self.header.document_bytes as usize, 0);
        self.file.read_exact(&mut record.document)?;
        self.advance()
    }

    fn advance(&mut self) -> io::Result<bool> {
        if self.records_left == 0 {
            return Ok(false);
        }
        self.records_left -= 1;
        let mut header = [0; Header::BYTES];
        self.file.read_exact(&mut header)?;
        self.header = Header::from_bytes(header);
        self.key.resize(self.header.key_bytes as usize, 0);
        self.file.read_exact(&mut self.key)?;
        Ok(true)
    }
}
