//! How much of a lane's queue goes into one commit.

use crate::batch::Part;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Limits of one commit. The part that reaches one of them is its last.
pub(super) struct PortionLimits {
    /// Documents.
    pub(super) rows_max: usize,
    /// Bytes of documents.
    pub(super) bytes_max: usize,
    /// Rejected documents.
    pub(super) rejects_max: usize,
    /// Bytes of memory, as `held_by` counts them.
    pub(super) held_bytes_max: usize,
    /// How many bytes of memory a part keeps.
    pub(super) held_by: fn(&Part) -> usize,
}

/// The parts of one commit, counted while they come.
pub(super) struct Portion {
    limits: PortionLimits,
    /// When it is committed even if it is not full.
    deadline: Option<Instant>,
    rows: usize,
    bytes: u64,
    rejects: usize,
    held_bytes: usize,
}

impl Portion {
    /// A portion that begins with parts that have come already.
    pub(super) fn new(limits: PortionLimits, deadline: Option<Instant>, parts: &[Part]) -> Self {
        let mut portion = Self { limits, deadline, rows: 0, bytes: 0, rejects: 0, held_bytes: 0 };
        parts.iter().for_each(|part| portion.count(part));
        portion
    }

    /// Waits for its next part. `None` if it is full, if its time is over, or if no more parts come.
    pub(super) async fn next(&mut self, queue: &mut mpsc::Receiver<Part>) -> Option<Part> {
        if self.is_full() {
            return None;
        }
        let part = match self.deadline {
            Some(deadline) => tokio::time::timeout_at(deadline, queue.recv()).await.ok()??,
            None => queue.recv().await?,
        };
        self.count(&part);
        Some(part)
    }

    fn count(&mut self, part: &Part) {
        self.rows += part.documents();
        self.bytes += part.bytes_read;
        self.rejects += part.rejects.len();
        self.held_bytes += (self.limits.held_by)(part);
    }

    fn is_full(&self) -> bool {
        let limits = &self.limits;
        self.rows >= limits.rows_max
            || self.bytes >= limits.bytes_max as u64
            || self.rejects >= limits.rejects_max
            || self.held_bytes >= limits.held_bytes_max
    }
}
