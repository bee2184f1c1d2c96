//! Named limits of the model; every crate that needs one reads it here.

/// Number of slots. It never changes, because watermarks of unfinished loads are kept per slot.
pub const SLOTS: usize = 256;

/// Longest document accepted by default, in bytes of JSON text.
pub const DOCUMENT_BYTES_MAX: usize = 16 << 20;

/// Deepest nesting of arrays and objects in a document. It is below what the default `max_stack_depth`
/// (2 MB) of any server allows, so that this limit decides about a document and not a server's stack.
pub const NESTING_MAX: usize = 512;

/// Largest rejected document that is kept whole, in bytes. Of a larger one, head and tail are kept.
pub const REJECT_BYTES_MAX: usize = 1 << 20;

/// Bytes kept of the head, and of the tail, of a rejected document above [`REJECT_BYTES_MAX`].
pub const REJECT_END_BYTES: usize = REJECT_BYTES_MAX / 2;

/// Largest B-tree index tuple PostgreSQL accepts with 8 kB pages (`BTMaxItemSize`, nbtree.h).
pub const INDEX_TUPLE_BYTES_MAX: usize = 2704;

/// Longest identifier PostgreSQL keeps (`NAMEDATALEN` - 1).
pub const IDENTIFIER_BYTES_MAX: usize = 63;

/// Most columns in a key.
pub const KEY_COLUMNS_MAX: usize = 8;

/// Most segments in a key's path; the decoder recurses once for each.
pub const KEY_PATH_SEGMENTS_MAX: usize = 32;

/// Most digits before the decimal point of a `numeric` (PostgreSQL manual, table 8.2).
pub const NUMERIC_INTEGER_DIGITS_MAX: usize = 131_072;

/// Most digits after the decimal point of a `numeric` (PostgreSQL manual, table 8.2).
pub const NUMERIC_FRACTION_DIGITS_MAX: usize = 16_383;

/// Most digits that a number in exponent form may have when written without exponent. A longer one is
/// a reject: jsonb stores numbers without exponent, so the eight bytes `1e131071` would become 131,072.
pub const NUMBER_EXPANDED_DIGITS_MAX: usize = 1_024;

/// Most digits that all numbers in exponent form of one document may have when written without
/// exponent, so that many such numbers are limited like one large number.
pub const DOCUMENT_EXPANDED_DIGITS_MAX: usize = DOCUMENT_BYTES_MAX;

/// Characters of a text that a reason shows.
pub const SHOWN_CHARACTERS: usize = 60;

/// Hyphens in two addresses with zone ids. Linux allows 15 bytes for the name of an interface.
pub const ZONE_HYPHENS_MAX: usize = 32;

const _: () = assert!(SLOTS == 256, "a slot is the top byte of the key hash");
const _: () = assert!(REJECT_END_BYTES * 2 <= REJECT_BYTES_MAX);
const _: () = assert!(REJECT_BYTES_MAX <= DOCUMENT_BYTES_MAX);
const _: () = assert!(NUMBER_EXPANDED_DIGITS_MAX <= NUMERIC_FRACTION_DIGITS_MAX);
const _: () = assert!(KEY_PATH_SEGMENTS_MAX <= NESTING_MAX);
