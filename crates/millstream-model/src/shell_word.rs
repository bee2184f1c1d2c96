//! A value as one word of a shell command.

use std::fmt::Display;

/// A value as a word of a shell command. It is quoted if a shell would change it, if possible with quotes that need no
/// escapes. Each name in a command gets it, because whoever makes a table can call it `x;reboot`.
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
            ("x;touch pwned", "'x;touch pwned'"),
            ("x$(id)`id`", "'x$(id)`id`'"),
            ("x\nid", "'x\nid'"),
            ("it's", "\"it's\""),
            ("it's $1", r"'it'\''s $1'"),
            ("", "''"),
        ] {
            assert_eq!(shell_word(&value), word);
        }
    }
}
