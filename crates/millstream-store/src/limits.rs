//! Named limits of our tables: every wait, list and statement has one.

use std::time::Duration;

/// Tries to look at segments that a compaction drops at the same moment.
pub const SEGMENT_HOLD_TRIES_MAX: u32 = 10;

/// Segments that are merged into the table at once: dropping one takes three of the locks for which a server has
/// room, 64 for each connection by default, and all of a group are dropped in one transaction.
pub const COMPACTION_SEGMENTS_MAX: usize = 128;

/// Rejects that one statement stores; a batch with more takes several.
pub const REJECT_ROWS: usize = 5_000;

/// How long a load waits for another run of it to be gone: the server takes a moment to notice that the
/// client of a run was killed.
pub const LOAD_LOCK_WAIT: Duration = Duration::from_secs(5);

/// How long a run that has lost its sessions has to come back before what takes effect after it is written: it tries
/// again every five seconds at most, and then has to log in.
pub const LOST_RUN_WAIT: Duration = Duration::from_secs(8);

/// Time between two looks whether it is.
pub const LOAD_LOCK_POLL: Duration = Duration::from_millis(50);

/// How long dropping a collection waits for others to let go of its table. Waiting longer would
/// hold up every new reader behind the drop.
pub const DROP_LOCK_WAIT: Duration = Duration::from_secs(5);

/// Keys that one statement puts on record; beyond, everything counts as changed.
pub const CHANGE_KEYS_MAX: u64 = 2_000_000;
