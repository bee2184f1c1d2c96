//! Counts lines while bytes pass.

use memchr::memchr_iter;

/// The number of a line, counted on while bytes pass.
#[derive(Debug, Clone, Default)]
pub struct LineNumber {
    /// Lines that have ended.
    ended: u64,
    /// Whether a carriage return alone ends a line, too.
    returns: bool,
    has_returned: bool,
}

impl LineNumber {
    /// The number of the line on which the next byte stands, from 1.
    #[inline]
    pub fn get(&self) -> u64 {
        self.ended + 1
    }

    /// From now on, a carriage return ends a line. A line feed right behind it is part of the same end.
    pub fn count_returns(&mut self) {
        self.returns = true;
    }

    /// Moves on by these bytes.
    #[inline]
    pub fn pass(&mut self, bytes: &[u8]) {
        self.ended += memchr_iter(b'\n', bytes).count() as u64;
        if self.returns && !bytes.is_empty() {
            for at in memchr_iter(b'\r', bytes) {
                self.ended += u64::from(bytes.get(at + 1) != Some(&b'\n'));
            }
            // It has counted the return already.
            self.ended -= u64::from(self.has_returned && bytes[0] == b'\n');
            self.has_returned = bytes.ends_with(b"\r");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_number_does_not_depend_on_how_the_bytes_come() {
        for (text, feeds, returns) in [("a\nb\r\nc\rd\n", 4, 5), ("\r\n\r\r\n\n", 4, 5), ("\n\r", 2, 3), ("", 1, 1)] {
            for (counts_returns, expected) in [(false, feeds), (true, returns)] {
                for size in 1..=text.len().max(1) {
                    let mut number = LineNumber::default();
                    if counts_returns {
                        number.count_returns();
                    }
                    text.as_bytes().chunks(size).for_each(|piece| number.pass(piece));
                    assert_eq!(number.get(), expected, "{text:?} in pieces of {size}");
                }
            }
        }
    }
}
