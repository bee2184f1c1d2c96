//! Finds the member names most like one that the documents do not have.

use std::collections::BTreeSet;

/// How many names of members near a missing one an error shows at most.
const NAMES_SHOWN_MAX: usize = 5;

/// From this many distinct member names on, no more are collected.
const NAMES_COMPARED_MAX: usize = 1_000;

/// A clause that names the members most like the path's first missing segment.
pub(super) fn clause(path: &[String], usable: &[&[u8]]) -> String {
    let mut deepest = 0;
    let mut names = BTreeSet::new();
    for document in usable {
        let Ok(mut place) = serde_json::from_slice::<serde_json::Value>(document) else {
            continue;
        };
        let mut depth = 0;
        while let Some(inner) = place.get_mut(&path[depth]).filter(|_| depth + 1 < path.len()) {
            place = inner.take();
            depth += 1;
        }
        let serde_json::Value::Object(members) = place else {
            continue;
        };
        if depth > deepest {
            deepest = depth;
            names.clear();
        }
        if depth == deepest && names.len() < NAMES_COMPARED_MAX {
            names.extend(members.into_iter().map(|(name, _)| name));
        }
    }
    let wanted = &path[deepest];
    let mut names: Vec<_> = names.into_iter().collect();
    names.sort_by_cached_key(|name| distance(wanted, name));
    names.truncate(NAMES_SHOWN_MAX);
    match names.is_empty() {
        true => String::new(),
        false => format!("; the nearest members there are {}", quoted(&names)),
    }
}

/// Edit distance of the beginnings of two names, regardless of letter case.
fn distance(a: &str, b: &str) -> usize {
    const LETTERS_MAX: usize = 64;
    let letters = |text: &str| -> Vec<char> { text.to_lowercase().chars().take(LETTERS_MAX).collect() };
    strsim::generic_levenshtein(&letters(a), &letters(b))
}

/// The names as a list, each cut to a length that fits a message.
fn quoted(names: &[String]) -> String {
    const LETTERS_MAX: usize = 63;
    let quoted: Vec<_> =
        names.iter().map(|name| format!("\"{}\"", name.chars().take(LETTERS_MAX).collect::<String>())).collect();
    quoted.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_edits() {
        for (a, b, edits) in
            [("", "", 0), ("id", "ID", 0), ("devce", "device", 1), ("abc", "", 3), ("kitten", "sitting", 3)]
        {
            assert_eq!(distance(a, b), edits);
        }
    }
}
