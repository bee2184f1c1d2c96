//! Experiments: run arms as processes, verify their results, record every run, report.
//!
//! The lab does not use the engine. It measures the binary that users run, as it measures any other program. It
//! compares it with what PostgreSQL itself can do, in one run, on the same server and data. `docs/guides/lab.md` describes its
//! method.

pub mod core;
pub mod drive;
mod error;
pub mod experiments;
pub mod guest;
pub mod limits;
pub mod load;
#[cfg(test)]
mod measured;

pub use crate::core::{Better, Environment, Latency, Outcome, Run, Spread, recorder};
pub use error::Error;
