//! Experiments: run subjects as processes, verify their results, record every sample, report.
//!
//! The lab does not use the engine. It measures the binary that users run, as it measures any other subject. It
//! compares it with what PostgreSQL itself can do, in one run, on the same server and data. `lab/README.md` describes
//! its method and its biases.

mod bench;
mod build;
mod column;
mod data_set;
mod debris;
mod document;
mod doubt;
mod durability;
mod error;
mod experiment;
mod found;
mod goal;
mod libpq;
pub mod limits;
mod line;
mod machine;
#[cfg(test)]
mod measured;
mod network;
mod phase;
mod python;
mod record;
mod report;
mod sample;
mod sent;
mod server;
mod spread;
mod standing;
mod stream;
mod subject;
mod text;
mod tool;
mod wal;

pub use bench::{Bench, Ground};
pub use build::Build;
pub use data_set::{DataSet, KEYS, Keys};
pub use doubt::{DOUBTS, Doubt, doubts};
pub use durability::Durability;
pub use error::Error;
pub use experiment::{ALL, EXPERIMENTS, Experiment, Finished, Plan, Scale, Told};
pub use goal::{Reached, Target};
pub use line::Line;
pub use machine::{Disk, Machine};
pub use phase::Phase;
pub use record::{FILE_NAME, FORMAT, Record};
pub use report::{Report, Section};
pub use sample::{Measures, Outcome, Sample, TableSize, Timing};
pub use server::Server;
pub use spread::Spread;
pub use stream::{Expected, Stream};
pub use subject::{SUBJECTS, Subject};
