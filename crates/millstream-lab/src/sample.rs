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
    /// Which subject of the round it was, from 1.
    pub turn: u32,
    /// Name of the subject.
    pub subject: String,
    /// Name of the phase.
    pub phase: String,
    /// What its commits promised.
    #[serde(default, skip_serializing_if = "Durability::is_default")]
    pub durability: Durability,
    /// Milliseconds of the round trip to the server where it was reached through a proxy that delays what it passes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_ms: Option<u32>,
    /// Documents given.
    pub rows: u64,
    /// Rows found, where they are not as many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored: Option<u64>,
    /// What was measured.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// Numbers, or why there are none. A subject that is wrong is never fast.
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
    /// WAL that the whole server wrote meanwhile, in bytes; `null` where it is not PostgreSQL.
    pub wal_bytes: Option<u64>,
    /// Bytes of full-page images in it, where they were asked for and the server could tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_image_bytes: Option<u64>,
    /// Seconds that a checkpoint took right after the phase, where it belongs to the phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_seconds: Option<f64>,
    /// How often the server had vacuumed the table by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autovacuums: Option<u64>,
    /// The table afterwards; its fields are absent where it is not PostgreSQL's.
    #[serde(flatten)]
    pub size: Option<TableSize>,
}

/// What a subject took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// From start to end. Of a process: from its start to its exit.
    pub wall_seconds: f64,
    /// Until the first row of an answer was there, where that is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_seconds: Option<f64>,
    /// Processor time of the client, user and system, in seconds; `null` where the system does not tell.
    pub client_cpu_seconds: Option<f64>,
    /// Largest resident memory of the client's process with its children, in bytes; `null` where it is not a process
    /// of its own.
    pub client_peak_bytes: Option<u64>,
    /// The account that the subject printed.
    pub receipt: Option<serde_json::Value>,
}

/// Bytes of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableSize {
    /// Heap, with its maps of free space and visibility.
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

    /// Rows per second of the whole subject, with the checkpoint where that belongs to it, if the sample is good.
    pub fn rows_per_second(&self) -> Option<f64> {
        let measures = self.measures()?;
        Some(number(self.rows) / (measures.timing.wall_seconds + measures.checkpoint_seconds.unwrap_or(0.0)))
    }
}

impl Timing {
    /// Of what is not a process of its own.
    pub(crate) fn of(wall_seconds: f64) -> Self {
        Self { wall_seconds, first_seconds: None, client_cpu_seconds: None, client_peak_bytes: None, receipt: None }
    }

    /// Of two processes, one after the other. Each has an account of its own, which this has not.
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
    /// All of it.
    pub fn total_bytes(self) -> u64 {
        self.heap_bytes + self.index_bytes + self.toast_bytes
    }
}

/// A count as a factor. Counts here are far below 2^53.
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
