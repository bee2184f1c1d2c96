//! Experiments with the real pgbench: each is a file, and its arms take turns on a server of the lab.

mod analysis;
mod arm;
mod cluster;
mod command;
mod compare;
mod conditions;
mod course;
mod data;
mod experiment;
mod files;
mod log;
mod output;
mod program;
mod record;
pub mod report;
mod watch;

pub use analysis::{Analysis, Compared, LimitedRuns, Measured};
pub use arm::{Arm, Number, Protocol, Setup, Via};
pub use compare::{Difference, compare, surroundings};
pub use conditions::{Conditions, Request};
pub use course::{AGAIN, Ended, Results, run};
pub use experiment::{Data, Equal, Experiment, MetricName, Split, WarmUp, WarmUpWord};
pub use files::Source;
pub use record::Record;
