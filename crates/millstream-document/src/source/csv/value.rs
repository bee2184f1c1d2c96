//! Turns fields of a delimited file into JSON values: strings, null, numbers and booleans.

use super::super::dialect::Dialect;
use crate::json_string::put_string;
use crate::limits::{EXPONENT_DIGITS_MAX, INFERRED_NUMBER_BYTES_MAX};

impl Dialect {
    /// Whether every field becomes a string, unchanged.
    pub(super) fn keeps_fields(&self) -> bool {
        self.null.is_none() && !self.trim && !self.infer_types
    }

    /// Appends the JSON value of a field.
    pub(super) fn put_field(&self, text: &str, quoted: bool, out: &mut Vec<u8>) {
        let text = if self.trim && !quoted { trimmed(text) } else { text };
        if !quoted && self.null.as_deref() == Some(text) {
            out.extend_from_slice(b"null");
        } else if !quoted && self.infer_types && is_literal(text) {
            out.extend_from_slice(text.as_bytes());
        } else {
            put_string(text, out);
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
