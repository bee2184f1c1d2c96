//! A workload: scripts of pgbench, each with its weight and its objective.

use super::goal::{LatencyGoal, Objective};

/// What to send to a server, and at which rates.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// What it asks, in one sentence.
    pub about: String,
    /// Sessions, which carry one transaction each at a time.
    pub connections: u32,
    /// Length of a run.
    pub seconds: u32,
    /// Transactions per second of all scripts: a run for each, one after the other.
    pub rates: Vec<f64>,
    /// A transaction that cannot begin within this time after its schedule is skipped.
    pub limit_ms: Option<f64>,
    /// What a search for the highest rate is to keep.
    pub search: Option<LatencyGoal>,
    /// Its scripts; at least one.
    pub scripts: Vec<Script>,
}

/// A script: one transaction.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// Its name.
    pub name: String,
    /// Its share of the transactions, compared with the other scripts.
    pub weight: u32,
    /// What is to be kept.
    pub objective: Option<Objective>,
    /// Its text, as pgbench reads it.
    pub sql: String,
}

impl Workload {
    /// The share of all transactions that belongs to scripts.
    pub(super) fn share(&self, belongs: impl Fn(&Script) -> bool) -> f64 {
        let sum = |scripts: &mut dyn Iterator<Item = &Script>| scripts.map(|one| f64::from(one.weight)).sum::<f64>();
        sum(&mut self.scripts.iter().filter(|one| belongs(one))) / sum(&mut self.scripts.iter())
    }
}

/// What is wrong with a workload file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// Line, from 1; `None` if the fault is that something is missing.
    pub line: Option<usize>,
    /// What is wrong, and if it is a word, which one is nearest.
    pub message: String,
}
