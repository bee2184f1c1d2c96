//! The line of text that a row becomes.

use super::scalar::json;
use crate::Nan;

/// The words of numbers that are not finite.
pub(super) const NOT_FINITE: [&str; 3] = ["NaN", "Infinity", "-Infinity"];

/// The end of a text, where a line is being written.
pub(super) struct Line<'t> {
    pub(super) text: &'t mut Vec<u8>,
    /// The length of the text at which the line is too long.
    pub(super) len_max: usize,
    pub(super) nan: Nan,
    /// Numbers that became null.
    pub(super) not_finite: u64,
}

/// Why a row cannot be written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Its line is too long.
    TooLong,
    /// What should be text is none.
    NoText,
}

impl Line<'_> {
    pub(super) fn push(&mut self, text: &str) {
        self.text.extend_from_slice(text.as_bytes());
    }

    pub(super) fn null(&mut self) {
        self.push("null");
    }

    /// Writes a number that is not finite.
    pub(super) fn not_finite(&mut self, value: f64) {
        let [nan, above, below] = NOT_FINITE;
        let word = match value {
            _ if value.is_nan() => nan,
            _ if value > 0.0 => above,
            _ => below,
        };
        match self.nan {
            Nan::Null => {
                self.not_finite += 1;
                self.null();
            }
            Nan::Reject => self.push(word),
            Nan::Text => json(self.text, word),
        }
    }

    /// Requires that the line is not too long yet.
    #[inline]
    pub(super) fn require_room(&self) -> Result<(), Fault> {
        if self.text.len() > self.len_max { Err(Fault::TooLong) } else { Ok(()) }
    }
}
