//! Tests of topics against real servers of PostgreSQL: with a client that a test plays, and, with the feature `kafka`, with a
//! real broker.

#[cfg(feature = "kafka")]
mod broker;
mod fake;
mod scene;
mod topic;
