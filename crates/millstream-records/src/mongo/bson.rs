//! Files of BSON, as mongodump writes them: documents one after the other, without anything between them.

use super::document::{Fault, SHORTEST_BYTES, Writer, is_kind};
use crate::limits::{BSON_DOCUMENT_BYTES_MAX, BSON_NAME_BYTES_MAX, BSON_READ_BYTES, TEXT_BYTES};
use crate::{Converter, FileExtent, Look, MALFORMED, Nan, Trouble};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::io::{self, Read, Write};

/// The documents of a file.
struct Bson {
    /// Bytes that were read.
    buffer: Vec<u8>,
    /// How many of them were converted.
    at: usize,
    /// Where the first of them stands in the file, without its compression.
    offset: u64,
    writer: Writer,
    /// Numbers that became null.
    not_finite: u64,
}

/// Opens a file.
///
/// # Errors
/// None.
pub(super) fn open(_extent: Option<FileExtent>, nan: Nan) -> Result<Box<dyn Converter>, Trouble> {
    Ok(Box::new(Bson { buffer: Vec::new(), at: 0, offset: 0, writer: Writer::new(nan), not_finite: 0 }))
}

/// Whether a file that begins with these bytes is one. It has no magic number, but no text begins like its first document:
/// a length below 2^25, the type of a value, and a name.
pub(super) fn look(bytes: &[u8]) -> Look {
    let Some((head, members)) = bytes.split_first_chunk::<4>() else {
        // A live source may give no more for a long time than this.
        return if matches!(bytes, [b'{', b'}', ..] | [b'[', b']', ..]) { Look::No } else { Look::Open };
    };
    let Some(length) = length_of(*head) else { return Look::No };
    let Some((kind, rest)) = members.split_first() else { return Look::Open };
    if *kind == 0 {
        return if length == SHORTEST_BYTES { Look::Yes } else { Look::No };
    }
    if !is_kind(*kind) {
        return Look::No;
    }
    let end = rest.iter().position(|byte| *byte == 0);
    let name = &rest[..end.unwrap_or(rest.len())];
    // Two ASCII characters of UTF-16, or its byte order mark, look like the length of a large document.
    let is_wide = |byte: u8| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~');
    let may_be_wide = matches!(*head, [0xff, 0xfe, ..]) || matches!(*head, [a, 0, b, 0] if is_wide(a) && is_wide(b));
    let fits = if may_be_wide { b"_id".starts_with(name) } else { name.iter().all(|byte| *byte >= b' ') };
    match end {
        _ if !fits || name.len() > BSON_NAME_BYTES_MAX => Look::No,
        None => Look::Open,
        Some(0) => Look::No,
        Some(end) if may_be_wide && end < b"_id".len() => Look::No,
        Some(_) => Look::Yes,
    }
}

/// The length of a document that begins with these bytes, if it can be one.
fn length_of(head: [u8; 4]) -> Option<usize> {
    let length = usize::try_from(i32::from_le_bytes(head)).ok()?;
    (SHORTEST_BYTES..=BSON_DOCUMENT_BYTES_MAX).contains(&length).then_some(length)
}

impl Bson {
    /// The length of the next document; `None` if not all of it was read.
    fn next_length(&self) -> Result<Option<usize>, Trouble> {
        let rest = &self.buffer[self.at..];
        let Some(head) = rest.first_chunk() else { return Ok(None) };
        let damaged = |what: &str| Err(Trouble::Damaged(format!("at its byte {}, {what}", self.place())));
        let Some(length) = length_of(*head) else {
            return damaged("where a document should begin, stands no length of one");
        };
        match rest.get(length - 1) {
            None => Ok(None),
            Some(0) => Ok(Some(length)),
            Some(_) => damaged("a document begins that does not end where its length says"),
        }
    }

    /// Where the next document begins.
    fn place(&self) -> u64 {
        self.offset + self.at as u64
    }

    /// Reads more. `false` at the end.
    fn fill(&mut self, from: &mut dyn Read) -> io::Result<bool> {
        self.offset = self.place();
        self.buffer.drain(..self.at);
        self.at = 0;
        let length = self.buffer.len();
        self.buffer.resize(length + BSON_READ_BYTES, 0);
        let read = from.read(&mut self.buffer[length..]);
        self.buffer.truncate(length + read.as_ref().copied().unwrap_or(0));
        read.map(|bytes| bytes > 0)
    }
}

impl Converter for Bson {
    fn more(&mut self, from: &mut dyn Read, text: &mut Vec<u8>) -> Result<bool, Trouble> {
        let before = text.len();
        loop {
            while text.len() - before < TEXT_BYTES {
                let Some(length) = self.next_length()? else { break };
                let (start, document) = (text.len(), &self.buffer[self.at..self.at + length]);
                match self.writer.write(document, text) {
                    Ok(()) => self.not_finite += self.writer.not_finite,
                    Err(fault) => {
                        text.truncate(start);
                        malformed(&fault, document, text);
                    }
                }
                text.push(b'\n');
                self.at += length;
            }
            if text.len() > before {
                return Ok(true);
            }
            if !self.fill(from)? {
                break;
            }
        }
        if self.buffer.is_empty() {
            return Ok(false);
        }
        Err(Trouble::Damaged(format!("it ends within the document that begins at its byte {}", self.place())))
    }

    fn bytes_read(&self) -> Option<u64> {
        None
    }

    fn not_finite(&self) -> u64 {
        self.not_finite
    }
}

/// Writes what stands for a document that cannot be read, although its length fits: what is wrong, and its bytes.
fn malformed(fault: &Fault, document: &[u8], text: &mut Vec<u8>) {
    text.push(MALFORMED);
    write!(text, "{} (byte {} of the document): ", fault.problem, fault.at).expect("memory takes all");
    text.extend_from_slice(STANDARD.encode(document).as_bytes());
}
