//! Named limits of changes.

use std::time::Duration;

/// Most changes that the journal keeps. Of those that are over, the oldest go first.
pub const CHANGES_MAX: usize = 200;

/// Longest wait for another process that works on the same change.
pub const CHANGE_LOCK_WAIT_MAX: Duration = Duration::from_secs(5);

/// Time between two looks at that lock.
pub const CHANGE_LOCK_LOOK: Duration = Duration::from_millis(50);

/// The first deadline of a change, until somebody begins to apply it, in seconds: as much as the start of the process
/// that watches over it, and the work before, may take.
pub const CHANGE_START_SECONDS: u64 = 15;

/// Largest file of a change in the journal.
pub const CHANGE_BYTES_MAX: u64 = 1 << 20;

/// Largest text beside a change in the journal: rules with a list of as many ranges as a list may have.
pub const BESIDE_BYTES_MAX: u64 = 1 << 30;

/// How often the server of the lab makes checkpoints where an experiment is about them.
pub(crate) const CHECKPOINT_SECONDS: u32 = 30;

/// Time between two looks of the process that undoes a change unless it is confirmed.
pub const CHANGE_LOOK: Duration = Duration::from_millis(500);

/// Longest pause of that process after failures.
pub const CHANGE_PAUSE_MAX: Duration = Duration::from_secs(60);

/// How long after the deadline that process still tries, in seconds: a day. Then the change stays open, and each run of
/// the doctor shows it.
pub const CHANGE_LATE_SECONDS_MAX: u64 = 86_400;

/// Longest time until that process is ready.
pub const WATCH_READY_MAX: Duration = Duration::from_secs(10);
