//! For tests: what a source delivers, as a value to compare.

use super::{AUTO, Format, Input, Opened, SourceError, SourceOptions, open_as, open_input};
use fastrand::Rng;
use millstream_input::Got;
use millstream_model::Reason;
use millstream_testkit::{Pieces, gzip, zstd};
use std::io::Cursor;
use xxhash_rust::xxh3::xxh3_128;

/// One frame.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct ReadFrame {
    pub(super) offset: u64,
    pub(super) line: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) unreadable: Option<(Reason, Option<u64>)>,
}

impl std::fmt::Debug for ReadFrame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = &self.bytes[..self.bytes.len().min(200)];
        write!(f, "{}:{} {:?}", self.offset, self.line, String::from_utf8_lossy(shown))?;
        self.unreadable.iter().try_for_each(|unreadable| write!(f, " {unreadable:?}"))
    }
}

/// Short form of a good frame.
pub(super) fn good(offset: u64, line: u64, text: &str) -> ReadFrame {
    ReadFrame { offset, line, bytes: text.into(), unreadable: None }
}

/// Short form of an unreadable frame that was kept whole.
pub(super) fn bad(offset: u64, line: u64, text: &str, reason: Reason) -> ReadFrame {
    ReadFrame { offset, line, bytes: text.into(), unreadable: Some((reason, None)) }
}

/// Options with small sizes.
pub(super) fn sizes(chunk_bytes: usize, document_bytes_max: usize) -> SourceOptions {
    SourceOptions { chunk_bytes, document_bytes_max, ..SourceOptions::default() }
}

/// A format that a test reads: the name of one in the list, or a format that stands in no list.
pub(super) trait Chosen: Copy {
    fn open(self, input: Input, index: u32, options: &SourceOptions) -> Result<Opened, SourceError>;
}

impl Chosen for &str {
    fn open(self, input: Input, index: u32, options: &SourceOptions) -> Result<Opened, SourceError> {
        open_input(input, index, self, options)
    }
}

impl Chosen for &'static Format {
    fn open(self, input: Input, index: u32, options: &SourceOptions) -> Result<Opened, SourceError> {
        open_as(input, index, options, |_| Ok(self))
    }
}

/// Reads all of an uncompressed source.
pub(super) fn read(format: impl Chosen, text: &[u8]) -> Result<Vec<ReadFrame>, SourceError> {
    let input = Input::from_reader(Box::new(Cursor::new(text.to_vec())), "test", Some(0))?;
    transcribe(input, format, text, &SourceOptions::default())
}

/// Reads all of a source whose uncompressed bytes begin with `plain`. Checks what must hold for every source.
pub(super) fn transcribe(
    input: Input,
    format: impl Chosen,
    plain: &[u8],
    options: &SourceOptions,
) -> Result<Vec<ReadFrame>, SourceError> {
    let mut opened = format.open(input, 7, options)?;
    let (mut got, mut end, mut ended): (Vec<ReadFrame>, u64, bool) = (Vec::new(), 0, false);
    while let Some(chunk) = opened.source.next_chunk()? {
        assert!(!ended, "a chunk after the end of the source");
        assert_eq!(chunk.source, 7);
        assert!(chunk.end >= end, "chunks go back from {end} to {}", chunk.end);
        let here = usize::try_from(chunk.end).unwrap();
        assert_eq!(chunk.prefix_hash, xxh3_128(&plain[..here]), "hash of the first {here} bytes");
        for frame in &chunk.frames {
            let unreadable = frame.unreadable.as_deref();
            ended = unreadable.is_some_and(|b| b.ends_source);
            assert!(frame.offset >= end, "frame at {} after {end}", frame.offset);
            assert!(if ended { frame.offset == chunk.end } else { frame.offset < chunk.end });
            assert!(got.last().is_none_or(|t| t.offset < frame.offset && t.line <= frame.line));
            assert_eq!(ended, unreadable.is_some_and(|b| b.fault.reason == Reason::DamagedSource));
            got.push(ReadFrame {
                offset: frame.offset,
                line: frame.line,
                bytes: chunk.document(frame).to_vec(),
                unreadable: unreadable.map(|b| (b.fault.reason, b.truncated_from)),
            });
        }
        end = chunk.end;
    }
    assert!(opened.source.next_chunk()?.is_none(), "the end is final");
    Ok(got)
}

/// Reads the content with random chunk sizes in pieces of random sizes.
pub(super) fn read_oddly(
    format: impl Chosen,
    content: &[u8],
    plain: &[u8],
    document_bytes_max: usize,
    rng: &mut Rng,
) -> Result<Vec<ReadFrame>, SourceError> {
    let largest = *rng.choice(&[1, 7, 64, 5000]).expect("not empty");
    let pieces = Pieces::new(content, largest, rng);
    let total = rng.bool().then_some(content.len() as u64);
    let input = Input::from_reader(Box::new(pieces), "test", total)?;
    let chunk_bytes = *rng.choice(&[1, 3, 16, 100, 1000, 100_000]).expect("not empty");
    transcribe(input, format, plain, &sizes(chunk_bytes, document_bytes_max))
}

/// The name of the format that is recognised in the text.
pub(super) fn recognise(text: &[u8]) -> Result<&'static str, SourceError> {
    let input = Input::from_reader(Box::new(Cursor::new(text.to_vec())), "test", None)?;
    open_input(input, 0, AUTO, &SourceOptions::default()).map(|opened| opened.format)
}

/// Everything that comes out of a source, and how it ends, read with buffers of this size.
pub(super) fn drain(content: &[u8], into: usize, largest: usize) -> Result<(Vec<u8>, Got), SourceError> {
    let pieces = Pieces::new(content, largest, &mut Rng::new());
    let mut input = Input::from_reader(Box::new(pieces), "test", None)?;
    let (mut plain, mut buffer) = (Vec::new(), vec![0; into]);
    loop {
        match input.read(&mut buffer)? {
            Got::Bytes(n) => plain.extend_from_slice(&buffer[..n]),
            end => {
                assert_eq!(input.read(&mut buffer)?, end, "the end is final");
                return Ok((plain, end));
            }
        }
    }
}

type Compress = fn(&[u8]) -> Vec<u8>;

/// The compressions we open.
pub(super) const COMPRESS: [Compress; 2] = [gzip, zstd];
