//! Documents as a source delivers them, and what every target asserts of them.

use millstream_document::source::{Input, SourceError, SourceOptions, open_input};
use millstream_input::BSON;
use millstream_model::Reason;
use std::io::{Cursor, Read};

/// Chunk sizes that must give the same documents.
const CHUNK_BYTES: [usize; 2] = [1, 64 << 10];

/// How compressed data begins: gzip, zstd, a zstd frame that is skipped.
const COMPRESSED: [&[u8]; 3] = [b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18"];

/// One document as a source delivers it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Framed {
    /// Byte offset in the source.
    pub(crate) offset: u64,
    /// Line, from 1.
    pub(crate) line: u64,
    /// The document, or what there is of an unreadable one.
    pub(crate) bytes: Vec<u8>,
    /// Why it is unreadable.
    pub(crate) unreadable: Option<Unreadable>,
}

/// Why a source delivers no document.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unreadable {
    /// The reason's kind.
    pub(crate) reason: Reason,
    /// What is wrong.
    pub(crate) detail: String,
    /// The whole length where head and tail alone are kept.
    pub(crate) truncated_from: Option<u64>,
    /// Nothing after it is read.
    pub(crate) ends_source: bool,
}

/// Reads `input` as a source of the format, in chunks of every size, asserts that all give the same, and
/// returns it. `None` where the source as a whole is refused, and for compressed data and BSON, whose positions are not
/// those of the input.
pub(crate) fn framed(format: &str, input: &[u8], document_bytes_max: usize) -> Option<Vec<Framed>> {
    framed_as(format, input, &SourceOptions { document_bytes_max, ..SourceOptions::default() })
}

/// The same for any options.
pub(crate) fn framed_as(format: &str, input: &[u8], options: &SourceOptions) -> Option<Vec<Framed>> {
    if COMPRESSED.iter().any(|magic| input.starts_with(magic)) || BSON.begins(input) {
        return None;
    }
    let [bytewise, at_once] = CHUNK_BYTES.map(|chunk_bytes| {
        let options = SourceOptions { chunk_bytes, ..options.clone() };
        read(format, input, &options).map_err(|error| error.to_string())
    });
    // What is not text is known by its first bytes, of which a slow source gives too few.
    let at_once = at_once.ok()?;
    assert_eq!(bytewise.as_ref(), Ok(&at_once), "the chunks' size changes what is read");
    Some(at_once)
}

/// Asserts that a frame which is not a document and was not cut holds bytes of the input.
pub(crate) fn assert_kept(input: &[u8], frame: &Framed) {
    if frame.unreadable.as_ref().is_some_and(|unreadable| unreadable.truncated_from.is_none()) {
        let start = usize::try_from(frame.offset).expect("an offset in memory");
        assert!(input[start..].starts_with(&frame.bytes), "a reject holds other bytes than its place: {frame:?}");
    }
}

/// Gives one byte at a time where chunks have one byte, else all there are.
struct Pieces {
    bytes: Cursor<Vec<u8>>,
    largest: usize,
}

impl Read for Pieces {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let most = self.largest.min(into.len());
        self.bytes.read(&mut into[..most])
    }
}

fn read(format: &str, input: &[u8], options: &SourceOptions) -> Result<Vec<Framed>, SourceError> {
    let pieces = Pieces { bytes: Cursor::new(input.to_vec()), largest: options.chunk_bytes };
    let input_length = input.len() as u64;
    let mut opened = open_input(Input::from_reader(Box::new(pieces), "fuzz", Some(input_length))?, 0, format, options)?;
    let (mut frames, mut end, mut line, mut ended) = (Vec::<Framed>::new(), 0, 1, false);
    while let Some(chunk) = opened.source.next_chunk()? {
        assert!(!ended, "a chunk behind the end of the source");
        assert!(chunk.end >= end && chunk.end <= input_length, "the chunk ends at {}, before it {end}", chunk.end);
        for frame in &chunk.frames {
            let unreadable = frame.unreadable.as_deref();
            ended = unreadable.is_some_and(|unreadable| unreadable.ends_source);
            assert!(frame.offset >= end, "a frame at {} of what ended at {end}", frame.offset);
            assert!(ended || frame.offset < chunk.end, "a frame behind its chunk");
            assert!(frames.last().is_none_or(|last| last.offset < frame.offset), "positions do not grow");
            assert!(frame.line >= line, "lines do not grow");
            line = frame.line;
            frames.push(Framed {
                offset: frame.offset,
                line: frame.line,
                bytes: chunk.document(frame).to_vec(),
                unreadable: unreadable.map(|unreadable| Unreadable {
                    reason: unreadable.fault.reason,
                    detail: unreadable.fault.detail.to_string(),
                    truncated_from: unreadable.truncated_from,
                    ends_source: unreadable.ends_source,
                }),
            });
        }
        end = chunk.end;
    }
    Ok(frames)
}
