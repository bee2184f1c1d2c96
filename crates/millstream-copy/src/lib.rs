//! Trees of files, copied in parallel, resumed and verified.
//!
//! [`copy`] in `flow.rs` is the way of a copy: list the source into a manifest on disk, make the folders, copy the files
//! by several workers, give the folders their rights, delete what the source has not, and keep a manifest with hashes,
//! by which [`verify`] compares the copy at any later time.

mod at_work;
mod bottleneck;
mod cluster;
mod counts;
mod crew;
mod data_directory;
mod entry;
mod error;
mod extra;
mod feed;
mod flow;
mod folding;
mod hasher;
mod jobs;
pub mod limits;
mod local;
mod manifest;
mod owner;
mod path;
mod place;
mod receipt;
mod remote;
mod request;
mod servers;
mod state;
mod tally;
mod tree;
mod verification;
mod walk;

pub use bottleneck::Bottleneck;
pub use cluster::{ClusterPlan, ClusterReceipt, ClusterRequest, MovedTablespace, copy_cluster, plan_cluster};
pub use error::Error;
pub use extra::Deletion;
pub use flow::{MayDelete, Plan, copy, plan, verify};
pub use jobs::{Found, Rate};
pub use path::shown;
pub use receipt::Receipt;
pub use request::{Delete, Jobs, Request};
pub use tally::{Failure, Phase, Tally};
pub use verification::Verification;
pub use walk::{Pattern, Rule};
