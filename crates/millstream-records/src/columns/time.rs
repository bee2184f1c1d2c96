//! Times as RFC 3339 writes them, and spans of time as ISO 8601 does.

pub(super) use crate::spelling::timestamp;

use crate::spelling::{NANOSECONDS_A_SECOND, write_clock, write_date, write_fraction};
use arrow_array::types::{IntervalDayTime, IntervalMonthDayNano};
use arrow_schema::TimeUnit;
use std::io::Write;

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

/// Writes months, days and milliseconds, as Parquet has them: unsigned numbers, the lowest byte first.
pub(super) fn months_days_milliseconds(text: &mut Vec<u8>, value: &[u8]) {
    let number = |n: usize| value.as_chunks::<4>().0.get(n).map_or(0, |bytes| u32::from_le_bytes(*bytes));
    put(text, format_args!("\"P{}M{}D", number(0), number(1)));
    write_seconds(text, number(2).into(), a_second(TimeUnit::Millisecond));
    text.push(b'"');
}

fn write_seconds(text: &mut Vec<u8>, value: i64, a_second: i64) {
    let (size, per) = (value.unsigned_abs(), a_second.unsigned_abs());
    put(text, format_args!("T{}{}", if value < 0 { "-" } else { "" }, size / per));
    write_fraction(text, size % per, a_second);
    text.push(b'S');
}

fn put(text: &mut Vec<u8>, what: std::fmt::Arguments<'_>) {
    text.write_fmt(what).expect("memory takes all");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spelling::SECONDS_A_DAY;

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
        let span = [[14_u8, 0, 0, 0], [3, 1, 0, 0], [0, 0, 0, 0x80]].concat();
        assert_eq!(written(|text| months_days_milliseconds(text, &span)), "P14M259DT2147483.648000S");
    }
}
