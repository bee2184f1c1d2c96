//! Scans the lexical elements of JSON by the rules of PostgreSQL's lexer, eight bytes at a time.
//!
//! Every function takes the position where an element begins and returns the position after it. Positions stay in
//! registers. What went wrong is stored in the scanner, off the fast path.

use super::flaw::Flaw;
use super::number;
use millstream_model::Fault;
use millstream_model::limits::{DOCUMENT_EXPANDED_DIGITS_MAX, NUMERIC_FRACTION_DIGITS_MAX};

/// The scan stopped at a flaw, which [`Scanner::fault`] describes.
#[derive(Debug)]
pub(crate) struct Stop;

/// Position after an element.
pub(crate) type Next = Result<usize, Stop>;

/// Reads the elements of one document, whose bytes must be UTF-8.
pub(crate) struct Scanner<'d> {
    pub(crate) document: &'d [u8],
    /// How many strings with escapes were scanned. If the number changes while a string is scanned, the string has
    /// escapes.
    pub(crate) escaped_strings: u32,
    expanded_digits: usize,
    /// Whether only the grammar counts: the text is not stored, so it may hold what jsonb cannot.
    grammar_only: bool,
    flaw: (Flaw, usize),
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

impl<'d> Scanner<'d> {
    pub(crate) fn new(document: &'d [u8]) -> Self {
        Self { document, escaped_strings: 0, expanded_digits: 0, grammar_only: false, flaw: (Flaw::Value, 0) }
    }

    /// A scanner of text that is not stored. It stops only at what is not JSON.
    pub(crate) fn of_grammar(document: &'d [u8]) -> Self {
        Self { grammar_only: true, ..Self::new(document) }
    }

    /// What stopped the scan, and where.
    pub(crate) fn flaw(&self) -> (Flaw, usize) {
        self.flaw
    }

    /// What stopped the scan.
    #[cold]
    pub(crate) fn fault(&self) -> Fault {
        let (flaw, at) = self.flaw;
        flaw.fault(self.document, at)
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn stop(&mut self, flaw: Flaw, at: usize) -> Stop {
        self.flaw = (flaw, at);
        Stop
    }

    #[inline(always)]
    pub(crate) fn byte(&self, at: usize) -> Option<u8> {
        self.document.get(at).copied()
    }

    /// Skips white space.
    #[inline(always)]
    pub(crate) fn space(&self, at: usize) -> usize {
        match self.byte(at) {
            Some(byte) if byte <= b' ' => self.more_space(at),
            _ => at,
        }
    }

    #[inline(always)]
    fn more_space(&self, mut at: usize) -> usize {
        // Most writers put one space after ',' and ':'.
        if self.byte(at) == Some(b' ') {
            at += 1;
        }
        while matches!(self.byte(at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            at += 1;
        }
        at
    }

    #[inline(always)]
    fn word(&self, at: usize) -> Option<u64> {
        let bytes = self.document.get(at..)?.first_chunk()?;
        Some(u64::from_le_bytes(*bytes))
    }

    /// A string, from its opening quote.
    #[inline(always)]
    pub(crate) fn string(&mut self, at: usize) -> Next {
        let end = self.plain(at + 1);
        match self.byte(end) {
            Some(b'"') => Ok(end + 1),
            _ => self.string_from(end),
        }
    }

    /// The rest of a string whose opening quote was passed, from a position outside of an escape.
    pub(crate) fn rest_of_string(&mut self, at: usize) -> Next {
        let end = self.plain(at);
        self.string_from(end)
    }

    /// First position from `at` on that holds a quote, a backslash, a control character or nothing.
    #[inline(always)]
    fn plain(&self, mut at: usize) -> usize {
        for _ in 0..4 {
            let Some(word) = self.word(at) else {
                return self.plain_tail(at);
            };
            let special = special_bytes(word);
            if special != 0 {
                return at + first_byte(special);
            }
            at += 8;
        }
        self.plain_long(at)
    }

    #[inline(never)]
    fn plain_long(&self, mut at: usize) -> usize {
        let special = |byte: u8| (byte == b'"') | (byte == b'\\') | (byte < b' ');
        // The compiler turns this fold into vector comparisons.
        while let Some(block) = self.document.get(at..).and_then(|d| d.first_chunk::<32>()) {
            if block.iter().fold(false, |any, &byte| any | special(byte)) {
                break;
            }
            at += 32;
        }
        while let Some(word) = self.word(at) {
            let special = special_bytes(word);
            if special != 0 {
                return at + first_byte(special);
            }
            at += 8;
        }
        self.plain_tail(at)
    }

    #[inline(always)]
    fn plain_tail(&self, mut at: usize) -> usize {
        while let Some(byte) = self.byte(at) {
            if matches!(byte, b'"' | b'\\' | 0..b' ') {
                break;
            }
            at += 1;
        }
        at
    }

    /// The rest of a string, from its first byte that is not plain.
    #[inline(never)]
    fn string_from(&mut self, mut at: usize) -> Next {
        self.escaped_strings += 1;
        loop {
            match self.byte(at) {
                Some(b'"') => return Ok(at + 1),
                Some(b'\\') => at = self.escape(at)?,
                Some(_) => return Err(self.stop(Flaw::ControlCharacter, at)),
                None => return Err(self.stop(Flaw::StringEnd, at)),
            }
            at = self.plain(at);
        }
    }

    #[inline(always)]
    fn escape(&mut self, at: usize) -> Next {
        match self.byte(at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
            Some(b'u') => self.unicode_escape(at),
            _ => Err(self.stop(Flaw::Escape, at + 1)),
        }
    }

    fn unicode_escape(&mut self, at: usize) -> Next {
        let Some(unit) = code_unit(self.document, at + 2) else {
            return Err(self.stop(Flaw::UnicodeEscape, at + 2));
        };
        match unit {
            _ if self.grammar_only => Ok(at + 6),
            0 => Err(self.stop(Flaw::NulCharacter, at)),
            0xd800..=0xdbff => {
                let low = match self.document.get(at + 6..at + 8) {
                    Some(b"\\u") => code_unit(self.document, at + 8),
                    _ => None,
                };
                match low {
                    Some(0xdc00..=0xdfff) => Ok(at + 12),
                    _ => Err(self.stop(Flaw::LoneSurrogate, at)),
                }
            }
            0xdc00..=0xdfff => Err(self.stop(Flaw::LoneSurrogate, at)),
            _ => Ok(at + 6),
        }
    }

    /// A number, from its sign or first digit.
    #[inline(always)]
    pub(crate) fn number(&mut self, start: usize) -> Next {
        let mut at = start + usize::from(self.byte(start) == Some(b'-'));
        at = match self.byte(at) {
            Some(b'1'..=b'9') => self.digits(at + 1),
            Some(b'0') if matches!(self.byte(at + 1), Some(b'0'..=b'9')) => {
                return Err(self.stop(Flaw::LeadingZero, at));
            }
            Some(b'0') => at + 1,
            _ => return Err(self.stop(Flaw::Digit, at)),
        };
        if self.byte(at) == Some(b'.') {
            let fraction = at + 1;
            at = self.digits(fraction);
            if at == fraction {
                return Err(self.stop(Flaw::Digit, at));
            }
        }
        if matches!(self.byte(at), Some(b'e' | b'E')) {
            return self.exponent(start, at + 1);
        }
        if at - start > NUMERIC_FRACTION_DIGITS_MAX {
            return self.judge_number(start, at);
        }
        Ok(at)
    }

    #[inline(never)]
    fn exponent(&mut self, start: usize, at: usize) -> Next {
        let digits = at + usize::from(matches!(self.byte(at), Some(b'+' | b'-')));
        let end = self.digits(digits);
        if end == digits {
            return Err(self.stop(Flaw::Digit, end));
        }
        self.judge_number(start, end)
    }

    #[cold]
    fn judge_number(&mut self, start: usize, end: usize) -> Next {
        if self.grammar_only {
            return Ok(end);
        }
        match number::expansion(&self.document[start..end]) {
            Ok(expanded) => self.expanded_digits += expanded,
            Err(flaw) => return Err(self.stop(flaw, start)),
        }
        if self.expanded_digits > DOCUMENT_EXPANDED_DIGITS_MAX {
            return Err(self.stop(Flaw::NumbersExplode, start));
        }
        Ok(end)
    }

    #[inline(always)]
    fn digits(&self, mut at: usize) -> usize {
        while let Some(word) = self.word(at) {
            let others = non_digit_bytes(word);
            if others != 0 {
                return at + first_byte(others);
            }
            at += 8;
        }
        while matches!(self.byte(at), Some(b'0'..=b'9')) {
            at += 1;
        }
        at
    }

    /// `true`, `false` or `null`.
    #[inline(always)]
    pub(crate) fn name(&mut self, at: usize, name: &'static [u8]) -> Next {
        match self.document.get(at..at + name.len()) {
            Some(bytes) if bytes == name => Ok(at + name.len()),
            _ => Err(self.stop(Flaw::Value, at)),
        }
    }
}

/// The UTF-16 code unit of four hexadecimal digits.
pub(crate) fn code_unit(bytes: &[u8], at: usize) -> Option<u16> {
    let digits: &[u8; 4] = bytes.get(at..)?.first_chunk()?;
    digits.iter().try_fold(0, |unit, &digit| {
        let value = char::from(digit).to_digit(16)?;
        Some(unit << 4 | u16::try_from(value).ok()?)
    })
}

/// Sets the high bit of every byte that is a quote, a backslash or below a space. Bytes after the
/// first of those may be wrong.
#[inline(always)]
fn special_bytes(word: u64) -> u64 {
    let zero = |x: u64| x.wrapping_sub(ONES) & !x;
    let quote = zero(word ^ (ONES * b'"' as u64));
    let backslash = zero(word ^ (ONES * b'\\' as u64));
    let control = word.wrapping_sub(ONES * b' ' as u64) & !word;
    (quote | backslash | control) & HIGHS
}

/// Sets the high bit of every byte that is not a digit.
#[inline(always)]
fn non_digit_bytes(word: u64) -> u64 {
    let value = word ^ (ONES * b'0' as u64);
    (((value & !HIGHS) + ONES * (0x80 - 10)) | value) & HIGHS
}

#[inline(always)]
fn first_byte(marks: u64) -> usize {
    marks.trailing_zeros() as usize / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_special_byte_of_a_word_is_found() {
        for first in 0..=255_u8 {
            for second in 0..=255_u8 {
                let bytes = [b'a', first, second, b'a', 0xff, 0x80, b'~', b' '];
                let word = u64::from_le_bytes(bytes);
                let special = |b: &u8| *b == b'"' || *b == b'\\' || *b < 0x20;
                let expected = bytes.iter().position(special);
                let marks = special_bytes(word);
                assert_eq!((marks != 0).then(|| first_byte(marks)), expected, "{bytes:?}");
                let digits = [b'0', b'9', first, second, b'0', b'5', b'5', b'5'];
                let marks = non_digit_bytes(u64::from_le_bytes(digits));
                let expected = digits.iter().position(|b| !b.is_ascii_digit());
                assert_eq!((marks != 0).then(|| first_byte(marks)), expected, "{digits:?}");
            }
        }
    }

    #[test]
    fn strings_end_at_the_closing_quote() {
        for length in 0..120 {
            for special in [&b"\""[..], b"\\\"\"", b"\n", b""] {
                for after in [0, 3, 40] {
                    let mut bytes = vec![b'"'];
                    bytes.extend(std::iter::repeat_n(b'x', length));
                    bytes.extend_from_slice(special);
                    bytes.extend(std::iter::repeat_n(b'y', after));
                    let end = Scanner::new(&bytes).string(0).ok();
                    let expected = match special {
                        b"\"" => Some(length + 2),
                        b"\\\"\"" => Some(length + 4),
                        _ => None,
                    };
                    assert_eq!(end, expected, "{}", String::from_utf8_lossy(&bytes));
                }
            }
        }
    }
}
