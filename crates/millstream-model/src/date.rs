//! Days and instants of the Gregorian calendar as PostgreSQL counts them, from 2000-01-01.

/// Microseconds of a day.
pub(crate) const DAY_US: i64 = 86_400_000_000;

/// Days from 1970-01-01 to 2000-01-01.
pub(crate) const EPOCH_DAYS: i64 = 10_957;

/// Days since 2000-01-01, or `None` if the calendar has no such day. Accepts years 1 to 9999.
pub(crate) fn days(year: u32, month: u32, day: u32) -> Option<i32> {
    const MONTH_DAYS: [u32; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let last = MONTH_DAYS.get(usize::try_from(month).ok()?.checked_sub(1)?)? + u32::from(leap && month == 2);
    if !(1..=9999).contains(&year) || day == 0 || day > last {
        return None;
    }
    // Years that begin in March put the leap day last (Howard Hinnant, days_from_civil).
    let year = i64::from(year) - i64::from(month <= 2);
    let day_of_year = (153 * ((i64::from(month) + 9) % 12) + 2) / 5 + i64::from(day) - 1;
    let days = year * 365 + year / 4 - year / 100 + year / 400 + day_of_year;
    i32::try_from(days - 719_468 - EPOCH_DAYS).ok()
}

/// The day as `YYYY-MM-DD`, years before Christ as PostgreSQL writes them: `0044-03-15 BC`.
pub(crate) fn date_text(days: i32) -> String {
    match days {
        i32::MAX => INFINITY.into(),
        i32::MIN => MINUS_INFINITY.into(),
        days => {
            let (date, era) = date_and_era(days);
            date + era
        }
    }
}

/// What PostgreSQL calls the last day and instant, and the first ones.
const INFINITY: &str = "infinity";
const MINUS_INFINITY: &str = "-infinity";

/// The day as `YYYY-MM-DD`, and what follows the date if it is before Christ.
fn date_and_era(days: i32) -> (String, &'static str) {
    // Howard Hinnant, civil_from_days.
    let days = i64::from(days) + EPOCH_DAYS + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = (march_month + 2) % 12 + 1;
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    // The year 0 of this calendar is 1 BC.
    let (year, era) = if year > 0 { (year, "") } else { (1 - year, " BC") };
    (format!("{year:04}-{month:02}-{day:02}"), era)
}

/// The instant in RFC 3339 with this zone, with as many fraction digits as it needs. Years before Christ are as in
/// [`date_text`].
pub(crate) fn timestamp_text(microseconds: i64, zone: &str) -> String {
    match microseconds {
        i64::MAX => return INFINITY.into(),
        i64::MIN => return MINUS_INFINITY.into(),
        _ => {}
    }
    let days = i32::try_from(microseconds.div_euclid(DAY_US)).unwrap_or(i32::MAX);
    let of_day = microseconds.rem_euclid(DAY_US);
    let (seconds, fraction) = (of_day / 1_000_000, of_day % 1_000_000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let (date, era) = date_and_era(days);
    let fraction = match fraction {
        0 => String::new(),
        _ => format!(".{fraction:06}").trim_end_matches('0').to_owned(),
    };
    format!("{date}T{hour:02}:{minute:02}:{second:02}{fraction}{zone}{era}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_converts_to_a_number_and_back() {
        let mut expected = days(1, 1, 1).unwrap();
        for year in 1..=9999 {
            for month in 1..=12 {
                for day in 1..=31 {
                    if let Some(days) = days(year, month, day) {
                        assert_eq!(days, expected);
                        expected += 1;
                    }
                }
            }
        }
        assert_eq!(expected, days(9999, 12, 31).unwrap() + 1);
        for days in days(1, 1, 1).unwrap()..=days(9999, 12, 31).unwrap() {
            let text = date_text(days);
            let number = |range: std::ops::Range<usize>| text[range].parse().unwrap();
            assert_eq!(super::days(number(0..4), number(5..7), number(8..10)), Some(days));
        }
        assert_eq!(days(2000, 1, 1), Some(0));
        assert_eq!(days(1970, 1, 1), Some(-10_957));
    }

    #[test]
    fn days_that_do_not_exist_are_refused() {
        for (year, month, day) in [
            (0, 1, 1),
            (10_000, 1, 1),
            (2023, 2, 29),
            (1900, 2, 29),
            (2024, 0, 1),
            (2024, 13, 1),
            (2024, 4, 31),
            (2024, 1, 0),
        ] {
            assert_eq!(days(year, month, day), None, "{year}-{month}-{day}");
        }
        assert!(days(2000, 2, 29).is_some());
    }
}
