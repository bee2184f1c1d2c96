//! Values of goals: what of a run counts, by the name that a goal gives it.

use crate::core::{DataSet, Run, number};
use crate::limits::MEBIBYTE;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// What of a run counts. It has none if the run failed or did not measure it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Value {
    name: &'static str,
    pub(super) of: fn(&Run, &DataSet) -> Option<f64>,
}

/// Every value.
const VALUES: &[Value] = &[
    Value { name: "rate", of: |run, _| run.rows_per_second() },
    Value { name: "seconds", of: |run, _| run.wall_seconds() },
    Value { name: "first-milliseconds", of: |run, _| Some(run.first_seconds()? * 1e3) },
    Value { name: "total-bytes", of: |run, _| run.stored_bytes() },
    Value { name: "wal-per-byte", of: |run, set| Some(run.value("wal_bytes")? / input_bytes(run, set)?) },
    Value {
        name: "page-images-per-byte",
        of: |run, set| Some(run.value("page_image_bytes")? / input_bytes(run, set)?),
    },
    Value { name: "cpu-per-million", of: |run, _| Some(run.per_row("client_cpu_seconds")? * 1e6) },
    Value { name: "peak-mebibytes", of: |run, _| Some(run.value("client_peak_bytes")? / MEBIBYTE) },
];

impl Default for Value {
    /// Documents per second.
    fn default() -> Self {
        VALUES[0]
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let names = || VALUES.iter().map(|one| one.name).collect::<Vec<_>>().join(", ");
        let found = VALUES.iter().find(|one| one.name == name);
        found.copied().ok_or_else(|| D::Error::custom(format!("there is no value {name}, only {}", names())))
    }
}

fn input_bytes(run: &Run, set: &DataSet) -> Option<f64> {
    Some(run.rows()? * number(set.document_bytes as u64))
}
