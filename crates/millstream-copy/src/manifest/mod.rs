//! Lists of entries on disk, in the order of their paths.

mod file;
mod frame;
mod journal;
mod sorter;

pub(crate) use file::{Header, Reader, Writer};
pub(crate) use journal::{JOURNALS, Journal, Note, Notes, Piece, files_named, read_journal};
pub(crate) use sorter::{Sorted, Sorter};

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;

/// What is wrong with a note that is none of ours.
pub(crate) const NO_NOTE: &str = "a note cannot be read";

/// Facts or a note as bytes.
pub(crate) fn encode(value: &impl Serialize) -> io::Result<Vec<u8>> {
    postcard::to_stdvec(value).map_err(|error| io::Error::other(format!("an entry cannot be written: {error}")))
}

/// Facts or a note from bytes. `problem`: what is wrong if the bytes are none of ours.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8], problem: &'static str) -> io::Result<T> {
    postcard::from_bytes(bytes).map_err(|_| damaged(problem))
}

fn damaged(problem: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}
