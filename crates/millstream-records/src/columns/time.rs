//! Times as RFC 3339 writes them, and spans of time as ISO 8601 does.

use arrow_array::types::{IntervalDayTime, IntervalMonthDayNano};
use arrow_schema::TimeUnit;
use std::io::Write;

const SECONDS_A_DAY: i64 = 86_400;
const NANOSECONDS_A_SECOND: i64 = 1_000_000_000;
const MILLISECONDS_A_DAY: i64 = 86_400_000;

/// How many of a unit a second has.
pub(super) fn a_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => NANOSECONDS_A_SECOND,
    }
}

/// Writes the date that is so many days after 1970-01-01.
pub(super) fn date(text: &mut Vec<u8>, days: i64) {
    text.push(b'"');
    write_date(text, days);
    text.push(b'"');
}

/// Writes a date in milliseconds. If it is not a whole number of days, its time is written too.
pub(super) fn date_in_milliseconds(text: &mut Vec<u8>, milliseconds: i64) {
    if milliseconds % MILLISECONDS_A_DAY == 0 {
        date(text, milliseconds / MILLISECONDS_A_DAY);
    } else {
        timestamp(text, milliseconds, a_second(TimeUnit::Millisecond), false);
    }
}

/// Writes a time since 1970. If it is an instant it is in UTC, and else it has no zone.
pub(super) fn timestamp(text: &mut Vec<u8>, value: i64, a_second: i64, is_instant: bool) {
    let (seconds, part) = (value.div_euclid(a_second), value.rem_euclid(a_second));
    text.push(b'"');
    write_date(text, seconds.div_euclid(SECONDS_A_DAY));
    text.push(b'T');
    write_clock(text, seconds.rem_euclid(SECONDS_A_DAY).unsigned_abs());
    write_fraction(text, part.unsigned_abs(), a_second);
    text.extend_from_slice(if is_instant { b"Z\"" } else { b"\"" });
}

/// Writes a time of day.
pub(super) fn time(text: &mut Vec<u8>, value: i64, a_second: i64) {
    let (size, per) = (value.unsigned_abs(), a_second.unsigned_abs());
    text.push(b'"');
    if value < 0 {
        text.push(b'-');
    }
    write_clock(text, size / per);
    write_fraction(text, size % per, a_second);
    text.push(b'"');
}

/// Writes a span of time in seconds.
pub(super) fn duration(text: &mut Vec<u8>, value: i64, a_second: i64) {
    text.extend_from_slice(b"\"P");
    write_seconds(text, value, a_second);
    text.push(b'"');
}

/// Writes months.
pub(super) fn months(text: &mut Vec<u8>, months: i32) {
    put(text, format_args!("\"P{months}M\""));
}

/// Writes days and a time.
pub(super) fn day_time(text: &mut Vec<u8>, value: IntervalDayTime) {
    put(text, format_args!("\"P{}D", value.days));
    write_seconds(text, value.milliseconds.into(), a_second(TimeUnit::Millisecond));
    text.push(b'"');
}

/// Writes months, days and a time.
pub(super) fn month_day_nano(text: &mut Vec<u8>, value: IntervalMonthDayNano) {
    put(text, format_args!("\"P{}M{}D", value.months, value.days));
    write_seconds(text, value.nanoseconds, NANOSECONDS_A_SECOND);
    text.push(b'"');
}

fn write_seconds(text: &mut Vec<u8>, value: i64, a_second: i64) {
    let (size, per) = (value.unsigned_abs(), a_second.unsigned_abs());
    put(text, format_args!("T{}{}", if value < 0 { "-" } else { "" }, size / per));
    write_fraction(text, size % per, a_second);
    text.push(b'S');
}

/// A year that has no four digits is written with its sign, as ISO 8601 has it: RFC 3339 has none.
fn write_date(text: &mut Vec<u8>, days: i64) {
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

fn write_clock(text: &mut Vec<u8>, seconds: u64) {
    digits(text, seconds / 3_600, 2);
    text.push(b':');
    digits(text, seconds / 60 % 60, 2);
    text.push(b':');
    digits(text, seconds % 60, 2);
}

/// A part of a second: in microseconds where that is exact, else in nanoseconds.
fn write_fraction(text: &mut Vec<u8>, part: u64, a_second: i64) {
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
fn digits(text: &mut Vec<u8>, value: u64, width: usize) {
    let (mut rest, start) = (value, text.len());
    while rest > 0 || text.len() - start < width {
        text.push(b'0' + u8::try_from(rest % 10).unwrap_or(0));
        rest /= 10;
    }
    text[start..].reverse();
}

fn put(text: &mut Vec<u8>, what: std::fmt::Arguments<'_>) {
    text.write_fmt(what).expect("memory takes all");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut text = Vec::new();
        write(&mut text);
        String::from_utf8(text).unwrap().trim_matches('"').to_owned()
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (days, expected) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (19_723, "2024-01-01"),
            (-25_508, "1900-03-01"),
            (2_932_896, "9999-12-31"),
            (2_932_897, "+10000-01-01"),
            (-719_528, "0000-01-01"),
            (-719_529, "-0001-12-31"),
        ] {
            assert_eq!(written(|text| date(text, days)), expected);
        }
        assert_eq!(written(|text| date_in_milliseconds(text, -86_400_000)), "1969-12-31");
        assert_eq!(written(|text| date_in_milliseconds(text, 1)), "1970-01-01T00:00:00.001000");
        for days in [i64::from(i32::MIN), i64::from(i32::MAX), i64::MIN / MILLISECONDS_A_DAY, i64::MAX / SECONDS_A_DAY]
        {
            assert!(written(|text| date(text, days)).len() > 10);
        }
    }

    #[test]
    fn times_have_microseconds_and_nanoseconds_only_where_they_must() {
        let micro = a_second(TimeUnit::Microsecond);
        assert_eq!(written(|text| timestamp(text, 0, 1, true)), "1970-01-01T00:00:00.000000Z");
        assert_eq!(written(|text| timestamp(text, -1, micro, false)), "1969-12-31T23:59:59.999999");
        let nano = 1_704_164_645_123_456_000;
        assert_eq!(written(|text| timestamp(text, nano, NANOSECONDS_A_SECOND, true)), "2024-01-02T03:04:05.123456Z");
        assert_eq!(
            written(|text| timestamp(text, nano + 7, NANOSECONDS_A_SECOND, true)),
            "2024-01-02T03:04:05.123456007Z"
        );
        assert_eq!(written(|text| time(text, 11_045_006, 1_000)), "03:04:05.006000");
        assert_eq!(written(|text| time(text, -1, 1_000)), "-00:00:00.001000");
        assert_eq!(written(|text| time(text, 86_400, 1)), "24:00:00.000000");
        for value in [i64::MIN, i64::MAX] {
            for unit in [1, 1_000, micro, NANOSECONDS_A_SECOND] {
                assert!(written(|text| timestamp(text, value, unit, true)).ends_with('Z'));
                assert!(written(|text| time(text, value, unit)).contains(':'));
                assert!(written(|text| duration(text, value, unit)).ends_with('S'));
            }
        }
    }

    #[test]
    fn spans_are_those_of_iso_8601() {
        assert_eq!(written(|text| duration(text, 1_500, 1_000)), "PT1.500000S");
        assert_eq!(written(|text| duration(text, -1, NANOSECONDS_A_SECOND)), "PT-0.000000001S");
        assert_eq!(written(|text| months(text, -14)), "P-14M");
        let span = IntervalDayTime { days: 1, milliseconds: -1_500 };
        assert_eq!(written(|text| day_time(text, span)), "P1DT-1.500000S");
        let span = IntervalMonthDayNano { months: 1, days: -2, nanoseconds: 3_500_000_000 };
        assert_eq!(written(|text| month_day_nano(text, span)), "P1M-2DT3.500000S");
    }
}
