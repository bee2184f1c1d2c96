//! Tables or indexes that are each too small for a finding, judged as one.

use super::number::{number, percent};
use crate::check::Task;
use crate::server::Database;
use millstream_model::quantity::bytes;
use millstream_model::{Finding, Level};
use millstream_pg::Error;
use tokio_postgres::types::ToSql;

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
    size: u64,
    pub(super) free: u64,
}

/// Where the free space comes from if it was not measured.
pub(super) const ESTIMATE: &str = "estimate from pg_stats";

impl Together {
    /// Those that are smaller than `least` bytes, by a statement whose rows have the columns `name`, `bytes`, and `needed`;
    /// those whose need is not known do not count.
    pub(super) async fn read(database: &Database, sql: &str, least: f64, percent: f64) -> Result<Self, Error> {
        let smaller = least / SMALLER_MAX;
        let parameters: [&(dyn ToSql + Sync); 5] = [&smaller, &percent, &LOOKED_AT_MAX, &Some(least), &LOOKED_AT_MAX];
        let mut together = Self { names: Vec::new(), size: 0, free: 0 };
        for row in &database.session.client.query(sql, &parameters).await? {
            let Some(needed) = row.get::<_, Option<i64>>("needed") else { continue };
            let size = number(row, "bytes");
            together.names.push(row.get("name"));
            together.size += size;
            together.free += size.saturating_sub(u64::try_from(needed).unwrap_or(0));
        }
        Ok(together)
    }

    /// Whether there are any, which take at least so many bytes.
    pub(super) fn is_much(&self, least: f64) -> bool {
        !self.names.is_empty() && self.size as f64 >= least
    }

    /// What a rebuild of these things, or a rewrite, would give back.
    pub(super) fn finding(&self, task: &Task, database: &Database, rebuild: &str, things: &str) -> Finding {
        let (count, share) = (self.names.len(), percent(self.free, self.size));
        let sentence = format!("a {rebuild} would make {count} small {things} together at least {share:.0} % smaller");
        task.finding(Level::Info, database.name.clone(), sentence)
            .wastes(self.free)
            .with("size", bytes(self.size), "pg_class.relpages")
            .with(&format!("a {rebuild} gives back"), bytes(self.free), ESTIMATE)
            .with("the worst", self.worst().join(", "), ESTIMATE)
    }

    /// The worst of them.
    pub(super) fn worst(&self) -> &[String] {
        &self.names[..self.names.len().min(NAMES_MAX)]
    }
}
