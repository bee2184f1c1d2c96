//! Named limits of the command line.

use millstream_model::limits::REJECT_BYTES_MAX;

/// Longest age accepted, in seconds: a hundred years, well within what PostgreSQL's timestamps
/// subtract.
pub const AGE_SECONDS_MAX: u64 = 100 * 365 * 86_400;

/// Rejects shown unless `--limit` says otherwise.
pub const REJECTS_SHOWN: u64 = 20;

/// Longest line of a file of rejects: the bytes kept of a document, each escaped as `\u00XX`, and
/// what is said of it.
pub const REJECT_LINE_BYTES_MAX: u64 = 6 * REJECT_BYTES_MAX as u64 + (64 << 10);

const _: () = assert!(REJECT_LINE_BYTES_MAX > REJECT_BYTES_MAX as u64);
