//! A dial of an experiment: a value that a user may choose, with what it changes.

use super::plain_text::PlainText;
use super::takes::Takes;
use crate::core::word::unknown;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// A value that a user may choose. A file writes it as the value alone, or as `{ value = 4, changes = "sessions" }`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Dial {
    /// The value that counts.
    pub value: String,
    /// What it changes, as a phrase; empty if that is not said.
    pub changes: String,
    /// The usual value, if another one counts.
    pub usual: Option<String>,
    /// If it chooses arms: its possible values, each with the arms, as `--arms` names them; none stands for all.
    pub arms: BTreeMap<String, Vec<String>>,
    /// Which values it takes.
    pub takes: Takes,
}

impl Dial {
    /// Chooses a value.
    pub(super) fn choose(&mut self, value: &str) {
        if value != self.value {
            let before = std::mem::replace(&mut self.value, value.to_owned());
            self.usual = self.usual.take().or(Some(before)).filter(|usual| usual != value);
        }
    }

    /// Checks a value that may be chosen.
    ///
    /// # Errors
    /// What it must be.
    pub(super) fn check(&self, name: &str, value: &str) -> Result<(), String> {
        self.takes.check(name, self.usual.as_deref().unwrap_or(&self.value), value)
    }

    /// The arms that it chooses; `None` for all.
    ///
    /// # Errors
    /// It chooses arms, and its value is not one of those that it may have.
    pub(super) fn chosen_arms(&self, name: &str) -> Result<Option<&[String]>, String> {
        if self.arms.is_empty() {
            return Ok(None);
        }
        let known: Vec<&str> = self.arms.keys().map(String::as_str).collect();
        let chosen =
            self.arms.get(&self.value).ok_or_else(|| unknown(&format!("value of {name}"), &self.value, &known))?;
        Ok(Some(chosen.as_slice()).filter(|arms| !arms.is_empty()))
    }

    /// The value, and the usual one if it is another.
    pub fn shown(&self) -> String {
        match &self.usual {
            Some(usual) => format!("{} (usually {usual})", self.value),
            None => self.value.clone(),
        }
    }
}

impl<'de> Deserialize<'de> for Dial {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            value: PlainText,
            #[serde(default)]
            changes: String,
            #[serde(default)]
            usual: Option<String>,
            #[serde(default)]
            arms: BTreeMap<String, Vec<String>>,
            #[serde(default)]
            takes: Takes,
        }
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected a value, or { value = .., changes = \"..\" }")]
        enum Form {
            Alone(PlainText),
            Table(Table),
        }
        Ok(match Form::deserialize(deserializer)? {
            Form::Alone(PlainText(value)) => Self { value, ..Self::default() },
            Form::Table(Table { value: PlainText(value), changes, usual, arms, takes }) => {
                Self { value, changes, usual, arms, takes }
            }
        })
    }
}

impl Serialize for Dial {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.changes.is_empty() && self.usual.is_none() && self.arms.is_empty() && self.takes.is_usual() {
            return serializer.serialize_str(&self.value);
        }
        let mut table = serializer.serialize_map(None)?;
        table.serialize_entry("value", &self.value)?;
        table.serialize_entry("changes", &self.changes)?;
        if let Some(usual) = &self.usual {
            table.serialize_entry("usual", usual)?;
        }
        if !self.arms.is_empty() {
            table.serialize_entry("arms", &self.arms)?;
        }
        if !self.takes.is_usual() {
            table.serialize_entry("takes", &self.takes)?;
        }
        table.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dial_says_what_it_takes_and_a_record_keeps_that() {
        let text = "lanes = { value = 2, takes = { from = 1, to = 64 } }\n\
            keys = { value = 'a', takes = { one_of = ['a', 'b'] } }\n";
        let mut dials: BTreeMap<String, Dial> = toml::from_str(text).unwrap();
        let json = serde_json::to_string(&dials).unwrap();
        assert_eq!(serde_json::from_str::<BTreeMap<String, Dial>>(&json).unwrap(), dials);
        let lanes = dials.get_mut("lanes").unwrap();
        lanes.choose("64");
        assert_eq!(lanes.check("lanes", "65").unwrap_err(), "lanes must be a whole number from 1 to 64, not 65");
        assert!(dials["keys"].check("keys", "b").is_ok() && dials["keys"].check("keys", "c").is_err());
        assert!(toml::from_str::<BTreeMap<String, Dial>>("a = { value = 1, takes = { form = 1 } }").is_err());
    }

    #[test]
    fn a_dial_is_a_value_alone_or_with_what_it_changes_and_a_record_keeps_it() {
        let text = "a = 4\nb = 'x'\nc = { value = 8, changes = 'sessions' }\n";
        let mut dials: BTreeMap<String, Dial> = toml::from_str(text).unwrap();
        dials.get_mut("c").unwrap().choose("9");
        assert_eq!(["a", "b", "c"].map(|name| dials[name].shown()), ["4", "x", "9 (usually 8)"]);
        let json = serde_json::to_string(&dials).unwrap();
        assert!(json.starts_with("{\"a\":\"4\",\"b\":\"x\",\"c\":{"), "as earlier records have them: {json}");
        assert_eq!(serde_json::from_str::<BTreeMap<String, Dial>>(&json).unwrap(), dials);
        dials.get_mut("c").unwrap().choose("8");
        assert_eq!(dials["c"].usual, None, "it is the usual one again");
        assert!(toml::from_str::<BTreeMap<String, Dial>>("a = { valeu = 1 }").is_err());
    }

    #[test]
    fn a_dial_may_choose_arms_and_a_record_keeps_that() {
        let text = "rows = { value = 'all', changes = 'which rows', arms = { all = [], few = ['a/1', 'b'] } }\n";
        let mut dials: BTreeMap<String, Dial> = toml::from_str(text).unwrap();
        let dial = dials.get_mut("rows").unwrap();
        assert_eq!(dial.chosen_arms("rows"), Ok(None));
        dial.choose("few");
        assert_eq!(dial.chosen_arms("rows").unwrap().unwrap(), ["a/1", "b"]);
        let json = serde_json::to_string(&dials).unwrap();
        assert_eq!(serde_json::from_str::<BTreeMap<String, Dial>>(&json).unwrap(), dials);
        let dial = dials.get_mut("rows").unwrap();
        dial.choose("fwe");
        let refused = dial.chosen_arms("rows").unwrap_err();
        assert!(refused.contains("unknown value of rows \"fwe\": did you mean \"few\"?"), "{refused}");
    }
}
