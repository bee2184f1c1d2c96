//! Experiments with the real pgbench: each is a file, and its arms take turns on a server of the lab.

mod analysis;
mod cluster;
mod compare;
mod course;
mod data;
mod experiment;
mod files;
mod log;
mod output;
mod program;
mod quiet;
mod record;
pub mod report;
mod steady;
mod words;

pub use analysis::{Analysis, Compared, Measured};
pub use compare::{Difference, compare};
pub use course::{AGAIN, Conditions, Ended, Request, Results, run};
pub use experiment::{
    Arm, Data, Equal, Experiment, MetricName, Number, Protocol, Setup, Split, Via, WarmUp, WarmUpWord,
};
pub use files::Source;
pub use record::Record;
