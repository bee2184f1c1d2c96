//! Experiments: run subjects as processes, verify their results, record every sample, report.
//!
//! The lab does not use the engine. It measures the binary that users run, as it measures any other subject. It
//! compares it with what PostgreSQL itself can do, in one run, on the same server and data. `lab/README.md` describes
//! its method and its biases.

pub mod core;
pub mod drive;
mod error;
pub mod guest;
mod ingest;
pub mod limits;
#[cfg(test)]
mod measured;
pub mod pgbench;

pub use crate::core::{
    Better, Build, DataSet, Difference, Disk, Environment, FILE_NAME, FORMAT, Factors, IngestConditions, KEYS, Keys,
    Latency, METRICS, Machine, Measures, Metric, Outcome, Record, Run, Series, Server, Spread, difference, recorder,
};
pub use error::Error;
pub use ingest::{
    ALL, Bench, DOUBTS, Doubt, Durability, EXPERIMENTS, Expected, Experiment, Finished, Ground, Line, Phase, Plan,
    Progress, Reached, Report, SCALES, SUBJECTS, Scale, Section, Stream, Subject, Target, doubts,
};
