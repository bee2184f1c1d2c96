//! The encodings of text, and their decoding into UTF-8 piece by piece.

use super::error::Error;
use super::got::Got;
use crate::limits::TRANSCODE_BYTES;
use encoding_rs::{Decoder, DecoderResult, UTF_16BE, UTF_16LE, WINDOWS_1252};

/// An encoding: how the characters of a text are written as bytes.
pub struct Encoding {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is, for the command's help.
    pub about: &'static str,
    /// Makes a decoder into UTF-8; `None` if the text is UTF-8 already.
    make: Option<fn() -> Decoder>,
}

/// Every encoding, the default first.
pub const ENCODINGS: &[Encoding] = &[
    Encoding { name: "utf-8", about: "the default", make: None },
    Encoding {
        name: "latin1",
        about: "the same as windows-1252",
        make: Some(|| WINDOWS_1252.new_decoder_without_bom_handling()),
    },
    Encoding {
        name: "windows-1252",
        about: "Western European, a superset of ISO 8859-1",
        make: Some(|| WINDOWS_1252.new_decoder_without_bom_handling()),
    },
    Encoding {
        name: "utf-16",
        about: "the byte order mark decides; without one, little-endian",
        make: Some(|| UTF_16LE.new_decoder()),
    },
    Encoding { name: "utf-16le", about: "little-endian", make: Some(|| UTF_16LE.new_decoder_with_bom_removal()) },
    Encoding { name: "utf-16be", about: "big-endian", make: Some(|| UTF_16BE.new_decoder_with_bom_removal()) },
];

impl Encoding {
    /// The encoding with this name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        ENCODINGS.iter().find(|encoding| encoding.name == name)
    }

    /// Whether its characters have more than one byte.
    pub(super) fn is_wide(&self) -> bool {
        self.name.starts_with("utf-16")
    }

    pub(super) fn transcoder(&self) -> Option<Transcoder> {
        self.make.map(|make| Transcoder::new(make()))
    }
}

impl PartialEq for Encoding {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Encoding {}

impl std::fmt::Debug for Encoding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Replaces bytes that are not valid in the encoding. It is not UTF-8, so that only their document is rejected.
const MALFORMED: u8 = 0xff;

/// Decodes a stream into UTF-8.
pub(super) struct Transcoder {
    decoder: Decoder,
    raw: Vec<u8>,
    text: Vec<u8>,
    /// The text from here to `end` was not handed out yet.
    start: usize,
    end: usize,
    ended: Option<Got>,
}

impl Transcoder {
    fn new(decoder: Decoder) -> Self {
        Self { decoder, raw: vec![0; TRANSCODE_BYTES], text: Vec::new(), start: 0, end: 0, ended: None }
    }

    /// Reads text. `read` supplies the encoded bytes.
    pub(super) fn read(
        &mut self,
        into: &mut [u8],
        mut read: impl FnMut(&mut [u8]) -> Result<Got, Error>,
    ) -> Result<Got, Error> {
        while self.start == self.end {
            if let Some(ended) = &self.ended {
                return Ok(ended.clone());
            }
            match read(&mut self.raw)? {
                Got::Bytes(n) => self.decode(n, false),
                Got::End => {
                    self.decode(0, true);
                    self.ended = Some(Got::End);
                }
                damaged @ Got::Damaged(_) => self.ended = Some(damaged),
            }
        }
        let n = into.len().min(self.end - self.start);
        into[..n].copy_from_slice(&self.text[self.start..self.start + n]);
        self.start += n;
        Ok(Got::Bytes(n))
    }

    fn decode(&mut self, bytes: usize, last: bool) {
        (self.start, self.end) = (0, 0);
        let mut raw = &self.raw[..bytes];
        loop {
            let room = self.decoder.max_utf8_buffer_length_without_replacement(raw.len()).unwrap_or(bytes);
            // One byte more for `MALFORMED`.
            self.text.resize(self.text.len().max(self.end + room + 1), 0);
            let text = &mut self.text[self.end..];
            let (result, read, written) = self.decoder.decode_to_utf8_without_replacement(raw, text, last);
            raw = &raw[read..];
            self.end += written;
            match result {
                DecoderResult::InputEmpty => return,
                DecoderResult::OutputFull => {}
                DecoderResult::Malformed(..) => {
                    self.text.resize(self.text.len().max(self.end + 1), 0);
                    self.text[self.end] = MALFORMED;
                    self.end += 1;
                }
            }
        }
    }
}
