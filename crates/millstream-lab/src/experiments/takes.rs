//! What a dial takes: which values a user may choose, checked before anything runs.

use crate::core::word::unknown;
use crate::limits::DIAL_MAX;
use millstream_host::in_path;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Which values a dial takes. Without a word of it: if the usual value is a number, whole numbers from 1, or any from 0 if it
/// has a fraction; else every text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Takes {
    /// The smallest number. With a fraction, numbers may have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<f64>,
    /// The largest number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<f64>,
    /// Whether it takes several with commas between them, as if the usual value is such a list.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub list: bool,
    /// All words that it takes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub one_of: Vec<String>,
    /// Whether it names a program.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub program: bool,
}

impl Takes {
    /// Whether nothing is said.
    pub(super) fn is_usual(&self) -> bool {
        *self == Self::default()
    }

    /// Checks a value of the dial of that name. Commands read it too, and would refuse it only in their runs.
    ///
    /// # Errors
    /// What it must be.
    pub(super) fn check(&self, name: &str, usual: &str, value: &str) -> Result<(), String> {
        let known: Vec<&str> = self.one_of.iter().map(String::as_str).collect();
        if !known.is_empty() && !known.contains(&value) {
            return Err(unknown(&format!("value of {name}"), value, &known));
        }
        if self.program && is_missing(value) {
            return Err(format!("{name} must name a program, and there is no {value}"));
        }
        let list = self.list || usual.contains(',');
        let first = number(usual.split(',').next().unwrap_or(usual));
        let has_bounds = self.from.is_some() || self.to.is_some();
        let Some(first) = first.filter(|_| has_bounds || !usual.contains(',')) else { return Ok(()) };
        let whole = [Some(first), self.from, self.to].into_iter().flatten().all(|one| one.fract() == 0.0);
        let from = self.from.unwrap_or(if whole { 1.0 } else { 0.0 });
        let bounds = from..=self.to.unwrap_or(DIAL_MAX);
        let fits = |text: &str| number(text).is_some_and(|one| bounds.contains(&one) && (!whole || one.fract() == 0.0));
        let all = if list { value.split(',').all(fits) } else { fits(value) };
        if all {
            return Ok(());
        }
        let kind = if whole { "a whole number" } else { "a number" };
        let to = self.to.map_or_else(|| format!(", at least {from}"), |to| format!(" from {from} to {to}"));
        let several = if list { ", or several with commas between them" } else { "" };
        Err(format!("{name} must be {kind}{to}{several}, not {value}"))
    }
}

/// A number in digits, with or without a fraction. It has no sign and no exponent, which not every command reads.
fn number(text: &str) -> Option<f64> {
    let is_plain = text.chars().all(|c| c.is_ascii_digit() || c == '.');
    text.parse::<f64>().ok().filter(|number| is_plain && number.is_finite())
}

/// Whether there is no such program: a path, or a name in PATH. What a shell still has to expand is not looked for.
fn is_missing(program: &str) -> bool {
    let is_there = || match program.contains('/') {
        true => Path::new(program).is_file(),
        false => in_path(program).is_some(),
    };
    !program.contains('$') && !is_there()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(takes: &str, usual: &str, value: &str) -> Option<String> {
        toml::from_str::<Takes>(takes).unwrap().check("n", usual, value).err()
    }

    #[test]
    fn the_usual_value_says_what_a_dial_takes_unless_bounds_do() {
        for (takes, usual, good, bad, must) in [
            ("", "4", &["1", "9000"][..], &["0", "-1", "1.5", "1e3", "x", "1,2"][..], "a whole number, at least 1"),
            ("", "0.5", &["0", "2", "0.25"], &["-1", "inf", "NaN", "."], "a number, at least 0"),
            ("from = 0", "4", &["0"], &["0.5"], "a whole number, at least 0"),
            ("from = 0.001", "4", &["0.5", "4"], &["0"], "a number, at least 0.001"),
            ("from = 1\nto = 64", "2", &["1", "64"], &["0", "65"], "a whole number from 1 to 64"),
            ("list = true", "4", &["1", "1,2"], &["1,", "1,0"], "a whole number, at least 1, or several with commas"),
            ("from = 1", "1,100", &["7", "7,8"], &["7,x"], "a whole number, at least 1, or several with commas"),
        ] {
            for value in good {
                assert_eq!(refused(takes, usual, value), None, "{takes} {usual} {value}");
            }
            for value in bad {
                let why = refused(takes, usual, value).unwrap_or_else(|| panic!("{takes} {usual} {value}"));
                assert!(why.starts_with(&format!("n must be {must}")), "{why}");
                assert!(why.ends_with(&format!("not {value}")), "{why}");
            }
        }
        for text in ["own", "15,18", "$MILLSTREAM"] {
            assert_eq!(refused("", text, "x"), None, "a text or a list without bounds takes everything");
        }
        assert!(refused("", "4", &"9".repeat(400)).is_some(), "more than any number");
    }

    #[test]
    fn words_and_programs_are_checked() {
        let words = "one_of = ['random', 'sequential']";
        assert_eq!(refused(words, "random", "sequential"), None);
        let why = refused(words, "random", "randm").unwrap();
        assert_eq!(why, "unknown value of n \"randm\": did you mean \"random\"?");
        for there in ["$MILLSTREAM", "sh", "/proc/self/exe"] {
            assert_eq!(refused("program = true", "$MILLSTREAM", there), None, "{there}");
        }
        for nowhere in ["/nowhere/x", "surely-no-such-program", "/"] {
            let why = refused("program = true", "$MILLSTREAM", nowhere).unwrap();
            assert_eq!(why, format!("n must name a program, and there is no {nowhere}"));
        }
        assert!(toml::from_str::<Takes>("form = 1").is_err());
    }
}
