//! Named limits of watching processes, and of what is read of the kernel.

use std::time::Duration;

/// Time in which a namespace must be there. It takes milliseconds, unless the machine is very busy.
pub const SANDBOX_READY_MAX: Duration = Duration::from_secs(30);

/// Time between two looks whether it is.
pub const SANDBOX_POLL: Duration = Duration::from_millis(1);

/// Time between two readings of a measured process's memory. The kernel keeps the high-water mark, so only growth after
/// the last reading is missed.
pub const LOOK_MS: u64 = 20;

/// Time between two readings of the memory of a process's children. Summing up shared pages takes the kernel a
/// millisecond or two, which would slow the process down.
pub const CHILDREN_LOOK_MS: u64 = 250;

const _: () = assert!(LOOK_MS < CHILDREN_LOOK_MS);

/// Most bytes that are read of one of the kernel's text files. A machine with thousands of containers has long lists.
pub const KERNEL_FILE_BYTES_MAX: u64 = 4 << 20;

/// Most bytes of a note that we keep: names and numbers, some thousand bytes.
pub const NOTE_BYTES_MAX: u64 = 1 << 20;

/// Most levels of composed devices, such as encryption on a volume on a RAID on a partition.
pub const DEVICE_DEPTH_MAX: usize = 8;

/// Most levels of control groups that are read, from the group upwards.
pub const CGROUP_DEPTH_MAX: usize = 16;

/// Most bytes of one record of a program's output: a path is much shorter.
pub const RECORD_BYTES_MAX: usize = 1 << 20;

/// Most bytes that are kept of what a program writes to stderr while its output is read.
pub const SAID_BYTES_MAX: u64 = 64 << 10;

/// Most bytes that are kept of the beginning of what a measured program writes, and as many of its end: a program may
/// write for an hour, and who measures it reads a summary or the last line.
pub const PART_BYTES_MAX: usize = 8 << 20;

/// Most bytes that a program may write to each of its outputs if its caller sets no other limit. All of it is kept in memory. The
/// largest are lists of rules and scripts of the packet filter, with millions of addresses.
pub const OUTPUT_BYTES_MAX: u64 = 512 << 20;

/// Time in which a program that is asked to end must do so, before it is killed.
pub const STOPPED_MAX: Duration = Duration::from_secs(10);

/// Most links that a path may lead over. Linux follows as many.
pub const LINKS_MAX: u32 = 40;

/// Most bytes that a slow disk reads or writes at once: a request of the block layer is hardly ever larger.
pub const SLOW_DISK_MESSAGE_BYTES_MAX: u32 = 1 << 20;

/// Most bytes of such a message before its data.
pub const SLOW_DISK_HEAD_BYTES_MAX: usize = 64 << 10;

/// Most answers of a slow disk that wait for their time. The kernel asks for fewer at once.
pub const SLOW_DISK_ANSWERS_MAX: usize = 1_024;

/// Longest time until answers that wait are sent when a slow disk gets another pace.
pub const SLOW_DISK_POLL: Duration = Duration::from_millis(50);

/// Most bytes of a slow disk. Of these, only those that were written take room.
pub const SLOW_DISK_BYTES_MAX: u64 = 64 << 30;

/// Fewest bytes of a slow disk: a server with a small database.
pub const SLOW_DISK_BYTES_MIN: u64 = 2 << 30;

/// Bytes that a slow disk leaves to others of the disk on which its file lies.
pub const SLOW_DISK_BYTES_LEFT: u64 = 1 << 30;

/// Most milliseconds that a slow disk can be asked to take.
pub const SLOW_DISK_TIME_MS_MAX: f64 = 10_000.0;

/// Time in which what serves a slow disk must end once the disk is unmounted.
pub const SLOW_DISK_END_MAX: Duration = Duration::from_secs(10);
