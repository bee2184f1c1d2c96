//! Named limits of what is read, changed and decoded.

use millstream_model::limits::{
    DOCUMENT_BYTES_MAX, KEY_COLUMNS_MAX, NESTING_MAX, NUMERIC_FRACTION_DIGITS_MAX, NUMERIC_INTEGER_DIGITS_MAX,
    REJECT_BYTES_MAX,
};

/// Bytes of source data read into one chunk. Small enough that the lanes' shares of a chunk stay
/// even, large enough that its bookkeeping costs nothing per document.
pub const CHUNK_BYTES: usize = 256 << 10;

/// Largest chunk that can be asked for.
pub const CHUNK_BYTES_MAX: usize = 16 << 20;

/// Longest document that can be asked for: the most PostgreSQL keeps in one jsonb (`JENTRY_OFFLENMASK`,
/// jsonb.h).
pub const DOCUMENT_BYTES_CEILING: usize = 1 << 28;

/// A CSV record that is longer than this many of the longest documents does not end: its quote should not be there.
pub const CSV_RECORD_DOCUMENTS_MAX: usize = 16;

/// Bytes at the start of a source that are read to recognise its format.
pub const RECOGNISE_BYTES_MAX: usize = 1 << 20;

/// Bytes read at once to check the beginning of a file before anything is recorded.
pub const PROBE_BYTES: usize = 4 << 10;

/// Longest name of a member, as it is spelled, that is compared with a segment of `--root`.
pub const MEMBER_NAME_BYTES_MAX: usize = 64 << 10;

/// Longest number beside the path of `--root`, as it is spelled.
pub const SKIPPED_NUMBER_BYTES_MAX: usize = 256 << 10;

/// Longest field of a delimited file that becomes a number. jsonb would accept longer ones.
pub const INFERRED_NUMBER_BYTES_MAX: usize = 1_000;

/// Most digits of such a number's exponent, for the same reason.
pub const EXPONENT_DIGITS_MAX: usize = 3;

/// Levels of brackets whose kinds are matched when we look for the end of a value. The decoder refuses deeper
/// documents.
pub const BRACKETS_CHECKED_MAX: usize = NESTING_MAX;

/// Bytes of a damaged place in a JSON array that are kept to show it.
pub const DAMAGE_BYTES_MAX: usize = 4 << 10;

/// Longest CSV header.
pub const CSV_HEADER_BYTES_MAX: usize = 1 << 20;

/// Longest line of a rejects file: a whole document of control characters, each spelled `\u0001`.
pub const REJECT_LINE_BYTES_MAX: usize = 6 * REJECT_BYTES_MAX + (64 << 10);

/// Documents at the start of the input that are read to infer the key.
pub const INFERENCE_DOCUMENTS: usize = 1_000;

/// Members of the first documents for which typed columns are chosen. A document with more is a map, whose names are values.
pub const COLUMNS_INFERRED_MAX: usize = 250;

/// Longest number, as jsonb spells it, that `double precision` surely holds: it goes from 1e-307 to 1e308.
pub const DOUBLE_DIGITS_MAX: usize = 300;

/// Longest version that is compared, in canonical bytes.
pub const VERSION_BYTES_MAX: usize = 1 << 10;

/// Transforms that a document passes before it is decoded.
pub const TRANSFORMS_MAX: usize = 8;

/// What can become of a document in a transform.
pub const TRANSFORM_OUTCOMES_MAX: usize = 4;

/// Segments of the path of a member that a transform inserts.
pub const ANNOTATION_SEGMENTS_MAX: usize = 8;

/// Longest member that a transform may insert, in bytes. Transforms insert one into each document of a chunk.
pub const ANNOTATION_BYTES_MAX: usize = 4 << 10;

/// Members that say where a document comes from: one for its file, the others for its folders. One pass over the document
/// finds as many.
pub const ORIGIN_MEMBERS_MAX: usize = KEY_COLUMNS_MAX + 1;

/// Documents that a transform is given at once: enough to wait for memory once for many, and few enough to stay in the
/// processor's caches.
pub const TRANSFORM_DOCUMENTS: usize = 128;

const _: () = assert!(
    SKIPPED_NUMBER_BYTES_MAX >= NUMERIC_INTEGER_DIGITS_MAX + NUMERIC_FRACTION_DIGITS_MAX + 64,
    "beside a number's digits there are its sign, its point and its exponent"
);
const _: () = assert!(CHUNK_BYTES <= CHUNK_BYTES_MAX);
const _: () = assert!(DOCUMENT_BYTES_MAX <= DOCUMENT_BYTES_CEILING);
const _: () = assert!(
    CHUNK_BYTES_MAX + 8 * DOCUMENT_BYTES_CEILING + CSV_HEADER_BYTES_MAX < u32::MAX as usize,
    "frames count a chunk's bytes in 32 bits, and CSV turned into JSON grows"
);
