//! Named limits of the lab.

/// Smallest document of a data set: what the fields that every document has need.
pub const DOCUMENT_BYTES_MIN: usize = 150;

/// Largest document of a data set.
pub const DOCUMENT_BYTES_MAX: usize = 16 << 20;

/// Room that one more item of a large document may need, with the end of the document.
pub(crate) const ITEM_BYTES_MAX: usize = 160;

/// Most documents of a data set. The order of a wave is a list of 32-bit numbers.
pub const DOCUMENTS_MAX: u64 = 100_000_000;

/// Fewest documents of a data set of large documents, unless they would make too many bytes.
pub const DOCUMENTS_MIN: u64 = 100;

/// Fewest documents of a data set of the largest documents.
pub const DOCUMENTS_FEWEST: u64 = 4;

/// Times the bytes of the smallest documents that the largest ones may make where they are few.
pub const LARGE_BYTES_FACTOR_MAX: u64 = 4;

/// Fewest rows to which a table can be asked to grow.
pub const GROWN_ROWS_MIN: u64 = 1_000;

/// The round trip to the server that is measured beside none: that between places a few hundred kilometres apart.
pub(crate) const ROUND_TRIP_MS: u32 = 5;

/// Chunks that wait in each direction of a delayed connection: what comes in 2.5 ms at more than 10 GB/s.
pub(crate) const DELAYED_CHUNKS_MAX: usize = 512;

/// Bytes that a delayed connection passes on at once.
pub(crate) const DELAYED_CHUNK_BYTES: usize = 64 << 10;

/// Most rounds of a run.
pub const ROUNDS_MAX: u32 = 1_000;

/// Most connections of a subject.
pub const LANES_MAX: u16 = 64;

/// Bytes of one message of a COPY stream, as Millstream sends them.
pub(crate) const COPY_MESSAGE_BYTES: usize = 64 << 10;

/// Documents that the subject sees when it is asked for the table's definition.
pub(crate) const SAMPLE_DOCUMENTS: u64 = 1_000;

/// Time between two looks at the memory of a running process. The kernel keeps the high-water
/// mark, so that only growth in the last such span is missed.
pub(crate) const LOOK_MS: u64 = 20;

/// Time between two looks at the memory of a process's children. Summing up what they share takes the kernel a
/// millisecond or two, which would count against them.
pub(crate) const CHILDREN_LOOK_MS: u64 = 250;

/// Documents of a wave of the subjects that are too slow for all of them.
pub(crate) const DOCUMENTS_FEW_MAX: u64 = 20_000;

/// Flushes that the probe of the disk makes.
pub(crate) const FLUSHES: usize = 100;

/// Bytes that each flush of the probe writes: a page of PostgreSQL's log.
pub(crate) const FLUSH_BYTES: usize = 8 << 10;

/// Longest part of what a failed process said that is kept.
pub(crate) const COMPLAINT_BYTES_MAX: usize = 2_000;

/// Longest time that a subject's process may take in a phase. The slowest needs a few minutes for the documents of a
/// usual run; one that hangs is killed, and the run goes on.
pub(crate) const SAMPLE_SECONDS_MAX: u64 = 30 * 60;

/// Values of the column that is walked.
pub(crate) const VALUES: u64 = 1_000;

/// Answers of which a sample is the median: each takes milliseconds, and the first on a session more.
pub(crate) const ANSWERS: usize = 5;

/// Names of a record's directory that are tried before giving up.
pub(crate) const NAME_TRIES_MAX: u32 = 1_000;

const _: () = assert!(DOCUMENT_BYTES_MIN < DOCUMENT_BYTES_MAX);
const _: () = assert!(DOCUMENTS_MAX < u32::MAX as u64);
const _: () = assert!(GROWN_ROWS_MIN >= VALUES && ANSWERS % 2 == 1);
const _: () = assert!(LOOK_MS < CHILDREN_LOOK_MS);
const _: () = assert!(DOCUMENTS_FEWEST < DOCUMENTS_MIN && DOCUMENTS_MIN < DOCUMENTS_FEW_MAX);
const _: () = assert!(GROWN_ROWS_MIN * 2 < DOCUMENTS_MAX);
const _: () = assert!(DOCUMENTS_MIN < SAMPLE_DOCUMENTS && SAMPLE_DOCUMENTS < DOCUMENTS_MAX);

/// Bytes of the unit in which memory is shown.
pub(crate) const MEBIBYTE: f64 = 1_048_576.0;
