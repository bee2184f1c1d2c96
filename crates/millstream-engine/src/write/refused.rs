//! The documents of a batch that the server refused, and how they become rejects.

use crate::batch::{Batch, Group, kept_bytes};
use crate::error::Error;
use crate::limits::REFUSAL_BYTES_MAX;
use crate::merge::Written;
use millstream_model::{Fault, Reason};
use millstream_store::{Check, RejectedDocument};

/// What became of a refused batch.
#[derive(Debug, Default)]
pub(super) struct Refused {
    /// Counts of what is stored.
    pub(super) written: Written,
    /// What is not.
    pub(super) rejects: Vec<RejectedDocument>,
}

/// The reject for a document that the server refused by itself, not as a part of a group. `checks` are those of the table.
pub(super) fn reject(checks: &[Check], batch: &Batch, single: &Group, refusal: &Error) -> RejectedDocument {
    let check = refusal.broken_check().and_then(|name| checks.iter().find(|check| check.name == name));
    let (reason, mut detail) = match check {
        Some(check) => (Reason::BreaksCheck, check.to_string()),
        None => (Reason::RefusedByServer, refusal.to_string()),
    };
    detail.truncate(detail.floor_char_boundary(REFUSAL_BYTES_MAX));
    detail.shrink_to_fit();
    let (part, row) = batch.members(single).next().expect("it holds one document");
    let source = part.source_document(row);
    RejectedDocument {
        position: part.position(row),
        line: row.line,
        fault: Fault::new(reason, detail),
        whole_bytes: source.len() as u64,
        bytes: kept_bytes(source),
    }
}
