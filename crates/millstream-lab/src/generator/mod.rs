//! The open-loop generator: it sends a workload to a server at the rates that a file asks for, whatever the server does.
//!
//! The schedule is absolute and comes from a seed. A request's latency counts from when the schedule wanted it to begin,
//! so that a slow server cannot hide the requests that it keeps waiting (Gil Tene's "coordinated omission"; Schroeder,
//! Wierman and Harchol-Balter, "Open versus closed: a cautionary tale", NSDI 2006).

mod alarm;
mod backlog;
mod file;
mod goal;
mod pace;
mod remark;
mod result;
mod run;
mod schedule;
mod search;
mod seed;
mod session;
mod statement;
mod tally;
mod value;
mod workload;

pub use goal::{LatencyGoal, Objective};
pub use pace::{Pace, Step};
pub use result::{ClassResult, Counts, Second, StepResult, WorkloadResult};
pub use run::{RunOptions, run_workload};
pub use search::{SearchResult, SearchStep, search};
pub use statement::Statement;
pub use value::Draw;
pub use workload::{Class, Fault, Workload};
