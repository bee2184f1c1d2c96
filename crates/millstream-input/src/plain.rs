//! The bytes of an input without their compression.

use super::compression::{self, COMPRESSIONS, Compression, Decompressor};
use super::got::Got;
use super::raw::{Progress, Raw};
use crate::limits::AHEAD_BYTES;
use std::io::{self, Read};
use std::sync::Arc;

/// Uncompressed bytes in order.
pub(super) struct Plain {
    raw: Raw,
    compression: Option<&'static Compression>,
    decompressor: Option<Box<dyn Decompressor>>,
    /// Whether the last step filled the output. The decompressor may then have more output without new input.
    output_was_full: bool,
    ended: Option<Got>,
    /// What was decompressed to see what it is, and how much of it was handed out.
    ahead: Vec<u8>,
    taken: usize,
}

/// Why compressed data cannot be read. It comes as the inner error of one of the system's kind.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unread {
    /// It is damaged, and how. Only those meet it that read it as they read any reader.
    #[error("{0}")]
    Damaged(String),
    #[error("its window is too large")]
    Window,
    #[error("it needs its dictionary")]
    Dictionary,
}

impl Plain {
    /// Begins to read, and reads until it is clear what the bytes are. `is_open` says whether that needs more of them.
    ///
    /// # Errors
    /// The system's; [`Unread`] within them.
    pub(super) fn begin(raw: Raw, is_open: impl Fn(&[u8]) -> bool) -> (Self, io::Result<()>) {
        let mut plain = Self {
            raw,
            compression: None,
            decompressor: None,
            output_was_full: false,
            ended: None,
            ahead: Vec::new(),
            taken: 0,
        };
        let begun = plain.look(is_open);
        (plain, begun)
    }

    fn look(&mut self, is_open: impl Fn(&[u8]) -> bool) -> io::Result<()> {
        let magics = || COMPRESSIONS.iter().map(|compression| compression.magic);
        let may_be_compressed = |bytes: &[u8]| magics().any(|m| bytes.len() < m.len() && m.starts_with(bytes));
        while may_be_compressed(self.raw.buffered()) || is_open(self.raw.buffered()) {
            if !self.raw.fill()? {
                break;
            }
        }
        self.compression = COMPRESSIONS.iter().find(|c| self.raw.buffered().starts_with(c.magic));
        self.decompressor = self.compression.map(|c| (c.make)()).transpose()?;
        while self.compression.is_some() && is_open(&self.ahead) {
            let mut more = [0; AHEAD_BYTES];
            match self.decompress(&mut more)? {
                Got::Bytes(n) => self.ahead.extend_from_slice(&more[..n]),
                Got::End | Got::Damaged(_) => break,
            }
        }
        Ok(())
    }

    /// What was read ahead.
    pub(super) fn beginning(&self) -> &[u8] {
        if self.compression.is_some() { &self.ahead[self.taken..] } else { self.raw.buffered() }
    }

    /// How it is compressed, if it is.
    pub(super) fn compression(&self) -> Option<&'static Compression> {
        self.compression
    }

    pub(super) fn progress(&self) -> &Arc<Progress> {
        self.raw.progress()
    }

    /// Requires that the file is as it was when it was opened, if it is one.
    ///
    /// # Errors
    /// As [`Raw::require_as_opened`].
    pub(super) fn require_as_opened(&self) -> io::Result<()> {
        self.raw.require_as_opened()
    }

    /// Reads. [`Got::End`] and [`Got::Damaged`] are final.
    ///
    /// # Errors
    /// The system's; [`Unread::Window`] and [`Unread::Dictionary`] within them.
    pub(super) fn read(&mut self, into: &mut [u8]) -> io::Result<Got> {
        if self.taken < self.ahead.len() {
            let n = into.len().min(self.ahead.len() - self.taken);
            into[..n].copy_from_slice(&self.ahead[self.taken..self.taken + n]);
            self.taken += n;
            return Ok(Got::Bytes(n));
        }
        match self.decompressor {
            None => self.raw.read(into).map(|n| if n == 0 { Got::End } else { Got::Bytes(n) }),
            Some(_) => self.decompress(into),
        }
    }

    fn decompress(&mut self, into: &mut [u8]) -> io::Result<Got> {
        if let Some(ended) = &self.ended {
            return Ok(ended.clone());
        }
        let decompressor = self.decompressor.as_mut().expect("only called with one");
        loop {
            let flushing = std::mem::take(&mut self.output_was_full);
            if !flushing {
                let wanted = decompressor.wanted();
                self.raw.fill_up_to(wanted)?;
                if self.raw.buffered().is_empty() {
                    let early = || Got::Damaged("the compressed data ends too early".into());
                    let end = if decompressor.at_boundary() { Got::End } else { early() };
                    return Ok(self.ended.insert(end).clone());
                }
            }
            let input = if flushing { &[][..] } else { self.raw.buffered() };
            let step = decompressor.step(input, into);
            self.raw.consume(step.read);
            self.output_was_full = step.written == into.len();
            match step.trouble {
                None => {}
                Some(compression::Trouble::Damaged(why)) => self.ended = Some(Got::Damaged(why)),
                Some(compression::Trouble::WindowTooLarge) => return Err(io::Error::other(Unread::Window)),
                Some(compression::Trouble::Dictionary) => return Err(io::Error::other(Unread::Dictionary)),
            }
            if step.written > 0 {
                return Ok(Got::Bytes(step.written));
            }
            if let Some(ended) = &self.ended {
                return Ok(ended.clone());
            }
        }
    }
}

impl Read for Plain {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match Plain::read(self, into)? {
            Got::Bytes(n) => Ok(n),
            Got::End => Ok(0),
            Got::Damaged(why) => Err(io::Error::other(Unread::Damaged(why))),
        }
    }
}
