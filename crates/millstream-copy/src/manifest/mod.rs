//! Lists of entries on disk, in the order of their paths.

mod file;
mod frame;
mod journal;
mod sorter;

pub(crate) use file::{Header, Reader, Writer, header_of};
pub(crate) use journal::{Journal, Note, Notes, Piece, files_named, journals, read_journal};
pub(crate) use sorter::{PathRecord, Sorted, Sorter};

use crate::entry::{Entry, Facts};
use std::io;

/// The facts of an entry as bytes.
pub(crate) fn encode(facts: &Facts) -> io::Result<Vec<u8>> {
    postcard::to_stdvec(facts).map_err(|error| io::Error::other(format!("an entry cannot be written: {error}")))
}

/// An entry from its path and the bytes of its facts.
///
/// # Errors
/// The bytes are none of ours.
pub(crate) fn decode(path: Vec<u8>, facts: &[u8]) -> io::Result<Entry> {
    let facts = postcard::from_bytes(facts).map_err(|_| damaged("an entry cannot be read"))?;
    Ok(Entry { path, facts })
}

pub(crate) fn damaged(problem: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}
