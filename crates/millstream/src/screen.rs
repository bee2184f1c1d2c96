//! The way to stdout and stderr: text of others is printed so that none of its characters steers a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, StderrLock, Stdout, StdoutLock, Write};
use std::os::fd::AsFd;

/// Columns of a terminal that does not report its width.
pub const COLUMNS_DEFAULT: usize = 80;

/// A writer that prints marks such as `\u001b` for characters that steer a terminal. They are escapes of JSON, so JSON
/// keeps its meaning. Lines and tabs stay.
#[derive(Debug)]
pub struct Screen<W> {
    out: W,
    /// Whether bytes pass as they are.
    is_raw: bool,
    /// The first bytes of a character whose other bytes have not come yet.
    begun: Vec<u8>,
}

/// Stdout for text that people read, and for JSON.
pub fn stdout() -> Screen<StdoutLock<'static>> {
    Screen::of(io::stdout().lock())
}

/// Stderr.
pub fn stderr() -> Screen<StderrLock<'static>> {
    Screen::of(io::stderr().lock())
}

/// Stdout for data: a pipe or a file gets it byte for byte, a terminal as [`stdout`] prints it.
pub fn data() -> Screen<Stdout> {
    let out = io::stdout();
    Screen { is_raw: !out.is_terminal(), ..Screen::of(out) }
}

/// Prints a text with our own colours on stderr. What others have written must be [`visible`] in it.
pub fn print_coloured(text: &str) {
    // If stderr is closed, nobody can read the text.
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Columns of stdout; `None` if it is no terminal.
pub fn stdout_columns() -> Option<usize> {
    columns(&io::stdout())
}

/// Columns of stderr; `None` if it is no terminal.
pub fn stderr_columns() -> Option<usize> {
    columns(&io::stderr())
}

/// The text on one line: with marks also for the ends of lines and for tabs.
pub fn visible(text: &str) -> String {
    marked(text, |_| false).into_owned()
}

/// The text with its later lines indented. It may hold text of others, whose lines must not look like ours, such as
/// `hint: ..`.
pub fn indented(text: &str) -> String {
    text.trim_end_matches('\n').replace('\n', "\n  ")
}

impl<W: Write> Screen<W> {
    fn of(out: W) -> Self {
        Self { out, is_raw: false, begun: Vec::new() }
    }
}

impl<W: Write> Write for Screen<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_raw {
            return self.out.write(bytes);
        }
        let begun = std::mem::take(&mut self.begun);
        let whole = if begun.is_empty() { Cow::Borrowed(bytes) } else { Cow::Owned([&begun[..], bytes].concat()) };
        let mut left = whole.len();
        for chunk in whole.utf8_chunks() {
            let (text, other) = (chunk.valid(), chunk.invalid());
            self.out.write_all(marked(text, |c| matches!(c, '\n' | '\t')).as_bytes())?;
            left -= text.len() + other.len();
            if left == 0 && std::str::from_utf8(other).is_err_and(|error| error.error_len().is_none()) {
                self.begun = other.to_vec();
            } else if !other.is_empty() {
                write!(self.out, "{}", other.escape_ascii())?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let begun = std::mem::take(&mut self.begun);
        write!(self.out, "{}", begun.escape_ascii())?;
        self.out.flush()
    }
}

/// The text with a mark for each character that steers a terminal, but for those that stay.
fn marked(text: &str, stays: fn(char) -> bool) -> Cow<'_, str> {
    let is_marked = |c: char| steers(c) && !stays(c);
    if !text.contains(is_marked) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if !is_marked(c) => out.push(c),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c => {
                // A string takes everything.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
        }
    }
    Cow::Owned(out)
}

/// Whether a character moves the cursor, begins a command of the terminal, or changes the direction of other characters.
/// Source: the control characters of Unicode (C0, DEL and C1) and its Bidi_Control.
fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn columns(terminal: &(impl IsTerminal + AsFd)) -> Option<usize> {
    let size = || rustix::termios::tcgetwinsize(terminal).map_or(0, |size| usize::from(size.ws_col));
    terminal.is_terminal().then(|| Some(size()).filter(|size| *size > 0).unwrap_or(COLUMNS_DEFAULT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;
    use millstream_testkit::Cases;

    /// What is printed of bytes that are written in parts of this length.
    fn printed(bytes: &[u8], part: usize, is_raw: bool) -> Vec<u8> {
        let mut screen = Screen { is_raw, ..Screen::of(Vec::new()) };
        bytes.chunks(part).for_each(|part| screen.write_all(part).unwrap());
        screen.flush().unwrap();
        screen.out
    }

    fn shown(bytes: &[u8]) -> String {
        String::from_utf8(printed(bytes, bytes.len().max(1), false)).unwrap()
    }

    fn character(rng: &mut Rng) -> char {
        match rng.u8(..6) {
            0 => rng.char('\0'..='\u{a0}'),
            1 => rng.char('\u{600}'..='\u{620}'),
            2 => rng.char('\u{2000}'..='\u{2070}'),
            3 => rng.char(..),
            _ => rng.char(' '..='~'),
        }
    }

    fn is_allowed(c: char) -> bool {
        match u32::from(c) {
            0x09 | 0x0a => true,
            0x00..=0x1f | 0x7f..=0x9f | 0x61c | 0x200e | 0x200f | 0x202a..=0x202e | 0x2066..=0x2069 => false,
            _ => true,
        }
    }

    #[test]
    fn nothing_that_steers_a_terminal_leaves_the_writer() {
        for mut rng in Cases::new(2_000) {
            let text: String = (0..rng.usize(..40)).map(|_| character(&mut rng)).collect();
            let out = shown(text.as_bytes());
            assert!(out.chars().all(is_allowed), "{text:?}: {out:?}");
            assert!(!text.chars().all(is_allowed) || out == text, "{text:?}: {out:?}");
            assert!(visible(&text).chars().all(|c| is_allowed(c) && !"\n\t".contains(c)), "{text:?}");

            let mut bytes = text.into_bytes();
            for _ in 0..rng.usize(..4) {
                bytes.insert(rng.usize(..=bytes.len()), rng.u8(..));
            }
            let out = shown(&bytes);
            assert!(out.chars().all(is_allowed), "{bytes:?}: {out:?}");
            for part in 1..5 {
                assert_eq!(printed(&bytes, part, false), out.as_bytes(), "{bytes:?} in parts of {part}");
                assert_eq!(printed(&bytes, part, true), bytes, "what a program reads");
            }
        }
    }

    #[test]
    fn only_the_first_line_begins_where_lines_of_ours_do() {
        for (text, shown) in [
            ("", ""),
            ("gone", "gone"),
            ("gone\n", "gone"),
            ("gone\nhint: delete it", "gone\n  hint: delete it"),
            ("\nerror: a\n\nwarning: b\n\n", "\n  error: a\n  \n  warning: b"),
            ("gone\r\nhint: delete it", "gone\r\n  hint: delete it"),
        ] {
            assert_eq!(indented(text), shown, "{text:?}");
        }
    }

    #[test]
    fn json_keeps_its_meaning() {
        for mut rng in Cases::new(500) {
            let text: String = (0..rng.usize(..40)).map(|_| character(&mut rng)).collect();
            let json = serde_json::to_string_pretty(&[&text]).unwrap();
            assert_eq!(serde_json::from_str::<Vec<String>>(&shown(json.as_bytes())).unwrap(), [text]);
        }
    }

    #[test]
    fn marks_are_escapes_of_json() {
        let text = "a\tb\r\n\u{1b}]0;P\u{7}\u{7f}\u{9b}2J\u{202e}txt";
        assert_eq!(shown(text.as_bytes()), "a\tb\\r\n\\u001b]0;P\\u0007\\u007f\\u009b2J\\u202etxt");
        assert_eq!(visible(text), "a\\tb\\r\\n\\u001b]0;P\\u0007\\u007f\\u009b2J\\u202etxt");
        assert_eq!(visible("ünïcödé 😀"), "ünïcödé 😀");
        assert_eq!(shown(b"a\x9bb\xe2\x80"), "a\\x9bb\\xe2\\x80");
    }
}
