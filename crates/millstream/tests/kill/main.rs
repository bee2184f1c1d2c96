//! Tests of what a collection survives: kills at every point and at any moment, crashes, hostile input, and all at once.

#![expect(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test may panic, and nothing here is reachable from outside"
)]

mod chaos;
mod client;
mod cold_kill;
mod crash;
mod hostile;
mod kill;
mod location;
mod log_kill;
mod missing_kill;
mod mix;
mod refresh_kill;
mod refresh_moment;
mod turns;

use millstream_testkit::process;
