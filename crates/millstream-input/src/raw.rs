//! The bytes of an input as they are on disk, read ahead and counted.

use super::content::Content;
use super::unchanged::Unchanged;
use crate::limits::RAW_BUFFER_BYTES;
use millstream_records::SchemaColumn;
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// How much of an input has been read, for a progress bar. Shared with the reading thread.
#[derive(Debug, Default)]
pub struct Progress {
    read: AtomicU64,
    total: Option<u64>,
    not_finite: AtomicU64,
    content: OnceLock<Content>,
    columns: OnceLock<Vec<SchemaColumn>>,
}

impl Progress {
    /// Bytes read so far, as they are on disk (compressed ones where the file is compressed).
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Size of the file in bytes; for standard input, from its current position on. `None` for a stream.
    pub fn bytes_total(&self) -> Option<u64> {
        self.total
    }

    /// Numbers of a file that is no text that became null, because JSON has no NaN and no infinity.
    pub fn not_finite(&self) -> u64 {
        self.not_finite.load(Ordering::Relaxed)
    }

    /// What the file holds, once all of it was read in order. `None` for other inputs, and for a file that a converter
    /// reads in an order of its own.
    pub fn content(&self) -> Option<Content> {
        self.content.get().copied()
    }

    /// The members that the schema of a file describes that is no text, once it was read. `None`: it has none.
    pub fn columns(&self) -> Option<&[SchemaColumn]> {
        self.columns.get().map(Vec::as_slice)
    }

    /// Notes what the schema describes.
    pub(super) fn described(&self, columns: Vec<SchemaColumn>) {
        // The first time counts: a schema does not change.
        let _ = self.columns.set(columns);
    }

    /// Notes how far a converter has come that reads the file itself.
    pub(super) fn reached(&self, bytes_read: Option<u64>, not_finite: u64) {
        if let Some(bytes_read) = bytes_read {
            self.read.store(bytes_read, Ordering::Relaxed);
        }
        self.not_finite.store(not_finite, Ordering::Relaxed);
    }
}

/// A reader, with what was read ahead.
pub(super) struct Raw {
    reader: Box<dyn Read + Send>,
    /// What it reads, if that is a file.
    unchanged: Option<Unchanged>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    progress: Arc<Progress>,
}

impl Raw {
    pub(super) fn new(reader: Box<dyn Read + Send>, total: Option<u64>, unchanged: Option<Unchanged>) -> Self {
        let progress = Arc::new(Progress { total, ..Progress::default() });
        Self { reader, unchanged, buffer: vec![0; RAW_BUFFER_BYTES], start: 0, end: 0, progress }
    }

    pub(super) fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// What was read ahead.
    pub(super) fn buffered(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Reads more and appends it to what is buffered; `false` at the end.
    pub(super) fn fill(&mut self) -> io::Result<bool> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        let n = read(&mut self.reader, &mut self.buffer[self.end..], &self.progress, &mut self.unchanged)?;
        self.end += n;
        Ok(n > 0)
    }

    /// Reads until so much is buffered, the buffer is full or the end is reached.
    pub(super) fn fill_up_to(&mut self, wanted: usize) -> io::Result<()> {
        let wanted = wanted.min(self.buffer.len());
        if self.start + wanted > self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        while self.end - self.start < wanted && self.fill()? {}
        Ok(())
    }

    /// Drops the first of what is buffered.
    pub(super) fn consume(&mut self, n: usize) {
        self.start += n;
    }

    /// Reads without buffering more; zero bytes at the end.
    pub(super) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.start == self.end {
            return read(&mut self.reader, into, &self.progress, &mut self.unchanged);
        }
        let n = into.len().min(self.end - self.start);
        into[..n].copy_from_slice(&self.buffer[self.start..self.start + n]);
        self.start += n;
        Ok(n)
    }

    /// Requires that the file is as it was when it was opened, if it is one. For those that do not read it in order.
    pub(super) fn require_as_opened(&self) -> io::Result<()> {
        self.unchanged.as_ref().map_or(Ok(()), Unchanged::require_as_opened)
    }
}

fn read(
    reader: &mut dyn Read,
    into: &mut [u8],
    progress: &Progress,
    unchanged: &mut Option<Unchanged>,
) -> io::Result<usize> {
    loop {
        match reader.read(into) {
            Ok(0) if !into.is_empty() && progress.total.is_some_and(|total| progress.bytes_read() < total) => {
                let shorter = "it has become shorter since it was opened";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, shorter));
            }
            Ok(n) => {
                progress.read.fetch_add(n as u64, Ordering::Relaxed);
                match unchanged {
                    Some(unchanged) if n > 0 => unchanged.passed(&into[..n]),
                    Some(unchanged) if !into.is_empty() => {
                        unchanged.check()?;
                        if let Some(content) = unchanged.content() {
                            // The end may be met again.
                            let _ = progress.content.set(content);
                        }
                    }
                    // An empty file.
                    None if n == 0 && progress.total == Some(0) => {
                        let _ = progress.content.set(Content::default());
                    }
                    _ => {}
                }
                return Ok(n);
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}
