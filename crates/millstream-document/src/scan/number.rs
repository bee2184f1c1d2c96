//! JSON numbers as PostgreSQL's `numeric` holds and spells them.

use super::flaw::Flaw;
use millstream_model::limits::{NUMBER_EXPANDED_DIGITS_MAX, NUMERIC_FRACTION_DIGITS_MAX, NUMERIC_INTEGER_DIGITS_MAX};

/// Exponents of this size or more are refused, whatever the digits (`set_var_from_str` in `numeric.c`). PostgreSQL 16
/// and later accept exactly this exponent if all digits are zero.
const EXPONENT_END: i64 = i32::MAX as i64 / 2;

/// A number token taken apart.
struct Parts<'d> {
    negative: bool,
    integer: &'d [u8],
    fraction: &'d [u8],
    /// `None` when the token has no exponent; at most [`EXPONENT_END`] in either direction.
    exponent: Option<i64>,
}

impl<'d> Parts<'d> {
    /// Splits a token that follows the grammar.
    fn of(token: &'d [u8]) -> Self {
        let (negative, token) = match token {
            [b'-', rest @ ..] => (true, rest),
            rest => (false, rest),
        };
        let (mantissa, exponent) = match token.iter().position(|b| matches!(b, b'e' | b'E')) {
            Some(at) => (&token[..at], Some(exponent(&token[at + 1..]))),
            None => (token, None),
        };
        let (integer, fraction) = match mantissa.iter().position(|&b| b == b'.') {
            Some(at) => (&mantissa[..at], &mantissa[at + 1..]),
            None => (mantissa, &[][..]),
        };
        Self { negative, integer, fraction, exponent }
    }

    fn digits(&self) -> impl Iterator<Item = u8> {
        self.integer.iter().chain(self.fraction).copied()
    }

    /// Digits after the decimal point when spelled out: numeric's display scale.
    fn scale(&self) -> i64 {
        (length(self.fraction) - self.exponent.unwrap_or(0)).max(0)
    }

    /// Digits before the decimal point when spelled out, without leading zeros.
    fn integer_digits(&self) -> i64 {
        match self.digits().position(|digit| digit != b'0') {
            Some(zeros) => {
                let zeros = i64::try_from(zeros).unwrap_or(i64::MAX);
                (length(self.integer) - zeros + self.exponent.unwrap_or(0)).max(0)
            }
            None => 0,
        }
    }
}

fn length(digits: &[u8]) -> i64 {
    i64::try_from(digits.len()).unwrap_or(i64::MAX)
}

fn exponent(text: &[u8]) -> i64 {
    let (sign, digits) = match text {
        [b'-', digits @ ..] => (-1, digits),
        [b'+', digits @ ..] => (1, digits),
        digits => (1, digits),
    };
    let size = digits.iter().fold(0_i64, |value, digit| (value * 10 + i64::from(digit - b'0')).min(EXPONENT_END));
    sign * size
}

/// Checks a number token. `Ok` holds its digits when spelled out if it has an exponent, else 0.
pub(crate) fn expansion(token: &[u8]) -> Result<usize, Flaw> {
    const INTEGER_MAX: i64 = NUMERIC_INTEGER_DIGITS_MAX as i64;
    const FRACTION_MAX: i64 = NUMERIC_FRACTION_DIGITS_MAX as i64;
    const EXPANDED_MAX: i64 = NUMBER_EXPANDED_DIGITS_MAX as i64;
    let parts = Parts::of(token);
    let (integer, scale) = (parts.integer_digits(), parts.scale());
    if parts.exponent.is_some_and(|e| e.abs() >= EXPONENT_END) || integer > INTEGER_MAX || scale > FRACTION_MAX {
        return Err(Flaw::NumberTooLong);
    }
    match parts.exponent {
        None => Ok(0),
        Some(_) if integer + scale > EXPANDED_MAX => Err(Flaw::NumberExplodes),
        Some(_) => Ok(usize::try_from(integer + scale).unwrap_or(usize::MAX)),
    }
}

/// Appends the number as jsonb spells it: no exponent, no negative zero, trailing zeros kept. The
/// token must have passed [`expansion`].
pub(crate) fn put_spelling(token: &[u8], out: &mut Vec<u8>) {
    let parts = Parts::of(token);
    if parts.negative && parts.digits().any(|digit| digit != b'0') {
        out.push(b'-');
    }
    if parts.exponent.is_none() {
        out.extend_from_slice(&token[usize::from(parts.negative)..]);
        return;
    }
    // Where the decimal point falls, counted from the first digit.
    let point = length(parts.integer) + parts.exponent.unwrap_or(0);
    let digit_at = |place: i64| usize::try_from(place).ok().and_then(|place| parts.digits().nth(place)).unwrap_or(b'0');
    let integer = parts.integer_digits();
    if integer == 0 {
        out.push(b'0');
    }
    out.extend((point - integer..point).map(digit_at));
    let scale = parts.scale();
    if scale > 0 {
        out.push(b'.');
        out.extend((point..point + scale).map(digit_at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_print_like_jsonb() {
        for (token, spelling) in [
            ("0", "0"),
            ("-0", "0"),
            ("-0.00", "0.00"),
            ("-0.50", "-0.50"),
            ("1.50", "1.50"),
            ("1e2", "100"),
            ("1E+2", "100"),
            ("1E-3", "0.001"),
            ("-12.345e1", "-123.45"),
            ("-12.345e-1", "-1.2345"),
            ("12.345e5", "1234500"),
            ("0e5", "0"),
            ("-0e5", "0"),
            ("0.000e2", "0.0"),
            ("0e-3", "0.000"),
            ("0.001e3", "1"),
            ("0.0010e3", "1.0"),
            ("0.0012e3", "1.2"),
            ("10e-1", "1.0"),
            ("100e-2", "1.00"),
            ("1e0", "1"),
            ("0e1000000", "0"),
        ] {
            let mut out = Vec::new();
            expansion(token.as_bytes()).unwrap();
            put_spelling(token.as_bytes(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), spelling, "{token}");
        }
    }

    #[test]
    fn numbers_beyond_numeric_or_our_limit_are_refused() {
        let nines = |digits: usize| "9".repeat(digits);
        let zeros = |digits: usize| "0".repeat(digits);
        for (token, expected) in [
            (nines(131_072), Ok(0)),
            (nines(131_073), Err(Flaw::NumberTooLong)),
            (format!("0.{}", nines(16_383)), Ok(0)),
            (format!("0.{}", nines(16_384)), Err(Flaw::NumberTooLong)),
            ("1e1023".to_owned(), Ok(1024)),
            ("1e1024".to_owned(), Err(Flaw::NumberExplodes)),
            ("1e-1024".to_owned(), Ok(1024)),
            ("1e-1025".to_owned(), Err(Flaw::NumberExplodes)),
            ("1e131071".to_owned(), Err(Flaw::NumberExplodes)),
            ("1e131072".to_owned(), Err(Flaw::NumberTooLong)),
            ("1e-16384".to_owned(), Err(Flaw::NumberTooLong)),
            (format!("0.{}1e2000", zeros(1999)), Ok(1)),
            (format!("1{}e-2000", zeros(2000)), Err(Flaw::NumberExplodes)),
            ("0e1073741822".to_owned(), Ok(0)),
            ("0e1073741823".to_owned(), Err(Flaw::NumberTooLong)),
            ("0e-99999999999999999999".to_owned(), Err(Flaw::NumberTooLong)),
        ] {
            assert_eq!(expansion(token.as_bytes()), expected, "{}", &token[..token.len().min(20)]);
        }
    }
}
