//! Named limits of the doctor.

use std::time::Duration;

/// Most conditions of one reading of a table that are compared with its indexes.
pub const EXPLAINED_CONDITIONS_MAX: usize = 16;

/// Most indexes of a table that are compared with a query.
pub const EXPLAINED_INDEXES_MAX: usize = 256;

/// Most findings of a check in a database: the worst ones.
pub const FINDINGS_MAX: usize = 20;

/// Most rows that a check asks for: one more than are reported, so that the rest does not go unmentioned.
pub(crate) const ROWS_MAX: i64 = FINDINGS_MAX as i64 + 1;

/// Longest statement of a check.
pub const STATEMENT_TIME_MAX_MS: u64 = 5_000;

/// Longest wait for a lock: the doctor never stands in anybody's way.
pub const LOCK_TIME_MAX_MS: u64 = 100;

/// Largest file of settings or earlier report that is read.
pub const FILE_BYTES_MAX: u64 = 64 << 20;

/// Longest wait of a change for a lock: others queue behind a change that waits.
pub const CHANGE_LOCK_TIME_MAX_MS: u64 = 2_000;

/// Longest time until a setting that was written must be in effect for new sessions.
pub const SETTING_EFFECT_MAX: Duration = Duration::from_secs(10);

/// Time between two looks at such a setting.
pub const SETTING_LOOK: Duration = Duration::from_millis(50);

/// Most reads that tell how fast a disk answers.
pub const DISK_READS_MAX: usize = 64;

/// Longest time of these reads.
pub const DISK_READ_TIME_MAX: Duration = Duration::from_millis(500);

/// Most disks that are read for that.
pub const DISKS_READ_MAX: usize = 8;

/// Most statements that are looked at in each database: those that took the most time.
pub const STATEMENTS_MAX: i64 = 500;

/// Longest time for planning them, in each database.
pub const PROOF_TIME_MAX: Duration = Duration::from_secs(10);

/// Most letters of a statement in a report.
pub const STATEMENT_SHOWN_MAX: usize = 300;

/// Longest time for measuring bloat with pgstattuple, in each database and for each check.
pub const MEASURE_TIME_MAX: Duration = Duration::from_secs(10);

/// Longest statement of others that is looked at, in bytes.
pub const STATEMENT_BYTES_MAX: i64 = 100_000;

/// Most tables of a statement that are compared with their indexes.
pub const PROVEN_TABLES_MAX: usize = 16;

/// Most tables whose work is compared between two looks.
pub const BUSY_TABLES_MAX: i64 = 1_000;

/// Time for an examination, unless the user gives another.
pub const EXAMINATION_TIME: Duration = Duration::from_secs(30);

/// Most files of the data directory among which the largest is looked for.
pub const FILES_LOOKED_AT_MAX: usize = 10_000;

/// Smallest file whose reads say something about its disk.
pub const DATA_FILE_BYTES_MIN: u64 = 1 << 20;
