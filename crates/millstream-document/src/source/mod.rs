//! Sources turn the bytes of files and streams into framed documents with their positions.
//!
//! `Window` holds what was read of an input, and hashes what is handed out. One file per format finds the documents; a
//! new format is one file and two lines here. All of this blocks, so it runs on a thread of its own.
//!
//! Damage in the content is data, not an error: the last chunk holds one unreadable frame with `ends_source`, and
//! everything before it is delivered. A [`SourceError`] is a problem that the user must solve.

mod arrow;
mod auto;
mod avro;
mod bson;
mod clip;
mod csv;
mod dialect;
mod envelope;
mod error;
mod extent;
mod json;
mod location;
mod name;
mod ndjson;
mod parquet;
mod rejects;
#[cfg(test)]
mod transcript;
mod tsv;
mod window;

pub use dialect::{Dialect, Quote};
pub use error::SourceError;
pub use location::{Found, Location};
pub use millstream_input::{ENCODINGS, Encoding, Input, NANS, Nan, Objects, Progress, SchemaColumn};
pub use name::{path, spelling};
pub use ndjson::frame_lines;
pub use window::Window;

use crate::chunk::Chunk;
use crate::limits::{CHUNK_BYTES, PROBE_BYTES};
use millstream_model::Prefix;
use millstream_model::limits::DOCUMENT_BYTES_MAX;
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// Chunks of one source, in order.
pub trait Source: Send {
    /// The next chunk, or `None` at the end. Blocks until there is one.
    ///
    /// # Errors
    /// [`SourceError`] when reading fails or the source changed since an earlier run. The source cannot be used after
    /// that.
    fn next_chunk(&mut self) -> Result<Option<Chunk>, SourceError>;
}

/// A format: how documents are written in a source.
pub struct Format {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is, for the command's help.
    pub about: &'static str,
    /// Of the options that only some formats have, those of this one.
    pub takes: &'static [Takes],
    /// The files of which its text is made, if they are no text themselves.
    pub made: Option<&'static millstream_input::Format>,
    /// Opens a source that reads this format.
    pub open: fn(Window) -> Result<Box<dyn Source>, SourceError>,
}

/// Options of a [`Dialect`] that only some formats have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// Those of delimited files.
    Fields,
    /// Those of delimited files, if the columns are named.
    NamedFields,
    /// A delimiter in place of the format's own.
    Delimiter,
    /// The path of the array in an object.
    Root,
    /// What becomes of numbers that are not finite.
    Nan,
}

/// Every format, in the order of how common it is.
pub const SOURCES: &[Format] = &[
    ndjson::FORMAT,
    json::FORMAT,
    csv::FORMAT,
    tsv::FORMAT,
    parquet::FORMAT,
    arrow::FORMAT,
    avro::FORMAT,
    bson::FORMAT,
    rejects::FORMAT,
];

/// The path of the key that all documents of such sources have. `None` if there is no such key. The format is one that was
/// named, or is that of which every source has the name, such as `orders.bson.gz`.
pub fn own_key(format: &str, sources: &[String]) -> Option<&'static str> {
    let all_are = |one: &&Format| !sources.is_empty() && sources.iter().all(|source| is_called(source, one.name));
    let named = SOURCES.iter().find(|one| one.name == format);
    named.or_else(|| SOURCES.iter().find(all_are))?.made?.key
}

/// Whether a file has the name of a format, also if it is compressed.
pub fn is_called(source: &str, format: &str) -> bool {
    let name = source.strip_suffix(".gz").or_else(|| source.strip_suffix(".zst")).unwrap_or(source);
    name.strip_suffix(format).is_some_and(|name| name.ends_with('.'))
}

/// Name of the choice that recognises the format from the content.
pub const AUTO: &str = "auto";

/// How to read a source.
#[derive(Debug, Clone)]
pub struct SourceOptions {
    /// Approximate size of a chunk, in bytes.
    pub chunk_bytes: usize,
    /// Longest document, in bytes of its text.
    pub document_bytes_max: usize,
    /// Beginnings of this source that an earlier run of the load has read. Each is verified
    /// before a chunk that goes beyond it is handed out.
    pub prefixes: Vec<Prefix>,
    /// The hash of everything before this source, if it is not the first. The running hash begins with it, so that it
    /// covers every source up to its place.
    pub before: Option<u128>,
    /// Options besides the format that decide how its bytes become documents.
    pub dialect: Dialect,
}

impl Default for SourceOptions {
    fn default() -> Self {
        Self {
            chunk_bytes: CHUNK_BYTES,
            document_bytes_max: DOCUMENT_BYTES_MAX,
            prefixes: Vec::new(),
            before: None,
            dialect: Dialect::default(),
        }
    }
}

/// The running hash at the beginning of a source that is known by its bytes. `before` is the hash of the sources before it.
pub fn beginning(before: Option<u128>) -> Xxh3 {
    let mut hash = Xxh3::new();
    if let Some(before) = before {
        hash.update(&before.to_be_bytes());
    }
    hash
}

/// The running hash of an object, from its first byte to its last: the store's tag stands for the content. The versions of
/// the texts that are made of files that are no text stand for what the program makes of it.
pub fn tagged(before: Option<u128>, tag: &str) -> Xxh3 {
    let mut hash = beginning(before);
    for part in std::iter::once(tag).chain(SOURCES.iter().filter_map(|format| format.made).map(|made| made.version)) {
        hash.update(&(part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    hash
}

/// A source ready to be read.
pub struct Opened {
    /// Its chunks.
    pub source: Box<dyn Source>,
    /// The name of its format.
    pub format: &'static str,
    /// How much of it has been read.
    pub progress: Arc<Progress>,
}

/// Opens what lies at a location as the source number `index`. The format is the name of one of [`SOURCES`], or [`AUTO`]
/// to recognise it from the content.
///
/// # Errors
/// [`SourceError`] when it cannot be opened or read, or its format is not clear.
pub fn open(location: &Location, index: u32, format: &str, options: &SourceOptions) -> Result<Opened, SourceError> {
    open_input(location.open(options.dialect.nan)?, index, format, options)
}

/// Like [`open`], for an input that is already open.
///
/// # Errors
/// As [`open`].
pub fn open_input(input: Input, index: u32, format: &str, options: &SourceOptions) -> Result<Opened, SourceError> {
    open_as(input, index, options, |window| match SOURCES.iter().find(|f| f.name == format) {
        Some(format) => Ok(format),
        None if format == AUTO => auto::recognise(window),
        None => {
            let known: Vec<_> = std::iter::once(AUTO).chain(SOURCES.iter().map(|f| f.name)).collect();
            Err(SourceError::UnknownFormat { format: format.into(), known: known.join("|") })
        }
    })
}

/// Like [`open_input`], in the format that is chosen when the window shows the beginning of the content.
fn open_as(
    input: Input,
    index: u32,
    options: &SourceOptions,
    choose: impl FnOnce(&mut Window) -> Result<&'static Format, SourceError>,
) -> Result<Opened, SourceError> {
    let progress = input.progress();
    let mut window = Window::new(input, index, options)?;
    let format = choose(&mut window)?;
    require_kind(&mut window, format)?;
    Ok(Opened { source: (format.open)(window)?, format: format.name, progress })
}

/// Requires that a file is what its format says: text, or of the files that the format's text is made of.
fn require_kind(window: &mut Window, format: &'static Format) -> Result<(), SourceError> {
    let may_be_empty = format.made.is_some_and(|wanted| wanted.may_be_empty);
    let is_empty = may_be_empty && window.bytes().is_empty() && !window.fill()?;
    let unclear = |found: String, hint: String| Err(SourceError::Unclear { name: window.name().into(), found, hint });
    match (window.made(), format.made) {
        (None, None) => Ok(()),
        (None, Some(_)) if is_empty => Ok(()),
        (Some(made), Some(wanted)) if made.name == wanted.name => Ok(()),
        (Some(made), _) => unclear(
            format!("is {}, and not {}", made.kind, format.name),
            format!("use --format {}, or leave it out", made.name),
        ),
        (None, Some(wanted)) => {
            unclear(format!("is no {} file", wanted.kind), "leave --format out, and the content decides".into())
        }
    }
}

/// Checks with the beginning of a file that it can be opened and has a format. Returns the version of the text that is
/// made of it, if it is no text.
///
/// # Errors
/// As [`open`].
pub fn probe(location: &Location, format: &str, options: &SourceOptions) -> Result<Option<&'static str>, SourceError> {
    let options = SourceOptions { chunk_bytes: PROBE_BYTES, ..options.clone() };
    let opened = open(location, 0, format, &options)?;
    let format = SOURCES.iter().find(|format| format.name == opened.format);
    Ok(format.and_then(|format| format.made).map(|made| made.version))
}

/// The members that the schema of a file describes. `None`: it is text, or has no schema.
///
/// # Errors
/// As [`open`].
pub fn schema(
    location: &Location,
    format: &str,
    options: &SourceOptions,
) -> Result<Option<Vec<SchemaColumn>>, SourceError> {
    let options = SourceOptions { chunk_bytes: PROBE_BYTES, ..options.clone() };
    let mut opened = open(location, 0, format, &options)?;
    let is_made = SOURCES.iter().any(|format| format.name == opened.format && format.made.is_some());
    if is_made && opened.progress.columns().is_none() {
        // The schema of a stream comes before its first rows.
        opened.source.next_chunk()?;
    }
    Ok(opened.progress.columns().map(<[_]>::to_vec))
}

#[cfg(test)]
mod tests;
