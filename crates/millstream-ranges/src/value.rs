//! The value of a range as it is stored: a JSON object whose member `end` is the last address in hex.
//!
//! Hex, and not the bytes as JSON characters: a JSON text holds characters, and a byte above 127 becomes two bytes of
//! UTF-8 in most readers. The last address is then wrong for every range that ends in an octet above 127.

use millstream_model::range::Family;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt::Write;

const BEGINNING: &str = "{\"end\":\"";

/// Appends a value. `members` are the members besides `end`, as JSON without the braces.
pub(crate) fn put(family: Family, end: u128, members: &str, value: &mut String) {
    value.push_str(BEGINNING);
    let digits = family.bytes() * 2;
    // Writing into a string cannot fail.
    let _ = write!(value, "{end:0digits$x}");
    value.push('"');
    if !members.is_empty() {
        value.push(',');
        value.push_str(members);
    }
    value.push('}');
}

/// A value, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parts<'a> {
    /// The last address, as a number.
    pub(crate) end: u128,
    /// The other members as JSON without the braces.
    pub(crate) members: Cow<'a, str>,
}

/// Takes a stored value apart. Values that other programs wrote may have `end` anywhere, and spaces.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn parts(family: Family, value: &[u8]) -> Result<Parts<'_>, String> {
    // Validated: a store that another program wrote may hold anything.
    let text = std::str::from_utf8(value).map_err(|_| "the value is not UTF-8".to_owned())?;
    if let Some(parts) = ours(family, text) {
        return Ok(parts);
    }
    foreign(family, text)
}

/// The last address alone, without a look at the other members.
#[inline]
pub(crate) fn end(family: Family, value: &[u8]) -> Result<u128, String> {
    let digits = family.bytes() * 2;
    let at = BEGINNING.len();
    if value.len() > at + digits && value.starts_with(BEGINNING.as_bytes()) && value[at + digits] == b'"' {
        return hex(family, &value[at..at + digits]);
    }
    parts(family, value).map(|parts| parts.end)
}

/// A value as we write it: `end` comes first.
fn ours(family: Family, text: &str) -> Option<Parts<'_>> {
    let rest = text.strip_prefix(BEGINNING)?;
    let (digits, rest) = rest.split_at_checked(family.bytes() * 2)?;
    let end = hex(family, digits.as_bytes()).ok()?;
    let rest = rest.strip_prefix('"')?.strip_suffix('}')?;
    let members = if rest.is_empty() { rest } else { rest.strip_prefix(',')? };
    Some(Parts { end, members: Cow::Borrowed(members) })
}

#[cold]
fn foreign(family: Family, text: &str) -> Result<Parts<'_>, String> {
    let members = object(text)?;
    let mut ends = members.iter().filter(|(name, _)| name == "end");
    let (_, end) = ends.next_back().ok_or("the value has no member \"end\"")?;
    let end = String::deserialize(*end).map_err(|_| "the member \"end\" is not a string".to_owned())?;
    if end.chars().count() == family.bytes() && !end.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err("the member \"end\" holds raw bytes and not hex".into());
    }
    let end = hex(family, end.as_bytes())?;
    let others: Vec<String> =
        members.iter().filter(|(name, _)| name != "end").map(|(name, value)| member(name, value.get())).collect();
    Ok(Parts { end, members: Cow::Owned(others.join(",")) })
}

/// Members as a JSON object.
pub fn braced(members: &str) -> String {
    format!("{{{members}}}")
}

/// A member as JSON.
pub(crate) fn member(name: &str, value: &str) -> String {
    format!("{}:{value}", serde_json::Value::from(name))
}

/// Members of a JSON object in their order, values as they are written.
///
/// # Errors
/// It is not an object.
pub(crate) fn object(text: &str) -> Result<Vec<(String, &RawValue)>, String> {
    struct Members;
    impl<'de> serde::de::Visitor<'de> for Members {
        type Value = Vec<(String, &'de RawValue)>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut members = Vec::new();
            while let Some(member) = map.next_entry()? {
                members.push(member);
            }
            Ok(members)
        }
    }
    let mut json = serde_json::Deserializer::from_str(text);
    let members = serde::Deserializer::deserialize_map(&mut json, Members);
    let members = members.and_then(|members| json.end().map(|()| members));
    members.map_err(|error| format!("the value is not a JSON object: {error}"))
}

/// Hex digits of one address, upper or lower case.
fn hex(family: Family, digits: &[u8]) -> Result<u128, String> {
    if digits.len() != family.bytes() * 2 {
        return Err(format!(
            "the member \"end\" has {} characters; an address of {} has {} hex digits",
            digits.len(),
            family.name(),
            family.bytes() * 2
        ));
    }
    digits.iter().try_fold(0, |number: u128, digit| {
        let digit = char::from(*digit).to_digit(16).ok_or("the member \"end\" is not hexadecimal")?;
        Ok(number << 4 | u128::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_octet_comes_back_in_every_place() {
        for place in 0..16 {
            for octet in 0..=255u8 {
                let mut bytes = [1; 16];
                bytes[place] = octet;
                for (family, end) in [
                    (Family::V6, u128::from_be_bytes(bytes)),
                    (Family::V4, u128::from_be_bytes(bytes) & u128::from(u32::MAX)),
                ] {
                    for members in ["", "\"a\":\"\\u00ff\""] {
                        let mut value = String::new();
                        put(family, end, members, &mut value);
                        assert!(value.is_ascii());
                        let expected = Parts { end, members: Cow::Borrowed(members) };
                        assert_eq!(parts(family, value.as_bytes()), Ok(expected));
                        assert_eq!(super::end(family, value.as_bytes()), Ok(end));
                    }
                }
            }
        }
    }

    #[test]
    fn values_of_other_programs_are_read() {
        for value in [
            "{\"cc\":\"AU\",\"end\":\"0100810F\"}",
            "{ \"end\" : \"0100810f\" , \"cc\" : \"AU\" }",
            "{\"end\":\"01\",\"cc\":\"AU\",\"end\":\"0100810f\"}",
        ] {
            let parts = parts(Family::V4, value.as_bytes()).unwrap();
            assert_eq!((parts.end, &*parts.members), (0x0100_810f, "\"cc\":\"AU\""), "{value}");
            assert_eq!(end(Family::V4, value.as_bytes()), Ok(0x0100_810f), "{value}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_value_is_said() {
        for (value, problem) in [
            (&b"{\"end\":\"01008\"}"[..], "the member \"end\" has 5 characters; an address of v4 has 8 hex digits"),
            (b"{\"end\":\"0100810g\"}", "the member \"end\" is not hexadecimal"),
            (b"{\"end\":17}", "the member \"end\" is not a string"),
            (b"{\"cc\":\"AU\"}", "the value has no member \"end\""),
            (b"{\"end\":\"\\u0001\\u0000\\u0081\\u0000\"}", "the member \"end\" holds raw bytes and not hex"),
            (b"\xff", "the value is not UTF-8"),
        ] {
            assert_eq!(parts(Family::V4, value), Err(problem.into()), "{}", value.escape_ascii());
            assert_eq!(end(Family::V4, value), Err(problem.into()), "{}", value.escape_ascii());
        }
        for value in ["[]", "{\"end\":\"01008100\"", "{\"end\":\"01008100\"} x", ""] {
            assert!(parts(Family::V4, value.as_bytes()).is_err(), "{value}");
        }
    }
}
