//! A pattern of names, as rsync reads it.

/// The bytes with which something else than a byte begins.
const WILD: &[u8] = b"*?[";

/// One place in a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    /// This byte.
    Byte(u8),
    /// Any byte but a separator: `?`.
    One,
    /// A byte of a set: `[a-z]`.
    Set { ranges: Vec<(u8, u8)>, is_negated: bool },
    /// Any number of bytes but separators: `*`.
    Many,
    /// Any number of bytes: `**`.
    All,
}

/// A pattern of `--exclude` or `--include`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// As it was written.
    text: Vec<u8>,
    tokens: Vec<Token>,
    /// It begins with a separator: it must fit the whole path.
    is_anchored: bool,
    /// It ends with a separator: it fits folders alone.
    is_for_folders: bool,
    /// It ends with `***`: folders have a separator behind them, so that `a/***` fits the folder and everything in it.
    ends_in_all: bool,
    /// It has no separator inside and no `**`: it must fit the last name alone.
    is_name: bool,
}

impl Pattern {
    /// Reads a pattern.
    pub fn parse(text: &[u8]) -> Self {
        let whole = text.to_vec();
        let is_for_folders = text.len() > 1 && text.ends_with(b"/");
        let text = if is_for_folders { &text[..text.len() - 1] } else { text };
        let ends_in_all = text.ends_with(b"***");
        let is_anchored = text.starts_with(b"/");
        let body = if is_anchored { &text[1..] } else { text };
        let is_wild = body.iter().any(|byte| WILD.contains(byte));
        let tokens = if is_wild { wild(body) } else { body.iter().map(|byte| Token::Byte(*byte)).collect() };
        let is_name = !is_anchored && !body.contains(&b'/') && !tokens.contains(&Token::All);
        Self { text: whole, tokens, is_anchored, is_for_folders, ends_in_all, is_name }
    }

    /// The text of a pattern for a path itself. Without anything wild in a pattern, a backslash means one.
    pub(crate) fn literal(path: &[u8]) -> Vec<u8> {
        if !path.iter().any(|byte| WILD.contains(byte)) {
            return path.to_vec();
        }
        let is_escaped = |byte: &u8| WILD.contains(byte) || *byte == b'\\';
        path.iter().flat_map(|byte| is_escaped(byte).then_some(b'\\').into_iter().chain([*byte])).collect()
    }

    /// The pattern as it was written.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Whether it fits a path below the root of the copy.
    pub fn fits(&self, path: &[u8], is_folder: bool) -> bool {
        if is_folder && self.ends_in_all {
            return self.fits_whole(&[path, b"/"].concat());
        }
        (is_folder || !self.is_for_folders) && self.fits_whole(path)
    }

    fn fits_whole(&self, path: &[u8]) -> bool {
        if self.is_anchored {
            return matches(&self.tokens, path);
        }
        if self.is_name {
            return matches(&self.tokens, crate::path::split(path).1);
        }
        if self.tokens.first() == Some(&Token::All) {
            // `**/a` fits an `a` at the root, too.
            return matches(&self.tokens, &[b"/", path].concat());
        }
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[at + 1..]);
        std::iter::once(path).chain(ends).any(|end| matches(&self.tokens, end))
    }
}

fn wild(text: &[u8]) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let [byte, after @ ..] = rest {
        rest = after;
        tokens.push(match (byte, after) {
            (b'\\', [next, after @ ..]) => {
                rest = after;
                Token::Byte(*next)
            }
            (b'*', [b'*', ..]) => {
                let stars = after.iter().take_while(|byte| **byte == b'*').count();
                rest = &after[stars..];
                Token::All
            }
            (b'*', _) => Token::Many,
            (b'?', _) => Token::One,
            (b'[', _) => match set(after) {
                Some((token, after)) => {
                    rest = after;
                    token
                }
                // Without an end, the set fits nothing.
                None => Token::Set { ranges: Vec::new(), is_negated: false },
            },
            _ => Token::Byte(*byte),
        });
    }
    tokens
}

/// A set behind its bracket, and what follows it.
fn set(text: &[u8]) -> Option<(Token, &[u8])> {
    let is_negated = matches!(text, [b'!' | b'^', ..]);
    let mut rest = if is_negated { &text[1..] } else { text };
    let mut ranges = Vec::new();
    loop {
        let first = match rest {
            // A bracket right at the beginning is a member.
            [b']', after @ ..] if !ranges.is_empty() => {
                return Some((Token::Set { ranges, is_negated }, after));
            }
            [b'[', b':', after @ ..] if after.windows(2).any(|two| two == b":]") => {
                let len = after.windows(2).position(|two| two == b":]")?;
                ranges.extend_from_slice(class(&after[..len])?);
                rest = &after[len + 2..];
                continue;
            }
            [b'\\', byte, after @ ..] | [byte, after @ ..] => {
                rest = after;
                *byte
            }
            [] => return None,
        };
        match rest {
            [b'-', b'\\', last, after @ ..] => {
                ranges.push((first, *last));
                rest = after;
            }
            [b'-', last, after @ ..] if *last != b']' => {
                ranges.push((first, *last));
                rest = after;
            }
            _ => ranges.push((first, first)),
        }
    }
}

/// The bytes of a class such as `[:digit:]`.
fn class(name: &[u8]) -> Option<&'static [(u8, u8)]> {
    Some(match name {
        b"alnum" => &[(b'0', b'9'), (b'A', b'Z'), (b'a', b'z')],
        b"alpha" => &[(b'A', b'Z'), (b'a', b'z')],
        b"blank" => &[(b' ', b' '), (b'\t', b'\t')],
        b"cntrl" => &[(0, 31), (127, 127)],
        b"digit" => &[(b'0', b'9')],
        b"graph" => &[(33, 126)],
        b"lower" => &[(b'a', b'z')],
        b"print" => &[(32, 126)],
        b"punct" => &[(33, 47), (58, 64), (91, 96), (123, 126)],
        b"space" => &[(9, 13), (b' ', b' ')],
        b"upper" => &[(b'A', b'Z')],
        b"xdigit" => &[(b'0', b'9'), (b'A', b'F'), (b'a', b'f')],
        _ => return None,
    })
}

/// Whether the tokens fit the whole text. Follows all ways at once, so that no pattern takes long.
fn matches(tokens: &[Token], text: &[u8]) -> bool {
    let mut now = vec![false; tokens.len() + 1];
    now[0] = true;
    skip(tokens, &mut now);
    for byte in text {
        let mut next = vec![false; tokens.len() + 1];
        for (at, token) in tokens.iter().enumerate().filter(|(at, _)| now[*at]) {
            let is_separator = *byte == b'/';
            match token {
                Token::Byte(wanted) => next[at + 1] |= wanted == byte,
                Token::One => next[at + 1] |= !is_separator,
                Token::Set { ranges, is_negated } => {
                    let is_in = ranges.iter().any(|(first, last)| (first..=last).contains(&byte));
                    next[at + 1] |= is_in != *is_negated && !is_separator;
                }
                Token::Many => next[at] |= !is_separator,
                Token::All => next[at] = true,
            }
        }
        skip(tokens, &mut next);
        now = next;
    }
    now[tokens.len()]
}

/// Stars may stand for nothing.
fn skip(tokens: &[Token], states: &mut [bool]) {
    for (at, token) in tokens.iter().enumerate() {
        if states[at] && matches!(token, Token::Many | Token::All) {
            states[at + 1] = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_the_manual_of_rsync_says() {
        let cases: &[(&str, &str, bool)] = &[
            ("*.o", "a/b/c.o", true),
            ("foo", "a/foo", true),
            ("foo", "foo/a", false),
            ("/foo", "a/foo", false),
            ("/foo", "foo", true),
            ("foo/bar", "a/foo/bar", true),
            ("foo/bar", "a/xfoo/bar", false),
            ("/foo/*/bar", "foo/a/bar", true),
            ("/foo/*/bar", "foo/a/b/bar", false),
            ("/foo/**/bar", "foo/a/b/bar", true),
            ("a**z", "x/a/b/z", true),
            ("**/a", "a", true),
            ("**/a", "b/a", true),
            ("foo/***", "foo/a/b", true),
            ("foo/***", "x/foo", false),
            ("[a-c]?", "bx", true),
            ("[!a-c]?", "bx", false),
            ("[]x]", "]", true),
            ("[[:digit:]_]*", "7/", false),
            ("\\*", "*", true),
            ("\\*x*", "*xy", true),
            ("a[", "a[", false),
        ];
        for (pattern, path, fits) in cases {
            assert_eq!(Pattern::parse(pattern.as_bytes()).fits(path.as_bytes(), false), *fits, "{pattern} {path}");
        }
        assert!(Pattern::parse(b"foo/").fits(b"a/foo", true) && !Pattern::parse(b"foo/").fits(b"a/foo", false));
        assert!(Pattern::parse(b"foo/***").fits(b"x/foo", true));
    }

    #[test]
    fn a_literal_fits_one_path() {
        assert_eq!(Pattern::literal(br"a\b c"), br"a\b c");
        assert_eq!(Pattern::literal(br"a\b[c]*?"), br"a\\b\[c]\*\?");
        for path in [&br"a\b c"[..], br"a\b[c]*?", b"a[", b"a***"] {
            let pattern = Pattern::parse(&[b"/", &Pattern::literal(path)[..]].concat());
            assert!(pattern.fits(path, true) && !pattern.fits(b"a", true), "{}", String::from_utf8_lossy(path));
        }
    }

    #[test]
    fn a_pattern_of_many_stars_takes_no_time() {
        let stars = "*a".repeat(50) + "b";
        assert!(!Pattern::parse(stars.as_bytes()).fits("a".repeat(2_000).as_bytes(), false));
    }
}
