//! A line of a report.

use crate::durability::Durability;
use crate::sample::number;
use crate::spread::Spread;
use serde::Serialize;

/// The results of one phase of one subject.
#[derive(Debug, Clone, Serialize)]
pub struct Line {
    /// Name of the subject.
    pub subject: String,
    /// Name of the phase.
    pub phase: String,
    /// What commits promised.
    pub durability: Durability,
    /// Milliseconds of the round trip through a proxy, where there was one.
    pub round_trip_ms: Option<u32>,
    /// Documents given.
    pub rows: u64,
    /// Good samples.
    pub samples: usize,
    /// By the wall clock of the whole subject.
    pub rows_per_second: Spread,
    /// Seconds until the first row of an answer was there, where that was asked.
    pub first_seconds: Option<Spread>,
    /// By the subject's own account.
    pub receipt_rows_per_second: Option<Spread>,
    /// The experiment's ratio, of two samples of the same round.
    pub ratio: Option<Spread>,
    /// Seconds of the client's processors per million documents.
    pub cpu_seconds_per_million: Option<Spread>,
    /// Largest resident memory of the client's process in bytes.
    pub peak_bytes: Option<Spread>,
    /// Bytes of WAL a document, where it is PostgreSQL.
    pub wal_bytes_per_row: Option<Spread>,
    /// The same a byte of the documents.
    pub wal_bytes_per_byte: Option<Spread>,
    /// Bytes of full-page images in the WAL a document, where they were asked for.
    pub page_image_bytes_per_row: Option<Spread>,
    /// Bytes of table, indexes and TOAST a row, where it is PostgreSQL.
    pub table_bytes_per_row: Option<Spread>,
    /// How often the server had vacuumed the table by itself.
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
