//! The bytes of a file in order, as far as they are not in blocks.

use super::number::{LONGEST, whole};
use crate::Trouble;
use std::fmt::Display;
use std::io::{self, ErrorKind, Read};

/// Bytes that are reserved before so many are there.
const RESERVED: usize = 16 << 20;

/// What is read, and how much of it was.
pub(super) struct Source<'f> {
    pub(super) from: &'f mut dyn Read,
    pub(super) at: &'f mut u64,
}

/// Why what should stand here cannot be read.
pub(super) enum Missing {
    Io(io::Error),
    /// The file ends.
    Cut,
    /// A number has more than 64 bits.
    TooWide,
    /// A length is negative.
    Negative,
}

impl Missing {
    /// The same, of a part of the file.
    pub(super) fn trouble(self, part: &dyn Display) -> Trouble {
        Trouble::Damaged(match self {
            Self::Io(error) => return error.into(),
            Self::Cut => format!("it ends within {part}"),
            Self::TooWide => format!("{part} has a number of more than 64 bits"),
            Self::Negative => format!("{part} has a negative length"),
        })
    }
}

impl Source<'_> {
    /// The next byte. `None`: the file ends.
    fn byte(&mut self) -> Result<Option<u8>, Missing> {
        let mut byte = [0];
        loop {
            match self.from.read(&mut byte) {
                Ok(0) => return Ok(None),
                Ok(_) => {
                    *self.at += 1;
                    return Ok(Some(byte[0]));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Missing::Io(error)),
            }
        }
    }

    /// A whole number. `None`: the file ends before it.
    pub(super) fn whole_or_end(&mut self) -> Result<Option<i64>, Missing> {
        let mut bytes = [0; LONGEST];
        for (n, place) in bytes.iter_mut().enumerate() {
            match self.byte()? {
                Some(byte) => *place = byte,
                None if n == 0 => return Ok(None),
                None => return Err(Missing::Cut),
            }
            if *place < 0x80 {
                break;
            }
        }
        whole(&bytes).map(|(number, _)| Some(number)).ok_or(Missing::TooWide)
    }

    /// A whole number.
    pub(super) fn whole(&mut self) -> Result<i64, Missing> {
        self.whole_or_end()?.ok_or(Missing::Cut)
    }

    /// A length.
    pub(super) fn length(&mut self) -> Result<usize, Missing> {
        usize::try_from(self.whole()?).map_err(|_| Missing::Negative)
    }

    /// So many bytes, in place of what the buffer held.
    pub(super) fn fill(&mut self, length: usize, into: &mut Vec<u8>) -> Result<(), Missing> {
        into.clear();
        into.reserve(length.min(RESERVED));
        let read = Read::take(&mut *self.from, length as u64).read_to_end(into).map_err(Missing::Io)?;
        *self.at += read as u64;
        if read == length { Ok(()) } else { Err(Missing::Cut) }
    }

    /// As many bytes as the result has.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Missing> {
        let mut bytes = Vec::new();
        self.fill(N, &mut bytes)?;
        bytes.try_into().map_err(|_| Missing::Cut)
    }
}
