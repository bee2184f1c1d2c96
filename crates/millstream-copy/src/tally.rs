//! How far a copy is, what went wrong, and whether somebody stops it.

use crate::limits::FAILURES_LISTED_MAX;
use crate::path::shown;
use millstream_host::create_private;
use serde::Serialize;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Something that could not be copied, or is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The path below the root of the tree, in UTF-8 with escapes.
    pub path: String,
    /// Why.
    pub reason: String,
}

/// What a copy is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It lists the source.
    Listing,
    /// It copies.
    Copying,
    /// It reads the copy again.
    Verifying,
}

/// Counts that another thread may read at any time.
#[derive(Debug, Default)]
pub struct Tally {
    /// Entries found in the source.
    pub seen: AtomicU64,
    /// Bytes of the files among them.
    pub seen_bytes: AtomicU64,
    /// Entries that are done, in whatever way.
    pub done: AtomicU64,
    /// Bytes of files that are done.
    pub done_bytes: AtomicU64,
    /// Entries that could not be copied.
    pub failed: AtomicU64,
    phase: AtomicU64,
    is_stopped: Arc<AtomicBool>,
}

impl Tally {
    /// Ends the copy soon. What is copied stays, and the next copy resumes.
    pub fn stop(&self) {
        self.is_stopped.store(true, Relaxed);
    }

    /// Whether somebody has stopped the copy.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Relaxed)
    }

    /// What the copy is doing.
    pub fn phase(&self) -> Phase {
        match self.phase.load(Relaxed) {
            0 => Phase::Listing,
            1 => Phase::Copying,
            _ => Phase::Verifying,
        }
    }

    /// Other counts of the same copy: whoever stops one stops both.
    pub(crate) fn aside(&self) -> Self {
        Self { is_stopped: Arc::clone(&self.is_stopped), ..Self::default() }
    }

    pub(crate) fn begin(&self, phase: Phase) {
        self.phase.store(phase as u64, Relaxed);
        if phase == Phase::Verifying {
            self.done.store(0, Relaxed);
            self.done_bytes.store(0, Relaxed);
        }
    }

    pub(crate) fn found(&self, bytes: u64) {
        self.seen.fetch_add(1, Relaxed);
        self.seen_bytes.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn done(&self, bytes: u64) {
        self.done.fetch_add(1, Relaxed);
        self.done_bytes.fetch_add(bytes, Relaxed);
    }
}

/// Failures of a copy: the first ones here, and unless it is the default, all in a file.
#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    listed: Vec<Failure>,
    count: u64,
    file: Option<BufWriter<File>>,
    error: Option<io::Error>,
}

impl Failures {
    /// Failures that are also written to a file, one line of JSON each.
    pub(crate) fn in_file(path: &Path) -> io::Result<Self> {
        let file = Some(BufWriter::new(create_private(path)?));
        Ok(Self(Mutex::new(Inner { file, ..Inner::default() })))
    }

    pub(crate) fn add(&self, path: &[u8], reason: impl Into<String>) {
        let failure = Failure { path: shown(path), reason: reason.into() };
        let mut inner = self.inner();
        inner.count += 1;
        if let Some(file) = &mut inner.file {
            let written = serde_json::to_writer(&mut *file, &failure).map_err(io::Error::from);
            if let Err(error) = written.and_then(|()| file.write_all(b"\n")) {
                inner.error = Some(error);
            }
        }
        if inner.listed.len() < FAILURES_LISTED_MAX {
            inner.listed.push(failure);
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.inner().count
    }

    /// The first failures, in the order of their paths, and how many there are.
    ///
    /// # Errors
    /// The file could not be written.
    pub(crate) fn finish(&self) -> io::Result<(Vec<Failure>, u64)> {
        let mut inner = self.inner();
        if let Some(error) = inner.error.take() {
            return Err(error);
        }
        if let Some(file) = &mut inner.file {
            file.flush()?;
        }
        let mut listed = std::mem::take(&mut inner.listed);
        listed.sort_by(|a, b| a.path.cmp(&b.path));
        Ok((listed, inner.count))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
