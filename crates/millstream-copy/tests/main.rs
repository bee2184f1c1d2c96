//! Copies by the library: of trees, on each way between two ends and by each kind of owner, and of clusters.

#![expect(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test may panic, and nothing here is reachable from outside"
)]

mod carried;
mod cluster;
mod cluster_pairs;
mod cluster_targets;
mod deletion;
mod here;
mod hostile;
mod owners;
mod pieces;
mod place;
mod road;
mod rules;
mod there;
