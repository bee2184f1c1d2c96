//! Notices that a file is overwritten while it is read. A file to which others append is read on.

use super::content::Content;
use crate::limits::RAW_BUFFER_BYTES;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use xxhash_rust::xxh3::Xxh3;

/// A file that was opened, with what was read of it.
pub(super) struct Unchanged {
    file: File,
    /// Where reading began.
    start: u64,
    opened: Stamp,
    hash: Box<Xxh3>,
    read: u64,
    /// Bytes that were read while the file was as it was opened.
    sure: u64,
}

/// What changes when somebody writes into a file: its size, and when its content and its inode were last changed.
type Stamp = (u64, (i64, i64), (i64, i64));

/// The file no longer holds what was read of it.
#[derive(Debug, thiserror::Error)]
#[error("what was read from its byte {from} on may be of another text")]
pub(super) struct Overwritten {
    /// The bytes before are of the text that it had when it was opened.
    pub(super) from: u64,
}

fn stamp(facts: &Metadata) -> Stamp {
    (facts.len(), (facts.mtime(), facts.mtime_nsec()), (facts.ctime(), facts.ctime_nsec()))
}

impl Unchanged {
    /// Watches a file that is read from `start` on. `None` if it is none, or is empty: nothing in it can be overwritten.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn of(file: &File, facts: &Metadata, start: u64) -> io::Result<Option<Self>> {
        if !facts.is_file() || facts.len() == 0 {
            return Ok(None);
        }
        let (file, opened) = (file.try_clone()?, stamp(facts));
        Ok(Some(Self { file, start, opened, hash: Box::new(Xxh3::new()), read: 0, sure: 0 }))
    }

    /// Requires that nobody has written into the file since it was opened. That it was renamed or linked does not count.
    ///
    /// # Errors
    /// [`Overwritten`]; the system's.
    pub(super) fn require_as_opened(&self) -> io::Result<()> {
        let (size, modified, _) = stamp(&self.file.metadata()?);
        if (size, modified) == (self.opened.0, self.opened.1) {
            return Ok(());
        }
        Err(io::Error::other(Overwritten { from: 0 }))
    }

    /// What was read of the file, which is all of it if its end was met. `None` if reading did not begin at its first byte.
    pub(super) fn content(&self) -> Option<Content> {
        (self.start == 0).then(|| Content { bytes: self.read, hash: self.hash.digest128() })
    }

    /// Notes bytes that were just read.
    pub(super) fn passed(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        let was_sure = self.sure == self.read;
        self.read += bytes.len() as u64;
        // After they were read: a write that came before them shows.
        if was_sure && self.file.metadata().is_ok_and(|facts| stamp(&facts) == self.opened) {
            self.sure = self.read;
        }
    }

    /// Requires that the file still holds all that was read of it. Reads it again only if it was changed meanwhile.
    ///
    /// # Errors
    /// [`Overwritten`]; the system's.
    pub(super) fn check(&mut self) -> io::Result<()> {
        if self.sure == self.read {
            return Ok(());
        }
        let (mut hash, mut buffer, mut at) = (Xxh3::new(), vec![0; RAW_BUFFER_BYTES], 0);
        while at < self.read {
            let left = usize::try_from(self.read - at).unwrap_or(usize::MAX);
            let wanted = left.min(buffer.len());
            match self.file.read_at(&mut buffer[..wanted], self.start + at) {
                Ok(0) => break,
                Ok(n) => {
                    hash.update(&buffer[..n]);
                    at += n as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if at < self.read || hash.digest128() != self.hash.digest128() {
            return Err(io::Error::other(Overwritten { from: self.sure }));
        }
        self.sure = self.read;
        Ok(())
    }
}
