//! What a copy did, counted, and what comparing it has shown.

use crate::error::Error;
use crate::path::{shown, shown_path};
use crate::tally::{Failure, Failures, Tally};
use millstream_pg::Explained;
use serde::Serialize;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::time::Instant;

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
    pub workers: usize,
    /// What was found by trying several numbers of workers.
    pub found: Option<crate::workers::Found>,
    /// Seconds.
    pub seconds: f64,
    /// The manifest.
    pub manifest: String,
    /// The first failures.
    pub failures: Vec<Failure>,
    /// The file that lists all failures, if there are any.
    pub failures_file: Option<String>,
    /// What reading the copy again has shown, if it was asked for.
    pub verified: Option<Verification>,
}

/// What a comparison has shown.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Verification {
    /// The root of the copy, with escapes where it is not UTF-8.
    pub destination: String,
    /// Entries of the manifest that were compared.
    pub entries: u64,
    /// Files whose bytes have the hash of the manifest, or should have.
    pub hashed: u64,
    /// Files of which the manifest knows no hash: only sizes and times were compared.
    pub unhashed: u64,
    /// Bytes read.
    pub bytes: u64,
    /// How many entries are not as the manifest says.
    pub problems: u64,
    /// The first of them.
    pub named: Vec<Failure>,
    /// Whether it was stopped.
    pub stopped: bool,
    /// Seconds.
    pub seconds: f64,
}

impl Verification {
    /// A manifest that perhaps is about this place, or one below it.
    pub(crate) fn of_damaged(place: &Path, error: &Error) -> Self {
        let hint = error.hint().map_or(String::new(), |hint| format!("; {hint}"));
        let why = format!("{error}{hint}. Perhaps it is that of a copy to here");
        Self::of_what_is_gone(place, &why)
    }

    /// A copy of which nothing can be read.
    pub(crate) fn of_what_is_gone(destination: impl AsRef<OsStr>, why: &str) -> Self {
        let named = vec![Failure { path: shown(b""), reason: why.to_owned() }];
        Self { destination: shown_path(destination), problems: 1, named, ..Self::default() }
    }

    /// A comparison that is over, but for what it has counted.
    ///
    /// # Errors
    /// As [`Failures::finish`].
    pub(crate) fn ended(destination: String, begun: Instant, failures: &Failures, tally: &Tally) -> io::Result<Self> {
        let (named, problems) = failures.finish()?;
        let (stopped, seconds) = (tally.is_stopped(), begun.elapsed().as_secs_f64());
        Ok(Self { destination, problems, named, stopped, seconds, ..Self::default() })
    }
}
