//! Takes passwords out of anything that is about to be shown.

use std::borrow::Cow;

const MASK: &str = "***";

/// Words before `=` whose value is a secret in connection strings and URL queries.
const SECRET_WORDS: &[&str] = &["password", "sslpassword"];

/// The text with the passwords of connection strings masked: `scheme://user:PASSWORD@host` and
/// `password=PASSWORD`. The last line of defence: no message should hold one to begin with.
pub fn masked(text: &str) -> Cow<'_, str> {
    let mut spans = url_passwords(text);
    spans.extend(word_passwords(text));
    if spans.is_empty() {
        return Cow::Borrowed(text);
    }
    spans.sort_unstable();
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for (start, end) in spans {
        if start < done {
            continue;
        }
        out.push_str(&text[done..start]);
        out.push_str(MASK);
        done = end;
    }
    out.push_str(&text[done..]);
    Cow::Owned(out)
}

/// Byte ranges between the first `:` and the last `@` of what follows a `://`.
fn url_passwords(text: &str) -> Vec<(usize, usize)> {
    let mut spans = Vec::new();
    for (at, _) in text.match_indices("://") {
        let start = at + 3;
        let rest = &text[start..];
        let len = rest.find(|c: char| c.is_whitespace() || c == '"').unwrap_or(rest.len());
        let rest = &rest[..len];
        if let Some(end) = rest.rfind('@')
            && let Some(colon) = rest[..end].find(':')
        {
            spans.push((start + colon + 1, start + end));
        }
    }
    spans
}

/// Byte ranges of the values of secret words, single-quoted or bare.
fn word_passwords(text: &str) -> Vec<(usize, usize)> {
    let lower = text.to_ascii_lowercase();
    let mut spans = Vec::new();
    for word in SECRET_WORDS {
        for (at, _) in lower.match_indices(word) {
            let after = at + word.len();
            let value = lower[after..].trim_start();
            let Some(value) = value.strip_prefix('=') else {
                continue;
            };
            let value = value.trim_start();
            let start = text.len() - value.len();
            let len = match value.strip_prefix('\'') {
                Some(quoted) => 1 + quoted_len(quoted),
                None => value.find(|c: char| c.is_whitespace() || matches!(c, '&' | '\'' | '"')).unwrap_or(value.len()),
            };
            if len > 0 {
                spans.push((start, start + len));
            }
        }
    }
    spans
}

/// Length up to and including the closing quote. A backslash escapes the next character.
fn quoted_len(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\'' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_masked_anywhere_in_the_text() {
        for (text, shown) in [
            ("plain text: no secret", "plain text: no secret"),
            ("postgres://u@h/db", "postgres://u@h/db"),
            ("postgres://h:5432/db", "postgres://h:5432/db"),
            ("see postgres://u:s3@h:1/db now", "see postgres://u:***@h:1/db now"),
            ("postgres://u:a@b@h/d", "postgres://u:***@h/d"),
            ("'postgresql://u:p/q@h'", "'postgresql://u:***@h'"),
            ("host=h password=s3 user=u", "host=h password=*** user=u"),
            ("password = 'a b\\' c' user=u", "password = *** user=u"),
            ("postgres://h/d?password=s3&x=1", "postgres://h/d?password=***&x=1"),
            ("PASSWORD=s3", "PASSWORD=***"),
            ("no password given", "no password given"),
            ("postgres://u:s3@h/d?password=zz", "postgres://u:***@h/d?password=***"),
        ] {
            assert_eq!(masked(text), shown);
        }
    }

    #[test]
    fn masking_accepts_any_text() {
        for text in ["://", "password=", "password='", "é://ü:ß@", "password='\\"] {
            let _ = masked(text);
        }
    }
}
