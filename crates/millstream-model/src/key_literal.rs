//! The literals that a typed key accepts: a strict subset of what PostgreSQL's casts accept.

use crate::decimal::{is_decimal, put_decimal};
use crate::key_bytes::{put_bool, put_i16, put_i32, put_i64, put_text, put_uuid};
use crate::{KeyType, date};

/// Most digits in the fraction of a second, and how many of them PostgreSQL keeps.
const FRACTION_DIGITS_MAX: usize = 15;
const FRACTION_DIGITS_KEPT: usize = 6;

/// Largest offset from UTC that PostgreSQL accepts, in hours (`MAX_TZDISP_HOUR`). The limit is 15:59.
const ZONE_HOURS_MAX: u32 = 15;

/// Why a text is not a literal of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LiteralError {
    /// The text does not have the form of the type.
    #[error("expected {}", .0.expectation())]
    Form(KeyType),
    /// More characters than the column allows.
    #[error("expected at most {0} characters (varchar({0}))")]
    Long(u32),
    /// A time that PostgreSQL would round, so that it could become equal to another one.
    #[error("the time is finer than a microsecond, and PostgreSQL would round it")]
    Finer,
    /// A leap second, which PostgreSQL would store as the first second of the next minute.
    #[error("second 60 is a leap second, and PostgreSQL would store the next minute")]
    LeapSecond,
}

/// Appends the canonical bytes of a literal (see [`key_bytes`](crate::key_bytes)). They encode the
/// value that PostgreSQL's cast of the same text gives.
///
/// | type | accepted | not accepted, although PostgreSQL accepts it |
/// |---|---|---|
/// | text | anything without NUL | |
/// | varchar(n) | the same with at most n characters, trailing spaces included | |
/// | bigint, integer, smallint | `-?[0-9]+` in range, leading zeros included | spaces, `+`, `0x1f`, `1_000` |
/// | numeric | `-?[0-9]+(\.[0-9]+)?` | spaces, `+`, exponents, `NaN`, `Infinity` |
/// | uuid | 32 hexadecimal digits of either case, hyphens behind any four of them, braces around them | |
/// | timestamptz | RFC 3339 with `T`, `t` or a space, years 1 to 9999 in UTC, zone up to 15:59, whole microseconds | no zone, `now`, `infinity`, other orders, `+00`, 24:00, second 60, finer times |
/// | timestamptz:lenient | the same, also without seconds, and with offsets such as `+0530` and `+05` | no zone |
/// | timestamptz:epoch, timestamptz:epoch_ms | a decimal number of seconds or milliseconds since 1970, whole microseconds, the same years | |
/// | timestamp | as timestamptz, without zone | a zone, which PostgreSQL drops |
/// | date | `YYYY-MM-DD`, years 1 to 9999 | every other form |
/// | boolean | `true`, `false` | `t`, `yes`, `on`, `1`, upper case |
///
/// # Errors
/// If the text is not accepted. Then `key` is unchanged.
#[inline]
pub fn put_literal(key_type: KeyType, text: &[u8], key: &mut Vec<u8>) -> Result<(), LiteralError> {
    let put = match key_type {
        KeyType::Text => (!text.contains(&0)).then(|| put_text(text, key)),
        KeyType::Varchar(length) => {
            if let Some(length) = length.filter(|&length| characters(text) > length as usize) {
                return Err(LiteralError::Long(length));
            }
            (!text.contains(&0)).then(|| put_text(text, key))
        }
        KeyType::Bigint => integer(text).map(|value| put_i64(value, key)),
        KeyType::Integer => integer(text).and_then(|value| i32::try_from(value).ok()).map(|value| put_i32(value, key)),
        KeyType::Smallint => integer(text).and_then(|value| i16::try_from(value).ok()).map(|value| put_i16(value, key)),
        KeyType::Numeric => put_decimal(text, key).then_some(()),
        KeyType::Uuid => uuid(text).map(|value| put_uuid(value, key)),
        KeyType::Timestamptz
        | KeyType::TimestamptzEpoch
        | KeyType::TimestamptzEpochMs
        | KeyType::TimestamptzLenient
        | KeyType::Timestamp => match moment(key_type, text) {
            Some(moment) => {
                put_i64(moment.whole_microseconds()?, key);
                Some(())
            }
            None => None,
        },
        KeyType::Date => date(text).map(|value| put_i32(value, key)),
        KeyType::Boolean => boolean(text).map(|value| put_bool(value, key)),
    };
    put.ok_or(LiteralError::Form(key_type))
}

/// Appends the canonical bytes of a version, which is compared and never stored as a column. They are those of
/// [`put_literal`]. If a time is finer than microseconds, its remaining digits follow, so that the bytes have the
/// order of the times. One encoding may be the prefix of another, so nothing may follow them.
///
/// # Errors
/// As [`put_literal`], but finer times are accepted.
#[inline]
pub fn put_version(key_type: KeyType, text: &[u8], version: &mut Vec<u8>) -> Result<(), LiteralError> {
    match put_literal(key_type, text, version) {
        Err(LiteralError::Finer) => {
            let moment = moment(key_type, text).ok_or(LiteralError::Form(key_type))?;
            put_i64(moment.microseconds, version);
            version.extend_from_slice(moment.finer);
            Ok(())
        }
        other => other,
    }
}

/// A time as written in the text.
struct Moment<'t> {
    /// Since 2000-01-01 UTC, without the finer digits.
    microseconds: i64,
    /// Digits of the fraction after the microseconds, without trailing zeros.
    finer: &'t [u8],
    leap_second: bool,
}

impl Moment<'_> {
    /// The value that PostgreSQL stores, if it is exactly this time.
    fn whole_microseconds(&self) -> Result<i64, LiteralError> {
        if self.leap_second {
            return Err(LiteralError::LeapSecond);
        }
        if self.finer.is_empty() { Ok(self.microseconds) } else { Err(LiteralError::Finer) }
    }
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
        // Adds up negative digits, because the smallest bigint has no positive counterpart.
        value = value.checked_mul(10)?.checked_sub(digit)?;
    }
    if negative { Some(value) } else { value.checked_neg() }
}

fn uuid(text: &[u8]) -> Option<[u8; 16]> {
    let Some(text) = <&[u8; 36]>::try_from(text).ok().filter(|text| [8, 13, 18, 23].map(|at| text[at]) == [b'-'; 4])
    else {
        return unusual_uuid(text);
    };
    const PAIRS: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
    let mut value = [0; 16];
    for (byte, at) in value.iter_mut().zip(PAIRS) {
        *byte = hex(text[at])? << 4 | hex(text[at + 1])?;
    }
    Some(value)
}

/// A UUID in braces, without hyphens, or with hyphens behind any four digits (`string_to_uuid` in `uuid.c`).
#[cold]
fn unusual_uuid(text: &[u8]) -> Option<[u8; 16]> {
    let mut rest = match text {
        [b'{', text @ .., b'}'] => text,
        text => text,
    };
    let mut value = [0; 16];
    for (n, byte) in value.iter_mut().enumerate() {
        let [high, low, after @ ..] = rest else { return None };
        *byte = hex(*high)? << 4 | hex(*low)?;
        rest = match after {
            [b'-', after @ ..] if n % 2 == 1 && n < 15 => after,
            after => after,
        };
    }
    rest.is_empty().then_some(value)
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

/// Number of characters of a UTF-8 text.
fn characters(text: &[u8]) -> usize {
    text.iter().filter(|&&byte| byte & 0xc0 != 0x80).count()
}

/// Reads a time in the form of the type.
fn moment(key_type: KeyType, text: &[u8]) -> Option<Moment<'_>> {
    match key_type {
        KeyType::TimestamptzEpoch => epoch(text, FRACTION_DIGITS_KEPT),
        KeyType::TimestamptzEpochMs => epoch(text, FRACTION_DIGITS_KEPT - 3),
        _ => calendar(key_type, text),
    }
}

/// Reads a number of units since 1970. The first `kept` digits of its fraction are microseconds.
fn epoch(text: &[u8], kept: usize) -> Option<Moment<'_>> {
    if !is_decimal(text) {
        return None;
    }
    let (whole, fraction) = match text.iter().position(|&byte| byte == b'.') {
        Some(point) => (&text[..point], &text[point + 1..]),
        None => (text, &[][..]),
    };
    let (fraction, finer) = fraction.split_at(fraction.len().min(kept));
    let unit = |digits: usize| u32::try_from(digits).ok().map(|digits| 10_i64.pow(digits));
    let fraction = i64::from(number(fraction)?) * unit(kept - fraction.len())?;
    let fraction = if text.starts_with(b"-") { -fraction } else { fraction };
    let since = integer(whole)?.checked_mul(unit(kept)?)?.checked_add(fraction)?;
    let microseconds = since.checked_sub(date::EPOCH_DAYS * date::DAY_US)?;
    within_years(microseconds).then_some(Moment { microseconds, finer: significant(finer), leap_second: false })
}

fn calendar(key_type: KeyType, text: &[u8]) -> Option<Moment<'_>> {
    let (day, rest) = text.split_at_checked(10)?;
    let (clock, rest) = rest.split_at_checked(6)?;
    if !matches!(clock[0], b'T' | b't' | b' ') || clock[3] != b':' {
        return None;
    }
    let hour = number(&clock[1..3]).filter(|&hour| hour < 24)?;
    let minute = number(&clock[4..6]).filter(|&minute| minute < 60)?;
    let (second, (fraction, finer, zone)) = match rest {
        [b':', s1, s2, rest @ ..] => (number(&[*s1, *s2]).filter(|&second| second <= 60)?, fraction(rest)?),
        zone if key_type == KeyType::TimestamptzLenient => (0, (0, &[][..], zone)),
        _ => return None,
    };
    let offset = match key_type {
        KeyType::Timestamp => zone.is_empty().then_some(0)?,
        KeyType::TimestamptzLenient => lenient_zone_seconds(zone)?,
        _ => zone_seconds(zone)?,
    };
    let seconds = i64::from(hour * 3600 + minute * 60 + second) - offset;
    let microseconds = i64::from(date(day)?) * date::DAY_US + seconds * 1_000_000 + fraction;
    within_years(microseconds).then_some(Moment { microseconds, finer, leap_second: second == 60 })
}

/// Whether the time lies in the years 1 to 9999.
fn within_years(microseconds: i64) -> bool {
    let day = |year, month, day| date::days(year, month, day).map_or(0, i64::from);
    (day(1, 1, 1) * date::DAY_US..(day(9999, 12, 31) + 1) * date::DAY_US).contains(&microseconds)
}

/// Digits of a fraction without trailing zeros.
fn significant(digits: &[u8]) -> &[u8] {
    &digits[..digits.iter().rposition(|&byte| byte != b'0').map_or(0, |last| last + 1)]
}

/// The microseconds of the fraction at the front, its finer digits, and the rest of the text.
fn fraction(text: &[u8]) -> Option<(i64, &[u8], &[u8])> {
    let [b'.', text @ ..] = text else { return Some((0, &[], text)) };
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 || digits > FRACTION_DIGITS_MAX {
        return None;
    }
    let (digits, rest) = text.split_at(digits);
    let (kept, finer) = digits.split_at(digits.len().min(FRACTION_DIGITS_KEPT));
    let unit = 10_i64.pow(u32::try_from(FRACTION_DIGITS_KEPT - kept.len()).ok()?);
    Some((i64::from(number(kept)?) * unit, significant(finer), rest))
}

/// Seconds east of UTC.
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

/// As `zone_seconds`, but the colon or the minutes may be missing.
fn lenient_zone_seconds(zone: &[u8]) -> Option<i64> {
    match *zone {
        [sign, h1, h2] => zone_seconds(&[sign, h1, h2, b':', b'0', b'0']),
        [sign, h1, h2, m1, m2] => zone_seconds(&[sign, h1, h2, b':', m1, m2]),
        _ => zone_seconds(zone),
    }
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
            Err(_) => {
                assert_eq!(key, b"before");
                None
            }
        }
    }

    #[test]
    fn valid_literals_are_accepted() {
        use KeyType::{
            Bigint, Boolean, Date, Integer, Numeric, Smallint, Text, Timestamp, Timestamptz, TimestamptzEpoch,
            TimestamptzEpochMs, TimestamptzLenient, Uuid, Varchar,
        };
        for (key_type, text, value) in [
            (Varchar(Some(3)), "äöü", "äöü"),
            (Smallint, "-32768", "-32768"),
            (Numeric, "-00.0100", "-0.01"),
            (Numeric, "100", "100"),
            (TimestamptzEpoch, "0", "1970-01-01T00:00:00Z"),
            (TimestamptzEpoch, "-0.5", "1969-12-31T23:59:59.5Z"),
            (TimestamptzEpoch, "1709208000.1234560", "2024-02-29T12:00:00.123456Z"),
            (TimestamptzEpochMs, "1709208000123.456", "2024-02-29T12:00:00.123456Z"),
            (TimestamptzLenient, "2024-02-29 12:00+0530", "2024-02-29T06:30:00Z"),
            (TimestamptzLenient, "2024-02-29T12:00:00.5-05", "2024-02-29T17:00:00.5Z"),
            (TimestamptzLenient, "2024-02-29T12:00Z", "2024-02-29T12:00:00Z"),
            (Timestamp, "2024-02-29 12:00:00.50", "2024-02-29T12:00:00.5"),
            (Text, "", ""),
            (Text, " x ", " x "),
            (Bigint, "-9223372036854775808", "-9223372036854775808"),
            (Bigint, "9223372036854775807", "9223372036854775807"),
            (Bigint, "-0", "0"),
            (Bigint, "00000000000000000000000000007", "7"),
            (Integer, "-2147483648", "-2147483648"),
            (Uuid, "00112233-4455-6677-8899-AaBbCcDdEeFf", "00112233-4455-6677-8899-aabbccddeeff"),
            (Uuid, "00112233445566778899aabbccddeeff", "00112233-4455-6677-8899-aabbccddeeff"),
            (Uuid, "{0011-2233-4455-6677-8899-aabb-ccdd-eeff}", "00112233-4455-6677-8899-aabbccddeeff"),
            (Timestamptz, "2024-02-29T23:59:59Z", "2024-02-29T23:59:59Z"),
            (Timestamptz, "2024-02-29t23:59:59.120z", "2024-02-29T23:59:59.12Z"),
            (Timestamptz, "2024-02-29 23:59:59-00:30", "2024-03-01T00:29:59Z"),
            (Timestamptz, "2024-01-01T00:00:00+15:59", "2023-12-31T08:01:00Z"),
            (Timestamptz, "1999-12-31T23:59:59.999999000Z", "1999-12-31T23:59:59.999999Z"),
            (Timestamptz, "2024-01-01T00:00:00.000000000000000Z", "2024-01-01T00:00:00Z"),
            (Date, "0001-01-01", "0001-01-01"),
            (Boolean, "true", "true"),
            (Boolean, "false", "false"),
        ] {
            assert_eq!(read(key_type, text).as_deref(), Some(value), "{text}");
        }
    }

    #[test]
    fn invalid_literals_are_refused() {
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
                    "00112233445566778899aabbccddeef",
                    "{00112233-4455-6677-8899-aabbccddeeff",
                    "{}",
                    "00112233-4455-6677-8899-aabbccddeeff-",
                    "001-12233-4455-6677-8899-aabbccddeeff",
                    "0011--2233-4455-6677-8899-aabbccddeeff",
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
                    "2016-12-31T23:59:60Z",
                    "2024-01-01T00:00:60.1Z",
                    "1999-12-31T23:59:59.9999996Z",
                    "2024-01-01T00:00:00.000000000000001Z",
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
            (KeyType::Varchar(Some(3)), &["abcd", "abc ", "a\0"]),
            (KeyType::Smallint, &["32768", "-32769", "1.0"]),
            (KeyType::Numeric, &["", "1e2", "NaN", "Infinity", "+1", ".5"]),
            (KeyType::TimestamptzEpoch, &["", "1e9", "0.0000001", "253402300800", "9223372036854775807", "now", "1."]),
            (KeyType::TimestamptzEpochMs, &["0.0001", "2024-01-01T00:00:00Z"]),
            (KeyType::TimestamptzLenient, &["2024-01-01T00:00", "2024-01-01", "2024-01-01T00:00+1", "2024-01-01T00Z"]),
            (KeyType::Timestamp, &["2024-01-01T00:00:00Z", "2024-01-01T00:00", "2024-01-01T00:00:00+00:00"]),
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
        let error = |key_type, text: &str| put_literal(key_type, text.as_bytes(), &mut Vec::new()).unwrap_err();
        let date = error(KeyType::Date, "today");
        assert_eq!(
            (date, &*date.to_string()),
            (LiteralError::Form(KeyType::Date), "expected a date such as 2024-02-29")
        );
        let time = |text| error(KeyType::Timestamptz, text);
        assert_eq!(time("2024-01-01T00:00:00.0000001Z"), LiteralError::Finer);
        assert_eq!(time("2016-12-31T23:59:60Z"), LiteralError::LeapSecond);
        assert_eq!(time("2016-12-31T23:59:60.0000001Z"), LiteralError::LeapSecond);
    }

    #[test]
    fn versions_order_times_finer_than_microseconds() {
        let version = |text: &str| {
            let mut version = Vec::new();
            put_version(KeyType::Timestamptz, text.as_bytes(), &mut version).map(|()| version)
        };
        let ascending = [
            "1999-12-31T23:59:59.999999Z",
            "1999-12-31T23:59:59.9999990001Z",
            "1999-12-31T23:59:59.9999999Z",
            "2000-01-01T00:00:00Z",
            "2000-01-01T01:00:00.00000000000001+01:00",
            "2000-01-01T00:00:00.0000005Z",
            "2000-01-01T00:00:00.00000051Z",
            "2000-01-01T00:00:00.000000600Z",
            "2000-01-01T00:00:00.000001Z",
        ];
        let versions = ascending.map(|text| version(text).unwrap());
        assert!(versions.is_sorted_by(|a, b| a < b), "{versions:?}");
        assert_eq!(version("2000-01-01T00:00:00.0000006Z").unwrap(), versions[7]);
        let mut whole = Vec::new();
        put_literal(KeyType::Timestamptz, b"2000-01-01T00:00:00Z", &mut whole).unwrap();
        assert_eq!(versions[3], whole);
        assert_eq!(version("2016-12-31T23:59:60Z"), Err(LiteralError::LeapSecond));
    }
}
