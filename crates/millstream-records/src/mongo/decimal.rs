//! Decimal numbers of up to 34 digits and an exponent, and their text with all digits.

use crate::nan::NOT_FINITE;
use std::io::Write;

/// The exponent is kept with this added to it (IEEE 754-2008, 3.6).
const BIAS: i64 = 6_176;

/// Largest significand. A larger one means 0.
const SIGNIFICAND_MAX: u128 = 10_u128.pow(34) - 1;

/// A number with fewer places before its first digit is written without exponent, as MongoDB does.
const PLAIN_MIN: i64 = -6;

/// A decimal number.
pub(super) enum Decimal {
    /// A number.
    Finite {
        /// Whether it has a sign.
        negative: bool,
        /// Its digits, without zeros in front.
        digits: String,
        /// How many places the point stands behind them.
        exponent: i64,
    },
    /// A word that is no number of JSON.
    NotFinite(&'static str),
}

impl Decimal {
    /// Of its 128 bits, whose significand is binary.
    pub(super) fn of_bits(bits: u128) -> Self {
        const INFINITY: u128 = 0b11110;
        const LARGE_FROM: u128 = 0b11000;
        let negative = bits >> 127 == 1;
        let exponent = |shift: u32| i64::try_from(bits >> shift & 0x3fff).unwrap_or(0) - BIAS;
        let (significand, exponent) = match bits >> 122 & 0b11111 {
            // A significand of this form is always too large.
            LARGE_FROM..INFINITY => (0, exponent(111)),
            INFINITY => return Self::NotFinite(if negative { "-Infinity" } else { "Infinity" }),
            kind if kind > INFINITY => return Self::NotFinite("NaN"),
            _ => (bits & ((1 << 113) - 1), exponent(113)),
        };
        let significand = if significand > SIGNIFICAND_MAX { 0 } else { significand };
        Self::Finite { negative, digits: significand.to_string(), exponent }
    }

    /// Of its text. `None`: it is none.
    pub(super) fn of_text(text: &str) -> Option<Self> {
        if let Some(word) = NOT_FINITE.into_iter().find(|word| *word == text) {
            return Some(Self::NotFinite(word));
        }
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, i64::from(exponent.parse::<i32>().ok()?)),
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = [whole, fraction].concat();
        if all.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let digits = all.trim_start_matches('0');
        let digits = if digits.is_empty() { "0" } else { digits }.to_owned();
        let exponent = exponent - i64::try_from(fraction.len()).ok()?;
        Some(Self::Finite { negative: text.starts_with('-'), digits, exponent })
    }

    /// Writes a number with all its digits, in the form that MongoDB gives it. A zero that would have an exponent has none:
    /// jsonb would write thousands of zeros for it.
    pub(super) fn write(negative: bool, digits: &str, exponent: i64, text: &mut Vec<u8>) {
        if negative {
            text.push(b'-');
        }
        let before = exponent + i64::try_from(digits.len()).unwrap_or(i64::MAX - BIAS) - 1;
        if exponent > 0 || before < PLAIN_MIN {
            let (first, rest) = digits.split_at(1);
            text.extend_from_slice(first.as_bytes());
            if digits == "0" {
                return;
            }
            if !rest.is_empty() {
                text.push(b'.');
                text.extend_from_slice(rest.as_bytes());
            }
            return write!(text, "E{before:+}").expect("memory takes all");
        }
        let places = usize::try_from(-exponent).unwrap_or(0);
        let (whole, fraction) = digits.split_at(digits.len().saturating_sub(places));
        text.extend_from_slice(if whole.is_empty() { b"0" } else { whole.as_bytes() });
        if places > 0 {
            text.push(b'.');
            text.resize(text.len() + places - fraction.len(), b'0');
            text.extend_from_slice(fraction.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Decimal;

    fn written(decimal: &Decimal) -> String {
        match decimal {
            Decimal::Finite { negative, digits, exponent } => {
                let mut text = Vec::new();
                Decimal::write(*negative, digits, *exponent, &mut text);
                String::from_utf8(text).unwrap()
            }
            Decimal::NotFinite(word) => (*word).to_owned(),
        }
    }

    /// The high and the low half, as MongoDB's tests have them.
    fn of_halves(high: u64, low: u64) -> String {
        written(&Decimal::of_bits(u128::from(high) << 64 | u128::from(low)))
    }

    #[test]
    fn bits_are_the_number_that_they_mean() {
        for (high, low, expected) in [
            (0x3040_0000_0000_0000, 1, "1"),
            (0xb040_0000_0000_0000, 1, "-1"),
            (0x3040_0000_0000_0000, 0, "0"),
            (0xb040_0000_0000_0000, 0, "-0"),
            (0x303e_0000_0000_0000, 1, "0.1"),
            (0x303c_0000_0000_0000, 97, "0.97"),
            (0xb038_0000_0000_0000, 97, "-0.0097"),
            (0x3036_0000_0000_0000, 970, "0.00970"),
            (0x3034_0000_0000_0000, 1_234_500, "1.234500"),
            (0x3034_0000_0000_0000, 1, "0.000001"),
            (0x3032_0000_0000_0000, 1, "1E-7"),
            (0x3032_0000_0000_0000, 12, "0.0000012"),
            (0x3042_0000_0000_0000, 1, "1E+1"),
            (0x3046_0000_0000_0000, 12, "1.2E+4"),
            // Zeros keep the places that they have, and lose an exponent.
            (0x303c_0000_0000_0000, 0, "0.00"),
            (0x3046_0000_0000_0000, 0, "0"),
            (0, 0, "0"),
            (0x8000_0000_0000_0000, 0, "-0"),
            // The largest, the smallest.
            (0x5fff_ed09_bead_87c0, 0x378d_8e63_ffff_ffff, "9.999999999999999999999999999999999E+6144"),
            (0, 1, "1E-6176"),
            (0x3041_ed09_bead_87c0, 0x378d_8e63_ffff_ffff, "9999999999999999999999999999999999"),
            // A significand with too many digits, in both forms.
            (0x3041_ed09_bead_87c0, 0x378d_8e64_0000_0000, "0"),
            (0x6c10_0000_0000_0000, 1, "0"),
            (0x7c00_0000_0000_0000, 0, "NaN"),
            (0xfc00_0000_0000_0000, 7, "NaN"),
            (0x7800_0000_0000_0000, 0, "Infinity"),
            (0xf800_0000_0000_0000, 0, "-Infinity"),
        ] {
            assert_eq!(of_halves(high, low), expected, "{high:x} {low:x}");
        }
    }

    #[test]
    fn a_text_is_written_as_the_bits_of_its_number() {
        for (text, expected) in [
            ("1", "1"),
            ("+1", "1"),
            ("-0.0097", "-0.0097"),
            ("-0.00970", "-0.00970"),
            (".5", "0.5"),
            ("5.", "5"),
            ("007", "7"),
            ("1e3", "1E+3"),
            ("12E-9", "1.2E-8"),
            ("0E-6176", "0"),
            ("-0E+3", "-0"),
            ("0.000", "0.000"),
            ("12345678901234567890123456789012345", "12345678901234567890123456789012345"),
            ("NaN", "NaN"),
            ("-Infinity", "-Infinity"),
        ] {
            assert_eq!(Decimal::of_text(text).map(|decimal| written(&decimal)).as_deref(), Some(expected), "{text}");
        }
        for text in ["", "-", ".", "e5", "1e", "1e+", "--1", "1.2.3", "0x1", "1 ", "1e99999999999", "nan", "\u{661}"] {
            assert!(Decimal::of_text(text).is_none(), "{text}");
        }
    }
}
