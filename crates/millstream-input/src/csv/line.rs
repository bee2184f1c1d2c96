//! A line that is read by itself: a quote that encloses no field of it is data.

use super::separators::{Separators, behind_quotes};
use memchr::memchr;

/// A field of such a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LineField<'a> {
    /// As it is written.
    pub(super) raw: &'a [u8],
    pub(super) enclosed: Enclosed,
}

/// Whether quotes enclose a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Enclosed {
    Yes,
    No,
    /// They do, but for blanks behind them. A reader that takes the quotes for data may be wrong.
    ButForBlanks,
}

/// The fields of a line without its line end.
pub(super) fn line_fields(line: &[u8], separators: Separators) -> impl Iterator<Item = LineField<'_>> {
    let until = move |text: &[u8]| memchr(separators.delimiter, text).unwrap_or(text.len());
    let mut left = Some(line);
    std::iter::from_fn(move || {
        let rest = left?;
        let quote = separators.quote.filter(|quote| rest.first() == Some(quote));
        let (len, enclosed) = match quote.and_then(|quote| behind_quotes(&rest[1..], quote)) {
            Some(behind) if until(behind) == 0 => (rest.len() - behind.len(), Enclosed::Yes),
            Some(behind) if behind[..until(behind)].iter().all(|byte| matches!(byte, b' ' | b'\t')) => {
                (until(rest), Enclosed::ButForBlanks)
            }
            _ => (until(rest), Enclosed::No),
        };
        left = rest.get(len + 1..);
        Some(LineField { raw: &rest[..len], enclosed })
    })
}

/// Whether quotes enclose each field of a line that is read by itself.
pub fn enclosed(line: &[u8], separators: Separators) -> impl Iterator<Item = bool> {
    line_fields(line, separators).map(|field| field.enclosed == Enclosed::Yes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_that_enclose_no_field_are_data() {
        let separators = Separators { delimiter: b',', quote: Some(b'"'), returns: false };
        let (yes, no, but) = (Enclosed::Yes, Enclosed::No, Enclosed::ButForBlanks);
        for (line, expected) in [
            ("", &[("", no)][..]),
            ("a,,b\"", &[("a", no), ("", no), ("b\"", no)]),
            ("\"a,b\",\"\"", &[("\"a,b\"", yes), ("\"\"", yes)]),
            ("\"a\"\",b\",", &[("\"a\"\",b\"", yes), ("", no)]),
            ("1,\"20\" pipe,\"x\"", &[("1", no), ("\"20\" pipe", no), ("\"x\"", yes)]),
            ("\"a, b\" c", &[("\"a", no), (" b\" c", no)]),
            ("1,\"open,\"x\"", &[("1", no), ("\"open", no), ("\"x\"", yes)]),
            ("\"1\" ,2", &[("\"1\" ", but), ("2", no)]),
        ] {
            let fields: Vec<_> = line_fields(line.as_bytes(), separators).collect();
            let expected: Vec<_> =
                expected.iter().map(|&(raw, enclosed)| LineField { raw: raw.as_bytes(), enclosed }).collect();
            assert_eq!(fields, expected, "{line}");
        }
    }
}
