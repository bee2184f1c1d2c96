//! Tables or indexes that are each too small for a finding, judged as one.

use super::number::{number, percent};
use tokio_postgres::Row;

/// What is smaller than the least size of a check by more than this factor does not count among others either.
pub(super) const SMALLER_MAX: f64 = 100.0;

/// Most of them that are looked at, the largest first.
pub(super) const LOOKED_AT_MAX: i64 = 2_000;

/// Names that are shown.
pub(super) const NAMES_MAX: usize = 3;

/// What several of them take, in bytes.
pub(super) struct Together {
    /// The worst first.
    names: Vec<String>,
    pub(super) size: u64,
    pub(super) free: u64,
}

impl Together {
    /// Sums rows with the columns `name`, `bytes`, and `needed`; those whose need is not known do not count.
    pub(super) fn of(rows: &[Row]) -> Self {
        let mut together = Self { names: Vec::new(), size: 0, free: 0 };
        for row in rows {
            let Some(needed) = row.get::<_, Option<i64>>("needed") else { continue };
            let size = number(row, "bytes");
            together.names.push(row.get("name"));
            together.size += size;
            together.free += size.saturating_sub(u64::try_from(needed).unwrap_or(0));
        }
        together
    }

    /// Free space in percent.
    pub(super) fn share(&self) -> f64 {
        percent(self.free, self.size)
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.names.len()
    }

    /// The worst of them.
    pub(super) fn worst(&self) -> &[String] {
        &self.names[..self.names.len().min(NAMES_MAX)]
    }
}
