//! The canonical bytes of a decimal: `memcmp` order is the order of `numeric`, equal bytes are equal numbers.
//!
//! | number | bytes |
//! |---|---|
//! | negative | 0, then those of its absolute value without the first, each complemented |
//! | zero | 1 |
//! | positive | 2, the place of the decimal point as an integer, the digits from the first to the last that is not 0, then 0x00 |

use super::number;
use millstream_model::key_bytes::put_i32;

const NEGATIVE: u8 = 0;
const ZERO: u8 = 1;
const POSITIVE: u8 = 2;
/// Ends the digits, and sorts fewer of them first.
const DIGITS_END: u8 = 0;

/// Whether a text is a decimal as it is written out: `-?[0-9]+(\.[0-9]+)?`, within the bounds of `numeric`.
pub(super) fn is_decimal(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let mut parts = digits.splitn(2, |&byte| byte == b'.');
    parts.all(|part| !part.is_empty() && part.iter().all(u8::is_ascii_digit)) && number::expansion(text).is_ok()
}

/// Appends the canonical bytes of a decimal; `false`, and nothing is appended, where the text is none.
pub(super) fn put_decimal(text: &[u8], out: &mut Vec<u8>) -> bool {
    if !is_decimal(text) {
        return false;
    }
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let point = digits.iter().position(|&byte| byte == b'.').unwrap_or(digits.len());
    let significant = |byte: &u8| matches!(byte, b'1'..=b'9');
    let (Some(first), Some(last)) = (digits.iter().position(significant), digits.iter().rposition(significant)) else {
        out.push(ZERO);
        return true;
    };
    // Digits between the first one and the decimal point, or zeros before it, less than none.
    let place = if first < point { length(point - first) } else { -length(first - point - 1) };
    out.push(if negative { NEGATIVE } else { POSITIVE });
    let start = out.len();
    put_i32(place, out);
    out.extend(digits[first..=last].iter().filter(|&&byte| byte != b'.'));
    out.push(DIGITS_END);
    if negative {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
    true
}

fn length(digits: usize) -> i32 {
    i32::try_from(digits).expect("a document is shorter")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        put_decimal(text.as_bytes(), &mut out).then_some(out)
    }

    #[test]
    fn bytes_sort_as_numbers_do_whatever_their_spelling() {
        let ascending: &[&[&str]] = &[
            &["-100", "-0100.00"],
            &["-20.5"],
            &["-11"],
            &["-10.01"],
            &["-10", "-10.0"],
            &["-9.99"],
            &["-1"],
            &["-0.5", "-0.50"],
            &["-0.05"],
            &["0", "-0", "0.00", "000"],
            &["0.001"],
            &["0.05"],
            &["0.5", "00.500"],
            &["0.51"],
            &["1"],
            &["9.5"],
            &["9.51"],
            &["10", "10.0"],
            &["10.5", "010.50"],
            &["12"],
            &["100"],
            &["9223372036854775808"],
            &["9223372036854775808.000000000000000000000000000001"],
        ];
        let keys: Vec<Vec<u8>> = ascending.iter().map(|texts| bytes(texts[0]).unwrap()).collect();
        assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
        for (texts, key) in ascending.iter().zip(&keys) {
            assert!(texts.iter().all(|text| bytes(text).as_ref() == Some(key)), "{texts:?}");
        }
    }

    #[test]
    fn what_is_no_decimal_is_not_taken() {
        let long = format!("0.{}", "0".repeat(16_384));
        for text in ["", "-", "+1", ".5", "5.", "1.2.3", "1e2", " 1", "1 ", "NaN", "Infinity", "0x1", "1_0", "١", &long]
        {
            assert_eq!(bytes(text), None, "{text}");
        }
    }
}
