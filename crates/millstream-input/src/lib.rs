//! Bytes of files, pipes, objects and readers, for everything that reads them.
//!
//! An [`Input`] gives uncompressed bytes, whatever they come from. A [`Window`] holds what was read and not yet handed
//! out, and knows where it stands. [`Lines`] and [`csv::Record`] find lines and records in it. A [`Sorter`] sorts
//! what does not fit into memory. All of this blocks.
//!
//! A file of a format of `millstream-records` is read as the NDJSON that it stands for, and so by everybody.
//!
//! Damage in compressed data, or in such a file, is no error: all bytes before it come out, and then [`End::Damaged`]. An [`Error`] is a
//! problem that the user must solve.

mod compression;
mod content;
pub mod csv;
mod encoding;
mod error;
mod facts;
mod got;
mod input;
pub mod limits;
mod line_number;
mod lines;
mod made;
mod object;
mod plain;
mod raw;
mod signature;
mod sorter;
mod unchanged;
mod window;

pub use content::Content;
pub use encoding::{ENCODINGS, Encoding};
pub use error::{Error, Way, piped};
pub use facts::{metadata, stream_identity};
pub use got::Got;
pub use input::Input;
pub use line_number::LineNumber;
pub use lines::{Line, Lines};
pub use millstream_records::{
    ARROW_FILE, AVRO, BSON, Format, MALFORMED, NANS, Nan, PARQUET, ReadAt, SchemaColumn, is_guarded, mongo,
};
pub use object::{Object, Objects, Replaced};
pub use raw::Progress;
pub use sorter::{SortRecord, Sorted, Sorter};
pub use window::{End, MARK, Window};
