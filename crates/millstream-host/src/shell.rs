//! Words and lines as a shell reads them.

use std::fmt::Display;

/// A value as a word of a shell command. It is quoted if a shell would change it, if possible with quotes that need no
/// escapes.
pub fn shell_word(value: &(impl Display + ?Sized)) -> String {
    let text = value.to_string();
    let plain = |c: char| c.is_alphanumeric() || "_-./:,@%+=".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text
    } else if text.contains('\'') && !text.contains(['"', '$', '`', '\\', '!']) {
        format!("\"{text}\"")
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// The words as one line that a shell takes apart into the same words again.
pub fn shell_line<W: Display>(words: impl IntoIterator<Item = W>) -> String {
    words.into_iter().map(|word| shell_word(&word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_commands_are_quoted_where_needed() {
        for (value, word) in [
            ("shop.events", "shop.events"),
            ("día", "día"),
            ("a b", "'a b'"),
            ("\"a.b\"", "'\"a.b\"'"),
            ("it's", "\"it's\""),
            ("it's $1", r"'it'\''s $1'"),
            ("", "''"),
        ] {
            assert_eq!(shell_word(&value), word);
        }
    }

    #[test]
    fn a_shell_reads_the_same_words_again() {
        let words =
            ["lab", "--a", "sleep 1; exit", "it's \"$HOME\" `x`", "it's", "", "a\nb", "*", "~", "#", "!!", "ü=1&2|3>4"];
        assert_eq!(shell_line(&words[..3]), "lab --a 'sleep 1; exit'");
        let mut shell = crate::Command::new("/bin/sh");
        shell.args(["-c", &format!("printf '%s\\0' {}", shell_line(words))]);
        let read = shell.run_blocking().unwrap().stdout;
        assert_eq!(read.split_terminator('\0').collect::<Vec<_>>(), words);
    }
}
