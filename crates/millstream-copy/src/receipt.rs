//! What a copy did, counted.

use crate::tally::Failure;
use serde::Serialize;

/// The account of a copy: `seen = copied + same + linked + skipped + failed`, if it was not stopped.
#[derive(Debug, Clone, Serialize)]
pub struct Receipt {
    /// Where the tree came from. Paths have escapes where they are not UTF-8.
    pub source: String,
    /// The root of the copy.
    pub destination: String,
    /// Entries found in the source.
    pub seen: u64,
    /// Entries copied by this run.
    pub copied: u64,
    /// Entries that were there already.
    pub same: u64,
    /// Further names of files.
    pub linked: u64,
    /// Entries that were gone when their turn came.
    pub skipped: u64,
    /// Entries that could not be copied.
    pub failed: u64,
    /// Files that changed while they were read, three times. They were copied as they were read.
    pub changed: u64,
    /// Bytes of the files that this run copied.
    pub copied_bytes: u64,
    /// Files of which the manifest knows a hash.
    pub hashed: u64,
    /// Files of which it knows none, because nobody has read them.
    pub unhashed: u64,
    /// Entries that were deleted at the destination, or moved to the trash.
    pub deleted: u64,
    /// Why nothing was deleted, although it was asked for.
    pub kept_because: Option<String>,
    /// Whether an unfinished run was resumed.
    pub resumed: bool,
    /// Whether the copy was stopped.
    pub stopped: bool,
    /// Workers at the end.
    pub jobs: usize,
    /// What was found by trying several numbers of workers.
    pub found: Option<crate::jobs::Found>,
    /// Seconds.
    pub seconds: f64,
    /// The manifest.
    pub manifest: String,
    /// The first failures.
    pub failures: Vec<Failure>,
    /// The file that lists all failures, if there are any.
    pub failures_file: Option<String>,
    /// What reading the copy again has shown, if it was asked for.
    pub verified: Option<crate::verification::Verification>,
}
