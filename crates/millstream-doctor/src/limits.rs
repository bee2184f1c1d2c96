//! Named limits of the doctor.

use std::time::Duration;

/// Most conditions of one reading of a table that are compared with its indexes.
pub const EXPLAINED_CONDITIONS_MAX: usize = 16;

/// Most indexes of a table that are compared with a query.
pub const EXPLAINED_INDEXES_MAX: usize = 256;

/// Most findings of a check in a database: the worst ones.
pub const FINDINGS_MAX: usize = 20;

/// Most rows that a check asks for. They are more than are reported, because the partitions of a table are one finding,
/// and because the rest must not go unmentioned.
pub(crate) const ROWS_MAX: i64 = 201;

const _: () = assert!(ROWS_MAX > FINDINGS_MAX as i64);

/// Most partitions of tables and indexes in a database whose findings come under their root.
pub(crate) const PARTITIONS_MAX: i64 = 100_000;

/// Most partitions that a finding of their root names: the worst ones.
pub(crate) const PARTITIONS_SHOWN_MAX: usize = 3;

/// Longest statement of a check.
pub const STATEMENT_TIME_MAX_MS: u64 = 5_000;

/// Longest wait for a lock: the doctor never stands in anybody's way.
pub const LOCK_TIME_MAX_MS: u64 = 100;

/// Largest file of settings that is read.
pub const SETTINGS_BYTES_MAX: u64 = 1 << 20;

/// Largest earlier report or record of looks that is read.
pub const FILE_BYTES_MAX: u64 = 64 << 20;

/// Longest wait of a change for a lock: others queue behind a change that waits.
pub const CHANGE_LOCK_TIME_MAX_MS: u64 = 2_000;

/// Longest time between checkpoints that an experiment compares: it then takes two hours.
pub const CHECKPOINT_SECONDS_MAX: u32 = 120;

/// Longest time until a setting that was written must be in effect for new sessions.
pub const SETTING_EFFECT_MAX: Duration = Duration::from_secs(10);

/// Time between two looks at such a setting.
pub const SETTING_LOOK: Duration = Duration::from_millis(50);

/// From so many processors on, small pages count as expensive with Linux 7.0: our own choice. The slowdown was measured with
/// 96.
pub(crate) const MANY_PROCESSORS: u32 = 32;

/// Most reads that tell how fast a disk answers.
pub const DISK_READS_MAX: usize = 64;

/// Longest time of these reads.
pub const DISK_READ_TIME_MAX: Duration = Duration::from_millis(500);

/// Most disks that are read for that.
pub const DISKS_READ_MAX: usize = 8;

/// Most queries that are looked at in each database, and most other statements: those that took the most time.
pub const STATEMENTS_MAX: i64 = 500;

/// Longest time of a check with `--prove` in each database: for planning statements, or for reading documents.
pub const PROOF_TIME_MAX: Duration = Duration::from_secs(10);

/// Most letters of a statement in a report.
pub const STATEMENT_SHOWN_MAX: usize = 300;

/// Most lines of the configuration files without effect that a finding names.
pub(crate) const OVERRIDDEN_SHOWN_MAX: usize = 5;

/// Longest time for measuring bloat with pgstattuple, in each database and for each check.
pub const MEASURE_TIME_MAX: Duration = Duration::from_secs(10);

/// Into so many parts a database's share of the budget is divided: one for each of the two checks that measure bloat, and
/// one for all other checks.
pub(crate) const MEASURE_PARTS: u32 = 3;

/// Longest statement of others that is looked at, in bytes.
pub const STATEMENT_BYTES_MAX: i64 = 100_000;

/// Most keys of a new index that the doctor proposes.
pub const CANDIDATE_KEYS_MAX: usize = 3;

/// Most new indexes that are tried in each database: those for the statements that take the most time.
pub const CANDIDATES_MAX: usize = 100;

/// Most tables of a statement that are compared with their indexes.
pub const PROVEN_TABLES_MAX: usize = 16;

/// Longest name of a new index, in bytes. The server allows 63; two digits make a name free.
pub(crate) const INDEX_NAME_BYTES_MAX: usize = 61;

/// Most statements of a snapshot.
pub const SNAPSHOT_STATEMENTS_MAX: i64 = 500;

/// Most tables of a snapshot, in each database.
pub const SNAPSHOT_TABLES_MAX: i64 = 500;

/// Most looks of a record.
pub const RECORDED_LOOKS_MAX: usize = 200;

/// Most statements and tables of a report that differ from an earlier one.
pub const DIFFERENCES_MAX: usize = 10;

/// Least time of all statements between two looks from which their shares are taken: less is chance.
pub(crate) const RECENT_MILLISECONDS_MIN: f64 = 100.0;

/// Most queries that sessions have sent last and that are looked at, in each database.
pub const SENT_QUERIES_MAX: i64 = 100;

/// Most columns of JSON documents that indexes and views read and that are looked at, in each database.
pub const READERS_MAX: i64 = 500;

/// Most documents of a sample.
pub const DOCUMENTS_MAX: i64 = 1_000;

/// Most names of members that such documents have.
pub const MEMBERS_MAX: i64 = 1_000;

/// Most tables whose work is compared between two looks.
pub const BUSY_TABLES_MAX: i64 = 1_000;

/// Most files of the data directory among which the largest is looked for.
pub const FILES_LOOKED_AT_MAX: usize = 10_000;

/// Smallest file whose reads say something about its disk.
pub const DATA_FILE_BYTES_MIN: u64 = 1 << 20;

/// Fewest flushes of the WAL whose mean time says something.
pub(crate) const FLUSHES_MIN: u64 = 10;

/// Most looks that tell how many transactions write at the same time.
pub(crate) const COMMIT_LOOKS_MAX: usize = 20;

/// Time between two of these looks.
pub(crate) const COMMIT_LOOK: Duration = Duration::from_millis(20);

/// Shortest time between two looks at the counters of the machine. In a shorter one, chance decides.
pub const LOOKS_APART: Duration = Duration::from_secs(2);

/// Most open files of a process that are counted.
pub const OPEN_FILES_COUNTED_MAX: usize = 1 << 20;

/// Most tables and TOAST tables of a database that are listed: the largest ones.
pub const LISTED_TABLES_MAX: i64 = 100_000;

/// Most of these whose free space is measured: the ones that are believed to have most.
pub(crate) const MEASURED_TABLES_MAX: usize = 200;

/// The free space of smaller tables is not listed, in bytes: some pages.
pub(crate) const SIZED_TABLE_BYTES_MIN: f64 = 65_536.0;
