//! A sorted run: records on disk in the order of their keys, those of a key in the order in which they came.

use super::record::{Header, SortRecord, lengths};
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
        let file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(SortedRun { file, records: self.records })
    }
}

/// Reads a run from its first key to its last. A body is read only when it is taken, so that many open runs hold one key
/// each in memory and not one body each.
#[derive(Debug)]
pub(super) struct RunReader {
    file: BufReader<File>,
    records: u64,
    records_left: u64,
    body_bytes: usize,
    pub(super) key: Vec<u8>,
}

impl RunReader {
    /// Opens a run; [`RunReader::rewind`] puts it at its first record.
    pub(super) fn open(run: SortedRun) -> Self {
        let file = BufReader::with_capacity(RUN_BUFFER_BYTES, run.file);
        Self { file, records: run.records, records_left: 0, body_bytes: 0, key: Vec::new() }
    }

    /// Moves to the first record; `false` if there is none.
    pub(super) fn rewind(&mut self) -> io::Result<bool> {
        self.file.rewind()?;
        self.records_left = self.records;
        self.advance()
    }

    /// Takes the record and moves to the next one; `false` when there is none.
    pub(super) fn take(&mut self, record: &mut SortRecord) -> io::Result<bool> {
        std::mem::swap(&mut record.key, &mut self.key);
        record.body.resize(self.body_bytes, 0);
        self.file.read_exact(&mut record.body)?;
        self.advance()
    }

    fn advance(&mut self) -> io::Result<bool> {
        if self.records_left == 0 {
            return Ok(false);
        }
        self.records_left -= 1;
        let mut header = Header::default();
        self.file.read_exact(&mut header)?;
        let (key_bytes, body_bytes) = lengths(header);
        self.body_bytes = body_bytes;
        self.key.resize(key_bytes, 0);
        self.file.read_exact(&mut self.key)?;
        Ok(true)
    }
}
