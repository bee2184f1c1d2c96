//! The strict set of literals a typed key takes, a subset of what PostgreSQL's casts take.

use crate::key_bytes::{put_bool, put_i32, put_i64, put_text, put_uuid};
use crate::{KeyType, date};

/// Digits of a second's fraction that are taken. PostgreSQL rounds `strtod` of the fraction to
/// microseconds; up to 15 digits, the quotient of two exact doubles is that very number.
const FRACTION_DIGITS_MAX: usize = 15;

/// Greatest offset from UTC PostgreSQL takes, in hours (`MAX_TZDISP_HOUR`); 15:59 is the last.
const ZONE_HOURS_MAX: u32 = 15;

/// A text that is no literal of the type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected {}", .0.expectation())]
pub struct LiteralError(pub KeyType);

/// Appends the canonical bytes of a literal (see [`key_bytes`](crate::key_bytes)); what it appends
/// is the value of PostgreSQL's cast of the same text.
///
/// | type | taken | not taken, though PostgreSQL would |
/// |---|---|---|
/// | text | anything without NUL | |
/// | bigint, integer | `-?[0-9]+` in range, leading zeros included | spaces, `+`, `0x1f`, `1_000` |
/// | uuid | 8-4-4-4-12 hexadecimal digits of either case | braces, other groups |
/// | timestamptz | RFC 3339 with `T`, `t` or a space, years 1 to 9999 in UTC, zone up to 15:59, second 60, up to 15 digits of fraction, rounded to microseconds | no zone, `now`, `infinity`, other orders, `+00`, 24:00, second 60 with a fraction |
/// | date | `YYYY-MM-DD`, years 1 to 9999 | every other form |
/// | boolean | `true`, `false` | `t`, `yes`, `on`, `1`, upper case |
///
/// # Errors
/// The text is not one of these; `key` is as it was.
#[inline]
pub fn put_literal(key_type: KeyType, text: &[u8], key: &mut Vec<u8>) -> Result<(), LiteralError> {
    let put = match key_type {
        KeyType::Text => (!text.contains(&0)).then(|| put_text(text, key)),
        KeyType::Bigint => integer(text).map(|value| put_i64(value, key)),
        KeyType::Integer => integer(text).and_then(|value| i32::try_from(value).ok()).map(|value| put_i32(value, key)),
        KeyType::Uuid => uuid(text).map(|value| put_uuid(value, key)),
        KeyType::Timestamptz => timestamptz(text).map(|value| put_i64(value, key)),
        KeyType::Date => date(text).map(|value| put_i32(value, key)),
        KeyType::Boolean => boolean(text).map(|value| put_bool(value, key)),
    };
    put.ok_or(LiteralError(key_type))
}

fn integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value = 0_i64;
    for byte in digits {
        let digit = i64::from(digit(*byte)?);
        // Counts downwards, because the least bigint has no positive twin.
        value = value.checked_mul(10)?.checked_sub(digit)?;
    }
    if negative { Some(value) } else { value.checked_neg() }
}

fn uuid(text: &[u8]) -> Option<[u8; 16]> {
    let text: &[u8; 36] = text.try_into().ok()?;
    if [text[8], text[13], text[18], text[23]] != [b'-'; 4] {
        return None;
    }
    const PAIRS: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
    let mut value = [0; 16];
    for (byte, at) in value.iter_mut().zip(PAIRS) {
        *byte = hex(text[at])? << 4 | hex(text[at + 1])?;
    }
    Some(value)
}

fn boolean(text: &[u8]) -> Option<bool> {
    match text {
        b"true" => Some(true),
        b"false" => Some(false),
        _ => None,
    }
}

fn date(text: &[u8]) -> Option<i32> {
    let text: &[u8; 10] = text.try_into().ok()?;
    if text[4] != b'-' || text[7] != b'-' {
        return None;
    }
    date::days(number(&text[..4])?, number(&text[5..7])?, number(&text[8..])?)
}

fn timestamptz(text: &[u8]) -> Option<i64> {
    let (day, rest) = text.split_at_checked(10)?;
    let (clock, rest) = rest.split_at_checked(9)?;
    if !matches!(clock[0], b'T' | b't' | b' ') || clock[3] != b':' || clock[6] != b':' {
        return None;
    }
    let hour = number(&clock[1..3]).filter(|&hour| hour < 24)?;
    let minute = number(&clock[4..6]).filter(|&minute| minute < 60)?;
    let second = number(&clock[7..9]).filter(|&second| second <= 60)?;
    let (fraction, zone) = match rest {
        [b'.', rest @ ..] => {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let (digits, zone) = rest.split_at(digits);
            (fraction(digits)?, zone)
        }
        zone => (0, zone),
    };
    if second == 60 && fraction > 0 {
        return None;
    }
    let seconds = i64::from(hour * 3600 + minute * 60 + second) - zone_seconds(zone)?;
    let at = i64::from(date(day)?) * date::DAY_US + seconds * 1_000_000 + fraction;
    let first = i64::from(date::days(1, 1, 1)?) * date::DAY_US;
    let end = (i64::from(date::days(9999, 12, 31)?) + 1) * date::DAY_US;
    (first..end).contains(&at).then_some(at)
}

/// Microseconds, rounded as PostgreSQL does: `rint(strtod(fraction) * 1000000)`.
fn fraction(digits: &[u8]) -> Option<i64> {
    if digits.is_empty() || digits.len() > FRACTION_DIGITS_MAX {
        return None;
    }
    let mut value = 0.0_f64;
    let mut unit = 1.0_f64;
    for byte in digits {
        value = value * 10.0 + f64::from(digit(*byte)?);
        unit *= 10.0;
    }
    #[expect(clippy::cast_possible_truncation, reason = "at most 1,000,000")]
    let microseconds = (value / unit * 1e6).round_ties_even() as i64;
    Some(microseconds)
}

/// Seconds to the east of UTC.
fn zone_seconds(zone: &[u8]) -> Option<i64> {
    let (sign, offset) = match zone {
        [b'Z' | b'z'] => return Some(0),
        [b'+', offset @ ..] => (1, offset),
        [b'-', offset @ ..] => (-1, offset),
        _ => return None,
    };
    let [h1, h2, b':', m1, m2] = *offset else {
        return None;
    };
    let hours = number(&[h1, h2]).filter(|&hours| hours <= ZONE_HOURS_MAX)?;
    let minutes = number(&[m1, m2]).filter(|&minutes| minutes < 60)?;
    Some(sign * i64::from(hours * 3600 + minutes * 60))
}

/// At most nine digits as a number.
fn number(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |value, byte| Some(value * 10 + u32::from(digit(*byte)?)))
}

fn digit(byte: u8) -> Option<u8> {
    byte.is_ascii_digit().then(|| byte - b'0')
}

fn hex(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_bytes::key_texts;

    fn read(key_type: KeyType, text: &str) -> Option<String> {
        let mut key = b"before".to_vec();
        match put_literal(key_type, text.as_bytes(), &mut key) {
            Ok(()) => key_texts(&[key_type], &key[6..]).pop(),
            Err(error) => {
                assert_eq!(error, LiteralError(key_type));
                assert_eq!(key, b"before");
                None
            }
        }
    }

    #[test]
    fn literals_that_are_taken() {
        use KeyType::{Bigint, Boolean, Date, Integer, Text, Timestamptz, Uuid};
        for (key_type, text, value) in [
            (Text, "", ""),
            (Text, " x ", " x "),
            (Bigint, "-9223372036854775808", "-9223372036854775808"),
            (Bigint, "9223372036854775807", "9223372036854775807"),
            (Bigint, "-0", "0"),
            (Bigint, "00000000000000000000000000007", "7"),
            (Integer, "-2147483648", "-2147483648"),
            (Uuid, "00112233-4455-6677-8899-AaBbCcDdEeFf", "00112233-4455-6677-8899-aabbccddeeff"),
            (Timestamptz, "2024-02-29T23:59:59Z", "2024-02-29T23:59:59Z"),
            (Timestamptz, "2024-02-29t23:59:59.120z", "2024-02-29T23:59:59.12Z"),
            (Timestamptz, "2024-02-29 23:59:59-00:30", "2024-03-01T00:29:59Z"),
            (Timestamptz, "2024-01-01T00:00:00+15:59", "2023-12-31T08:01:00Z"),
            (Timestamptz, "2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z"),
            (Timestamptz, "1999-12-31T23:59:59.9999996Z", "2000-01-01T00:00:00Z"),
            (Timestamptz, "2024-01-01T00:00:00.0000005Z", "2024-01-01T00:00:00Z"),
            (Timestamptz, "2024-01-01T00:00:00.0000015Z", "2024-01-01T00:00:00.000002Z"),
            (Date, "0001-01-01", "0001-01-01"),
            (Boolean, "true", "true"),
            (Boolean, "false", "false"),
        ] {
            assert_eq!(read(key_type, text).as_deref(), Some(value), "{text}");
        }
    }

    #[test]
    fn literals_that_are_not() {
        use KeyType::{Bigint, Boolean, Date, Integer, Text, Timestamptz, Uuid};
        for (key_type, texts) in [
            (Text, &["\0", "a\0"][..]),
            (
                Bigint,
                &[
                    "",
                    "-",
                    "+1",
                    " 1",
                    "1 ",
                    "1.0",
                    "1e2",
                    "0x1",
                    "1_0",
                    "9223372036854775808",
                    "-9223372036854775809",
                    "١",
                ],
            ),
            (Integer, &["2147483648", "-2147483649", ""]),
            (
                Uuid,
                &[
                    "",
                    "00112233445566778899aabbccddeeff",
                    "{00112233-4455-6677-8899-aabbccddeeff}",
                    "00112233-4455-6677-8899-aabbccddeefg",
                    "00112233-4455-6677-8899_aabbccddeeff",
                ],
            ),
            (
                Timestamptz,
                &[
                    "",
                    "now",
                    "infinity",
                    "2024-01-01",
                    "2024-01-01T00:00:00",
                    "2024-01-01T24:00:00Z",
                    "2024-01-01T00:60:00Z",
                    "2024-01-01T00:00:61Z",
                    "2024-01-01T00:00:60.1Z",
                    "2024-01-01T00:00:00.Z",
                    "2024-01-01T00:00:00,5Z",
                    "2024-01-01T00:00:00+00",
                    "2024-01-01T00:00:00+0000",
                    "2024-01-01T00:00:00+16:00",
                    "2024-01-01T00:00:00+00:60",
                    "2023-02-29T00:00:00Z",
                    "0000-01-01T00:00:00Z",
                    "0001-01-01T00:00:00+01:00",
                    "9999-12-31T23:59:59-01:00",
                    "9999-12-31T23:59:60Z",
                    "2024-01-01T00:00:00Z ",
                    "2024-01-01T00:00:00.0000000000000001Z",
                    "+024-01-01T00:00:00Z",
                ],
            ),
            (Date, &["", "2024-1-1", "20240101", "2024-01-01 ", "2024/01/01", "today", "0000-01-01"]),
            (Boolean, &["", "t", "TRUE", "1", "yes"]),
        ] {
            for text in texts {
                assert_eq!(read(key_type, text), None, "{key_type} {text:?}");
            }
        }
    }

    #[test]
    fn errors_say_what_is_expected() {
        assert_eq!(LiteralError(KeyType::Date).to_string(), "expected a date such as 2024-02-29");
    }
}
