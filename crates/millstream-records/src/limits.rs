//! Every limit of this crate.

/// Longest line of the made text. A longer row is damage: no document of this length is stored.
pub const LINE_BYTES_MAX: usize = 1 << 28;

/// Bytes of text that a converter makes at once, and then the rest of the line.
pub const TEXT_BYTES: usize = 256 << 10;

/// Rows that are decoded or prepared at once.
pub const BATCH_ROWS: usize = 1024;

/// Bytes of values of fixed length that are decoded at once: a dictionary may hold one long value for all rows.
pub const BATCH_FIXED_BYTES: usize = 64 << 20;

/// Levels to which the columns of a file nest, and the structs of its headers.
pub const NESTING_MAX: usize = 64;

/// Longest footer of a Parquet file. It describes each part of each column.
pub const FOOTER_BYTES_MAX: usize = 256 << 20;

/// Bytes that are read at first for the header of a page.
pub const PAGE_HEADER_BYTES: usize = 4 << 10;

/// Longest header of a page. It may hold the least and the greatest value.
pub const PAGE_HEADER_BYTES_MAX: usize = 16 << 20;

/// Largest page, opened. Writers make pages of about 1 MiB.
pub const PAGE_BYTES_MAX: usize = 256 << 20;

/// Bytes of pages that may be opened for one batch of rows: one or two of each column.
pub const BATCH_BYTES_MAX: usize = 2 << 30;

/// Values that pages may hold that are opened for one batch of rows. Nulls and repeated values have next to no bytes.
pub const BATCH_VALUES_MAX: usize = 1 << 27;

/// Longest description of a batch in an Arrow stream, and longest footer of an Arrow file.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// Largest batch of an Arrow file or stream, opened, and as much of its dictionaries. A batch is decoded as a whole.
pub const ARROW_BATCH_BYTES_MAX: usize = 1 << 30;

/// Longest header of an Avro file. Its schema is JSON, which takes many times as much memory.
pub const AVRO_HEADER_BYTES_MAX: usize = 4 << 20;

/// Largest block of an Avro file, as it is stored and opened. Most writers make blocks of 16 to 64 KiB, and some one for all
/// records. A block is held as a whole.
pub const AVRO_BLOCK_BYTES_MAX: usize = 1 << 30;

/// Records that a block of Avro may name, and items that an array may, if there are not as many bytes: a null has none, and a
/// record of nulls has none.
pub const AVRO_EMPTY_ITEMS_MAX: u64 = 1 << 16;

/// How deep a record of Avro may nest, where a type holds itself. Documents that are stored nest less.
pub const AVRO_NESTING_MAX: usize = 1 << 10;

/// Longest decimal number of Avro, about 2,400 digits: the time to write one grows with the square of its length.
pub const AVRO_DECIMAL_BYTES_MAX: usize = 1 << 10;

/// Longest document of BSON: 16 MiB, and what the server adds to one in its log (`BSONObjMaxInternalSize`).
pub const BSON_DOCUMENT_BYTES_MAX: usize = (16 << 20) + (16 << 10);

/// Bytes of BSON that are read at once.
pub const BSON_READ_BYTES: usize = 256 << 10;

/// How deep a document of BSON may nest. MongoDB allows 200 levels; a setting of its server raises that to 1,000 at most.
pub const BSON_NESTING_MAX: usize = 1 << 10;

/// Longest name of the first member of a file by which BSON is recognised.
pub const BSON_NAME_BYTES_MAX: usize = 1 << 10;

const _: () =
    assert!(14 * BSON_DOCUMENT_BYTES_MAX <= LINE_BYTES_MAX, "a regular expression grows most, from 4 bytes to 54");
const _: () = assert!(LINE_BYTES_MAX <= AVRO_BLOCK_BYTES_MAX, "a block may be larger than a record");
const _: () = assert!(PAGE_HEADER_BYTES <= PAGE_HEADER_BYTES_MAX);
const _: () = assert!(PAGE_BYTES_MAX <= BATCH_BYTES_MAX && BATCH_ROWS <= BATCH_VALUES_MAX);
const _: () = assert!(TEXT_BYTES <= LINE_BYTES_MAX);
