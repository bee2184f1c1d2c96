//! Texts of a file that may be written as numbers: `clients = [1, 8]` means the same as `clients = ["1", "8"]`.

use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Unexpected, Visitor};
use std::collections::BTreeMap;
use std::fmt;

/// A text, as a file writes it: also as a number, or as true or false.
pub(super) struct PlainText(pub(super) String);

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
    let lists = BTreeMap::<String, List>::deserialize(deserializer)?.into_iter();
    Ok(lists.map(|(name, list)| (name, list.0)).collect())
}

/// Texts as a list, or in one text with commas between them, as a user chooses them.
struct List(Vec<String>);

impl<'de> Deserialize<'de> for List {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Texts;
        impl<'de> Visitor<'de> for Texts {
            type Value = List;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list, or a text with commas")
            }

            fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
                Ok(List(value.split(',').map(|one| one.trim().to_owned()).collect()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
                let mut texts = Vec::new();
                while let Some(PlainText(text)) = sequence.next_element()? {
                    texts.push(text);
                }
                Ok(List(texts))
            }
        }
        deserializer.deserialize_any(Texts)
    }
}

/// A whole number, also as a text: a value that a user may choose is put into one.
pub(super) fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    struct Whole;
    impl Visitor<'_> for Whole {
        type Value = u32;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a whole number")
        }

        fn visit_str<E: Error>(self, value: &str) -> Result<Self::Value, E> {
            value.parse().map_err(|_| E::invalid_type(Unexpected::Str(value), &self))
        }

        fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
            u32::try_from(value).map_err(|_| E::invalid_value(Unexpected::Signed(value), &self))
        }

        fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
            u32::try_from(value).map_err(|_| E::invalid_value(Unexpected::Unsigned(value), &self))
        }
    }
    deserializer.deserialize_any(Whole)
}

/// As [`whole`], of a word that may be absent.
pub(super) fn whole_if_there<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    whole(deserializer).map(Some)
}

fn texts(map: BTreeMap<String, PlainText>) -> BTreeMap<String, String> {
    map.into_iter().map(|(name, one)| (name, one.0)).collect()
}
