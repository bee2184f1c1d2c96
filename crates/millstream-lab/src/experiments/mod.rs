//! Experiments: each is a file, and its arms, which are loads by pgbench or commands, take turns on a server of the lab.

mod analysis;
mod arm;
mod chosen_metric;
mod client_count;
mod client_limit;
mod cluster;
mod command;
mod commands;
mod compare;
mod conditions;
mod counted;
mod course;
mod data;
mod experiment;
mod files;
mod fitness;
mod host;
mod log;
mod mistakes;
mod output;
mod own_facts;
mod own_metric;
mod plain_text;
mod planted;
mod program;
mod record;
#[cfg(test)]
mod reference;
mod refusals;
pub mod report;
pub(crate) mod scratch;
mod values;
mod versions;
mod wal;
mod watch;

#[cfg(test)]
pub(crate) use analysis::pairs;
pub use analysis::{Analysis, Blocks, Compared, LimitedRuns, Look, Measured, SplitTime};
pub use arm::{Arm, Number, Protocol, Setup, Via};
pub use chosen_metric::ChosenMetric;
pub use client_count::{Choice, ClientCount};
pub(crate) use command::{PGBENCH, run_to_end};
pub use commands::Commands;
pub use compare::{Difference, Differences, compare};
pub use conditions::{Conditions, Request};
pub use course::{Ended, run};
pub use experiment::{AGAIN, Data, Equal, Experiment, GuestNeeds, Split, WarmUp, WarmUpWord};
pub use files::Source;
pub(crate) use log::{Done, Line, lines, parse_line};
pub use planted::Planted;
pub(crate) use program::{Program, logs};
pub use record::Record;
pub use values::Selection;
