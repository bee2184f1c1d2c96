//! Every limit of this crate.

/// Bytes read at once from a compressed input, and to recognise any input.
pub const RAW_BUFFER_BYTES: usize = 256 << 10;

/// Bytes of compressed data that are decompressed at once to see what they are.
pub const AHEAD_BYTES: usize = 4 << 10;

/// Bytes read at once from an input that is still being written (a pipe holds this much).
pub const LIVE_READ_BYTES: usize = 64 << 10;

/// Largest window of zstd data, as a power of two: 128 MiB, what `zstd -d` accepts by default.
pub const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// Bytes in another encoding than UTF-8 that are decoded at once.
pub const TRANSCODE_BYTES: usize = 64 << 10;

/// Bytes read or written at once of a sorted run.
pub const RUN_BUFFER_BYTES: usize = 64 << 10;

/// Most sorted runs that are merged at once; each is an open file with a buffer.
pub const MERGE_RUNS_MAX: usize = 64;

const _: () = assert!(RAW_BUFFER_BYTES >= 2 * (128 << 10), "a zstd block (RFC 8878, 3.1.1.2.3) is fed whole");
