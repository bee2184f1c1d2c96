//! Files that are not text, read as the NDJSON they stand for.
//!
//! A [`Format`] is recognised by its first bytes, and its [`Converter`] writes one line a row. What the line says is fixed
//! by the format's version: offsets, lines and hashes are those of this text. So a file means the same text in every run,
//! and a change of the text is a new version. All of this blocks.
//!
//! Some formats are behind features. Without one, its format is known and cannot be opened.

#[cfg(feature = "columnar")]
mod columns;
mod converter;
mod guard;
pub mod limits;
pub mod mongo;
mod nan;
mod schema_column;
mod spelling;

pub use converter::{Converter, FileExtent, Format, Look, MALFORMED, Open, ReadAt, Trouble};
pub use guard::{guarded, is_guarded};
pub use nan::{NANS, Nan};
pub use schema_column::SchemaColumn;

/// What opens Parquet, Arrow and Avro.
const COLUMNAR: &str = "columnar";

#[cfg(not(feature = "columnar"))]
mod columns {
    //! What stands for the formats in a build that does not read them.

    use crate::Open;

    pub(crate) const PARQUET: Option<Open> = None;
    pub(crate) const ARROW_FILE: Option<Open> = None;
    pub(crate) const ARROW_STREAM: Option<Open> = None;
    pub(crate) const AVRO: Option<Open> = None;
}

/// Apache Parquet. Its description stands at the end of the file.
pub const PARQUET: Format = Format {
    kind: "Parquet",
    name: "parquet",
    version: "parquet/1",
    marks: &[(0, PARQUET_MAGIC)],
    look: Some(look_for_parquet),
    needs_file: true,
    may_be_empty: false,
    key: None,
    feature: COLUMNAR,
    open: columns::PARQUET,
};

const PARQUET_MAGIC: &[u8] = b"PAR1";

/// Bytes behind Parquet's magic number of which one is none of a text: they begin the header of a page, or that of the footer
/// if there are no rows, or are the length of one that is encrypted.
const PARQUET_HEADER_BYTES: usize = 4;

/// Tells a file from a text that begins with the same letters, such as `PAR1,PAR2`.
fn look_for_parquet(bytes: &[u8]) -> Look {
    let header = bytes.iter().skip(PARQUET_MAGIC.len()).take(PARQUET_HEADER_BYTES);
    let is_of_text = |byte: &u8| *byte >= b' ' || matches!(byte, b'\t' | b'\n' | b'\r');
    match header.clone().all(is_of_text) {
        false => Look::Yes,
        true if header.count() < PARQUET_HEADER_BYTES => Look::Open,
        true => Look::No,
    }
}

/// Arrow's IPC file, which Feather is, too.
pub const ARROW_FILE: Format = Format {
    kind: "Arrow",
    name: "arrow",
    version: "arrow/1",
    marks: &[(0, b"ARROW1\0\0")],
    look: None,
    needs_file: false,
    may_be_empty: false,
    key: None,
    feature: COLUMNAR,
    open: columns::ARROW_FILE,
};

/// Arrow's IPC stream. It has no magic number: four bytes that no text has, and the length of the first message, which is
/// below 16 MiB.
pub const ARROW_STREAM: Format = Format {
    kind: "Arrow stream",
    name: "arrow",
    version: "arrow/1",
    marks: &[(0, b"\xff\xff\xff\xff"), (7, b"\0")],
    look: None,
    needs_file: false,
    may_be_empty: false,
    key: None,
    feature: COLUMNAR,
    open: columns::ARROW_STREAM,
};

/// Avro's object container file.
pub const AVRO: Format = Format {
    kind: "Avro",
    name: "avro",
    version: "avro/1",
    marks: &[(0, b"Obj\x01")],
    look: None,
    needs_file: false,
    may_be_empty: false,
    key: None,
    feature: COLUMNAR,
    open: columns::AVRO,
};

/// BSON, as mongodump writes it. A collection without documents is a file without bytes.
pub const BSON: Format = Format {
    kind: "BSON",
    name: "bson",
    version: "bson/1",
    marks: &[],
    look: Some(mongo::LOOK),
    needs_file: false,
    may_be_empty: true,
    key: Some("_id"),
    feature: "default",
    open: mongo::BSON,
};
