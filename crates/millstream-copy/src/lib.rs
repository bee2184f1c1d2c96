//! Trees of files, copied in parallel, resumed and verified.
//!
//! [`copy`] in `flow.rs` is the way of a copy: list the source into a manifest on disk, make the folders, copy the files
//! by several workers, delete what the source has not, give the folders their rights, and keep a manifest with hashes,
//! by which [`verify`] compares the copy at any later time. Which machine an end lies on is known to the end (`end.rs`)
//! and to the road between both (`road.rs`), and what a running database needs is a value (`policy.rs`).

mod at_work;
mod bottleneck;
mod cluster;
mod counts;
mod crew;
mod data_directory;
mod end;
mod ends;
mod entry;
mod error;
mod extra;
mod feed;
mod flow;
mod folding;
mod hasher;
mod here;
pub mod limits;
mod local;
mod manifest;
mod owner;
mod path;
mod place;
mod policy;
mod receipt;
mod remote;
mod request;
mod road;
mod servers;
mod state;
mod tally;
mod task;
mod tree;
mod verification;
mod walk;
mod workers;

pub use bottleneck::Bottleneck;
pub use cluster::{ClusterPlan, ClusterReceipt, ClusterRequest, MovedTablespace, copy_cluster, plan_cluster};
pub use error::Error;
pub use extra::Deletion;
pub use flow::{MayDelete, Plan, copy, plan, verify};
pub use path::shown;
pub use receipt::{Receipt, Verification};
pub use request::{Delete, Request, Workers};
pub use tally::{Failure, Phase, Tally};
pub use walk::{Pattern, Rule};
pub use workers::{Found, Rate};
