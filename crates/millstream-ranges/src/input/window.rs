//! The bytes of a file, decompressed, of which a bounded part is in memory.

use crate::error::Error;
use crate::limits::{LINE_BYTES_MAX, READ_BYTES, SHOWN_BYTES};
use flate2::read::MultiGzDecoder;
use memchr::memchr;
use std::fs::File;
use std::io::{self, Cursor, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What some programs write before UTF-8.
pub(super) const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

type Bytes = Box<dyn Read + Send>;

/// A compression, recognised by the first bytes of the content.
struct Compression {
    name: &'static str,
    magic: &'static [u8],
    open: fn(Bytes) -> io::Result<Bytes>,
}

/// The compressions that are opened. A zstd file may begin with a skippable frame (RFC 8878, 3.1.2); pzstd writes such
/// files.
const COMPRESSIONS: &[Compression] = &[
    Compression { name: "gzip", magic: &[0x1f, 0x8b], open: gzip },
    Compression { name: "zstd", magic: &[0x28, 0xb5, 0x2f, 0xfd], open: zstd },
    Compression { name: "zstd", magic: &[0x50, 0x2a, 0x4d, 0x18], open: zstd },
];

/// Bytes that are enough to recognise a compression.
const MAGIC_BYTES: u64 = 4;

fn gzip(bytes: Bytes) -> io::Result<Bytes> {
    Ok(Box::new(MultiGzDecoder::new(bytes)))
}

fn zstd(bytes: Bytes) -> io::Result<Bytes> {
    Ok(Box::new(zstd::stream::read::Decoder::new(bytes)?))
}

/// Counts what is read.
struct Counted {
    bytes: Bytes,
    count: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.bytes.read(buffer)?;
        self.count.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// A part of a file that moves from its beginning to its end.
pub(super) struct Window {
    path: PathBuf,
    name: String,
    /// Name of the compression.
    compression: Option<&'static str>,
    reader: Bytes,
    has_ended: bool,
    /// Bytes read of the file, compressed as they are.
    count: Arc<AtomicU64>,
    total: Option<u64>,
    buffer: Vec<u8>,
    /// The bytes in view are `start..end` of the buffer.
    start: usize,
    end: usize,
    /// Number of the line on which the bytes in view begin.
    line: u64,
    /// Bytes in view that were returned as a line, with the line end.
    returned: usize,
    /// The beginning of a line that is too long.
    head: Vec<u8>,
}

/// A line.
pub(super) struct Line<'a> {
    /// From 1.
    pub(super) number: u64,
    /// Its text without the line feed. If it is too long, a beginning of it that is more than a reject shows.
    pub(super) text: &'a [u8],
    /// Whether the text is all of it.
    pub(super) is_whole: bool,
}

impl Window {
    /// Opens a file, or standard input if the path is `-`.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        if path == Path::new("-") {
            return Self::new(path, Box::new(io::stdin()), None);
        }
        let file = File::open(path).map_err(Error::file("open", path))?;
        let metadata = file.metadata().map_err(Error::file("open", path))?;
        Self::new(path, Box::new(file), metadata.is_file().then_some(metadata.len()))
    }

    /// The content of what was opened.
    pub(super) fn new(path: &Path, bytes: Bytes, total: Option<u64>) -> Result<Self, Error> {
        let count = Arc::new(AtomicU64::new(0));
        let mut counted = Counted { bytes, count: Arc::clone(&count) };
        let mut head = Vec::new();
        counted.by_ref().take(MAGIC_BYTES).read_to_end(&mut head).map_err(Error::file("read", path))?;
        let compression = COMPRESSIONS.iter().find(|compression| head.starts_with(compression.magic));
        let mut reader: Bytes = Box::new(Cursor::new(head).chain(counted));
        if let Some(compression) = compression {
            reader = (compression.open)(reader).map_err(Error::file("read", path))?;
        }
        Ok(Self {
            path: path.to_owned(),
            name: path.display().to_string(),
            compression: compression.map(|compression| compression.name),
            reader,
            has_ended: false,
            count,
            total,
            buffer: vec![0; READ_BYTES],
            start: 0,
            end: 0,
            line: 1,
            returned: 0,
            head: Vec::new(),
        })
    }

    /// The path as it was given.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The path, for messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Bytes read of the file, and how many it has.
    pub(super) fn progress(&self) -> (u64, Option<u64>) {
        (self.count.load(Ordering::Relaxed), self.total)
    }

    /// The bytes in view.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Number of the line on which the bytes in view begin.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// Moves on by bytes, in which so many lines end.
    pub(super) fn take(&mut self, bytes: usize, lines: u64) {
        self.start += bytes;
        self.line += lines;
    }

    /// Brings more bytes into view behind those that are. `false`: there are no more.
    pub(super) fn fill(&mut self) -> Result<bool, Error> {
        if self.has_ended {
            return Ok(false);
        }
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.end > self.buffer.len() / 2 {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        loop {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(read) => {
                    self.end += read;
                    self.has_ended = read == 0;
                    return Ok(read > 0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
    }

    /// Takes the mark that some programs write before UTF-8. Only for the beginning of the content.
    pub(super) fn skip_byte_order_mark(&mut self) -> Result<(), Error> {
        while self.bytes().len() < BYTE_ORDER_MARK.len() && self.fill()? {}
        if self.bytes().starts_with(BYTE_ORDER_MARK) {
            self.take(BYTE_ORDER_MARK.len(), 0);
        }
        Ok(())
    }

    /// The next line. Of one with more than [`LINE_BYTES_MAX`] bytes, only the beginning is kept.
    pub(super) fn next_line(&mut self) -> Result<Option<Line<'_>>, Error> {
        let returned = std::mem::take(&mut self.returned);
        self.take(returned, u64::from(returned > 0));
        let mut searched = 0;
        loop {
            let line_end = memchr(b'\n', &self.bytes()[searched..]).map(|at| searched + at);
            searched = line_end.unwrap_or(self.bytes().len());
            if searched > LINE_BYTES_MAX {
                return self.long_line().map(Some);
            }
            if line_end.is_some() {
                self.returned = searched + 1;
                break;
            }
            if !self.fill()? {
                if searched == 0 {
                    return Ok(None);
                }
                self.returned = searched;
                break;
            }
        }
        Ok(Some(Line { number: self.line, text: &self.bytes()[..searched], is_whole: true }))
    }

    /// Takes a line without holding it.
    fn long_line(&mut self) -> Result<Line<'_>, Error> {
        let number = self.line;
        self.head.clear();
        self.head.extend_from_slice(&self.buffer[self.start..=self.start + SHOWN_BYTES]);
        loop {
            if let Some(line_end) = memchr(b'\n', self.bytes()) {
                self.take(line_end + 1, 1);
                break;
            }
            self.take(self.bytes().len(), 0);
            if !self.fill()? {
                break;
            }
        }
        Ok(Line { number, text: &self.head, is_whole: false })
    }

    /// All that is left, unless it is more than so many bytes.
    pub(super) fn rest(&mut self, most: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = self.bytes().to_vec();
        let more = (most as u64).saturating_add(1).saturating_sub(bytes.len() as u64);
        let read = self.reader.by_ref().take(more).read_to_end(&mut bytes);
        read.map_err(|error| self.failed(error))?;
        if bytes.len() > most {
            let problem = format!("it has more than {most} bytes, and it must be held in memory");
            return Err(Error::Input { name: self.name.clone(), problem });
        }
        Ok(bytes)
    }

    fn failed(&self, source: io::Error) -> Error {
        match self.compression {
            Some(compression) => {
                let problem = format!("the {compression} data is damaged or cut off: {source}");
                Error::Input { name: self.name.clone(), problem }
            }
            None => Error::File { what: "read", path: self.path.clone(), source },
        }
    }
}

const _: () = assert!(SHOWN_BYTES < LINE_BYTES_MAX);

#[cfg(test)]
mod tests {
    use super::super::transcript::window;
    use super::*;

    fn lines(content: &[u8], drop_bytes: usize) -> Vec<(u64, usize, bool)> {
        let mut window = window(content, drop_bytes);
        let mut lines = Vec::new();
        while let Some(line) = window.next_line().unwrap() {
            lines.push((line.number, line.text.len(), line.is_whole));
        }
        assert!(window.next_line().unwrap().is_none());
        lines
    }

    #[test]
    fn lines_come_out_whatever_the_sizes_of_reads() {
        for drop_bytes in [1, 2, 3, 100] {
            assert!(lines(b"", drop_bytes).is_empty());
            assert_eq!(lines(b"\n", drop_bytes), [(1, 0, true)]);
            assert_eq!(lines(b"ab\n\ncde", drop_bytes), [(1, 2, true), (2, 0, true), (3, 3, true)]);
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_without_being_held() {
        let mut content = b"a\n".to_vec();
        content.resize(content.len() + LINE_BYTES_MAX, b'x');
        content.push(b'\n');
        content.resize(content.len() + 5 * LINE_BYTES_MAX, b'y');
        content.extend(b"\nb\n");
        content.resize(content.len() + LINE_BYTES_MAX + 1, b'z');
        let long = SHOWN_BYTES + 1;
        let expected = [(1, 1, true), (2, LINE_BYTES_MAX, true), (3, long, false), (4, 1, true), (5, long, false)];
        assert_eq!(lines(&content, READ_BYTES), expected);
        assert_eq!(lines(&content, 1 << 30), expected);
        let mut window = window(&content, 1 << 30);
        while window.next_line().unwrap().is_some() {}
        assert!(window.buffer.len() < 5 * LINE_BYTES_MAX, "{}", window.buffer.len());
    }

    #[test]
    fn what_is_left_is_bounded() {
        let rest = |most| {
            let mut window = window(b"abcdef", 2);
            assert!(window.fill().unwrap());
            window.take(1, 0);
            window.rest(most)
        };
        assert_eq!(rest(5).unwrap(), b"bcdef");
        assert!(rest(4).unwrap_err().to_string().contains("more than 4 bytes"));
        assert!(rest(0).is_err());
    }
}
