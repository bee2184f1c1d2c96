//! How values are written as strings of JSON: text, and what JSON lacks: bytes, UUIDs, and times as RFC 3339 has them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

pub(crate) const SECONDS_A_DAY: i64 = 86_400;
pub(crate) const NANOSECONDS_A_SECOND: i64 = 1_000_000_000;

/// Writes a string. Bytes that are not UTF-8 stay: whoever reads the line says so.
pub(crate) fn string(text: &mut Vec<u8>, value: &[u8]) {
    text.push(b'"');
    let mut rest = value;
    while let Some(at) = first_escaped(rest) {
        text.extend_from_slice(&rest[..at]);
        let short = match rest[at] {
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            byte => byte,
        };
        if short >= b' ' {
            text.extend_from_slice(&[b'\\', short]);
        } else {
            text.extend_from_slice(b"\\u00");
            text.extend(hex(short));
        }
        rest = &rest[at + 1..];
    }
    text.extend_from_slice(rest);
    text.push(b'"');
}

/// Where the first byte stands that JSON writes with a backslash.
fn first_escaped(value: &[u8]) -> Option<usize> {
    let is_escaped = |byte: &u8| *byte < b' ' || matches!(*byte, b'"' | b'\\');
    let (words, rest) = value.as_chunks::<8>();
    for (n, word) in words.iter().enumerate() {
        let found = escaped_in(u64::from_le_bytes(*word));
        if found != 0 {
            return Some(n * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    rest.iter().position(is_escaped).map(|at| words.len() * 8 + at)
}

/// The highest bit of each byte that is escaped; above the lowest of these, others may be set too. Eight bytes at once, because
/// looking at each took a third of the time in which BSON becomes text
/// (<https://graphics.stanford.edu/~seander/bithacks.html#HasLessInWord>).
fn escaped_in(word: u64) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHEST: u64 = u64::from_ne_bytes([0x80; 8]);
    let below = |word: u64, byte: u8| word.wrapping_sub(ONES * u64::from(byte)) & !word;
    let equal = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    (below(word, b' ') | equal(b'"') | equal(b'\\')) & HIGHEST
}

/// Writes bytes as a string in base64.
pub(crate) fn bytes(text: &mut Vec<u8>, value: &[u8]) {
    text.push(b'"');
    let start = text.len();
    text.resize(start + base64::encoded_len(value.len(), true).expect("it fits memory"), 0);
    STANDARD.encode_slice(value, &mut text[start..]).expect("there is just enough room");
    text.push(b'"');
}

/// Writes the 16 bytes of a UUID.
pub(crate) fn uuid(text: &mut Vec<u8>, value: &[u8]) {
    text.push(b'"');
    for (n, byte) in value.iter().enumerate() {
        if matches!(n, 4 | 6 | 8 | 10) {
            text.push(b'-');
        }
        text.extend(hex(*byte));
    }
    text.push(b'"');
}

/// The two digits of a byte.
pub(crate) fn hex(byte: u8) -> [u8; 2] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]
}

/// Writes a time since 1970. If it is an instant it is in UTC, and else it has no zone.
pub(crate) fn timestamp(text: &mut Vec<u8>, value: i64, a_second: i64, is_instant: bool) {
    let (seconds, part) = (value.div_euclid(a_second), value.rem_euclid(a_second));
    text.push(b'"');
    write_date(text, seconds.div_euclid(SECONDS_A_DAY));
    text.push(b'T');
    write_clock(text, seconds.rem_euclid(SECONDS_A_DAY).unsigned_abs());
    write_fraction(text, part.unsigned_abs(), a_second);
    text.extend_from_slice(if is_instant { b"Z\"" } else { b"\"" });
}

/// Writes the date that is so many days after 1970-01-01.
///
/// A year that has no four digits is written with its sign, as ISO 8601 has it: RFC 3339 has none.
pub(crate) fn write_date(text: &mut Vec<u8>, days: i64) {
    let (year, month, day) = civil(days);
    match u64::try_from(year) {
        Ok(year @ 0..=9_999) => digits(text, year, 4),
        _ => {
            text.push(if year < 0 { b'-' } else { b'+' });
            digits(text, year.unsigned_abs(), 4);
        }
    }
    text.push(b'-');
    digits(text, month, 2);
    text.push(b'-');
    digits(text, day, 2);
}

/// Writes a time of day.
pub(crate) fn write_clock(text: &mut Vec<u8>, seconds: u64) {
    digits(text, seconds / 3_600, 2);
    text.push(b':');
    digits(text, seconds / 60 % 60, 2);
    text.push(b':');
    digits(text, seconds % 60, 2);
}

/// A part of a second: in microseconds where that is exact, else in nanoseconds.
pub(crate) fn write_fraction(text: &mut Vec<u8>, part: u64, a_second: i64) {
    let nanoseconds = part * (NANOSECONDS_A_SECOND / a_second).unsigned_abs();
    text.push(b'.');
    if nanoseconds.is_multiple_of(1_000) {
        digits(text, nanoseconds / 1_000, 6);
    } else {
        digits(text, nanoseconds, 9);
    }
}

/// Year, month and day of the proleptic Gregorian calendar, counted in eras of 400 years that begin in March
/// (<https://howardhinnant.github.io/date_algorithms.html>, `civil_from_days`).
fn civil(days: i64) -> (i64, u64, u64) {
    const DAYS_AN_ERA: i64 = 146_097;
    const DAYS_BEFORE_1970: i64 = 719_468;
    let days = days + DAYS_BEFORE_1970;
    let (era, day_of_era) = (days.div_euclid(DAYS_AN_ERA), days.rem_euclid(DAYS_AN_ERA));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month.unsigned_abs(), day.unsigned_abs())
}

/// Writes a number with at least so many digits.
pub(crate) fn digits(text: &mut Vec<u8>, value: u64, width: usize) {
    let (mut rest, start) = (value, text.len());
    while rest > 0 || text.len() - start < width {
        text.push(b'0' + u8::try_from(rest % 10).unwrap_or(0));
        rest /= 10;
    }
    text[start..].reverse();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_escaped_is_found_wherever_it_stands() {
        for byte in 0..=u8::MAX {
            for (length, at) in (0..20).flat_map(|length| (0..length).map(move |at| (length, at))) {
                for others in [b' ', b'!', 0x7f, 0x80, 0xff] {
                    let mut value = vec![others; length];
                    value[at] = byte;
                    let expected = (byte < b' ' || matches!(byte, b'"' | b'\\')).then_some(at);
                    assert_eq!(first_escaped(&value), expected, "{byte} at {at} of {length}, among {others}");
                }
            }
        }
        assert_eq!(first_escaped(b"abcdefg\n\"2345678"), Some(7));
    }
}
