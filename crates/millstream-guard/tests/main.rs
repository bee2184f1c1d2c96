//! The packet filter: rules decide as their policy says in every form, what is missing from them is found, and a host gets back
//! the rules that it had.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod beside;
mod change;
mod confirmation;
mod host;
mod others;
mod packets;
mod policy;
mod prober;
mod proof;
mod state;
