//! The values of a key's columns as they are typed: separated by commas, or as a JSON array.

use serde_json::value::RawValue;
use std::convert::Infallible;
use std::ffi::OsString;

/// Stands before a key that begins like a flag. Clap would take `-5` for flags, and if keys were allowed to begin so, it
/// would take every flag behind the first key for a key.
const MARK: char = '\u{1}';

/// Marks a word such as `-5` or `-5,1`, which is a key and no flag. [`typed`] takes the mark away.
pub fn mark(word: &mut OsString) {
    let number = |text: &str| text.trim_start_matches(['-', '.']).starts_with(|c: char| c.is_ascii_digit());
    let is_flag = |text: &str| !text.starts_with('-') || text.starts_with("--") || !number(text);
    if let Some(marked) = word.to_str().filter(|text| !is_flag(text)).map(|text| format!("{MARK}{text}")) {
        *word = marked.into();
    }
}

/// A key without the mark.
pub fn typed(text: &str) -> Result<String, Infallible> {
    Ok(text.strip_prefix(MARK).unwrap_or(text).to_owned())
}

/// All values in a text.
pub fn parse(text: &str) -> Vec<String> {
    json_parts(text).unwrap_or_else(|| comma_parts(text))
}

/// The values of a JSON array of scalars. Numbers keep their spelling.
fn json_parts(text: &str) -> Option<Vec<String>> {
    let values: Vec<Box<RawValue>> = serde_json::from_str(text).ok()?;
    values
        .iter()
        .map(|value| match value.get() {
            text if text.starts_with('"') => serde_json::from_str(text).ok(),
            text if text.starts_with(['{', '[']) || text == "null" => None,
            text => Some(text.to_owned()),
        })
        .collect()
}

fn comma_parts(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let next = match c {
            ',' => {
                parts.push(String::new());
                continue;
            }
            '\\' => chars.next_if(|c| matches!(c, ',' | '\\')).unwrap_or(c),
            c => c,
        };
        if let Some(part) = parts.last_mut() {
            part.push(next);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_separate_unless_escaped() {
        for (text, parts) in [
            ("a,1", vec!["a", "1"]),
            (r"a\,b,1", vec!["a,b", "1"]),
            (r"a\\,1", vec![r"a\", "1"]),
            (r"c:\dir,1", vec![r"c:\dir", "1"]),
            (",", vec!["", ""]),
            (r"a\", vec![r"a\"]),
        ] {
            assert_eq!(comma_parts(text), parts, "{text}");
        }
    }

    #[test]
    fn an_array_keeps_the_spelling_of_numbers() {
        assert_eq!(json_parts(r#"["a,b", 1.50, true]"#).unwrap(), ["a,b", "1.50", "true"]);
        for text in ["a,1", "[1", "[[1]]", "[null]", "{}", "7"] {
            assert_eq!(json_parts(text), None, "{text}");
        }
    }
}
