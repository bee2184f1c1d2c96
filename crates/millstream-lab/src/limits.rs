//! Named limits of the lab.

use std::time::Duration;

/// Smallest document of a data set: the fields that every document has need this much.
pub const DOCUMENT_BYTES_MIN: usize = 150;

/// Largest document of a data set.
pub const DOCUMENT_BYTES_MAX: usize = 16 << 20;

/// Most bytes that one more item of a large document may need, with the end of the document.
pub(crate) const ITEM_BYTES_MAX: usize = 160;

/// Most documents of a data set. The order of a wave is a list of 32-bit numbers.
pub const DOCUMENTS_MAX: u64 = 100_000_000;

/// Fewest documents of a data set of large documents, unless they would be too many bytes.
pub const DOCUMENTS_MIN: u64 = 100;

/// Fewest documents of a data set of the largest documents.
pub const DOCUMENTS_FEWEST: u64 = 4;

/// If the largest documents are few, their bytes may be this many times those of the smallest documents.
pub const LARGE_BYTES_FACTOR_MAX: u64 = 4;

/// Fewest rows that a table can be asked to grow to.
pub const GROWN_ROWS_MIN: u64 = 1_000;

/// The round trip that is compared with a direct connection, in milliseconds: that between places a few hundred
/// kilometres apart.
pub(crate) const ROUND_TRIP_MS: u32 = 5;

/// Most chunks that wait in each direction of a delayed connection: 2.5 ms at more than 10 GB/s.
pub(crate) const DELAYED_CHUNKS_MAX: usize = 512;

/// Most bytes that a delayed connection passes on at once.
pub(crate) const DELAYED_CHUNK_BYTES: usize = 64 << 10;

/// Most rounds of a run.
pub const ROUNDS_MAX: u32 = 1_000;

/// Most connections of a subject.
pub const LANES_MAX: u16 = 64;

/// Bytes of one message of a COPY stream, as Millstream sends them.
pub(crate) const COPY_MESSAGE_BYTES: usize = 64 << 10;

/// Most documents in the sample from which the measured binary prints the table's definition.
pub(crate) const SAMPLE_DOCUMENTS: u64 = 1_000;

/// Documents of a wave for subjects that are too slow for all of them.
pub(crate) const DOCUMENTS_FEW_MAX: u64 = 20_000;

/// Flushes that the disk probe makes.
pub(crate) const FLUSHES: usize = 100;

/// Bytes that each flush of the probe writes: a page of WAL.
pub(crate) const FLUSH_BYTES: usize = 8 << 10;

/// Most bytes that are kept of a failed process's message.
pub(crate) const COMPLAINT_BYTES_MAX: usize = 2_000;

/// Longest time for a subject's process in a phase. The slowest needs a few minutes for the documents of a usual run. A
/// process that hangs is killed, and the run continues.
pub(crate) const SAMPLE_TIME_MAX: Duration = Duration::from_secs(30 * 60);

/// Number of values of the column whose distinct values are queried.
pub(crate) const VALUES: u64 = 1_000;

/// Answers of which a sample is the median: each takes milliseconds, and the first one of a session takes longer.
pub(crate) const ANSWERS: usize = 5;

/// Most bytes of a record's text, compressed or not. The largest so far has less than half a megabyte.
pub(crate) const RECORD_BYTES_MAX: u64 = 256 << 20;

/// Most names that are tried for a record's directory.
pub(crate) const NAME_TRIES_MAX: u32 = 1_000;

const _: () = assert!(DOCUMENT_BYTES_MIN < DOCUMENT_BYTES_MAX);
const _: () = assert!(DOCUMENTS_MAX < u32::MAX as u64);
const _: () = assert!(GROWN_ROWS_MIN >= VALUES && ANSWERS % 2 == 1);
const _: () = assert!(DOCUMENTS_FEWEST < DOCUMENTS_MIN && DOCUMENTS_MIN < DOCUMENTS_FEW_MAX);
const _: () = assert!(GROWN_ROWS_MIN * 2 < DOCUMENTS_MAX);
const _: () = assert!(DOCUMENTS_MIN < SAMPLE_DOCUMENTS && SAMPLE_DOCUMENTS < DOCUMENTS_MAX);

/// Bytes of the unit in which memory is shown.
pub(crate) const MEBIBYTE: f64 = 1_048_576.0;
