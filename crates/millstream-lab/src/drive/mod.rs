//! Transactions at a rate: a workload of weighted scripts, sent by pgbench whatever the server does.
//!
//! The times of a schedule are absolute and random. The latency of a transaction counts from when the schedule wanted it
//! to begin, so that a slow server cannot hide the transactions that it keeps waiting (Gil Tene's "coordinated omission";
//! Schroeder, Wierman and Harchol-Balter, "Open versus closed: a cautionary tale", NSDI 2006).

mod file;
mod goal;
mod result;
mod run;
mod search;
mod workload;

pub use goal::{LatencyGoal, Objective};
pub use result::{Counts, RunResult, ScriptResult};
pub use run::Drive;
pub use search::{Search, SearchStep};
pub use workload::{Fault, Script, Workload};
