//! Settings of the doctor: thresholds, and findings that are silenced for a time.

use crate::checks::CHECKS;
use millstream_model::{line_of, nearest};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use toml::Spanned;
use toml::value::Datetime;

/// The content of `doctor.toml`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Thresholds, by the check's name and their own.
    #[serde(default)]
    pub threshold: BTreeMap<Spanned<String>, BTreeMap<Spanned<String>, f64>>,
    /// Findings that are not reported.
    #[serde(default)]
    pub silence: Vec<Silence>,
}

/// Findings that are not reported until a day.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Silence {
    /// The finding's key. A `*` at the end stands for any rest.
    #[serde(deserialize_with = "key")]
    pub key: String,
    /// The first day on which it is reported again: `2027-01-31`.
    #[serde(deserialize_with = "day")]
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
            let check = CHECKS.iter().find(|check| check.id == id.get_ref());
            let check = check.ok_or_else(|| format!("{}: {}", line(text, id), no_check(id.get_ref())))?;
            let names: Vec<&str> = check.thresholds.iter().map(|(name, _)| *name).collect();
            if let Some(other) = thresholds.keys().find(|name| !names.contains(&name.get_ref().as_str())) {
                let near = did_you_mean(other.get_ref(), names.into_iter());
                let what = format!("the check {} has no threshold {}{near}", check.id, other.get_ref());
                return Err(format!("{}: {what}", line(text, other)));
            }
        }
        Ok(settings)
    }

    /// The user's own thresholds of a check.
    pub(crate) fn thresholds(&self, check: &str) -> BTreeMap<String, f64> {
        let own = self.threshold.iter().find(|(id, _)| id.get_ref() == check).map(|(_, own)| own);
        own.into_iter().flatten().map(|(name, value)| (name.get_ref().clone(), *value)).collect()
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

/// A key whose check exists, or the beginning of one.
fn key<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let key = String::deserialize(deserializer)?;
    let id = key.split(':').next().unwrap_or_default();
    let is_known = CHECKS.iter().any(|check| match id.strip_suffix('*') {
        Some(beginning) if id == key => check.id.starts_with(beginning),
        _ => check.id == id,
    });
    if is_known { Ok(key) } else { Err(D::Error::custom(no_check(id))) }
}

/// A day of the calendar.
fn day<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    let is_day = |parsed: Datetime| parsed.date.is_some() && parsed.time.is_none() && parsed.offset.is_none();
    match text.parse::<Datetime>().is_ok_and(is_day) {
        true => Ok(text),
        false => Err(D::Error::custom(format!("until = {text:?} is not a day; write it as 2027-01-31"))),
    }
}

/// Where something is in the file.
fn line<T>(text: &str, place: &Spanned<T>) -> String {
    format!("line {}", line_of(text, place.span().start))
}

fn no_check(id: &str) -> String {
    format!("there is no check {id}{}", did_you_mean(id, CHECKS.iter().map(|check| check.id)))
}

/// The nearest known word, as a question, if one is near enough to be meant.
fn did_you_mean(word: &str, known: impl Iterator<Item = &'static str>) -> String {
    nearest(word, known).map(|one| format!("; did you mean {one}?")).unwrap_or_default()
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
