//! The characters between and around fields, and the rules about them that the reader of records does not check.

use memchr::{memchr, memchr2};

/// The quote that most files use.
pub const QUOTE: u8 = b'"';

/// The characters between and around fields.
#[derive(Debug, Clone, Copy)]
pub struct Separators {
    /// Between fields.
    pub delimiter: u8,
    /// Around fields; twice within one, it stands for itself.
    pub quote: Option<u8>,
    /// Whether a carriage return alone ends a line too. Otherwise it is data, unless a line feed follows it.
    pub returns: bool,
}

/// Whether the first line of a text that begins with these bytes ends in a carriage return alone. Then so do all lines.
/// `None`: more bytes are needed.
pub fn ends_in_return(bytes: &[u8]) -> Option<bool> {
    let end = memchr2(b'\n', b'\r', bytes)?;
    if bytes[end] == b'\n' { Some(false) } else { bytes.get(end + 1).map(|next| *next != b'\n') }
}

/// Whether each field of a whole record, without its line end, is quoted.
#[inline]
pub fn quoted(record: &[u8], separators: Separators) -> impl Iterator<Item = bool> {
    let mut at = Some(0);
    std::iter::from_fn(move || {
        let start = at?;
        let mut rest = record.get(start..).unwrap_or_default();
        let quote = separators.quote.filter(|quote| rest.first() == Some(quote));
        if let Some(quote) = quote {
            rest = behind_quotes(&rest[1..], quote).unwrap_or_default();
        }
        let end = memchr(separators.delimiter, rest);
        at = end.map(|end| record.len() - rest.len() + end + 1);
        Some(quote.is_some())
    })
}

/// The first field whose closing quote is not followed by a delimiter or the end of the record: its number from 1, and
/// what follows the quote. The field has swallowed others, or has lost its quotes.
#[inline]
pub fn stray(record: &[u8], separators: Separators) -> Option<(usize, &[u8])> {
    let quote = separators.quote?;
    memchr(quote, record)?;
    let mut rest = record;
    for number in 1.. {
        if rest.first() == Some(&quote) {
            rest = behind_quotes(&rest[1..], quote)?;
            if rest.first().is_some_and(|&byte| byte != separators.delimiter) {
                return Some((number, rest));
            }
        }
        rest = &rest[memchr(separators.delimiter, rest)? + 1..];
    }
    None
}

/// How the quotes of a text stand that begins with a field and in which only quotes hide line ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quotes {
    /// The first field with text behind its closing quote: its number from 1, and the index of that text.
    pub stray: Option<(usize, usize)>,
    /// The index of the last such text.
    pub last_stray: Option<usize>,
    /// The number of the field whose quote is not closed.
    pub open: Option<usize>,
}

impl Quotes {
    /// Those of a text.
    pub fn of(text: &[u8], separators: Separators) -> Self {
        let mut found = Self::default();
        let Some(quote) = separators.quote.filter(|quote| memchr(*quote, text).is_some()) else { return found };
        let mut rest = text;
        for number in 1.. {
            if rest.first() == Some(&quote) {
                let Some(behind) = behind_quotes(&rest[1..], quote) else {
                    found.open = Some(number);
                    break;
                };
                rest = behind;
                if rest.first().is_some_and(|&byte| byte != separators.delimiter) {
                    let at = text.len() - rest.len();
                    found.stray = found.stray.or(Some((number, at)));
                    found.last_stray = Some(at);
                }
            }
            let Some(end) = memchr(separators.delimiter, rest) else { break };
            rest = &rest[end + 1..];
        }
        found
    }
}

/// What follows the quote that closes a field. `None`: none closes it.
#[inline]
pub(super) fn behind_quotes(mut rest: &[u8], quote: u8) -> Option<&[u8]> {
    while let Some(at) = memchr(quote, rest) {
        rest = &rest[at + 1..];
        match rest.strip_prefix(&[quote]) {
            Some(after) => rest = after,
            None => return Some(rest),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_behind_a_closing_quote_is_found() {
        let separators = Separators { delimiter: b',', quote: Some(b'"'), returns: false };
        for (record, expected) in [
            ("", None),
            ("a\"b,c\"\"", None),
            ("\"\",\"a\"\"\",\"\n,\"", None),
            (" \"a\" ", None),
            ("\"open", None),
            ("1,\"20\" pipe,x", Some((2, " pipe,x"))),
            ("\"a\"\r", Some((1, "\r"))),
            ("\"\"\"\"b,\"", Some((1, "b,\""))),
        ] {
            let found = stray(record.as_bytes(), separators);
            assert_eq!(found, expected.map(|(field, rest)| (field, rest.as_bytes())), "{record}");
            let stray = Quotes::of(record.as_bytes(), separators).stray;
            assert_eq!(stray, expected.map(|(field, rest)| (field, record.len() - rest.len())), "{record}");
        }
    }

    #[test]
    fn quotes_are_looked_at_to_the_end_of_the_text() {
        let separators = Separators { delimiter: b',', quote: Some(b'"'), returns: false };
        for (text, stray, last_stray, open) in [
            ("a\"b,c", None, None, None),
            ("a,\"b\nc", None, None, Some(2)),
            ("\"a\"b,\"c\"\"", Some((1, 3)), Some(3), Some(2)),
            ("\"a\"b,c,\"d\" ,\"\"", Some((1, 3)), Some(10), None),
        ] {
            assert_eq!(Quotes::of(text.as_bytes(), separators), Quotes { stray, last_stray, open }, "{text}");
        }
        let unquoted = Separators { quote: None, ..separators };
        assert_eq!(Quotes::of(b"\"a\"b,\"c", unquoted), Quotes::default());
    }

    #[test]
    fn the_end_of_the_first_line_decides() {
        for (text, expected) in [
            ("a\nb\r", Some(false)),
            ("a\r\nb", Some(false)),
            ("a\rb\n", Some(true)),
            ("a\r", None),
            ("a", None),
            ("", None),
        ] {
            assert_eq!(ends_in_return(text.as_bytes()), expected, "{text:?}");
        }
    }
}
