//! A line of a report.

use crate::core::{Spread, number};
use crate::ingest::durability::Durability;
use serde::Serialize;

/// The results of one phase of one subject.
#[derive(Debug, Clone, Serialize)]
pub struct Line {
    /// Name of the subject.
    pub subject: String,
    /// Name of the phase.
    pub phase: String,
    /// Durability of the commits.
    pub durability: Durability,
    /// Round trip through a proxy in milliseconds; `None` without a proxy.
    pub round_trip_ms: Option<u32>,
    /// Documents loaded.
    pub rows: u64,
    /// Good runs.
    pub samples: usize,
    /// Documents per second, by the wall clock of the whole subject.
    pub rows_per_second: Spread,
    /// Seconds until the first row of an answer arrived, if that was timed.
    pub first_seconds: Option<Spread>,
    /// Documents per second, by the subject's receipt.
    pub receipt_rows_per_second: Option<Spread>,
    /// The ratio that the experiment defines, of two runs of the same round.
    pub ratio: Option<Spread>,
    /// Seconds of the client's processors per million documents.
    pub cpu_seconds_per_million: Option<Spread>,
    /// Seconds of the server's processors per million documents, if they were measured.
    pub server_cpu_seconds_per_million: Option<Spread>,
    /// Largest resident memory of the client's process in bytes.
    pub peak_bytes: Option<Spread>,
    /// Bytes of WAL per document; `None` if the subject does not write to PostgreSQL.
    pub wal_bytes_per_row: Option<Spread>,
    /// Bytes of WAL per byte of the documents.
    pub wal_bytes_per_byte: Option<Spread>,
    /// Bytes of full-page images in the WAL per document, if they were measured.
    pub page_image_bytes_per_row: Option<Spread>,
    /// Bytes of table, indexes and TOAST per row; `None` in MongoDB, of data and indexes on disk.
    pub table_bytes_per_row: Option<Spread>,
    /// Number of autovacuums on the table so far.
    pub autovacuums: Option<Spread>,
    /// Seconds of the checkpoint that belongs to the phase.
    pub checkpoint_seconds: Option<Spread>,
}

impl Line {
    /// The time of the median rate.
    pub(crate) fn milliseconds(&self) -> f64 {
        number(self.rows) / self.rows_per_second.median * 1e3
    }
}
