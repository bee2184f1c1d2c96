//! Tests of our tables against real servers.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod lanes;
mod loads;
mod mark;
mod rejects;
mod scene;
mod schema;
mod trust;
mod withdrawal;
