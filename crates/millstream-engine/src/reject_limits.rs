//! When a load has rejected too much.

use crate::observe::Tally;
use crate::request::LoadRequest;
use millstream_store::load::Progress;

/// Limits at which an engine takes no more documents. If no document may be rejected, the first bad one ends the load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RejectLimits {
    /// Rejected documents, those of earlier runs included.
    pub(crate) documents_max: u64,
    /// Bytes kept of them.
    pub(crate) bytes_max: u64,
    /// What earlier runs of the load rejected.
    pub(crate) documents_before: u64,
    pub(crate) bytes_before: u64,
}

impl RejectLimits {
    /// Those of a request, whose earlier runs have come so far: of a distributed table, in each shard.
    pub(crate) fn new<'p>(request: &LoadRequest, before: impl IntoIterator<Item = &'p Progress>) -> Self {
        let (documents_max, bytes_max) = (request.rejects_max, request.reject_bytes_max.max(1));
        let none = Self { documents_max, bytes_max, documents_before: 0, bytes_before: 0 };
        before.into_iter().fold(none, |sum, before| Self {
            documents_before: sum.documents_before + before.counters.rejected,
            bytes_before: sum.bytes_before + before.reject_bytes,
            ..sum
        })
    }

    /// Whether the first bad document ends the load. Nothing of its batch is then committed.
    pub(crate) fn none(&self) -> bool {
        self.documents_max == 0
    }

    pub(crate) fn reached(&self, tally: &Tally) -> bool {
        !self.none() && self.documents_before + tally.rejects() >= self.documents_max
            || self.bytes_before + tally.reject_bytes() >= self.bytes_max
    }

    /// Documents and bytes that may still be rejected.
    pub(crate) fn left(&self, tally: &Tally) -> (u64, u64) {
        (
            self.documents_max.saturating_sub(self.documents_before + tally.rejects()),
            self.bytes_max.saturating_sub(self.bytes_before + tally.reject_bytes()),
        )
    }

    /// Whether the server's refusals alone reach a limit. They are slow to find, so a lane then leaves the rest to the
    /// next run.
    pub(crate) fn refused_too_many(&self, tally: &Tally) -> bool {
        let (documents, bytes) = tally.refusals();
        documents > 0
            && (self.documents_before + documents >= self.documents_max || self.bytes_before + bytes >= self.bytes_max)
    }
}
