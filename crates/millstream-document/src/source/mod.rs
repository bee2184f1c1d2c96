//! Sources turn the bytes of files and streams into framed documents with their positions.
//!
//! `Window` holds what was read of an input, and hashes what is handed out. One file per format finds the documents; a
//! new format is one file and two lines here. All of this blocks, so it runs on a thread of its own.
//!
//! Damage in the content is data, not an error: the last chunk holds one unreadable frame with `ends_source`, and
//! everything before it is delivered. A [`SourceError`] is a problem that the user must solve.

mod auto;
mod clip;
mod csv;
mod dialect;
mod envelope;
mod error;
mod extent;
mod json;
mod name;
mod ndjson;
mod rejects;
#[cfg(test)]
mod transcript;
mod tsv;
mod window;

pub use dialect::{Dialect, Quote};
pub use error::SourceError;
pub use millstream_input::{ENCODINGS, Encoding, Input, Progress};
pub use name::{path, spelling};
pub use ndjson::frame_lines;
pub use window::Window;

use crate::chunk::Chunk;
use crate::limits::{CHUNK_BYTES, PROBE_BYTES};
use millstream_model::Prefix;
use millstream_model::limits::DOCUMENT_BYTES_MAX;
use std::path::Path;
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
    /// Opens a source that reads this format.
    pub open: fn(Window) -> Result<Box<dyn Source>, SourceError>,
}

/// Every format, in the order of how common it is.
pub const SOURCES: &[Format] = &[ndjson::FORMAT, json::FORMAT, csv::FORMAT, tsv::FORMAT, rejects::FORMAT];

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

/// The running hash at the beginning of a source. `before` is the hash of the sources before it.
pub fn beginning(before: Option<u128>) -> Xxh3 {
    let mut hash = Xxh3::new();
    if let Some(before) = before {
        hash.update(&before.to_be_bytes());
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

/// Opens a file, or standard input for `-`, as the source number `index`. The format is the name of one of [`SOURCES`],
/// or [`AUTO`] to recognise it from the content.
///
/// # Errors
/// [`SourceError`] when it cannot be opened or read, or its format is not clear.
pub fn open(path: &Path, index: u32, format: &str, options: &SourceOptions) -> Result<Opened, SourceError> {
    open_input(Input::open(path)?, index, format, options)
}

/// Like [`open`], for an input that is already open.
///
/// # Errors
/// As [`open`].
pub fn open_input(input: Input, index: u32, format: &str, options: &SourceOptions) -> Result<Opened, SourceError> {
    let progress = input.progress();
    let mut window = Window::new(input, index, options)?;
    let format = match SOURCES.iter().find(|f| f.name == format) {
        Some(format) => format,
        None if format == AUTO => auto::recognise(&mut window)?,
        None => {
            let known: Vec<_> = std::iter::once(AUTO).chain(SOURCES.iter().map(|f| f.name)).collect();
            return Err(SourceError::UnknownFormat { format: format.into(), known: known.join("|") });
        }
    };
    Ok(Opened { source: (format.open)(window)?, format: format.name, progress })
}

/// Checks with the beginning of a file that it can be opened, is text and has a format.
///
/// # Errors
/// As [`open`].
pub fn probe(path: &Path, format: &str, options: &SourceOptions) -> Result<(), SourceError> {
    let options = SourceOptions { chunk_bytes: PROBE_BYTES, ..options.clone() };
    open(path, 0, format, &options).map(drop)
}

#[cfg(test)]
mod tests {
    use super::transcript::{COMPRESS, ReadFrame, bad, drain, read, read_oddly, recognise};
    use super::*;
    use fastrand::Rng;
    use millstream_model::Reason;
    use millstream_testkit::{Cases, gzip};
    use std::io::Write;

    #[test]
    fn formats_have_unique_names_and_descriptions() {
        let mut names: Vec<_> = SOURCES.iter().map(|f| f.name).chain([AUTO]).collect();
        assert_eq!(names, ["ndjson", "json", "csv", "tsv", "rejects", AUTO]);
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SOURCES.len() + 1);
        for format in SOURCES {
            assert!(format.about.len() > 20 && !format.about.ends_with('.'), "{}", format.name);
        }
    }

    #[test]
    fn every_format_reads_its_own_text() {
        let texts = ["{\"a\":\"1\"}\n", "[{\"a\":\"1\"}]", "a,b\n1,2\n", "a\tb\n1\t2\n", "{\"document\":\"{}\"}\n"];
        for (format, text) in SOURCES.iter().zip(texts) {
            let got = read(format.name, text.as_bytes()).unwrap();
            assert!(got.len() == 1 && got[0].unreadable.is_none(), "{got:?}");
        }
        assert_eq!(recognise(b"{}").unwrap(), "ndjson");
        let error = read("xml", b"").unwrap_err();
        assert_eq!(error.to_string(), "there is no format 'xml'; known are auto|ndjson|json|csv|tsv|rejects");
    }

    #[test]
    fn every_format_reads_hostile_bytes_the_same_for_any_chunking() {
        let texts = [
            "{\"a\":\"1\"}\n\n{\"b\":[2,\"\\\"\"]}\r\n{}",
            " [{\"a\":\"1\"},\n[1], \"x\" ,{}]\n",
            "{\n\"a\":1\n} {}",
            "a,\"b\"\n1,2\n\"3\n\"\"\",4\n\n5,6",
            "{\"load_id\":1,\"document\":\"{}\",\"truncated\":false}\n{\"document_base64\":\"e30=\"}\n",
        ];
        for mut rng in Cases::new(1500) {
            let mut content = rng.choice(texts).unwrap().as_bytes().to_vec();
            let (bytewise, compressed) = (rng.bool(), rng.bool());
            let mutate = |content: &mut Vec<u8>, rng: &mut Rng| {
                for _ in 0..rng.usize(0..4) {
                    let at = rng.usize(0..=content.len());
                    let end = rng.usize(at..=content.len().min(at + 3));
                    let byte = if bytewise { rng.u8(..) } else { *rng.choice(b"{}[]\",\n\\ 1").unwrap() };
                    content.splice(at..end, (0..rng.usize(0..3)).map(|_| byte));
                }
            };
            mutate(&mut content, &mut rng);
            if compressed {
                content = rng.choice(COMPRESS).unwrap()(&content);
                mutate(&mut content, &mut rng);
            }
            // A mutation may ask for a window that we refuse; there is then nothing to compare.
            let Ok((plain, _)) = drain(&content, 1000, 1000) else { continue };
            for format in SOURCES.iter().map(|f| f.name).chain([AUTO]) {
                let mut got = || read_oddly(format, &content, &plain, 100, &mut rng).map_err(|e| e.to_string());
                assert_eq!(got(), got(), "{format} {plain:?}");
            }
        }
    }

    /// Lines that do not compress to nothing.
    fn lines(count: usize) -> Vec<u8> {
        let mut rng = Rng::new();
        (0..count).flat_map(|n| format!("{{\"n\":{n},\"r\":{}}}\n", rng.u64(..)).into_bytes()).collect()
    }

    #[test]
    fn a_partial_line_before_damage_is_a_reject() {
        let plain = lines(2000);
        for compress in COMPRESS {
            let content = compress(&plain);
            for cut in [10, content.len() / 2, content.len() - 1] {
                let (decoded, _) = drain(&content[..cut], 1000, 1000).unwrap();
                let expected: Vec<ReadFrame> = {
                    let whole = decoded.iter().rposition(|&b| b == b'\n').map_or(0, |n| n + 1);
                    let mut got = read("ndjson", &decoded[..whole]).unwrap();
                    let rest = std::str::from_utf8(&decoded[whole..]).unwrap();
                    got.push(bad(whole as u64, got.len() as u64 + 1, rest, Reason::DamagedSource));
                    got
                };
                for mut rng in Cases::new(5) {
                    let got = read_oddly("ndjson", &content[..cut], &decoded, 1 << 20, &mut rng);
                    assert!(got.unwrap() == expected);
                }
            }
        }
    }

    #[test]
    fn files_report_their_progress() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let content = gzip(b"{}\n{}");
        file.write_all(&content).unwrap();
        let mut opened = open(file.path(), 3, "ndjson", &SourceOptions::default()).unwrap();
        let chunk = opened.source.next_chunk().unwrap().unwrap();
        assert_eq!((chunk.source, chunk.end, chunk.frames.len()), (3, 3, 1));
        assert_eq!(opened.source.next_chunk().unwrap().unwrap().end, 5);
        assert!(opened.source.next_chunk().unwrap().is_none());
        assert_eq!(opened.progress.bytes_read(), content.len() as u64);
        assert_eq!(opened.progress.bytes_total(), Some(content.len() as u64));
    }

    #[test]
    fn documents_of_a_live_source_are_passed_on_at_once() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"{}\n{\"a\"").unwrap();
        let input = Input::from_reader(Box::new(reader), "pipe", None).unwrap();
        let mut opened = open_input(input, 0, "auto", &SourceOptions::default()).unwrap();
        assert_eq!(opened.source.next_chunk().unwrap().unwrap().end, 3);
        writer.write_all(b":1}\n").unwrap();
        assert_eq!(opened.source.next_chunk().unwrap().unwrap().end, 11);
        drop(writer);
        assert!(opened.source.next_chunk().unwrap().is_none());
    }
}
