//! Named limits of the local server.

/// Oldest major version of PostgreSQL that Millstream supports.
pub const MAJOR_MIN: u32 = 15;

/// Major version that is downloaded where none is installed.
pub const MAJOR_DOWNLOADED: u32 = 18;

/// A download source that has not answered after this many seconds is given up for the next one.
pub const SOURCE_ANSWER_SECONDS_MAX: u64 = 5;

/// Longest a download may take: 15-60 MB, at the speed of a bad mobile line.
pub const DOWNLOAD_SECONDS_MAX: u64 = 600;

const _: () = assert!(MAJOR_MIN <= MAJOR_DOWNLOADED);
const _: () = assert!(SOURCE_ANSWER_SECONDS_MAX < DOWNLOAD_SECONDS_MAX);
