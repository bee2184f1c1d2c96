//! Experiments that load documents: how fast they become rows, and at which cost.

mod bench;
pub(crate) mod column;
mod data_set;
mod document;
mod doubt;
mod durability;
mod experiment;
mod goal;
mod leftovers;
mod line;
mod mongo_server;
mod phase;
mod python;
mod report;
mod run;
mod sent;
mod shared_table;
mod stream;
mod subject;
mod text;
mod timing;
mod tool;
mod wal;

pub use bench::{Bench, Ground};
pub use doubt::{DOUBTS, Doubt, doubts};
pub use durability::Durability;
pub use experiment::{ALL, EXPERIMENTS, Experiment, Finished, Plan, Progress, SCALES, Scale};
pub use goal::{Reached, Target};
pub use line::Line;
pub use phase::Phase;
pub use report::{Report, Section};
pub use stream::{Expected, Stream};
pub use subject::{SUBJECTS, Subject};
