//! The line of text that a row becomes.

use super::scalar::json;
use crate::Nan;
use crate::nan::word_of;

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

    /// Writes a number of double precision.
    #[inline]
    pub(super) fn double(&mut self, value: f64) {
        if value.is_finite() { json(self.text, &value) } else { self.not_finite(value) }
    }

    /// Writes a number of single precision with the digits that it needs, and not with those of its double.
    #[inline]
    pub(super) fn single(&mut self, value: f32) {
        if value.is_finite() { json(self.text, &value) } else { self.not_finite(value.into()) }
    }

    /// Writes a number that is not finite.
    pub(super) fn not_finite(&mut self, value: f64) {
        let became_null = self.nan.write(word_of(value), self.text);
        self.not_finite += u64::from(became_null);
    }

    /// Requires that the line is not too long yet.
    #[inline]
    pub(super) fn require_room(&self) -> Result<(), Fault> {
        if self.text.len() > self.len_max { Err(Fault::TooLong) } else { Ok(()) }
    }
}
