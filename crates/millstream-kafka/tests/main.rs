//! Tests of topics against real servers of PostgreSQL, with a client that a test plays.

mod fake;
mod scene;
mod topic;
