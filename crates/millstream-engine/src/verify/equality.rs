//! Compares the texts of two documents as jsonb `=` compares the documents.

/// Whether two texts that jsonb printed mean equal values. jsonb prints members in one order, and strings and whole
/// numbers in one way. So the texts of equal values differ only in the zeros at the end of fractions.
pub(super) fn equal(one: &[u8], other: &[u8]) -> bool {
    one == other || shortened(one) == shortened(other)
}

/// The text without the zeros at the end of its fractions.
fn shortened(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.first() {
        let length = match first {
            b'"' => string_bytes(rest),
            b'-' | b'0'..=b'9' => {
                rest.iter().position(|b| !matches!(b, b'-' | b'.' | b'0'..=b'9')).unwrap_or(rest.len())
            }
            _ => 1,
        };
        let (token, after) = rest.split_at(length);
        out.extend_from_slice(if *first == b'"' { token } else { without_zeros(token) });
        rest = after;
    }
    out
}

/// Bytes of the string at the front, quotes included.
fn string_bytes(text: &[u8]) -> usize {
    let mut end = 1;
    while let Some(found) = text.get(end..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        end += found;
        if text[end] == b'"' {
            return end + 1;
        }
        end += 2;
    }
    text.len()
}

fn without_zeros(number: &[u8]) -> &[u8] {
    if !number.contains(&b'.') {
        return number;
    }
    let digits = number.iter().rposition(|&b| b != b'0').map_or(0, |last| last + 1);
    number[..digits].strip_suffix(b".").unwrap_or(&number[..digits])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_trailing_zeros_of_a_fraction_are_ignored() {
        for (one, other, same) in [
            ("{}", "{}", true),
            (r#"{"a": 1}"#, r#"{"a": 1.00}"#, true),
            (r#"{"a": 0.0}"#, r#"{"a": 0}"#, true),
            (r#"{"a": [1.50, -2.0], "b": 3}"#, r#"{"a": [1.5, -2], "b": 3.0}"#, true),
            (r#"{"a": 10}"#, r#"{"a": 1}"#, false),
            (r#"{"a": 1.05}"#, r#"{"a": 1.5}"#, false),
            (r#"{"a": -1}"#, r#"{"a": 1}"#, false),
            (r#"{"a": "1.0"}"#, r#"{"a": "1"}"#, false),
            (r#"{"a\"1.0": 1.0}"#, r#"{"a\"1.0": 1}"#, true),
            (r#"{"a\"1.0": 1}"#, r#"{"a\"1": 1}"#, false),
            (r#"{"a": "\\", "b": 1.0}"#, r#"{"a": "\\", "b": 1}"#, true),
            (r#"{"a": null}"#, "{}", false),
            ("1.0", "1", true),
        ] {
            assert_eq!(equal(one.as_bytes(), other.as_bytes()), same, "{one} {other}");
            assert_eq!(equal(other.as_bytes(), one.as_bytes()), same, "{other} {one}");
        }
    }

    #[test]
    fn text_that_is_no_json_does_not_panic() {
        for text in ["", "\"", "\"\\", "\"a\\\"", ".", "-", "0.", "\0"] {
            assert!(equal(text.as_bytes(), text.as_bytes()));
            assert!(!equal(text.as_bytes(), b"x"));
        }
    }
}
