//! Every limit of this crate.

/// Bytes of a packet's payload. The article sent as many.
pub const PAYLOAD_BYTES: usize = 128;

/// Packets that are sent before anything is measured: all of them must be counted as the row declares.
pub const GATE_PACKETS: u64 = 1_000;

/// Packets that one call of the system sends.
pub const BATCH_PACKETS: usize = 64;

/// Files that the sender has open beside its sockets, and some to spare.
pub(crate) const FILES_BESIDE: u64 = 64;

/// Longest measurement, in seconds.
pub const SECONDS_MAX: f64 = 3_600.0;
