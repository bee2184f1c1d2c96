//! Every limit of this crate.

use std::time::Duration;

/// Bytes of an object for which one request asks. So many are in memory for each request at once, and once more.
pub const RANGE_BYTES: u64 = 4 << 20;

/// Bytes for which the first request of an object asks: what [`millstream_input::Input`] needs to recognise it. Of a file
/// that is read from its end, no more is read in vain.
pub const FIRST_BYTES: u64 = millstream_input::limits::RAW_BUFFER_BYTES as u64;

/// Requests at once for one object, unless the environment says otherwise.
pub const RANGES: usize = 4;

/// Most requests at once for one object.
pub const RANGES_MAX: usize = 16;

/// Bytes that are kept together of an object that is read at any place.
pub const BLOCK_BYTES: u64 = 256 << 10;

/// Blocks for which one request asks. The parts of a column follow each other.
pub const BLOCKS_AHEAD: u64 = 8;

/// Blocks that are kept, 64 MiB. Each column of a Parquet file reads from one of its own.
pub const BLOCKS_KEPT: usize = 256;

/// Most objects that a pattern may match.
pub const OBJECTS_MAX: usize = 100_000;

/// Longest address of an object. Each byte may take three in a request, whose line has 64 KiB at most.
pub const ADDRESS_BYTES_MAX: usize = 16 << 10;

/// How often a request is tried again.
pub const RETRIES_MAX: usize = 10;

/// How long one request is tried again.
pub const RETRY_WAIT: Duration = Duration::from_secs(120);

/// The wait before the first retry; it doubles.
pub const BACKOFF_FIRST_WAIT: Duration = Duration::from_millis(100);

/// The longest wait before a retry.
pub const BACKOFF_LONGEST_WAIT: Duration = Duration::from_secs(10);

/// How long a connection may take to open.
pub const CONNECT_WAIT: Duration = Duration::from_secs(10);

/// How long a connection may give no byte. A slow one that gives some is no error.
pub const READ_WAIT: Duration = Duration::from_secs(30);

/// How long a store is asked before a line says for what the command waits.
pub const SILENT_WAIT: Duration = Duration::from_secs(10);

/// Threads that speak with stores.
pub const WORKERS: usize = 2;

const _: () = assert!(ADDRESS_BYTES_MAX * 3 < u16::MAX as usize);
const _: () = assert!(RANGES > 0 && RANGES <= RANGES_MAX);
const _: () = assert!(BLOCKS_AHEAD <= BLOCKS_KEPT as u64, "what was read is not dropped before it is taken");
const _: () = assert!(READ_WAIT.as_secs() * 2 < RETRY_WAIT.as_secs(), "a connection that stands still is tried again");
