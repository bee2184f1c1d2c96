//! A document as PostgreSQL prints it once it is jsonb.
//!
//! jsonb orders the members of an object by the length of their names, then by their bytes, keeps the
//! last of several with one name, spells numbers without exponents and strings without needless
//! escapes (`jsonb_out` and `uniqueifyJsonbObject`). The same text means the same jsonb.

use super::text;
use crate::json_string::put_string;
use crate::scan::{Scanner, number};
use std::cmp::Ordering::Equal;
use std::ops::Range;

/// A writer of jsonb text; it keeps its memory between documents.
#[derive(Debug, Default)]
pub struct JsonbText {
    /// Members of the objects that are open, those of the innermost last.
    members: Vec<Member>,
    /// Names that had escapes, unescaped; those of the innermost object last.
    names: Vec<u8>,
}

#[derive(Debug, Clone)]
struct Member {
    /// Length of the name and its first eight bytes: decides most comparisons.
    rank: (usize, u64),
    /// Bytes of the document without quotes, or of `names` when the name has escapes.
    name: Range<usize>,
    escaped: bool,
    value: Value,
}

#[derive(Debug, Clone)]
enum Value {
    /// Bytes of the document, which jsonb spells in the same way.
    Document(Range<usize>),
    /// Bytes of the output.
    Written(Range<usize>),
}

/// Bytes of a name that decide most comparisons: those of a `u64`.
const RANK_BYTES: usize = 8;

impl Member {
    fn new(name: Range<usize>, escaped: bool, text: &[u8], value: Value) -> Self {
        // Names of one length have their first bytes in the same places.
        let first = text[name.clone()].iter().take(RANK_BYTES).fold(0, |first, &byte| first << 8 | u64::from(byte));
        Self { rank: (name.len(), first), name, escaped, value }
    }

    /// Whether different names may have the same rank.
    fn is_longer_than_rank(&self) -> bool {
        self.rank.0 > RANK_BYTES
    }
}

impl JsonbText {
    /// Appends the text of a document.
    ///
    /// # Panics
    /// It may, unless the [`Decoder`](super::Decoder) has accepted the document.
    pub fn put(&mut self, document: &[u8], out: &mut Vec<u8>) {
        let scan = &mut Scanner::new(document);
        self.put_value(scan, scan.space(0), out);
    }

    /// Appends a value and returns the end of it in the document.
    fn put_value(&mut self, scan: &mut Scanner<'_>, at: usize, out: &mut Vec<u8>) -> usize {
        let (end, alike) = self.value(scan, at, out);
        if alike {
            out.extend_from_slice(&scan.document[at..end]);
        }
        end
    }

    /// The end of a value in the document, and whether jsonb spells it in the same way. If so, it is not appended.
    fn value(&mut self, scan: &mut Scanner<'_>, at: usize, out: &mut Vec<u8>) -> (usize, bool) {
        match scan.byte(at) {
            Some(b'{') => (self.object(scan, at, out), false),
            Some(b'[') => (self.array(scan, at, out), false),
            _ => {
                let (end, alike) = scalar(scan, at);
                if !alike {
                    self.put_scalar(&scan.document[at..end], out);
                }
                (end, alike)
            }
        }
    }

    /// Appends a string with escapes, or a number.
    fn put_scalar(&mut self, value: &[u8], out: &mut Vec<u8>) {
        let [b'"', escaped @ .., b'"'] = value else { return number::put_spelling(value, out) };
        let start = self.names.len();
        text::put_unescaped(escaped, &mut self.names);
        put_string(as_text(&self.names[start..]), out);
        self.names.truncate(start);
    }

    fn array(&mut self, scan: &mut Scanner<'_>, start: usize, out: &mut Vec<u8>) -> usize {
        out.push(b'[');
        let mut at = scan.space(start + 1);
        while scan.byte(at).is_some_and(|b| b != b']') {
            let end = self.put_value(scan, at, out);
            at = scan.space(end);
            if scan.byte(at) == Some(b',') {
                out.extend_from_slice(b", ");
                at = scan.space(at + 1);
            }
        }
        out.push(b']');
        at + 1
    }

    fn object(&mut self, scan: &mut Scanner<'_>, start: usize, out: &mut Vec<u8>) -> usize {
        let (first, names, text) = (self.members.len(), self.names.len(), out.len());
        let mut at = scan.space(start + 1);
        while scan.byte(at) == Some(b'"') {
            let (end, escaped) = string(scan, at);
            let name = if escaped {
                let from = self.names.len();
                text::put_unescaped(&scan.document[at + 1..end - 1], &mut self.names);
                from..self.names.len()
            } else {
                at + 1..end - 1
            };
            // Past the colon.
            at = scan.space(scan.space(end) + 1);
            let from = out.len();
            let (end, alike) = self.value(scan, at, out);
            let value = if alike { Value::Document(at..end) } else { Value::Written(from..out.len()) };
            let text = if escaped { self.names.as_slice() } else { scan.document };
            let member = Member::new(name, escaped, text, value);
            self.members.push(member);
            at = scan.space(end);
            if scan.byte(at) == Some(b',') {
                at = scan.space(at + 1);
            }
        }
        self.put_in_order(scan.document, first, text, out);
        self.members.truncate(first);
        self.names.truncate(names);
        at + 1
    }

    /// Replaces the output from `text` on, which holds the values in the order of the document, by the object.
    fn put_in_order(&mut self, document: &[u8], first: usize, text: usize, out: &mut Vec<u8>) {
        let Self { members, names } = self;
        let members = &mut members[first..];
        let name = |m: &Member| if m.escaped { &names[m.name.clone()] } else { &document[m.name.clone()] };
        // A stable sort, so that the last member of a name stays the last.
        members.sort_by(|a, b| match a.rank.cmp(&b.rank) {
            Equal if a.is_longer_than_rank() => name(a).cmp(name(b)),
            order => order,
        });
        let start = out.len();
        out.push(b'{');
        for (n, member) in members.iter().enumerate() {
            let same = |next: &Member| {
                next.rank == member.rank && (!member.is_longer_than_rank() || name(next) == name(member))
            };
            if members.get(n + 1).is_some_and(same) {
                continue;
            }
            if out.len() > start + 1 {
                out.extend_from_slice(b", ");
            }
            if member.escaped {
                put_string(as_text(name(member)), out);
            } else {
                out.extend_from_slice(&document[member.name.start - 1..member.name.end + 1]);
            }
            out.extend_from_slice(b": ");
            match &member.value {
                Value::Document(value) => out.extend_from_slice(&document[value.clone()]),
                Value::Written(value) => out.extend_from_within(value.clone()),
            }
        }
        out.push(b'}');
        out.drain(text..start);
    }
}

/// The end of the scalar at `at`, and whether jsonb spells it as the document does.
#[inline]
fn scalar(scan: &mut Scanner<'_>, at: usize) -> (usize, bool) {
    match scan.byte(at) {
        Some(b'"') => {
            let (end, escaped) = string(scan, at);
            (end, !escaped)
        }
        Some(b'-' | b'0'..=b'9') => {
            let plain = run(scan.document, at, |b| matches!(b, b'0'..=b'9' | b'.'));
            let end = run(scan.document, plain, |b| matches!(b, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'));
            (end, end == plain)
        }
        _ => (run(scan.document, at, |b| b.is_ascii_lowercase()), true),
    }
}

fn run(document: &[u8], mut at: usize, inside: impl Fn(u8) -> bool) -> usize {
    while document.get(at).is_some_and(|&b| inside(b)) {
        at += 1;
    }
    at
}

/// The end of the string that begins at `at`, after its closing quote, and whether it has escapes.
#[inline]
fn string(scan: &mut Scanner<'_>, at: usize) -> (usize, bool) {
    let before = scan.escaped_strings;
    let end = scan.string(at).unwrap_or(scan.document.len());
    (end, scan.escaped_strings > before)
}

/// A string of the document, or a part of one.
fn as_text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("a decoder has judged the string")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jsonb(document: &str) -> String {
        let mut out = Vec::new();
        JsonbText::default().put(document.as_bytes(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn documents_print_like_jsonb() {
        for (document, text) in [
            ("{}", "{}"),
            (" { } ", "{}"),
            (r#"{"b":1,"a":2,"aa":3}"#, r#"{"a": 2, "b": 1, "aa": 3}"#),
            (r#"{"a":1,"a":{"x":[]},"b":null,"a" : true}"#, r#"{"a": true, "b": null}"#),
            (r#"{"a":[1 , {"c":{},"b":[ ]} ,"x"]}"#, r#"{"a": [1, {"b": [], "c": {}}, "x"]}"#),
            (r#"{"\u0061":"\u0062\/\"\\\n\u0001é\ud83d\ude00"}"#, r#"{"a": "b/\"\\\n\u0001é😀"}"#),
            (r#"{"a":1,"\u0061":2}"#, r#"{"a": 2}"#),
            (
                r#"{"abcdefghB":1,"abcdefghA":2,"abcdefgh":3,"abcdefghB":4}"#,
                r#"{"abcdefgh": 3, "abcdefghA": 2, "abcdefghB": 4}"#,
            ),
            (
                r#"{"q\"":1,"n":-0,"m":-0.0,"e":1.5e3,"f":12E-1}"#,
                r#"{"e": 1500, "f": 1.2, "m": 0.0, "n": 0, "q\"": 1}"#,
            ),
        ] {
            assert_eq!(jsonb(document), text, "{document}");
        }
    }
}
