//! Times of Extended JSON.

/// Milliseconds since 1970 of a time such as `2024-01-02T03:04:05.006Z`. `None`: it is none, or is finer.
pub(super) fn milliseconds(text: &str) -> Option<i64> {
    let mut rest = Rest(text.as_bytes());
    let year = rest.number(4)?;
    rest.mark(b'-')?;
    let month = rest.number(2).filter(|month| (1..=12).contains(month))?;
    rest.mark(b'-')?;
    let day = rest.number(2).filter(|day| (1..=days_of(year, month)).contains(day))?;
    rest.mark(b'T')?;
    let hour = rest.number(2).filter(|hour| *hour < 24)?;
    rest.mark(b':')?;
    let minute = rest.number(2).filter(|minute| *minute < 60)?;
    let second = match rest.mark(b':') {
        Some(()) => rest.number(2).filter(|second| *second < 60)?,
        None => 0,
    };
    let part = match rest.mark(b'.') {
        Some(()) => rest.part()?,
        None => 0,
    };
    let minutes = hour * 60 + minute - rest.offset()?;
    let seconds = days(year, month, day) * 86_400 + minutes * 60 + second;
    rest.0.is_empty().then_some(seconds * 1_000 + part)
}

/// Days from 1970-01-01 (<https://howardhinnant.github.io/date_algorithms.html>, `days_from_civil`).
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year - 719_468
}

fn days_of(year: i64, month: i64) -> i64 {
    let next = if month == 12 { days(year + 1, 1, 1) } else { days(year, month + 1, 1) };
    next - days(year, month, 1)
}

/// What was not read yet.
struct Rest<'t>(&'t [u8]);

impl Rest<'_> {
    /// A number of so many digits.
    fn number(&mut self, digits: usize) -> Option<i64> {
        let (number, rest) = self.0.split_at_checked(digits)?;
        self.0 = rest;
        number.iter().try_fold(0, |all, byte| byte.is_ascii_digit().then(|| all * 10 + i64::from(byte - b'0')))
    }

    fn mark(&mut self, mark: u8) -> Option<()> {
        self.0 = self.0.strip_prefix(&[mark])?;
        Some(())
    }

    /// A part of a second in milliseconds. Digits behind them must be zeros.
    fn part(&mut self) -> Option<i64> {
        let length = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.0.split_at(length);
        self.0 = rest;
        let finer = digits.iter().skip(3).any(|digit| *digit != b'0');
        let digit = |n: usize| digits.get(n).map_or(0, |digit| i64::from(digit - b'0'));
        (length > 0 && !finer).then(|| digit(0) * 100 + digit(1) * 10 + digit(2))
    }

    /// Minutes east of UTC: `Z`, `+01:30`, `+0130` or `+01`.
    fn offset(&mut self) -> Option<i64> {
        if self.mark(b'Z').is_some() {
            return Some(0);
        }
        let east = self.mark(b'+').is_some();
        if !east {
            self.mark(b'-')?;
        }
        let hours = self.number(2)?;
        let has_minutes = self.mark(b':').is_some() || !self.0.is_empty();
        let minutes = if has_minutes { self.number(2).filter(|minutes| *minutes < 60)? } else { 0 };
        let offset = hours * 60 + minutes;
        Some(if east { offset } else { -offset })
    }
}

#[cfg(test)]
mod tests {
    use super::milliseconds;

    #[test]
    fn times_are_milliseconds() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1970-01-01T00:00:00.1Z", 100),
            ("1969-12-31T23:59:59.999Z", -1),
            ("2024-01-02T03:04:05.006Z", 1_704_164_645_006),
            ("2024-01-02T04:04:05.006000+0100", 1_704_164_645_006),
            ("2024-01-02T04:34:05.006+01:30", 1_704_164_645_006),
            ("2024-01-01T22:04:05.006-05", 1_704_164_645_006),
            ("2000-02-29T00:00Z", 951_782_400_000),
            ("0000-03-01T00:00:00Z", -62_162_035_200_000),
            ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
        ] {
            assert_eq!(milliseconds(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "2024-01-02",
            "2024-01-02T03:04:05",
            "2024-02-30T00:00:00Z",
            "2023-02-29T00:00:00Z",
            "1900-02-29T00:00:00Z",
            "2024-13-01T00:00:00Z",
            "2024-00-01T00:00:00Z",
            "2024-01-02T24:00:00Z",
            "2024-01-02T03:04:60Z",
            "2024-01-02T03:04:05.Z",
            "2024-01-02T03:04:05.0001Z",
            "2024-01-02T03:04:05Z ",
            "2024-01-02T03:04:05+1",
            "2024-01-02T03:04:05+01:",
            "2024-01-02t03:04:05Z",
            "+2024-01-02T03:04:05Z",
            "yesterday",
        ] {
            assert_eq!(milliseconds(text), None, "{text}");
        }
    }
}
