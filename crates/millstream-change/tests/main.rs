//! Changes of a machine: their order, by processes that are killed, and over restarts of the machine.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod greeting;
mod kill;
mod machine;
mod protocol;
mod recipe;
mod restart;
