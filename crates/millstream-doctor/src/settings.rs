//! Settings of the doctor: thresholds, and findings that are silenced for a time.

use crate::checks::CHECKS;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The content of `doctor.toml`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Thresholds, by the check's name and their own.
    #[serde(default)]
    pub threshold: BTreeMap<String, BTreeMap<String, f64>>,
    /// Findings that are not reported.
    #[serde(default)]
    pub silence: Vec<Silence>,
}

/// Findings that are not reported until a day.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Silence {
    /// The finding's key. A `*` at the end stands for any rest.
    pub key: String,
    /// The first day on which it is reported again: `2027-01-31`.
    pub until: String,
    /// Why.
    pub reason: String,
}

impl Settings {
    /// Reads the text of `doctor.toml`.
    ///
    /// # Errors
    /// What is wrong, with its line: also a check or a threshold that does not exist.
    pub fn parse(text: &str) -> Result<Self, String> {
        let settings: Self = toml::from_str(text).map_err(|error| error.to_string().trim().to_owned())?;
        for (id, thresholds) in &settings.threshold {
            let check = CHECKS.iter().find(|check| check.id == id).ok_or_else(|| format!("there is no check {id}"))?;
            let known = |name: &String| check.thresholds.iter().any(|one| one.name == name);
            if let Some(other) = thresholds.keys().find(|name| !known(name)) {
                return Err(format!("the check {id} has no threshold {other}"));
            }
        }
        let day = |silence: &&Silence| {
            let parts: Vec<&str> = silence.until.split('-').collect();
            parts.len() == 3 && silence.until.len() == 10 && parts.iter().all(|part| part.parse::<u32>().is_ok())
        };
        match settings.silence.iter().find(|silence| !day(silence)) {
            Some(silence) => Err(format!("until = {:?} is not a day; write 2027-01-31", silence.until)),
            None => Ok(settings),
        }
    }

    /// The user's own thresholds of a check.
    pub(crate) fn thresholds(&self, check: &str) -> BTreeMap<String, f64> {
        self.threshold.get(check).cloned().unwrap_or_default()
    }

    /// Whether a finding is silenced on a day, as `2027-01-31`.
    pub fn silences(&self, key: &str, today: &str) -> bool {
        let is = |silence: &Silence| match silence.key.strip_suffix('*') {
            Some(beginning) => key.starts_with(beginning),
            None => key == silence.key,
        };
        self.silence.iter().any(|silence| is(silence) && today < silence.until.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_ends_on_its_day_and_may_mean_several_findings() {
        let one = |key: &str| Silence { key: key.to_owned(), until: "2027-01-31".to_owned(), reason: String::new() };
        let settings = Settings { silence: vec![one("a:x"), one("b:*")], ..Settings::default() };
        assert!(settings.silences("a:x", "2027-01-30") && settings.silences("b:anything", "2026-12-31"));
        assert!(!settings.silences("a:x", "2027-01-31") && !settings.silences("a:xy", "2026-01-01"));
    }
}
