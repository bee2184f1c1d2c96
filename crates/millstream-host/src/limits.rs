//! Named limits of watching processes, of what is read of the kernel, and of changes.

use std::time::Duration;

/// Time between two readings of a measured process's memory. The kernel keeps the high-water mark, so only growth after
/// the last reading is missed.
pub const LOOK_MS: u64 = 20;

/// Time between two readings of the memory of a process's children. Summing up shared pages takes the kernel a
/// millisecond or two, which would slow the process down.
pub const CHILDREN_LOOK_MS: u64 = 250;

const _: () = assert!(LOOK_MS < CHILDREN_LOOK_MS);

/// Most bytes that are read of one of the kernel's text files. A machine with thousands of containers has long lists.
pub const KERNEL_FILE_BYTES_MAX: u64 = 4 << 20;

/// Most levels of composed devices, such as encryption on a volume on a RAID on a partition.
pub const DEVICE_DEPTH_MAX: usize = 8;

/// Most levels of control groups that are read, from the group upwards.
pub const CGROUP_DEPTH_MAX: usize = 16;

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
