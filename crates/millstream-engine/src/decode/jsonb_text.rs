//! A document as PostgreSQL prints it once it is jsonb.
//!
//! jsonb orders the members of an object by the length of their names, then by their bytes, keeps the
//! last of several with one name, spells numbers without exponents and strings without needless
//! escapes (`jsonb_out` and `uniqueifyJsonbObject`). The same text means the same jsonb.

use super::number;
use super::text;
use std::cmp::Ordering::Equal;
use std::ops::Range;

/// A writer of jsonb text; it keeps its memory between documents.
#[derive(Debug, Default)]
pub struct JsonbText {
    /// Members of the objects that are open, those of the innermost last.
    members: Vec<Member>,
    /// Names with escapes, taken back; those of the innermost object last.
    names: Vec<u8>,
    /// Where an object is put in order.
    ordered: Vec<u8>,
}

#[derive(Debug, Clone)]
struct Member {
    /// Length of the name and its first eight bytes: decides most comparisons.
    rank: (usize, u64),
    /// Bytes of the document without quotes, or of `names` when the name has escapes.
    name: Range<usize>,
    escaped: bool,
    /// Bytes of what is written.
    value: Range<usize>,
}

/// Bytes of a name that decide most comparisons: those of a `u64`.
const RANK_BYTES: usize = 8;

impl Member {
    fn new(name: Range<usize>, escaped: bool, text: &[u8], value: Range<usize>) -> Self {
        // Names of one length have their first bytes in the same places.
        let first = text[name.clone()].iter().take(RANK_BYTES).fold(0, |first, &byte| first << 8 | u64::from(byte));
        Self { rank: (name.len(), first), name, escaped, value }
    }

    /// Whether a name of the same rank may be another.
    fn is_longer_than_rank(&self) -> bool {
        self.rank.0 > RANK_BYTES
    }
}

impl JsonbText {
    /// Appends the text of a document.
    ///
    /// # Panics
    /// It may, unless the [`Decoder`](super::Decoder) has taken the document.
    pub fn put(&mut self, document: &[u8], out: &mut Vec<u8>) {
        self.value(document, space(document, 0), out);
    }

    /// Appends a value and returns the end of it in the document.
    fn value(&mut self, document: &[u8], at: usize, out: &mut Vec<u8>) -> usize {
        match document.get(at) {
            Some(b'{') => self.object(document, at, out),
            Some(b'[') => self.array(document, at, out),
            Some(b'"') => {
                let (end, escaped) = string(document, at);
                if escaped {
                    let start = self.names.len();
                    text::put_unescaped(&document[at + 1..end - 1], &mut self.names);
                    put_string(&self.names[start..], out);
                    self.names.truncate(start);
                } else {
                    out.extend_from_slice(&document[at..end]);
                }
                end
            }
            Some(b'-' | b'0'..=b'9') => {
                let end = run(document, at, |b| matches!(b, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'));
                number::put_spelling(&document[at..end], out);
                end
            }
            _ => {
                let end = run(document, at, |b| b.is_ascii_lowercase());
                out.extend_from_slice(&document[at..end]);
                end
            }
        }
    }

    fn array(&mut self, document: &[u8], start: usize, out: &mut Vec<u8>) -> usize {
        out.push(b'[');
        let mut at = space(document, start + 1);
        while document.get(at).is_some_and(|&b| b != b']') {
            at = space(document, self.value(document, at, out));
            if document.get(at) == Some(&b',') {
                out.extend_from_slice(b", ");
                at = space(document, at + 1);
            }
        }
        out.push(b']');
        at + 1
    }

    fn object(&mut self, document: &[u8], start: usize, out: &mut Vec<u8>) -> usize {
        let (first, names, text) = (self.members.len(), self.names.len(), out.len());
        let mut at = space(document, start + 1);
        while document.get(at) == Some(&b'"') {
            let (end, escaped) = string(document, at);
            let name = if escaped {
                let from = self.names.len();
                text::put_unescaped(&document[at + 1..end - 1], &mut self.names);
                from..self.names.len()
            } else {
                at + 1..end - 1
            };
            // Past the colon.
            at = space(document, space(document, end) + 1);
            let from = out.len();
            at = space(document, self.value(document, at, out));
            let text = if escaped { &self.names } else { document };
            let member = Member::new(name, escaped, text, from..out.len());
            self.members.push(member);
            if document.get(at) == Some(&b',') {
                at = space(document, at + 1);
            }
        }
        self.put_in_order(document, first, text, out);
        self.members.truncate(first);
        self.names.truncate(names);
        at + 1
    }

    /// Replaces the values from `text` on, which stand in the order of the document, by the object.
    fn put_in_order(&mut self, document: &[u8], first: usize, text: usize, out: &mut Vec<u8>) {
        let Self { members, names, ordered } = self;
        let members = &mut members[first..];
        let name = |m: &Member| if m.escaped { &names[m.name.clone()] } else { &document[m.name.clone()] };
        // Stable, so that the last of a name stays the last.
        members.sort_by(|a, b| match a.rank.cmp(&b.rank) {
            Equal if a.is_longer_than_rank() => name(a).cmp(name(b)),
            order => order,
        });
        ordered.clear();
        ordered.push(b'{');
        for (n, member) in members.iter().enumerate() {
            let same = |next: &Member| {
                next.rank == member.rank && (!member.is_longer_than_rank() || name(next) == name(member))
            };
            if members.get(n + 1).is_some_and(same) {
                continue;
            }
            if ordered.len() > 1 {
                ordered.extend_from_slice(b", ");
            }
            if member.escaped {
                put_string(name(member), ordered);
            } else {
                ordered.extend_from_slice(&document[member.name.start - 1..member.name.end + 1]);
            }
            ordered.extend_from_slice(b": ");
            ordered.extend_from_slice(&out[member.value.clone()]);
        }
        ordered.push(b'}');
        out.truncate(text);
        out.extend_from_slice(ordered);
    }
}

/// The first position from `at` on that is not white space.
fn space(document: &[u8], at: usize) -> usize {
    run(document, at, |b| matches!(b, b' ' | b'\t' | b'\n' | b'\r'))
}

fn run(document: &[u8], mut at: usize, inside: impl Fn(u8) -> bool) -> usize {
    while document.get(at).is_some_and(|&b| inside(b)) {
        at += 1;
    }
    at
}

/// The end of the string that begins at `at`, behind its quote, and whether it has escapes.
fn string(document: &[u8], at: usize) -> (usize, bool) {
    let (mut end, mut escaped) = (at + 1, false);
    while let Some(found) = document.get(end..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        end += found;
        if document[end] == b'"' {
            return (end + 1, escaped);
        }
        escaped = true;
        end += 2;
    }
    (document.len(), escaped)
}

/// A string with the escapes of `escape_json` (json.c), in quotes.
fn put_string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..0x20 => {
                let digit = |n: u8| b"0123456789abcdef"[usize::from(n)];
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 15)]);
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
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
    fn documents_come_out_as_jsonb_prints_them() {
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
