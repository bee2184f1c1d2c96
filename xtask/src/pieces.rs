//! A Rust file cut into code, comments and string literals, as far as the house rules need it.

/// What a piece is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PieceKind {
    /// Anything that is neither comment nor string.
    Code,
    /// A comment with its slashes.
    Comment,
    /// The inside of a string literal, escapes left as they are.
    Text,
}

/// A run of characters of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece<'a> {
    /// What it is.
    pub(crate) kind: PieceKind,
    /// Line it begins on, from 1.
    pub(crate) line: usize,
    /// The characters.
    pub(crate) text: &'a str,
}

impl<'a> Piece<'a> {
    /// The lines of the piece with their numbers.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &'a str)> + use<'a> {
        (self.line..).zip(self.text.split('\n'))
    }
}

/// The lines of the pieces of one kind, with their numbers.
pub(crate) fn lines_of(source: &str, kind: PieceKind) -> impl Iterator<Item = (usize, &str)> {
    pieces(source).into_iter().filter(move |piece| piece.kind == kind).flat_map(|piece| piece.lines())
}

/// Cuts `source` into pieces that, quotes aside, follow each other without gaps.
pub(crate) fn pieces(source: &str) -> Vec<Piece<'_>> {
    let mut cutter = Cutter { source, start: 0, line: 1, pieces: Vec::new() };
    let bytes = source.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &source[at..];
        if rest.starts_with("//") {
            let end = at + rest.find('\n').unwrap_or(rest.len());
            at = cutter.cut(at, at, end, end, PieceKind::Comment);
        } else if rest.starts_with("/*") {
            let end = at + block_comment_len(rest);
            at = cutter.cut(at, at, end, end, PieceKind::Comment);
        } else if bytes[at] == b'"' {
            let inside = at + 1;
            let end = inside + plain_text_len(&source[inside..]);
            at = cutter.cut(at, inside, end, (end + 1).min(source.len()), PieceKind::Text);
        } else if let Some(hashes) = raw_text_hashes(rest, source, at) {
            let inside = at + 2 + hashes;
            let close = format!("\"{}", "#".repeat(hashes));
            let len = source[inside..].find(&close).unwrap_or(source.len() - inside);
            let after = (inside + len + close.len()).min(source.len());
            at = cutter.cut(at, inside, inside + len, after, PieceKind::Text);
        } else if bytes[at] == b'\'' {
            at += character_len(rest);
        } else {
            at += 1;
            while !source.is_char_boundary(at) {
                at += 1;
            }
        }
    }
    cutter.cut(source.len(), source.len(), source.len(), source.len(), PieceKind::Code);
    cutter.pieces
}

/// The line on which the tests of a file begin, if it has any: a module with a body. Another item that only tests have may
/// stand anywhere.
pub(crate) fn tests_begin(source: &str) -> Option<usize> {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let is_module = |line: &&str| (line.starts_with("mod ") || line.contains(" mod ")) && line.contains('{');
    let begins = |n: &usize| {
        let item = lines[n + 1..].iter().find(|line| !line.starts_with("#["));
        lines[*n] == "#[cfg(test)]" && item.is_some_and(is_module)
    };
    (0..lines.len()).find(begins).map(|n| n + 1)
}

/// Whether `text` holds `word` with no letter, digit or underscore on either side.
pub(crate) fn has_word(text: &str, word: &str) -> bool {
    let inner = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].chars().next_back().is_some_and(inner) && !text[at + word.len()..].chars().next().is_some_and(inner)
    })
}

struct Cutter<'a> {
    source: &'a str,
    start: usize,
    line: usize,
    pieces: Vec<Piece<'a>>,
}

impl<'a> Cutter<'a> {
    /// Ends the code before `from`, adds `inside..end` as `kind`, and continues at `after`, which it returns.
    fn cut(&mut self, from: usize, inside: usize, end: usize, after: usize, kind: PieceKind) -> usize {
        self.push(self.start, from, PieceKind::Code);
        self.push(inside, end, kind);
        self.start = after;
        after
    }

    fn push(&mut self, from: usize, to: usize, kind: PieceKind) {
        let text = &self.source[from..to];
        if !text.is_empty() {
            let line = self.line;
            self.pieces.push(Piece { kind, line, text });
            self.line += text.matches('\n').count();
        }
    }
}

fn block_comment_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut depth, mut at) = (0usize, 0usize);
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => {
                depth += 1;
                at += 2;
            }
            b"*/" => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    text.len()
}

fn plain_text_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at,
            _ => at += 1,
        }
    }
    text.len()
}

/// The number of hashes when a raw string begins at `rest` with its `r`.
fn raw_text_hashes(rest: &str, source: &str, at: usize) -> Option<usize> {
    let after = rest.strip_prefix('r')?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    if !after[hashes..].starts_with('"') {
        return None;
    }
    let before = source[..at].trim_end_matches(['b', 'c']);
    let in_word = before.chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_');
    (!in_word).then_some(hashes)
}

/// Bytes of a character literal at `rest`, or 1 when the quote begins a lifetime.
fn character_len(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => {
            let from = 3.min(rest.len());
            rest.get(from..).and_then(|tail| tail.find('\'')).map_or(1, |n| from + n + 1)
        }
        Some(_) => match chars.next() {
            Some((at, '\'')) => at + 1,
            _ => 1,
        },
        None => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str, kind: PieceKind) -> Vec<(usize, &str)> {
        pieces(source).into_iter().filter(|piece| piece.kind == kind).map(|piece| (piece.line, piece.text)).collect()
    }

    #[test]
    fn strings_and_comments_are_distinguished() {
        let source = "let a = \"x // no\\\"\"; // yes \"\nlet b = r#\"raw \"q\" /*\"#; /* c /* d */ e */\nlet l: &'a str = br\"t\";";
        assert_eq!(texts(source, PieceKind::Text), [(1, "x // no\\\""), (2, "raw \"q\" /*"), (3, "t")]);
        assert_eq!(texts(source, PieceKind::Comment), [(1, "// yes \""), (2, "/* c /* d */ e */")]);
    }

    #[test]
    fn character_literals_do_not_begin_strings() {
        for source in [
            "let q = '\"'; // c",
            "let q = '\\''; // c",
            "let q = b'\\\\'; // c",
            "let q = '\\u{1F600}'; // c",
            "let q = 'é'; // c",
            "fn f<'a>(x: &'a str) {} // c",
            "var\"\"; // c",
        ] {
            assert_eq!(texts(source, PieceKind::Comment), [(1, "// c")], "{source}");
        }
    }

    #[test]
    fn line_numbers_count_lines_inside_strings_and_comments() {
        let source = "a\n\"b\nc\" /* d\ne */ f\n// g";
        assert_eq!(texts(source, PieceKind::Comment), [(3, "/* d\ne */"), (5, "// g")]);
        assert_eq!(texts(source, PieceKind::Text), [(2, "b\nc")]);
    }

    #[test]
    fn text_without_an_end_does_not_panic() {
        for source in ["\"", "\"\\", "r#\"", "/*", "'", "'\\", "b'", "é\"é"] {
            assert!(pieces(source).len() <= 3, "{source}");
        }
    }

    #[test]
    fn has_word_finds_whole_words_only() {
        assert!(has_word("a word.", "word"));
        assert!(!has_word("words sword word_", "word"));
    }
}
