//! What a running load reports: events for people, counts for a progress bar.

use millstream_model::{Counters, TransformCounts};
use millstream_pg::Standstill;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Something a person watching a load wants to know.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The key, as inferred or given, one line per column.
    Key(Vec<String>),
    /// The typed columns, as chosen, given or found, one line per column.
    Columns(Vec<String>),
    /// The type of the versions that are compared, and why.
    Version(String),
    /// The collection was created with this DDL.
    Created(String),
    /// Nothing wrong, but worth a line.
    Warning(String),
    /// The server writes no WAL for the documents: `wal_level` is `minimal`, and segments are flushed as a whole.
    WalFree,
    /// The load resumes where earlier runs stopped.
    Resumed {
        /// The load's number.
        load_id: i64,
        /// Documents already committed.
        documents: u64,
    },
    /// The load begins to read its sources: it has connected, and has checked what it can without a document. It may come
    /// more than once.
    Reading,
    /// The load begins.
    Started {
        /// The load's number.
        load_id: i64,
        /// Connections that write.
        lanes: u16,
    },
    /// No document has the keys of some rows, which are deleted now.
    Missing {
        /// How many rows.
        rows: u64,
        /// Rows of the table.
        of: u64,
    },
    /// Nothing was committed for a while, although there is something to commit.
    Standstill {
        /// How long.
        seconds: u64,
        /// Why.
        reason: Standstill,
    },
    /// The server crashed before it flushed batches that it had committed.
    Lost {
        /// The lane, which writes them again.
        lane: u16,
        /// How many.
        batches: usize,
    },
    /// A load in the log layout continues in another run after an error that may pass, because it keeps nothing to send
    /// again.
    Again {
        /// Runs in a row that made no progress.
        attempt: u32,
        /// Wait before the next one.
        after: Duration,
        /// The error.
        error: String,
    },
    /// A batch is sent again after an error that may pass.
    Retry {
        /// The lane that met the error.
        lane: u16,
        /// Tries in a row that failed.
        attempt: u32,
        /// Wait before the next try.
        after: Duration,
        /// The error.
        error: String,
    },
}

/// Receives events; called from the load's tasks, so it must not block for long.
pub trait Observer: Send + Sync {
    /// Called for each event.
    fn event(&self, event: Event);
}

impl dyn Observer + '_ {
    pub(crate) fn warn(&self, warnings: impl IntoIterator<Item = String>) {
        warnings.into_iter().for_each(|warning| self.event(Event::Warning(warning)));
    }
}

/// An observer that ignores every event.
#[derive(Debug, Clone, Copy)]
pub struct Silent;

impl Observer for Silent {
    fn event(&self, _: Event) {}
}

/// Counts of this run, updated while it runs.
#[derive(Debug, Default)]
pub struct Tally {
    documents: AtomicU64,
    bytes: AtomicU64,
    rejected: AtomicU64,
    reject_bytes: AtomicU64,
    refused: AtomicU64,
    refused_bytes: AtomicU64,
    /// Uncompressed bytes that were decoded, and bytes of the documents found in them.
    decoded: AtomicU64,
    handed_over: AtomicU64,
    input_read: AtomicU64,
    /// Bytes of all sources as they are on disk; zero when unknown.
    input_total: AtomicU64,
    /// Numbers of sources that are no text that became null, because JSON does not have them.
    not_finite: AtomicU64,
    /// Rows that were compared with the keys of the sources, and those that were deleted because no document has them.
    compared: AtomicU64,
    deleted: AtomicU64,
    /// The counts of all loads of a service, for one of them.
    whole: Option<Arc<Tally>>,
}

impl Tally {
    /// The counts of one load, which are added to those of all loads of its service.
    pub(crate) fn part_of(whole: &Arc<Self>) -> Self {
        Self { whole: Some(Arc::clone(whole)), ..Self::default() }
    }

    /// Sets all counts to zero.
    pub fn clear(&self) {
        let Self {
            documents,
            bytes,
            rejected,
            reject_bytes,
            refused,
            refused_bytes,
            decoded,
            handed_over,
            input_read,
            input_total,
            not_finite,
            compared,
            deleted,
            whole: _,
        } = self;
        let input = [decoded, handed_over, input_read, input_total, not_finite, compared, deleted];
        let counts = [documents, bytes, rejected, reject_bytes, refused, refused_bytes];
        for count in counts.into_iter().chain(input) {
            count.store(0, Relaxed);
        }
    }

    pub(crate) fn expect_input(&self, bytes: Option<u64>) {
        self.input_total.store(bytes.unwrap_or(0), Relaxed);
    }

    pub(crate) fn input_read(&self, bytes: u64) {
        self.input_read.store(bytes, Relaxed);
    }

    pub(crate) fn made_null(&self, numbers: u64) {
        self.not_finite.store(numbers, Relaxed);
    }

    /// How many numbers became null in all that this run has read, for the receipt. Every run of a load reads its files
    /// from their beginning, so the last one counts all but those of objects that it need not read again.
    pub(crate) fn not_finite(&self) -> Option<TransformCounts> {
        let numbers = self.not_finite.load(Relaxed);
        let documents = [("null".to_owned(), numbers)].into();
        (numbers > 0).then(|| TransformCounts { name: "numbers that are not finite".to_owned(), documents })
    }

    pub(crate) fn decoded(&self, bytes: u64, document_bytes: u64) {
        if let Some(whole) = &self.whole {
            whole.decoded(bytes, document_bytes);
        }
        self.decoded.fetch_add(bytes, Relaxed);
        self.handed_over.fetch_add(document_bytes, Relaxed);
    }

    /// Bytes of the sources, as they are on disk, that are committed, and their total size if it is known. We do not
    /// know where in a compressed file a document is. So the bytes that are read but not committed are estimated from
    /// the share of decoded bytes that wait for their commit.
    pub fn input(&self) -> (u64, Option<u64>) {
        let total = self.input_total.load(Relaxed);
        let decoded = self.decoded.load(Relaxed);
        let waiting = self.handed_over.load(Relaxed).saturating_sub(self.bytes.load(Relaxed));
        let committed = u128::from(decoded.saturating_sub(waiting));
        let read = u128::from(self.input_read.load(Relaxed));
        let done = (read * committed).checked_div(u128::from(decoded)).unwrap_or(0);
        (u64::try_from(done).unwrap_or(u64::MAX), (total > 0).then_some(total))
    }

    pub(crate) fn committed(&self, counters: Counters) {
        if let Some(whole) = &self.whole {
            whole.committed(counters);
        }
        self.documents.fetch_add(counters.read, Relaxed);
        self.bytes.fetch_add(counters.bytes_read, Relaxed);
    }

    pub(crate) fn rejected(&self, documents: u64, bytes: u64) {
        if let Some(whole) = &self.whole {
            whole.rejected(documents, bytes);
        }
        self.rejected.fetch_add(documents, Relaxed);
        self.reject_bytes.fetch_add(bytes, Relaxed);
    }

    /// Counts documents that the server refused. Their rejects are committed.
    pub(crate) fn refused(&self, documents: u64, bytes: u64) {
        self.rejected(documents, bytes);
        self.refused.fetch_add(documents, Relaxed);
        self.refused_bytes.fetch_add(bytes, Relaxed);
    }

    /// Documents that the server refused in this run, and their bytes.
    pub(crate) fn refusals(&self) -> (u64, u64) {
        (self.refused.load(Relaxed), self.refused_bytes.load(Relaxed))
    }

    pub(crate) fn compared(&self, rows: u64) {
        self.compared.fetch_add(rows, Relaxed);
    }

    pub(crate) fn deleted(&self, rows: u64) {
        self.deleted.fetch_add(rows, Relaxed);
    }

    /// Rows that this run has deleted because no document has their keys.
    pub fn deleted_missing(&self) -> u64 {
        self.deleted.load(Relaxed)
    }

    /// Grows as long as the run gets on.
    pub(crate) fn progress(&self) -> u64 {
        self.documents() + self.compared.load(Relaxed) + self.deleted_missing()
    }

    /// Documents committed by this run.
    pub fn documents(&self) -> u64 {
        self.documents.load(Relaxed)
    }

    /// Bytes of those documents.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Documents rejected by this run so far, committed or on the way.
    pub fn rejects(&self) -> u64 {
        self.rejected.load(Relaxed)
    }

    /// Bytes kept of those.
    pub fn reject_bytes(&self) -> u64 {
        self.reject_bytes.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uncommitted_input_does_not_count_as_done() {
        let tally = Tally::default();
        assert_eq!(tally.input(), (0, None));
        tally.expect_input(Some(100));
        tally.input_read(50);
        assert_eq!(tally.input(), (0, Some(100)), "read, but not decoded");
        // Compressed to a tenth; of 500 bytes 100 were skipped, 380 are documents, 20 line ends.
        tally.decoded(500, 380);
        assert_eq!(tally.input(), (12, Some(100)));
        tally.committed(Counters { bytes_read: 380, ..Counters::default() });
        assert_eq!(tally.input(), (50, Some(100)));
    }
}
