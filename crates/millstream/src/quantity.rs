//! Counts, sizes, rates and durations as people read and write them.

use crate::limits::AGE_SECONDS_MAX;
use millstream_model::quantity::{AGE_UNITS, whole};
pub use millstream_model::quantity::{age, bytes, count};

/// A span of time back from now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Age {
    /// Whole seconds.
    pub seconds: u64,
}

impl std::str::FromStr for Age {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        scaled(text, |unit| AGE_UNITS.iter().find(|(name, _)| *name == unit))
            .filter(|seconds| *seconds <= AGE_SECONDS_MAX)
            .map(|seconds| Self { seconds })
            .ok_or_else(|| "expected a number and a unit: 90m, 12h, 30d or 8w".to_owned())
    }
}

/// Units of a size with their bytes; a bare number is bytes.
const SIZE_UNITS: &[(&str, u64)] = &[
    ("", 1),
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
];

/// A whole number times its unit, if `unit` knows that.
fn scaled(text: &str, unit: impl Fn(&str) -> Option<&'static (&'static str, u64)>) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let (_, scale) = unit(&text[digits.len()..])?;
    digits.parse::<u64>().ok()?.checked_mul(*scale)
}

/// A number of bytes as typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Bytes.
    pub bytes: usize,
}

impl std::str::FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        scaled(text, |unit| SIZE_UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit.trim_start())))
            .and_then(|bytes| Some(Self { bytes: bytes.try_into().ok()? }))
            .ok_or_else(|| "expected a number and a unit: 512KiB, 64MiB or 1GiB".to_owned())
    }
}

/// A part of a whole in percent, as typed: `10`, `2.5%`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Percent(f64);

impl Percent {
    /// So many percent.
    pub fn whole(percent: u8) -> Self {
        Self(f64::from(percent))
    }

    /// From 0 to 100.
    pub fn percent(self) -> f64 {
        self.0
    }
}

impl std::fmt::Display for Percent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl std::str::FromStr for Percent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_suffix('%').unwrap_or(text);
        let plain =
            number.starts_with(|c: char| c.is_ascii_digit()) && number.chars().all(|c| matches!(c, '0'..='9' | '.'));
        let percent = number.parse::<f64>().ok().filter(|percent| plain && *percent <= 100.0);
        percent.map(Self).ok_or_else(|| "expected percent from 0 to 100, such as 10 or 2.5%".to_owned())
    }
}

/// How many there were each second.
pub fn per_second(count: u64, seconds: f64) -> f64 {
    count as f64 / seconds.max(0.001)
}

/// How many bytes there were each second.
pub fn byte_rate(count: u64, seconds: f64) -> String {
    bytes(whole(per_second(count, seconds)))
}

/// A number per second, without unit: `142,857`, small ones with a decimal.
pub fn rate(per_second: f64) -> String {
    if per_second > 0.0 && per_second < 100.0 {
        return format!("{per_second:.1}");
    }
    count(whole(per_second.round()))
}

/// A count with its noun: `1 load`, `2,000 loads`, `0 indexes`.
pub fn things(n: u64, noun: &str) -> String {
    let (stem, plural) = match (n, noun.strip_suffix("ry")) {
        (1, _) => (noun, ""),
        (_, Some(stem)) => (stem, "ries"),
        _ if noun.ends_with('x') => (noun, "es"),
        _ => (noun, "s"),
    };
    format!("{} {stem}{plural}", count(n))
}

/// An RFC 3339 time in UTC, cut to the minute: `2026-11-21 03:30`.
pub fn minute(time: &str) -> String {
    time.get(..16).unwrap_or(time).replace('T', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_units() {
        for (text, seconds) in [("0s", 0), ("90m", 5_400), ("12h", 43_200), ("30d", 2_592_000), ("8w", 4_838_400)] {
            assert_eq!(text.parse(), Ok(Age { seconds }));
        }
        for text in ["", "d", "30", "30 d", "-1d", "1.5h", "1y", "99999999999999999999d", "999999w", "é"] {
            assert!(text.parse::<Age>().is_err(), "{text}");
        }
    }

    #[test]
    fn typed_sizes_have_units() {
        for (text, bytes) in [("0", 0), ("64MiB", 64 << 20), ("1 gib", 1 << 30), ("5kB", 5_000)] {
            assert_eq!(text.parse(), Ok(Size { bytes }));
        }
        for text in ["", "MiB", "1.5GiB", "-1", "1TiB", "99999999999GiB"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn percents_are_parts() {
        for (text, percent) in [("0", 0.0), ("10", 10.0), ("10%", 10.0), ("2.5%", 2.5), ("100", 100.0)] {
            assert_eq!(text.parse(), Ok(Percent(percent)));
        }
        for text in ["", "%", "100.1", "-1", "+1", "1e1", "NaN", "inf", "10 %", "1.2.3", "10%%"] {
            assert!(text.parse::<Percent>().is_err(), "{text}");
        }
        assert_eq!((Percent::whole(10).to_string(), Percent(2.5).to_string()), ("10".into(), "2.5".into()));
    }

    #[test]
    fn rates_are_whole_unless_small() {
        for (rate_per_second, text) in [(0.0, "0"), (1.25, "1.2"), (99.96, "100.0"), (142_857.4, "142,857")] {
            assert_eq!(rate(rate_per_second), text);
        }
        assert_eq!(rate(f64::NAN), "0");
    }

    #[test]
    fn nouns_follow_their_count() {
        assert_eq!(things(1, "load"), "1 load");
        assert_eq!(things(2_000, "load"), "2,000 loads");
        assert_eq!((things(0, "index"), things(1, "index")), ("0 indexes".into(), "1 index".into()));
    }

    #[test]
    fn times_are_cut_to_the_minute() {
        assert_eq!(minute("2026-11-21T03:30:59Z"), "2026-11-21 03:30");
        assert_eq!(minute("odd"), "odd");
    }
}
