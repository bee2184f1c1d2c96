//! Objects inside of a value that have a member twice.

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::collections::HashSet;
use std::fmt;

/// The first member that an object in the JSON has twice. Numbers that no program holds, and levels that are too deep,
/// end the search.
pub(super) fn repeated(json: &str) -> Option<String> {
    if !json.starts_with(['{', '[']) {
        return None;
    }
    let mut found = None;
    let mut json = serde_json::Deserializer::from_str(json);
    // Whether it is JSON is known.
    let _ = Search(&mut found).deserialize(&mut json);
    found
}

struct Search<'a>(&'a mut Option<String>);

impl<'de> DeserializeSeed<'de> for Search<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Search<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        while elements.next_element_seed(Search(&mut *self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut names = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            if names.contains(&name) {
                self.0.get_or_insert(name);
            } else {
                names.insert(name);
            }
            members.next_value_seed(Search(&mut *self.0))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_is_there_twice_is_found_at_any_depth() {
        for (json, expected) in [
            ("1", None),
            ("{\"a\":1,\"b\":{\"a\":2},\"c\":[{\"a\":1},{\"a\":true,\"b\":null}]}", None),
            ("{\"a\":1,\"\\u0061\":2.5}", Some("a")),
            ("[\"x\",[{\"b\":{\"c\":-1,\"d\":0,\"c\":\"\"}}]]", Some("c")),
        ] {
            assert_eq!(repeated(json).as_deref(), expected, "{json}");
        }
    }
}
