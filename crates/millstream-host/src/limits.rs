//! Named limits of watching processes.

/// Time between two readings of a measured process's memory. The kernel keeps the high-water mark, so only growth after
/// the last reading is missed.
pub const LOOK_MS: u64 = 20;

/// Time between two readings of the memory of a process's children. Summing up shared pages takes the kernel a
/// millisecond or two, which would slow the process down.
pub const CHILDREN_LOOK_MS: u64 = 250;

const _: () = assert!(LOOK_MS < CHILDREN_LOOK_MS);
