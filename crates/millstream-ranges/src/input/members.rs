//! Members of a value as JSON without the braces, put together.

use crate::column_type::ColumnType;
use crate::jsonb;
use crate::limits::VALUE_BYTES_MAX;
use millstream_model::range::Range;
use serde_json::Value;

/// The member that holds the last address. No input may bring its own.
pub(super) const RESERVED: &str = "end";

/// Why a member of that name is refused.
pub(super) const IS_RESERVED: &str = "the member \"end\" is the store's own";

/// Appends a member whose name and value are JSON already.
pub(super) fn put(name: &str, value: &str, members: &mut String) {
    if !members.is_empty() {
        members.push(',');
    }
    members.push_str(name);
    members.push(':');
    members.push_str(value);
}

/// Whether a member is among those to keep, which is then noted in `seen`. `None`: nobody said which to keep.
pub(super) fn is_kept(keep: &[String], name: &str, seen: &mut [bool]) -> Option<bool> {
    let mut is_kept = false;
    for (_, seen) in keep.iter().zip(seen).filter(|(kept, _)| *kept == name) {
        (*seen, is_kept) = (true, true);
    }
    (!keep.is_empty()).then_some(is_kept)
}

/// The names to keep that were not seen.
pub(super) fn unseen(keep: &[String], seen: &[bool]) -> Vec<String> {
    keep.iter().zip(seen).filter(|(_, seen)| !**seen).map(|(name, _)| name.clone()).collect()
}

/// The range, if its value with these members can be stored, and PostgreSQL could hold it too: an enrichment puts it into
/// documents.
///
/// # Errors
/// It is too long, or holds what jsonb refuses.
pub(super) fn fitting(range: Range, members: &str) -> Result<Range, String> {
    // `{"end":"`, the hex digits, `",` and `}`.
    let bytes = 8 + 2 * range.family.bytes() + 2 + members.len() + 1;
    if bytes > VALUE_BYTES_MAX {
        return Err(format!("its value would have {bytes} bytes, more than {VALUE_BYTES_MAX}"));
    }
    if let Some(problem) = jsonb::problem(members) {
        return Err(problem.into());
    }
    Ok(range)
}

/// Whether a JSON string can hold the text as it is.
pub(super) fn is_plain(text: &str) -> bool {
    // Without a way out of the loop, it is done for many bytes at once.
    text.bytes().fold(true, |plain, byte| plain & (byte >= b' ') & (byte != b'"') & (byte != b'\\'))
}

/// A column whose text becomes a member.
#[derive(Debug)]
pub(super) struct Member {
    /// The column.
    pub(super) column: usize,
    /// `"name":"`; without the last quotation mark if the member has a type.
    beginning: String,
    /// What the text stands for, if it is not itself the value.
    kind: Option<ColumnType>,
}

impl Member {
    pub(super) fn new(column: usize, name: &str) -> Self {
        Self { column, beginning: format!("{}:\"", Value::from(name)), kind: None }
    }

    /// Gives the member a type.
    pub(super) fn set_type(&mut self, kind: ColumnType) {
        if kind != ColumnType::String && self.kind.is_none() {
            self.beginning.pop();
            self.kind = Some(kind);
        }
    }

    /// Appends the member, unless the text is empty. `plain`: it is known that a JSON string can hold it as it is.
    ///
    /// # Errors
    /// The text is not of the member's type.
    #[inline]
    pub(super) fn put(&self, text: &str, plain: bool, members: &mut String) -> Result<(), String> {
        if text.is_empty() {
            return Ok(());
        }
        if let Some(kind) = self.kind {
            return self.put_typed(kind, text, members);
        }
        if !members.is_empty() {
            members.push(',');
        }
        members.push_str(&self.beginning);
        if plain || is_plain(text) {
            members.push_str(text);
            members.push('"');
        } else {
            // The first quotation mark is there.
            members.push_str(&Value::from(text).to_string()[1..]);
        }
        Ok(())
    }

    fn put_typed(&self, kind: ColumnType, text: &str, members: &mut String) -> Result<(), String> {
        // Exports of other programs pad fields with spaces.
        if text.trim().is_empty() {
            return Ok(());
        }
        let json = kind.json(text).map_err(|holds| {
            let name = self.beginning.trim_end_matches(':');
            format!("{text:?} in the column {name} is not of the type {}: {holds}", kind.name())
        })?;
        if !members.is_empty() {
            members.push(',');
        }
        members.push_str(&self.beginning);
        members.push_str(&json);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value;
    use millstream_model::range::{FAMILIES, Family};

    #[test]
    fn texts_become_json_strings() {
        let texts = ["a", "é€", "say \"so\"", "back\\slash", "tab\tand\u{1}", "\u{7f}", "\0"];
        for text in texts {
            let mut members = String::new();
            Member::new(0, "na\"me").put(text, false, &mut members).unwrap();
            Member::new(1, "empty").put("", true, &mut members).unwrap();
            Member::new(2, "b").put("2", true, &mut members).unwrap();
            let value: Value = serde_json::from_str(&value::braced(&members)).unwrap();
            assert_eq!(value, serde_json::json!({"na\"me": text, "b": "2"}));
        }
    }

    #[test]
    fn plain_texts_are_those_that_json_does_not_change() {
        for character in '\0'..='\u{100}' {
            for text in [format!("{character}"), format!("0123456789abcdef{character}0123456789abcdef")] {
                let json = Value::from(text.as_str()).to_string();
                assert_eq!(is_plain(&text), json == format!("\"{text}\""), "{text:?}");
            }
        }
    }

    #[test]
    fn a_value_that_fits_is_as_long_as_the_store_allows() {
        for family in FAMILIES {
            let range = Range { family, start: 1, end: 2 };
            let longest = (0..100).map(|less| VALUE_BYTES_MAX - less).find(|bytes| {
                let members = format!("\"a\":\"{}\"", "x".repeat(bytes - 6));
                fitting(range, &members).is_ok()
            });
            let members = format!("\"a\":\"{}\"", "x".repeat(longest.unwrap() - 6));
            let mut value = String::new();
            value::put(family, range.end, &members, &mut value);
            assert_eq!(value.len(), VALUE_BYTES_MAX, "{}", Family::name(family));
        }
    }
}
