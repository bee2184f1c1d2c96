//! A text of SQL taken apart as the server's own lexer does it.

use millstream_model::limits::IDENTIFIER_BYTES_MAX;

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token {
    Name(String),
    Escapes,
    Operator(String),
    /// A value. Its text, if it is a string without escapes.
    Literal(Option<String>),
    Mark(char),
}

/// The characters of operators.
const OPERATOR: &str = "+-*/<>=~!@#%^&|`?";

/// An operator with one of these may end in a sign.
const BEFORE_SIGN: &str = "~!@#^&|`?%";

/// The parts of a text, without spaces and comments, as the server's own lexer takes it apart.
pub(crate) fn tokens(text: &str) -> Vec<Token> {
    let (mut found, mut rest) = (Vec::new(), text);
    while let Some(first) = rest.chars().next() {
        let length = match first {
            ' ' | '\t'..='\r' => 1,
            _ if rest.starts_with("--") => rest.find(['\n', '\r']).unwrap_or(rest.len()),
            _ if rest.starts_with("/*") => comment(rest),
            '\'' => {
                let end = quoted(rest, '\'');
                found.push(Token::Literal(Some(unquoted(&rest[..end], '\''))));
                end
            }
            '"' => {
                let end = quoted(rest, '"');
                found.push(Token::Name(cut(unquoted(&rest[..end], '"'))));
                end
            }
            '$' => dollar(rest).map_or(1, |(tag, end)| {
                let inner = &rest[tag..end];
                let inner = inner.strip_suffix(&rest[..tag]).unwrap_or(inner);
                found.push(Token::Literal(Some(inner.to_owned())));
                end
            }),
            '0'..='9' => {
                found.push(Token::Literal(None));
                rest.find(|c: char| !is_part(c) && c != '.').unwrap_or(rest.len())
            }
            _ if is_part(first) => {
                let (token, end) = word(rest);
                found.push(token);
                end
            }
            _ if OPERATOR.contains(first) => {
                let operator = operator(rest);
                found.push(Token::Operator(operator.to_owned()));
                operator.len()
            }
            _ => {
                found.push(Token::Mark(first));
                first.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    found
}

fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '$' || !c.is_ascii()
}

/// The name, as long as PostgreSQL keeps it.
fn cut(mut name: String) -> String {
    name.truncate(name.floor_char_boundary(IDENTIFIER_BYTES_MAX));
    name
}

/// A name without quotes, or a value or name whose quotes have a letter before them; and its length.
fn word(text: &str) -> (Token, usize) {
    let end = text.find(|c: char| !is_part(c)).unwrap_or(text.len());
    let (name, after) = (text[..end].to_ascii_lowercase(), &text[end..]);
    match name.as_str() {
        "e" if after.starts_with('\'') => (Token::Literal(None), end + escaped(after)),
        "b" | "n" | "x" if after.starts_with('\'') => (Token::Literal(None), end + quoted(after, '\'')),
        "u" if after.starts_with("&'") => (Token::Literal(None), end + 1 + quoted(&after[1..], '\'')),
        "u" if after.starts_with("&\"") => (Token::Escapes, end + 1 + quoted(&after[1..], '"')),
        _ => (Token::Name(cut(name)), end),
    }
}

/// The length of the text in quotes with which a text begins. Two quotes stand for one.
fn quoted(text: &str, quote: char) -> usize {
    let mut at = 1;
    while let Some(end) = text[at..].find(quote) {
        at += end + 1;
        if !text[at..].starts_with(quote) {
            return at;
        }
        at += 1;
    }
    text.len()
}

/// What a text in quotes says.
fn unquoted(text: &str, quote: char) -> String {
    let inner = &text[1..];
    inner.strip_suffix(quote).unwrap_or(inner).replace(&format!("{quote}{quote}"), &quote.to_string())
}

/// As `quoted`, where a backslash escapes.
fn escaped(text: &str) -> usize {
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = characters.next() {
        match c {
            '\\' => _ = characters.next(),
            '\'' if characters.peek().is_some_and(|(_, next)| *next == '\'') => _ = characters.next(),
            '\'' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The lengths of a tag such as `$a$` and of the text between two of them, with both, with which a text begins.
fn dollar(text: &str) -> Option<(usize, usize)> {
    let end = text[1..].find('$')? + 2;
    let tag = &text[1..end - 1];
    if tag.starts_with(|c: char| c.is_ascii_digit()) || !tag.chars().all(is_part) {
        return None;
    }
    Some((end, text[end..].find(&text[..end]).map_or(text.len(), |at| end + at + end)))
}

/// The length of the comment with which a text begins. Comments may have comments in them.
fn comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest.starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// The operator with which a text begins: up to a comment, and without signs that belong to what follows.
fn operator(text: &str) -> &str {
    let end = text.find(|c: char| !OPERATOR.contains(c)).unwrap_or(text.len());
    let run = &text[..end];
    let comments = ["--", "/*"].iter().filter_map(|start| run.find(*start));
    let mut operator = &run[..comments.min().unwrap_or(end)];
    let may_end_in_sign = operator[..operator.len() - 1].contains(|c: char| BEFORE_SIGN.contains(c));
    while !may_end_in_sign && operator.len() > 1 && operator.ends_with(['+', '-']) {
        operator = &operator[..operator.len() - 1];
    }
    operator
}
