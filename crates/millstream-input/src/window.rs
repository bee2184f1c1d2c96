//! The part of an input that has been read and not yet handed out, with its position.

use super::compression::{COMPRESSIONS, Compression};
use super::encoding::Encoding;
use super::error::Error;
use super::got::Got;
use super::input::Input;
use super::line_number::LineNumber;
use super::raw::Progress;
use super::signature;
use crate::limits::LIVE_READ_BYTES;
use bytes::{Buf, Bytes, BytesMut};
use millstream_records::Format;
use std::sync::Arc;

/// UTF-8's byte order mark.
pub const MARK: &[u8] = b"\xef\xbb\xbf";

/// Bytes of one input in order. Every byte leaves it once.
pub struct Window {
    input: Input,
    /// Bytes that are read at once.
    read_bytes: usize,
    buffer: BytesMut,
    offset: u64,
    line: LineNumber,
    end: Option<End>,
}

/// How the bytes of an input ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// With its last byte.
    Clean,
    /// With data that cannot be decompressed or converted, and why. All bytes before it came out.
    Damaged(String),
}

impl Window {
    /// A window over an input, of which about `read_bytes` are read at once, and less from one that is live.
    pub fn new(input: Input, read_bytes: usize) -> Self {
        let line = LineNumber::default();
        Self { input, read_bytes, buffer: BytesMut::new(), offset: 0, line, end: None }
    }

    /// The input as the user named it.
    pub fn name(&self) -> &str {
        self.input.name()
    }

    /// The format of the file that the bytes were made of, if it is no text.
    pub fn made(&self) -> Option<&'static Format> {
        self.input.made()
    }

    /// The store's tag of the version that is read, if it is an object.
    pub fn tag(&self) -> Option<&str> {
        self.input.tag()
    }

    /// How much has been read; the handle stays valid while another thread reads.
    pub fn progress(&self) -> Arc<Progress> {
        self.input.progress()
    }

    /// Reads enough to see what the text begins with. Returns the length of its byte order mark.
    ///
    /// # Errors
    /// It cannot be read, or is no text in UTF-8 or the encoding.
    pub fn begin_text(&mut self, encoding: Option<&Encoding>) -> Result<usize, Error> {
        if self.input.made().is_some() {
            return Ok(0);
        }
        if let Some(encoding) = encoding {
            self.input.transcode(encoding);
        }
        let is_open = |bytes: &[u8]| bytes.len() < MARK.len() && MARK.starts_with(bytes);
        // Within compressed data, more of it may follow, whose beginning has up to four bytes.
        let outer = self.input.compression();
        let may_be_inner = |bytes: &[u8]| {
            let part = |c: &Compression| bytes.len() < c.magic.len() && c.magic.starts_with(bytes);
            outer.is_some() && COMPRESSIONS.iter().any(part)
        };
        while (is_open(self.bytes()) || signature::is_open(self.bytes()) || may_be_inner(self.bytes()))
            && self.fill()?
        {}
        let inner = COMPRESSIONS.iter().find(|c| self.bytes().starts_with(c.magic));
        if let (Some(outer), Some(inner)) = (outer, inner) {
            let (name, writer) = (self.name().to_owned(), outer.writer);
            return Err(Error::CompressedTwice { name, outer: outer.name, inner: inner.name, writer });
        }
        signature::refuse_unconverted(self.name(), self.bytes(), outer)?;
        signature::refuse(self.name(), self.bytes(), encoding.is_some_and(Encoding::is_wide))?;
        Ok(if self.bytes().starts_with(MARK) { MARK.len() } else { 0 })
    }

    /// The bytes that were read and not taken yet.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// Offset of the first of [`Window::bytes`] in the uncompressed input.
    #[inline]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Number of the line on which [`Window::bytes`] begin, from 1.
    #[inline]
    pub fn line(&self) -> u64 {
        self.line.get()
    }

    /// The same, to count on from there.
    #[inline]
    pub fn line_number(&self) -> &LineNumber {
        &self.line
    }

    /// From now on, a carriage return ends a line, too.
    pub fn count_returns(&mut self) {
        self.line.count_returns();
    }

    /// How the input ended, once it has.
    #[inline]
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// Reads more: about as much as is read at once from a file, what is available from a live input. `false` when
    /// there is no more.
    ///
    /// # Errors
    /// The input cannot be read.
    pub fn fill(&mut self) -> Result<bool, Error> {
        if self.end.is_some() {
            return Ok(false);
        }
        let live = self.input.is_live();
        let wanted = if live { self.read_bytes.min(LIVE_READ_BYTES) } else { self.read_bytes };
        if self.buffer.capacity() - self.buffer.len() < wanted {
            self.buffer.reserve(self.read_bytes);
        }
        let before = self.buffer.len();
        let mut len = before;
        self.buffer.resize(before + wanted, 0);
        while len < before + wanted {
            match self.input.read(&mut self.buffer[len..]) {
                Ok(Got::Bytes(n)) => len += n,
                Ok(Got::End) => self.end = Some(End::Clean),
                Ok(Got::Damaged(why)) => self.end = Some(End::Damaged(why)),
                Err(error) => {
                    self.buffer.truncate(len);
                    return Err(error);
                }
            }
            if live || self.end.is_some() {
                break;
            }
        }
        self.buffer.truncate(len);
        Ok(len > before)
    }

    /// Takes the first `n` bytes out.
    pub fn take(&mut self, n: usize) -> Bytes {
        self.pass(n);
        self.buffer.split_to(n).freeze()
    }

    /// Drops the first `n` bytes.
    #[inline]
    pub fn skip(&mut self, n: usize) {
        self.pass(n);
        self.buffer.advance(n);
    }

    #[inline]
    fn pass(&mut self, n: usize) {
        self.line.pass(&self.buffer[..n]);
        self.offset += n as u64;
    }
}
