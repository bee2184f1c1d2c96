//! Texts of a file that may be written as numbers: `clients = [1, 8]` means the same as `clients = ["1", "8"]`.

use serde::Deserialize;
use serde::de::{Deserializer, Visitor};
use std::collections::BTreeMap;
use std::fmt;

/// A text, as a file writes it: also as a number, or as true or false.
struct PlainText(String);

impl<'de> Deserialize<'de> for PlainText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Plain;
        impl Visitor<'_> for Plain {
            type Value = PlainText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a number")
            }

            fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
                Ok(PlainText(value.to_owned()))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
                Ok(PlainText(value.to_string()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
                Ok(PlainText(value.to_string()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
                Ok(PlainText(value.to_string()))
            }

            fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
                Ok(PlainText(value.to_string()))
            }
        }
        deserializer.deserialize_any(Plain)
    }
}

/// Texts by their names.
pub(super) fn map<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    Ok(texts(BTreeMap::deserialize(deserializer)?))
}

/// Sets of texts by their names.
pub(super) fn maps<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<BTreeMap<String, String>>, D::Error> {
    Ok(Vec::deserialize(deserializer)?.into_iter().map(texts).collect())
}

/// Lists of texts by their names.
pub(super) fn lists<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, Vec<String>>, D::Error> {
    let lists = BTreeMap::<String, Vec<PlainText>>::deserialize(deserializer)?.into_iter();
    Ok(lists.map(|(name, list)| (name, list.into_iter().map(|one| one.0).collect())).collect())
}

fn texts(map: BTreeMap<String, PlainText>) -> BTreeMap<String, String> {
    map.into_iter().map(|(name, one)| (name, one.0)).collect()
}
