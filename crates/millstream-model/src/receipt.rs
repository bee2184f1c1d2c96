//! The account of a load: every document read is in exactly one column of it.

use serde::{Deserialize, Serialize};

/// Counts of documents by outcome. They commit with the watermarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Documents read.
    pub read: u64,
    /// New keys.
    pub inserted: u64,
    /// Existing keys whose document was written.
    pub updated: u64,
    /// Documents equal to the stored one, not written.
    pub unchanged: u64,
    /// Folded into a later document of the same key in the same batch.
    pub superseded: u64,
    /// Older than the stored version (`newest`).
    pub stale: u64,
    /// Existing keys left as they were (`keep`).
    pub kept: u64,
    /// Keys removed by a tombstone.
    pub deleted: u64,
    /// Documents appended (log layout).
    pub appended: u64,
    /// Documents that could not be stored.
    pub rejected: u64,
    /// Bytes of the uncompressed sources that hold these documents.
    pub bytes_read: u64,
}

/// Names of the fields of [`Counters`] in the order of [`Counters::to_array`]; also the names of
/// the columns that store them.
pub const COUNTERS: &[&str] = &[
    "read",
    "inserted",
    "updated",
    "unchanged",
    "superseded",
    "stale",
    "kept",
    "deleted",
    "appended",
    "rejected",
    "bytes_read",
];

impl Counters {
    /// The counts in the order of [`COUNTERS`].
    pub fn to_array(self) -> [u64; 11] {
        let Self {
            read,
            inserted,
            updated,
            unchanged,
            superseded,
            stale,
            kept,
            deleted,
            appended,
            rejected,
            bytes_read,
        } = self;
        [read, inserted, updated, unchanged, superseded, stale, kept, deleted, appended, rejected, bytes_read]
    }

    /// The counts from the order of [`COUNTERS`].
    pub fn from_array(values: [u64; 11]) -> Self {
        let [read, inserted, updated, unchanged, superseded, stale, kept, deleted, appended, rejected, bytes_read] =
            values;
        Self { read, inserted, updated, unchanged, superseded, stale, kept, deleted, appended, rejected, bytes_read }
    }

    /// Documents accounted for; equal to `read` in every committed state.
    pub fn accounted(self) -> u64 {
        let [_read, outcomes @ .., _bytes_read] = self.to_array();
        outcomes.iter().sum()
    }
}

impl std::ops::AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        let mut sum = self.to_array();
        for (a, b) in sum.iter_mut().zip(other.to_array()) {
            *a += b;
        }
        *self = Self::from_array(sum);
    }
}

/// What `wal_bytes` counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WalScope {
    /// The load's own backends (PostgreSQL 18 and later).
    Backend,
    /// Everything the server wrote meanwhile.
    Server,
    /// Not known, for instance because the role lacks the right to read it.
    Unknown,
}

/// What became of the documents in a transform.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransformCounts {
    /// The transform.
    pub name: String,
    /// Documents by outcome, for instance `{"enriched": 12, "missing": 3, "unusable": 0}`.
    pub documents: std::collections::BTreeMap<String, u64>,
}

/// The account of a load, as printed and as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// The collection, as `SCHEMA.NAME`.
    pub collection: String,
    /// The load's number.
    pub load_id: i64,
    /// Counts over all runs of the load.
    #[serde(flatten)]
    pub counters: Counters,
    /// Lines of the sources that rejects of several lines hold. Left out if there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rejected_lines: u64,
    /// Rows that were deleted because no document has their key. `deleted` counts them too, although they are no documents.
    /// Left out if there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub deleted_missing: u64,
    /// Files that were left out because an earlier load has read them. Left out if there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skipped_files: u64,
    /// WAL written during this run, in bytes.
    pub wal_bytes: u64,
    /// What `wal_bytes` counts.
    pub wal_scope: WalScope,
    /// Wall time of this run.
    pub seconds: f64,
    /// Documents this run accounted for, per second.
    pub rows_per_second: f64,
    /// Lanes of this run.
    pub lanes: u16,
    /// `durable`, `async` or `unlogged`.
    pub durability: String,
    /// `table` or `log`.
    pub layout: String,
    /// Batches by the writer that wrote them, for instance `{"copy": 12, "staged": 3}`.
    pub writers: std::collections::BTreeMap<String, u64>,
    /// The transforms that changed documents before they were decoded, with what became of how many documents. Left out if
    /// there were none.
    #[serde(rename = "stages", default, skip_serializing_if = "Vec::is_empty")]
    pub transforms: Vec<TransformCounts>,
    /// Batches sent again after a transient error.
    pub retries: u64,
    /// Deadlocks among those errors.
    pub deadlocks: u64,
    /// Documents that earlier runs of the load had committed; `null` if the load needed one run only.
    pub resumed_from: Option<u64>,
    /// Whether every source was read to its end and committed.
    pub finished: bool,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn array_and_names_agree_with_serde() {
        let mut values = [0u64; 11];
        for (n, v) in values.iter_mut().enumerate() {
            *v = n as u64 + 1;
        }
        let counters = Counters::from_array(values);
        assert_eq!(counters.to_array(), values);
        assert_eq!(COUNTERS.len(), values.len());
        assert_eq!(counters.accounted(), (2..=10).sum::<u64>());
        let mut doubled = counters;
        doubled += counters;
        assert_eq!(doubled.read, 2);
    }

    #[test]
    fn a_receipt_that_was_kept_has_its_transforms_as_stages() {
        let documents = [("enriched".to_owned(), 2)].into();
        let receipt = Receipt {
            collection: "public.a".to_owned(),
            load_id: 1,
            counters: Counters::default(),
            rejected_lines: 0,
            deleted_missing: 0,
            skipped_files: 0,
            wal_bytes: 0,
            wal_scope: WalScope::Unknown,
            seconds: 0.5,
            rows_per_second: 4.0,
            lanes: 1,
            durability: "durable".to_owned(),
            layout: "table".to_owned(),
            writers: std::collections::BTreeMap::new(),
            transforms: vec![TransformCounts { name: "ip from geo as geo".to_owned(), documents }],
            retries: 0,
            deadlocks: 0,
            resumed_from: None,
            finished: true,
        };
        let json = serde_json::to_value(&receipt).unwrap();
        assert_eq!(json["stages"][0]["documents"]["enriched"], 2);
        assert_eq!(serde_json::from_value::<Receipt>(json).unwrap(), receipt);
    }
}
