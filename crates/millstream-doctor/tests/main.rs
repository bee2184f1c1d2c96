//! Tests of the doctor against real servers.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod checks;
mod host;
mod index;
