//! Small text files of the kernel, below `/proc` and `/sys`.

use crate::limits::KERNEL_FILE_BYTES_MAX;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The text of a file; `None` if it is missing, cannot be read or is not text. A longer file is cut.
pub fn text(path: impl AsRef<Path>) -> Option<String> {
    let mut text = Vec::new();
    File::open(path).ok()?.take(KERNEL_FILE_BYTES_MAX).read_to_end(&mut text).ok()?;
    String::from_utf8(text).ok()
}

/// The text without the space around it; `None` if nothing is left.
pub fn word(path: impl AsRef<Path>) -> Option<String> {
    let text = text(path)?;
    let word = text.trim();
    (!word.is_empty()).then(|| word.to_owned())
}

/// The choice in brackets of a file such as `always [madvise] never`; the whole text if there are no brackets.
pub fn choice(text: &str) -> &str {
    let inner = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inner.map_or(text, |(choice, _)| choice)
}

/// The value of the first line `name : value`.
pub fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(found, _)| found.trim() == name).map(|(_, value)| value.trim())
}

/// The numbers of lines such as `name 12`, `name: 12` or `name: 12 kB`, by name, without the unit.
pub fn numbers(text: &str) -> impl Iterator<Item = (&str, f64)> {
    text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let name = words.next()?.trim_end_matches(':');
        Some((name, words.next()?.parse().ok()?))
    })
}

/// The number in a line such as `name 12` or `name: 12 kB`.
pub fn number(text: &str, name: &str) -> Option<f64> {
    numbers(text).find(|(one, _)| *one == name).map(|(_, number)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_and_empty_files_have_no_word() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!((text(file.path()).as_deref(), word(file.path())), (Some(""), None));
        std::fs::write(file.path(), " tsc\n").unwrap();
        assert_eq!(word(file.path()).as_deref(), Some("tsc"));
        assert_eq!(word("/nowhere/file"), None);
    }

    #[test]
    fn the_bracketed_choice_is_the_current_one() {
        assert_eq!(choice("always [madvise] never"), "madvise");
        assert_eq!(choice("none"), "none");
    }

    #[test]
    fn numbers_are_read_with_and_without_colon_and_unit() {
        let text = "MemFree:   12 kB\nnr_throttled 3\nbroken\nname x\n";
        assert_eq!(numbers(text).collect::<Vec<_>>(), [("MemFree", 12.0), ("nr_throttled", 3.0)]);
        assert_eq!((number(text, "nr_throttled"), number(text, "name")), (Some(3.0), None));
    }
}
