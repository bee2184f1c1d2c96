//! Commands of repairs on one line each, whatever characters the names in them have.

use std::fmt::Write as _;

/// Stands for a shell command with a name that cannot be typed on one line.
const UNTYPED: &str = "-- by hand: a name in this command has control characters; rename the object first";

/// A command of a repair on one line. Names and texts with control characters are written with escapes: they mean the same
/// in a statement, end no remark, and look on a screen as they are.
pub(crate) fn command_on_one_line(command: &str) -> String {
    match command {
        _ if !command.contains(char::is_control) => command.to_owned(),
        _ if command.starts_with("$ ") => UNTYPED.to_owned(),
        _ if command.starts_with("-- ") => sentence_on_one_line(command),
        _ => escaped(command, &['"', '\'']),
    }
}

/// The same for a sentence. It may hold apostrophes, so only names are escaped in it.
pub(crate) fn sentence_on_one_line(text: &str) -> String {
    escaped(text, &['"'])
}

/// SQL in which no part that begins with one of these quotes has control characters. Elsewhere they become blanks.
fn escaped(text: &str, quotes: &[char]) -> String {
    let blank = |c: char| if c.is_control() { ' ' } else { c };
    let (mut line, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(quotes) {
        line.extend(rest[..at].chars().map(blank));
        let has_escapes = rest[at..].starts_with('\'') && begins_escapes(&line);
        let (part, after) = rest[at..].split_at(part_bytes(&rest[at..], has_escapes));
        put(&mut line, part, has_escapes);
        rest = after;
    }
    line.extend(rest.chars().map(blank));
    line
}

/// Whether a text behind this one is `E'..'`, in which a backslash begins an escape.
fn begins_escapes(line: &str) -> bool {
    let of_name = |c: char| c.is_alphanumeric() || c == '_';
    line.strip_suffix(['e', 'E']).is_some_and(|before| !before.ends_with(of_name))
}

/// The length of a quoted part in bytes: up to the quote that ends it, or to the end. Two quotes are one of its characters.
fn part_bytes(text: &str, has_escapes: bool) -> usize {
    let mut chars = text.char_indices().peekable();
    let quote = chars.next().map(|(_, quote)| quote);
    while let Some((at, c)) = chars.next() {
        if has_escapes && c == '\\' {
            chars.next();
        } else if Some(c) == quote && chars.next_if(|(_, next)| Some(*next) == quote).is_none() {
            return at + c.len_utf8();
        }
    }
    text.len()
}

/// Adds a quoted part: `"a` and `b"` on two lines as `U&"a\000ab"`, and a text as `E'a\u000ab'`.
fn put(line: &mut String, part: &str, has_escapes: bool) {
    if !part.contains(char::is_control) {
        return line.push_str(part);
    }
    let is_name = part.starts_with('"');
    line.push_str(if is_name { "U&" } else { "" });
    line.push_str(if is_name || has_escapes { "" } else { "E" });
    for c in part.chars() {
        match c {
            '\\' if !has_escapes => line.push_str(r"\\"),
            c if c.is_control() => {
                let mark = if is_name { r"\" } else { r"\u" };
                // Writing to a text cannot fail.
                let _ = write!(line, "{mark}{:04x}", u32::from(c));
            }
            c => line.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_texts_with_control_characters_are_written_with_escapes() {
        for (command, line) in [
            ("drop index public.\"i j\"", "drop index public.\"i j\""),
            ("drop index \"a\nb\".\"i\\\"\"\t\"", r#"drop index U&"a\000ab".U&"i\\""\0009""#),
            ("alter table \"a\"\"\nb\" add check (c <> 'x')", r#"alter table U&"a""\000ab" add check (c <> 'x')"#),
            ("-- alter table \"a\ndrop table victim; --\" ..", r#"-- alter table U&"a\000adrop table victim; --" .."#),
            ("-- it's\nthe \"a\u{85}b\"", r#"-- it's the U&"a\0085b""#),
            ("select 'a\n\\b', 'c'", r"select E'a\u000a\\b', 'c'"),
            ("select E'a\\'\n', \"b\nc\"", r#"select E'a\'\u000a', U&"b\000ac""#),
            ("create index on t (a)\nwhere b", "create index on t (a) where b"),
            ("select \"no end\n", r#"select U&"no end\000a"#),
            ("$ echo 'a b'", "$ echo 'a b'"),
            ("$ echo 'a\nb'", UNTYPED),
        ] {
            assert_eq!(command_on_one_line(command), line);
        }
    }
}
