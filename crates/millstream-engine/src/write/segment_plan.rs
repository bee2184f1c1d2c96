//! How segments of a collection are created, and how large they are.

use super::portion::PortionLimits;
use crate::batch::Part;
use crate::collection::{compression, key_columns};
use crate::limits::{HELD_SEGMENT_BATCHES, SEGMENT_REJECTS_MAX, SEGMENT_SPANS_MAX};
use crate::plan::LoadPlan;
use millstream_pg::quote_identifier;
use millstream_store::segments;

/// How segments of a collection are created, and how large they are.
pub(crate) struct SegmentPlan {
    key_list: String,
    columns: String,
    /// Whether documents stay in memory until their segment is committed.
    pub(super) holds: bool,
    /// How much goes into one segment.
    pub(super) limits: PortionLimits,
}

impl SegmentPlan {
    /// `lz4` says whether the server can compress with it.
    pub(crate) fn new(plan: &LoadPlan, lanes: u16, lz4: bool) -> Self {
        let names: Vec<String> = plan.key.columns.iter().map(|c| quote_identifier(&c.name)).collect();
        // A stream cannot be read again, so its documents share the memory.
        let held = (!plan.request.is_repeatable()).then(|| plan.batch_memory(lanes));
        let bytes_max = held.unwrap_or(usize::MAX).min(plan.request.segment_bytes);
        Self {
            key_list: names.join(", "),
            columns: format!("{}, doc text{}", key_columns(&plan.key).join(", "), compression(lz4)),
            holds: held.is_some(),
            limits: PortionLimits {
                rows_max: plan.request.segment_rows_max,
                bytes_max,
                // Then a lane commits its position, however few documents it has got.
                span_bytes_max: bytes_max.saturating_mul(SEGMENT_SPANS_MAX * usize::from(lanes)),
                rejects_max: SEGMENT_REJECTS_MAX,
                held_bytes_max: held.map_or(usize::MAX, |bytes| HELD_SEGMENT_BATCHES * bytes),
                held_by: Part::budget_bytes,
            },
        }
    }

    /// The statement that creates a segment. Autovacuum is off, because a segment is written once, frozen, and dropped.
    /// Documents stay text, because parsing them would be most of the server's work: the decoder has checked that jsonb
    /// accepts them, and compaction parses only the newest of each key. Roles that may read the collection's table may
    /// read its segments.
    pub(super) fn create(&self, plan: &LoadPlan, segment_id: i64, readers: Option<&str>) -> String {
        let create = plan.request.durability.create_table();
        let table = segments::table(plan.schema(), segment_id);
        let granted = readers.map(|readers| format!("; grant select on {table} to {readers}"));
        format!(
            "{create} {table} ({}) with (autovacuum_enabled = off, toast.autovacuum_enabled = off){}",
            self.columns,
            granted.unwrap_or_default()
        )
    }

    /// The statement that fills a segment.
    pub(super) fn copy(&self, plan: &LoadPlan, segment_id: i64) -> String {
        let table = segments::table(plan.schema(), segment_id);
        format!("copy {table} ({}, doc) from stdin (format binary, freeze)", self.key_list)
    }
}
