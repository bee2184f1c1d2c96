//! The path of every document: decode, slots, lanes.

use crate::batch::{Hold, Part, Splitter, attach};
use crate::error::Error;
use crate::observe::Tally;
use crate::reject_limits::RejectLimits;
use millstream_document::chunk::Chunk;
use millstream_failpoint as failpoint;
use tokio::sync::mpsc::Sender;

/// Why decoding ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The intake is closed, and the lanes have everything.
    Drained,
    /// Too many documents were rejected.
    Rejects,
    /// A document is bad, and none may be rejected. The lanes have nothing of its chunk.
    Rejected(Error),
    /// A lane has ended. Its error says why.
    LaneGone,
}

/// Takes chunks in order until there is no next one. A lane may be slow; its queue is short, so decoding waits for it.
pub(crate) fn flow(
    mut next: impl FnMut() -> Option<(Chunk, Hold)>,
    mut splitter: Splitter,
    lanes: &[Sender<Part>],
    rejects: RejectLimits,
    tally: &Tally,
) -> Ended {
    while let Some((chunk, hold)) = next() {
        // Decode: each document becomes a row with its key, or a reject.
        // Slots: the hash of its key says which lane's part of the chunk it joins.
        let mut parts = splitter.split(&chunk);
        if rejects.none()
            && let Some(first) = parts.iter().flat_map(|part| &part.rejects).min_by_key(|reject| reject.position)
        {
            return Ended::Rejected(Error::rejected(first));
        }
        tally.decoded(chunk.given_bytes(), parts.iter().map(|p| p.bytes_read).sum());
        drop(chunk);
        let rejected = parts.iter().flat_map(|p| &p.rejects);
        tally.rejected(rejected.clone().count() as u64, rejected.map(|r| r.bytes.len() as u64).sum());
        // The memory of the chunk is free again when all of its parts are committed.
        attach(&mut parts, hold);
        failpoint::hit_on_thread("chunk-decoded");
        // Lanes: each gets its part of every chunk, also an empty one, so that its position advances.
        for (lane, part) in lanes.iter().zip(parts) {
            if lane.blocking_send(part).is_err() {
                return Ended::LaneGone;
            }
        }
        if rejects.reached(tally) {
            return Ended::Rejects;
        }
    }
    Ended::Drained
}
