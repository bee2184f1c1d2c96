//! One measurement of one subject.

use crate::durability::Durability;
use serde::{Deserialize, Serialize};

/// What was measured of a subject in one phase of one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Name of the experiment.
    pub experiment: String,
    /// Name of the data set.
    pub data_set: String,
    /// From 1.
    pub round: u32,
    /// Position of the subject in the round, from 1.
    pub turn: u32,
    /// Name of the subject.
    pub subject: String,
    /// Name of the phase.
    pub phase: String,
    /// Durability of its commits.
    #[serde(default, skip_serializing_if = "Durability::is_default")]
    pub durability: Durability,
    /// Round trip to the server in milliseconds, if a proxy delayed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_ms: Option<u32>,
    /// Documents loaded.
    pub rows: u64,
    /// Rows of the table afterwards, if their number differs from `rows`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored: Option<u64>,
    /// What was measured.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// Numbers, or why there are none. A subject with a wrong result gets no number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The result was verified.
    Measured(Measures),
    /// It failed, or its result was wrong.
    Error(String),
}

/// The numbers of a sample.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measures {
    /// What the subject took.
    #[serde(flatten)]
    pub timing: Timing,
    /// Bytes of WAL that the whole server wrote meanwhile; `null` if the subject does not write to PostgreSQL.
    pub wal_bytes: Option<u64>,
    /// Bytes of full-page images in it, if they were requested and the server could report them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_image_bytes: Option<u64>,
    /// Seconds of the checkpoint right after the phase, if it counts for the phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_seconds: Option<f64>,
    /// Number of autovacuums on the table so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autovacuums: Option<u64>,
    /// The table afterwards; the fields are absent if it is not in PostgreSQL.
    #[serde(flatten)]
    pub size: Option<TableSize>,
}

/// What a subject took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// From start to end. For a process: from its start to its exit.
    pub wall_seconds: f64,
    /// Seconds until the first row of an answer arrived, if that is timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_seconds: Option<f64>,
    /// Processor time of the client, user and system, in seconds; `null` if the system does not report it.
    pub client_cpu_seconds: Option<f64>,
    /// Largest resident memory of the client's process with its children, in bytes; `null` if it is not a separate
    /// process.
    pub client_peak_bytes: Option<u64>,
    /// The receipt that the subject printed.
    pub receipt: Option<serde_json::Value>,
}

/// Bytes of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableSize {
    /// Heap, with its free space map and visibility map.
    pub heap_bytes: u64,
    /// Indexes.
    pub index_bytes: u64,
    /// TOAST with its index.
    pub toast_bytes: u64,
}

impl Sample {
    /// The numbers, if the sample is good.
    pub fn measures(&self) -> Option<&Measures> {
        match &self.outcome {
            Outcome::Measured(measures) => Some(measures),
            Outcome::Error(_) => None,
        }
    }

    /// Rows that the table held afterwards.
    pub(crate) fn stored(&self) -> u64 {
        self.stored.unwrap_or(self.rows)
    }

    /// Rows per second of the whole subject, with the checkpoint if it counts for the phase. `None` if the sample
    /// failed.
    pub fn rows_per_second(&self) -> Option<f64> {
        let measures = self.measures()?;
        Some(number(self.rows) / (measures.timing.wall_seconds + measures.checkpoint_seconds.unwrap_or(0.0)))
    }
}

impl Timing {
    /// The timing of something that is not a separate process.
    pub(crate) fn of(wall_seconds: f64) -> Self {
        Self { wall_seconds, first_seconds: None, client_cpu_seconds: None, client_peak_bytes: None, receipt: None }
    }

    /// The timing of two processes, one after the other. It has no receipt, because each of them has its own.
    pub(crate) fn then(&self, next: &Self) -> Self {
        let cpu = self.client_cpu_seconds.zip(next.client_cpu_seconds);
        Self {
            client_cpu_seconds: cpu.map(|(own, next)| own + next),
            client_peak_bytes: self.client_peak_bytes.max(next.client_peak_bytes),
            ..Self::of(self.wall_seconds + next.wall_seconds)
        }
    }

    /// A number of the receipt.
    pub fn receipt_number(&self, name: &str) -> Option<f64> {
        self.receipt.as_ref()?.get(name)?.as_f64()
    }
}

impl TableSize {
    /// Bytes of everything.
    pub fn total_bytes(self) -> u64 {
        self.heap_bytes + self.index_bytes + self.toast_bytes
    }
}

/// A count as a floating-point number. Counts here are far below 2^53.
#[expect(clippy::cast_precision_loss, reason = "counts of a benchmark are far below 2^53")]
pub(crate) fn number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_two_processes_are_added_and_the_larger_one_is_the_peak() {
        let timing = |wall, cpu, peak| Timing {
            client_cpu_seconds: cpu,
            client_peak_bytes: peak,
            receipt: Some(true.into()),
            ..Timing::of(wall)
        };
        let both = timing(1.5, Some(0.5), Some(9)).then(&timing(2.0, Some(0.25), Some(7)));
        assert_eq!(both, Timing { receipt: None, ..timing(3.5, Some(0.75), Some(9)) });
        let unknown = timing(1.5, Some(0.5), Some(9)).then(&timing(2.0, None, None));
        assert_eq!(unknown.client_cpu_seconds, None, "half of it would be a wrong number");
    }
}
