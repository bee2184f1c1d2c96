//! The members of JSON objects, their values as they were written.

use crate::json_string::put_string;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// An object's members by name; of several with one name the last, as in jsonb.
pub type Members<'d> = BTreeMap<String, &'d str>;

/// The text of a document that a decoder has accepted.
///
/// # Panics
/// The document is not UTF-8.
pub fn text(document: &[u8]) -> &str {
    std::str::from_utf8(document).expect("a decoder has judged the document")
}

/// The members of an object that a decoder has accepted.
///
/// # Panics
/// The text is not an object of JSON.
pub fn read(object: &str) -> Members<'_> {
    let members: BTreeMap<String, &RawValue> =
        serde_json::from_str(object).expect("what jsonb takes for an object is one");
    members.into_iter().map(|(name, value)| (name, value.get())).collect()
}

/// The text of an object of these members.
pub fn write(members: &Members<'_>) -> Vec<u8> {
    let mut text = vec![b'{'];
    for (name, value) in members {
        put_name(name, &mut text);
        text.extend_from_slice(value.as_bytes());
    }
    text.push(b'}');
    text
}

/// Appends what is written before the value of a member.
pub fn put_name(name: &str, object: &mut Vec<u8>) {
    if object.last() != Some(&b'{') {
        object.push(b',');
    }
    put_string(name, object);
    object.push(b':');
}

/// The value of a member; `None` if the text is not an object or has no such member.
///
/// # Panics
/// The text begins like an object and is none.
pub fn member<'d>(text: &'d str, name: &str) -> Option<&'d str> {
    if !is_object(text) {
        return None;
    }
    let mut parser = serde_json::Deserializer::from_str(text);
    serde::de::Deserializer::deserialize_map(&mut parser, Find(name)).expect("what jsonb takes for an object is one")
}

/// The names of an object's members, in the order in which they come. One that comes twice is named twice.
///
/// # Panics
/// The text is not an object of JSON.
pub fn names(object: &str) -> Vec<String> {
    let mut parser = serde_json::Deserializer::from_str(object);
    serde::de::Deserializer::deserialize_map(&mut parser, Names).expect("what jsonb takes for an object is one")
}

/// Whether a value is missing or null.
pub fn nothing(value: Option<&str>) -> bool {
    value.is_none_or(|value| value.trim_ascii() == "null")
}

/// Whether the text of a value is an object's.
pub fn is_object(value: &str) -> bool {
    value.trim_ascii_start().starts_with('{')
}

/// Looks for the last member of this name, without keeping any other.
struct Find<'n>(&'n str);

impl<'de> serde::de::Visitor<'de> for Find<'_> {
    type Value = Option<&'de str>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(wanted) = map.next_key_seed(Is(self.0))? {
            if wanted {
                found = Some(map.next_value::<&RawValue>()?.get());
            } else {
                map.next_value::<serde::de::IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

/// Collects the names of members, without their values.
struct Names;

impl<'de> serde::de::Visitor<'de> for Names {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut names = Vec::new();
        while let Some(name) = map.next_key()? {
            map.next_value::<serde::de::IgnoredAny>()?;
            names.push(name);
        }
        Ok(names)
    }
}

/// Whether a member's name is this one.
struct Is<'n>(&'n str);

impl<'de> serde::de::DeserializeSeed<'de> for Is<'_> {
    type Value = bool;

    fn deserialize<D: serde::Deserializer<'de>>(self, name: D) -> Result<bool, D::Error> {
        name.deserialize_str(self)
    }
}

impl serde::de::Visitor<'_> for Is<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a member's name")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_model::limits::NESTING_MAX;

    #[test]
    fn members_are_found_in_any_object() {
        let deep = format!("{{\"n\":{}{},\"a\":7}}", "[".repeat(NESTING_MAX - 1), "]".repeat(NESTING_MAX - 1));
        for (object, value) in [
            (r#"{"a":1}"#, Some("1")),
            (r#" { "b" : {"a":5} , "a" : "x\n" } "#, Some(r#""x\n""#)),
            (r#"{"a":1,"\u0061":2}"#, Some("2")),
            (r#"{"b":1}"#, None),
            (r#"{"a":1e131071,"b":-0.000}"#, Some("1e131071")),
            ("[1]", None),
            ("5", None),
            (&deep, Some("7")),
        ] {
            assert_eq!(member(object, "a"), value, "{object}");
            if is_object(object) {
                let members = read(object);
                assert_eq!(members.get("a").copied(), value);
                assert_eq!(read(text(&write(&members))), members);
                let known = names(object).into_iter().collect::<std::collections::BTreeSet<_>>();
                assert!(known.iter().eq(members.keys()), "{object}");
            }
        }
    }
}
