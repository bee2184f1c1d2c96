//! Named limits of the command line.

use std::time::Duration;

/// Longest age accepted, in seconds: a hundred years, well within what PostgreSQL's timestamps
/// subtract.
pub const AGE_SECONDS_MAX: u64 = 100 * 365 * 86_400;

/// Rejects shown unless `--limit` says otherwise.
pub const REJECTS_SHOWN: u64 = 20;

/// Documents in a wave of the demo: some 15 GB on disk, far more than a demo needs.
pub const DEMO_DOCUMENTS_MAX: u64 = 100_000_000;

/// Distinct values that are printed with one write.
pub const DISTINCT_LINES_MAX: usize = 1_000;

/// Times that a command starts a local server again that has died.
pub const LOCAL_RESTARTS_MAX: u32 = 3;

/// Time between two looks whether the local server lives.
pub const LOCAL_LOOK_EVERY: Duration = Duration::from_millis(200);

/// Looks after which a server that runs has not died.
pub const LOCAL_LOOKS_MAX: u32 = 10;
