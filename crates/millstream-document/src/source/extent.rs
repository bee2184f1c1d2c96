//! Finds the end of a JSON value, piece by piece, without recursion and without validating it.

use crate::limits::BRACKETS_CHECKED_MAX;
use memchr::memchr2;

/// Scans one value from its first byte to its last.
#[derive(Debug, Clone)]
pub(super) struct Extent {
    kind: ExtentKind,
    depth: usize,
    /// A bit for each of the outer levels: whether its bracket is a square one.
    square: [u64; BRACKETS_CHECKED_MAX / 64],
    in_text: bool,
    escaped: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExtentKind {
    /// An object or an array.
    Nested,
    /// A string.
    Text,
    /// Anything else. Only the byte after it shows that it has ended.
    Bare,
}

/// What the scan found in a piece of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    /// The value continues.
    More,
    /// The value ends after so many bytes of the piece.
    End(usize),
    /// The byte at this index closes a bracket of the other kind.
    Mismatch(usize),
}

impl Extent {
    /// Begins a value with this first byte. The caller feeds that byte too.
    pub(super) fn new(first: u8) -> Self {
        let kind = match first {
            b'{' | b'[' => ExtentKind::Nested,
            b'"' => ExtentKind::Text,
            _ => ExtentKind::Bare,
        };
        Self { kind, depth: 0, square: [0; BRACKETS_CHECKED_MAX / 64], in_text: false, escaped: false }
    }

    /// Whether only the byte after the value shows that it has ended.
    pub(super) fn is_bare(&self) -> bool {
        self.kind == ExtentKind::Bare
    }

    /// Scans the next piece of the value. Must not be called after its end.
    pub(super) fn feed(&mut self, piece: &[u8]) -> Piece {
        if self.kind == ExtentKind::Bare {
            let end = piece.iter().position(|&b| is_space(b) || is_structural(b));
            return end.map_or(Piece::More, Piece::End);
        }
        let mut at = 0;
        while at < piece.len() {
            if self.in_text {
                at += self.text(&piece[at..]);
                if !self.in_text && self.depth == 0 {
                    return Piece::End(at);
                }
                continue;
            }
            let byte = piece[at];
            match byte {
                b'"' => self.in_text = true,
                b'{' | b'[' => self.open(byte == b'['),
                b'}' | b']' => {
                    if !self.close(byte == b']') {
                        return Piece::Mismatch(at);
                    }
                    if self.depth == 0 {
                        return Piece::End(at + 1);
                    }
                }
                _ => {}
            }
            at += 1;
        }
        Piece::More
    }

    /// Scans a string up to its closing quote. Returns how many bytes belong to it.
    fn text(&mut self, piece: &[u8]) -> usize {
        let mut at = usize::from(std::mem::take(&mut self.escaped));
        while let Some(n) = memchr2(b'"', b'\\', &piece[at.min(piece.len())..]) {
            at += n + 1;
            if piece[at - 1] == b'"' {
                self.in_text = false;
                return at;
            }
            if at == piece.len() {
                self.escaped = true;
                return at;
            }
            at += 1;
        }
        piece.len()
    }

    fn open(&mut self, square: bool) {
        if let Some(levels) = self.square.get_mut(self.depth / 64) {
            let bit = 1 << (self.depth % 64);
            *levels = if square { *levels | bit } else { *levels & !bit };
        }
        self.depth += 1;
    }

    fn close(&mut self, square: bool) -> bool {
        self.depth -= 1;
        let levels = self.square.get(self.depth / 64);
        levels.is_none_or(|levels| (levels >> (self.depth % 64) & 1 == 1) == square)
    }
}

/// White space between values (RFC 8259, 2).
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Bytes with a meaning between values.
pub(super) fn is_structural(byte: u8) -> bool {
    matches!(byte, b',' | b':' | b'"' | b'[' | b']' | b'{' | b'}')
}

/// A byte, as messages show it.
pub(super) fn shown(byte: u8) -> String {
    match byte {
        _ if byte.is_ascii_graphic() => format!("'{}'", char::from(byte)),
        0xef => "byte 0xef (as a byte order mark begins, which a joined file may have)".into(),
        _ => format!("byte 0x{byte:02x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_testkit::Cases;

    fn extent(pieces: &[&[u8]]) -> Piece {
        let mut extent = Extent::new(pieces[0][0]);
        let mut before = 0;
        for piece in pieces {
            match extent.feed(piece) {
                Piece::More => before += piece.len(),
                Piece::End(n) => return Piece::End(before + n),
                Piece::Mismatch(n) => return Piece::Mismatch(before + n),
            }
        }
        Piece::More
    }

    #[test]
    fn the_end_of_a_value_is_found() {
        for (text, expected) in [
            (r#"{} {}"#, Piece::End(2)),
            (r#"{"a":"}]\"{"},"#, Piece::End(13)),
            (r#"{"a\\":[{}]}x"#, Piece::End(12)),
            (r#""a\"b" "#, Piece::End(6)),
            (r#"12,"#, Piece::End(2)),
            (r#"tru"#, Piece::More),
            (r#"{"a":[1}"#, Piece::Mismatch(7)),
            (r#"["]"#, Piece::More),
        ] {
            assert_eq!(extent(&[text.as_bytes()]), expected, "{text}");
            let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
            assert_eq!(extent(&bytes), expected, "{text} byte by byte");
        }
    }

    #[test]
    fn deep_nesting_uses_no_stack() {
        let mut extent = Extent::new(b'[');
        let deep = vec![b'['; 1 << 20];
        assert_eq!(extent.feed(&deep), Piece::More);
        assert_eq!(extent.feed(&vec![b']'; 1 << 20]), Piece::End(1 << 20));
    }

    #[test]
    fn extents_are_the_same_for_any_chunking() {
        for mut rng in Cases::new(2000) {
            let mut text = vec![*rng.choice(b"{[\"1").unwrap()];
            text.extend((0..rng.usize(0..40)).map(|_| *rng.choice(b"{}[]\"\\, 1").unwrap()));
            let largest = rng.usize(1..6);
            let (mut pieces, mut rest) = (Vec::new(), &text[..]);
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(rng.usize(1..=largest).min(rest.len()));
                pieces.push(piece);
                rest = after;
            }
            assert_eq!(extent(&pieces), extent(&[&text]), "{pieces:?}");
        }
    }
}
