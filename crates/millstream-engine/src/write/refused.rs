//! The documents of a batch that the server refused, and how they become rejects.

use crate::batch::{Batch, Group, kept_bytes};
use crate::error::Error;
use crate::limits::REFUSAL_BYTES_MAX;
use crate::merge::Written;
use crate::plan::LoadPlan;
use crate::unfit;
use millstream_model::{Fault, Reason};
use millstream_store::RejectedDocument;

/// What became of a refused batch.
#[derive(Debug, Default)]
pub(super) struct Refused {
    /// Counts of what is stored.
    pub(super) written: Written,
    /// What is not.
    pub(super) rejects: Vec<RejectedDocument>,
}

/// The reject for a document that the server refused by itself, not as a part of a group.
pub(super) fn reject(plan: &LoadPlan, batch: &Batch, single: &Group, refusal: &Error) -> RejectedDocument {
    let check = refusal.broken_check().and_then(|name| plan.checks.iter().find(|check| check.name == name));
    let unfit = refusal.unfit_column().and_then(|name| plan.columns.iter().find(|column| column.name == name));
    let (reason, mut detail) = match (check, unfit) {
        (Some(check), _) => (Reason::BreaksCheck, check.to_string()),
        (None, Some(column)) => (Reason::ColumnType, unfit::detail(column)),
        (None, None) => (Reason::RefusedByServer, refusal.to_string()),
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
