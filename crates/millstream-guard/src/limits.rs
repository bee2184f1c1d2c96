//! Every limit of this crate.

/// Bytes of a packet's payload. The article sent as many.
pub const PAYLOAD_BYTES: usize = 128;

/// Packets that are sent before anything is measured: all of them must be counted as the row declares.
pub const GATE_PACKETS: u64 = 1_000;

/// Packets that one call of the system sends.
pub const BATCH_PACKETS: usize = 64;

/// Live frames that one call of the system makes. Each call also prepares memory for them, which takes as long as some
/// thousand frames (500 us measured on Linux 6.18). With so many frames, that adds 30 ns to each.
pub(crate) const FRAMES_AT_ONCE: usize = 1 << 14;

/// Room for all of them at the socket that is read afterwards: each takes a page of memory and a little more. The kernel
/// doubles the number.
pub(crate) const READER_BYTES: usize = FRAMES_AT_ONCE * 4_096;

/// Files that the sender has open beside its sockets, and some to spare.
pub(crate) const FILES_BESIDE: u64 = 64;

/// Longest measurement, in seconds.
pub const SECONDS_MAX: f64 = 3_600.0;
