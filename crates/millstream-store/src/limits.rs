//! Named limits of our tables: every wait, list and statement has one.

use std::time::Duration;

/// How often a reader tries to lock segments while compactions drop them.
pub const SEGMENT_HOLD_TRIES_MAX: u32 = 10;

/// Most segments that are merged into the table at once. All of a group are dropped in one transaction, and dropping
/// one takes three locks. By default, a server has room for 64 locks for each connection.
pub const COMPACTION_SEGMENTS_MAX: usize = 128;

/// Most rejects that one statement stores. A batch with more takes several statements.
pub const REJECT_ROWS: usize = 5_000;

/// How long a load waits for another run of it to end. The server takes a moment to notice that the client of a run was
/// killed.
pub const LOAD_LOCK_WAIT: Duration = Duration::from_secs(5);

/// How long a run that has lost its sessions may take to reconnect. After that, documents that take effect after it may
/// be written. A run retries at least every five seconds, and then it has to log in.
pub const LOST_RUN_WAIT: Duration = Duration::from_secs(8);

/// Pause between two checks while we wait for a lock or a run.
pub const LOAD_LOCK_POLL: Duration = Duration::from_millis(50);

/// How long dropping a table waits for others that use it. While the drop waits, new readers wait behind it.
pub const DROP_LOCK_WAIT: Duration = Duration::from_secs(5);

/// Most keys that are recorded for one statement. If it changes more, everything counts as changed.
pub const CHANGE_KEYS_MAX: u64 = 2_000_000;

/// How long a load that has deleted the last row of a table waits for those who write into it, before it records that. They
/// wait behind it meanwhile.
pub const EMPTIED_LOCK_WAIT_MS: u32 = 1_000;
