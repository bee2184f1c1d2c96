//! Tests of topics against real servers of PostgreSQL: with a client that a test plays, and, with the feature `kafka`, with a
//! real broker.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[cfg(feature = "kafka")]
mod broker;
mod fake;
mod group;
#[cfg(feature = "kafka")]
mod members;
mod scene;
mod topic;
