//! Options and commands in messages, spelled as the user types them.
//!
//! A library knows what an option means, and not how it is typed: the command line says `--resume off` where a program
//! sets `resume`. So a message names it by these functions, and whoever talks to the user says once how to spell it.

use std::fmt::{self, Display};
use std::sync::OnceLock;

static SPELLING: OnceLock<Spelling> = OnceLock::new();

/// How a user types options and commands.
#[derive(Debug, Clone, Copy)]
pub struct Spelling {
    /// An option by its name, with a value or without.
    pub option: fn(name: &str, value: Option<&str>) -> String,
    /// A command: its words and arguments, without the program's name.
    pub command: fn(words: &str) -> String,
}

impl Spelling {
    /// The names themselves, for programs that use the libraries.
    const PLAIN: Self = Self {
        option: |name, value| value.map_or_else(|| name.to_owned(), |value| format!("{name} {value}")),
        command: str::to_owned,
    };
}

/// Sets the spelling of this process. Only the first call counts.
pub fn spell(spelling: Spelling) {
    let _ = SPELLING.set(spelling);
}

/// An option, such as `option("resume")`.
pub fn option(name: &'static str) -> impl Display {
    Word(move |spelling: &Spelling| (spelling.option)(name, None))
}

/// An option with a value, such as `set("resume", "off")`.
pub fn set(name: &'static str, value: impl Display) -> impl Display {
    Word(move |spelling: &Spelling| (spelling.option)(name, Some(&value.to_string())))
}

/// A command of the program, such as `command("loads forget 7")`.
pub fn command(words: impl Display) -> impl Display {
    Word(move |spelling: &Spelling| (spelling.command)(&words.to_string()))
}

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

struct Word<F>(F);

impl<F: Fn(&Spelling) -> String> Display for Word<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&(self.0)(SPELLING.get().unwrap_or(&Spelling::PLAIN)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_spelled_as_the_process_says_and_before_that_as_they_are() {
        let sentence = || format!("{}, or {}, or {}", option("lanes"), set("resume", "off"), command("loads forget 7"));
        assert_eq!(sentence(), "lanes, or resume off, or loads forget 7");
        spell(Spelling {
            option: |name, value| format!("{name}={}", value.unwrap_or("..")),
            command: |words| format!("run {words}"),
        });
        assert_eq!(sentence(), "lanes=.., or resume=off, or run loads forget 7");
        spell(Spelling::PLAIN);
        assert_eq!(sentence(), "lanes=.., or resume=off, or run loads forget 7");
    }

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
