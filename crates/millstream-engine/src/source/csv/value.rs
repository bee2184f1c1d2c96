//! Turns fields of a delimited file into JSON values: strings, null, numbers and booleans.

use super::super::dialect::Dialect;
use super::record::Separators;
use crate::limits::{EXPONENT_DIGITS_MAX, INFERRED_NUMBER_BYTES_MAX};

/// How fields become JSON values.
#[derive(Debug, Default)]
pub(super) struct Values {
    /// The unquoted text that becomes null.
    pub(super) null: Option<String>,
    pub(super) trim: bool,
    /// Whether unquoted numbers and booleans become those of JSON.
    pub(super) infer: bool,
}

impl Values {
    pub(super) fn of(dialect: &Dialect) -> Self {
        Self { null: dialect.null.clone(), trim: dialect.trim, infer: dialect.infer_types }
    }

    /// Whether every field becomes a string, unchanged.
    pub(super) fn are_strings(&self) -> bool {
        self.null.is_none() && !self.trim && !self.infer
    }

    /// Appends the value of a field.
    pub(super) fn put(&self, text: &str, quoted: bool, out: &mut Vec<u8>) {
        let text = if self.trim && !quoted { trimmed(text) } else { text };
        if !quoted && self.null.as_deref() == Some(text) {
            out.extend_from_slice(b"null");
        } else if !quoted && self.infer && is_literal(text) {
            out.extend_from_slice(text.as_bytes());
        } else {
            put_string(text, out);
        }
    }
}

/// Appends a JSON string.
pub(super) fn put_string(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("a string can be written into memory");
}

/// The text without the spaces and tabs at its ends.
pub(super) fn trimmed(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

/// Whether the text is `true`, `false` or a JSON number. `007` is text, and so is a number that is too long or has too
/// long an exponent.
fn is_literal(text: &str) -> bool {
    if matches!(text, "true" | "false") {
        return true;
    }
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let number = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match number.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))),
        None => (number, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    text.len() <= INFERRED_NUMBER_BYTES_MAX
        && digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(|e| digits(e) && e.len() <= EXPONENT_DIGITS_MAX)
}

/// Whether each field of a whole record, without its line end, is quoted.
pub(super) fn quoted(record: &[u8], separators: Separators) -> impl Iterator<Item = bool> {
    let mut at = Some(0);
    std::iter::from_fn(move || {
        let start = at?;
        let mut rest = record.get(start..).unwrap_or_default();
        let quote = separators.quote.filter(|quote| rest.first() == Some(quote));
        if let Some(quote) = quote {
            rest = behind_quotes(&rest[1..], quote);
        }
        let end = memchr::memchr(separators.delimiter, rest);
        at = end.map(|end| record.len() - rest.len() + end + 1);
        Some(quote.is_some())
    })
}

/// The first field whose closing quote is not followed by a delimiter or the end of the record: its number from 1, and
/// what follows the quote.
pub(super) fn stray(record: &[u8], separators: Separators) -> Option<(usize, &[u8])> {
    let quote = separators.quote?;
    memchr::memchr(quote, record)?;
    let mut rest = record;
    for number in 1.. {
        if rest.first() == Some(&quote) {
            rest = behind_quotes(&rest[1..], quote);
            if rest.first().is_some_and(|&byte| byte != separators.delimiter) {
                return Some((number, rest));
            }
        }
        rest = &rest[memchr::memchr(separators.delimiter, rest)? + 1..];
    }
    None
}

/// What follows the quote that closes a field.
fn behind_quotes(mut rest: &[u8], quote: u8) -> &[u8] {
    while let Some(at) = memchr::memchr(quote, rest) {
        rest = &rest[at + 1..];
        match rest.strip_prefix(&[quote]) {
            Some(after) => rest = after,
            None => return rest,
        }
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::super::record::Record;
    use super::*;
    use millstream_testkit::Cases;

    #[test]
    fn numbers_and_booleans_are_recognised() {
        for text in ["0", "-1", "12.50", "1e5", "-0.1E-10", "true", "false"] {
            assert!(is_literal(text) && serde_json::from_str::<serde_json::Value>(text).is_ok(), "{text}");
        }
        for text in ["", "-", "007", "-01", "1.", ".5", "+1", "1e", "1e99999", "True", "null", "NaN", "1 ", "0x1"] {
            assert!(!is_literal(text), "{text:?}");
        }
        assert!(!is_literal(&"9".repeat(INFERRED_NUMBER_BYTES_MAX + 1)));
    }

    #[test]
    fn quoted_flags_match_the_fields_of_the_reader() {
        let separators = Separators { delimiter: b',', quote: Some(b'"'), returns: false };
        for mut rng in Cases::new(2000) {
            let len = rng.usize(0..12);
            let text: String = (0..len).map(|_| *rng.choice(&['a', '"', ',']).unwrap()).collect();
            let mut record = Record::new(separators);
            let whole = record.feed(text.as_bytes()).0 == text.len() && record.end();
            if !whole || text.is_empty() {
                continue;
            }
            let flags: Vec<bool> = quoted(text.as_bytes(), separators).collect();
            assert_eq!(flags.len(), record.count, "{text}");
            let starts_quoted = |n: usize, field: &[u8]| !flags[n] && field.first() == Some(&b'"');
            assert!(!record.fields().enumerate().any(|(n, field)| starts_quoted(n, field)), "{text}");
        }
    }

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
        }
    }
}
