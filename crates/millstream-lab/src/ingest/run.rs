//! What a run that loads documents varies and measures, by its names in the record.

use crate::core::{Factors, Run};
use crate::ingest::durability::Durability;

const DATA_SET: &str = "data_set";
const PHASE: &str = "phase";
const DURABILITY: &str = "durability";
const ROUND_TRIP: &str = "round_trip_ms";

/// The factors of a run. The round trip to the server, in milliseconds, is one if a proxy delays it.
pub(crate) fn factors(data_set: &str, phase: &str, durability: Durability, round_trip_ms: Option<u32>) -> Factors {
    let fixed = [(DATA_SET, data_set), (PHASE, phase), (DURABILITY, durability.name())];
    let round_trip = round_trip_ms.map(|ms| (ROUND_TRIP.to_owned(), ms.to_string()));
    fixed.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter().chain(round_trip).collect()
}

/// For runs of the experiments that load documents. The arm is the subject, and the block is the round.
impl Run {
    /// Name of the data set.
    pub fn data_set(&self) -> &str {
        self.factor(DATA_SET).unwrap_or_default()
    }

    /// Name of the phase.
    pub fn phase(&self) -> &str {
        self.factor(PHASE).unwrap_or_default()
    }

    /// Durability of its commits.
    pub fn durability(&self) -> Durability {
        self.factor(DURABILITY).and_then(Durability::by_name).unwrap_or_default()
    }

    /// Round trip to the server in milliseconds, if a proxy delayed it.
    pub fn round_trip_ms(&self) -> Option<u32> {
        self.factor(ROUND_TRIP)?.parse().ok()
    }

    /// Seconds from start to end.
    pub fn wall_seconds(&self) -> Option<f64> {
        self.value("wall_seconds")
    }

    /// Seconds until the first row of an answer arrived, if that was timed.
    pub fn first_seconds(&self) -> Option<f64> {
        self.value("first_seconds")
    }

    /// Documents loaded.
    pub fn rows(&self) -> Option<f64> {
        self.value("rows")
    }

    /// Documents per second of the whole subject, with the checkpoint if it counts for the phase. `None` if the run
    /// failed.
    pub fn rows_per_second(&self) -> Option<f64> {
        Some(self.rows()? / (self.wall_seconds()? + self.value("checkpoint_seconds").unwrap_or(0.0)))
    }

    /// A metric per document.
    pub fn per_row(&self, metric: &str) -> Option<f64> {
        Some(self.value(metric)? / self.rows()?)
    }

    /// Bytes of the table with its indexes and TOAST, or of what another store has instead.
    pub fn stored_bytes(&self) -> Option<f64> {
        let table = ["heap_bytes", "index_bytes", "toast_bytes"].iter().map(|metric| self.value(metric)).sum();
        self.value("store_bytes").or(table)
    }

    /// The same per row of the table.
    pub fn stored_bytes_per_row(&self) -> Option<f64> {
        Some(self.stored_bytes()? / self.value("stored")?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Measures, Outcome};

    #[test]
    fn factors_and_numbers_are_found_by_their_names() {
        let mut measures = Measures::default();
        for (metric, value) in [("wall_seconds", 3.0), ("checkpoint_seconds", 1.0), ("rows", 8.0), ("stored", 4.0)] {
            measures.set(metric, Some(value));
        }
        let mut run = Run {
            experiment: "growth".to_owned(),
            arm: "millstream".to_owned(),
            factors: factors("random-150", "small, new", Durability::Async, Some(5)),
            block: 1,
            turn: 1,
            outcome: Outcome::Measured(measures.clone()),
        };
        assert_eq!((run.data_set(), run.phase(), run.durability()), ("random-150", "small, new", Durability::Async));
        assert_eq!((run.round_trip_ms(), run.rows_per_second()), (Some(5), Some(2.0)));
        assert_eq!((run.stored_bytes_per_row(), run.per_row("wal_bytes")), (None, None));
        for metric in ["heap_bytes", "index_bytes", "toast_bytes", "wal_bytes"] {
            measures.set(metric, Some(16.0));
        }
        run.outcome = Outcome::Measured(measures);
        assert_eq!((run.stored_bytes_per_row(), run.per_row("wal_bytes")), (Some(12.0), Some(2.0)));
        run.outcome = Outcome::Error("why".to_owned());
        assert_eq!((run.rows_per_second(), run.stored_bytes()), (None, None));
    }
}
