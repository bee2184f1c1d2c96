//! Named limits of the command line.

/// Longest age accepted, in seconds: a hundred years, well within what PostgreSQL's timestamps
/// subtract.
pub const AGE_SECONDS_MAX: u64 = 100 * 365 * 86_400;

/// Rejects shown unless `--limit` says otherwise.
pub const REJECTS_SHOWN: u64 = 20;

/// Rejects of a build of ranges that are printed; all are counted.
pub const RANGE_REJECTS_SHOWN: u64 = 10;

/// Longest line of addresses to look up, in bytes. Of a longer one only the beginning is read.
pub const ADDRESS_LINE_BYTES_MAX: usize = 1_000;

/// Answers that are written at once, in bytes, while addresses to look up are waiting.
pub const ANSWERS_BYTES_MAX: usize = 1 << 16;

/// Documents in a wave of the demo: some 15 GB on disk, far more than a demo needs.
pub const DEMO_DOCUMENTS_MAX: u64 = 100_000_000;

/// Distinct values that are printed with one write.
pub const DISTINCT_LINES_MAX: usize = 1_000;

/// Longest list of variables that the process that undoes a change reads from its input, in bytes. Linux gives a process no
/// longer variable than 128 KiB.
pub const VARIABLES_BYTES_MAX: u64 = 1 << 20;

/// How long a command may take to end after the second signal. Then its statements are cancelled, and the process ends.
pub const LAST_WAIT: std::time::Duration = std::time::Duration::from_secs(1);

/// How many loads `loads` lists by default.
pub const LOADS_LISTED: u64 = 1_000;

/// Largest file of the lab's own that says what a load must end in.
pub const LAB_FILE_BYTES_MAX: u64 = 1 << 20;

/// How long the list of sizes measures free space; the rest is estimated.
pub const FREE_SPACE_MEASURED: std::time::Duration = std::time::Duration::from_secs(1);

/// Lines of each list of tables that a terminal shows.
pub const TABLES_SHOWN: usize = 20;

/// Bytes of a file that `cat` prints at once.
pub const CAT_BYTES: usize = 256 << 10;
