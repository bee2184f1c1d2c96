//! Patterns of keys, which stand for the objects that they match, as patterns of file names do for files.

use glob::{MatchOptions, Pattern, PatternError};

/// A pattern of keys.
#[derive(Debug)]
pub(crate) struct KeyPattern {
    pattern: Pattern,
    /// The pattern as it is typed, which may also be a key.
    pub(crate) text: String,
    /// The folder above the first part with a wildcard: below it are all keys that can match. Empty for the whole bucket.
    pub(crate) folder: String,
}

/// As for files: no wildcard matches a slash, or a dot with which a name begins.
const AS_IN_A_SHELL: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

/// Whether a key may be a pattern.
pub(crate) fn has_wildcards(key: &str) -> bool {
    key.contains(['*', '?', '['])
}

impl KeyPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn of(key: &str) -> Result<Self, PatternError> {
        let parts = key.split('/').take_while(|part| !has_wildcards(part));
        let folder = parts.collect::<Vec<_>>().join("/");
        Ok(Self { pattern: Pattern::new(key)?, text: key.to_owned(), folder })
    }

    /// Whether a key matches.
    pub(crate) fn matches(&self, key: &str) -> bool {
        self.pattern.matches_with(key, AS_IN_A_SHELL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_as_in_a_shell() {
        let keys = ["1.json", ".2.json", "a/3.json", "a/b/4.json", "a/b/.5.json", "A/6.json"];
        for (pattern, folder, expected) in [
            ("*.json", "", &["1.json"][..]),
            (".*", "", &[".2.json"]),
            ("a/*", "a", &["a/3.json"]),
            ("a/**/*.json", "a", &["a/3.json", "a/b/4.json"]),
            ("a/b/?.json", "a/b", &["a/b/4.json"]),
            ("[aA]/*.json", "", &["a/3.json", "A/6.json"]),
            ("x/*", "x", &[]),
        ] {
            let read = KeyPattern::of(pattern).unwrap();
            let found: Vec<&str> = keys.into_iter().filter(|key| read.matches(key)).collect();
            assert_eq!((read.folder.as_str(), &found[..]), (folder, expected), "{pattern}");
        }
        assert!(KeyPattern::of("a**").is_err());
    }
}
