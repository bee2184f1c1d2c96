//! Scans the JSON object around the array of documents, in bounded memory and as strictly as documents are.

use super::extent::{is_space, is_structural, shown};
use crate::limits::{MEMBER_NAME_BYTES_MAX, SKIPPED_NUMBER_BYTES_MAX};
use crate::scan::{self, Flaw};
use millstream_model::limits::NESTING_MAX;

/// Scans an object up to the array at a path, and after the array up to the object's end. Several objects may follow
/// one another. If a member on the path is repeated, on any level, each of them leads to an array, which is read.
///
/// Values off the path are checked too: an array of documents could hide in what only looks like one of them.
#[derive(Debug)]
pub(super) struct Envelope {
    root: Vec<String>,
    state: State,
    /// Objects that are open. All of them are on the path.
    depth: usize,
    /// Whether the innermost of them has led to an array.
    found: bool,
    /// The member's name as it is written, with its quotes. It is cut if it is too long to be on the path.
    name: Vec<u8>,
    /// What is open in a value off the path, outermost first. At most as deep as a document.
    skipped: Vec<Container>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Container {
    Object,
    Array,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Another object, or the end of the source.
    Object,
    NameOrEnd,
    Name,
    InName,
    Colon,
    Value,
    /// The first element of an array off the path, or its end.
    ValueOrEnd,
    /// In a string that is a value off the path.
    InString,
    CommaOrEnd,
}

/// What the scan found in a piece of the envelope.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// So many bytes belong to the envelope. The others must be fed again, with what follows them.
    More(usize),
    /// The array begins after so many bytes.
    Array(usize),
    /// What is wrong at this index.
    Damage(usize, String),
    /// After so many bytes it is clear that the path leads to no array.
    Wrong(usize, String),
}

impl Envelope {
    pub(super) fn new(root: &[String]) -> Self {
        let root = root.to_vec();
        Self { root, state: State::Object, depth: 0, found: false, name: Vec::new(), skipped: Vec::new() }
    }

    /// Whether the source may end here.
    pub(super) fn may_end(&self) -> bool {
        self.state == State::Object
    }

    /// Scans the next piece of the envelope, up to the array.
    pub(super) fn feed(&mut self, piece: &[u8]) -> Shown {
        let mut at = 0;
        while let Some(&byte) = piece.get(at) {
            let rest = &piece[at..];
            let n = match self.state {
                State::InName | State::InString => match scan::text(rest) {
                    Ok((n, closed)) => {
                        self.pass_text(&rest[..n], closed);
                        if !closed {
                            return Shown::More(at + n);
                        }
                        n
                    }
                    Err((n, why)) => return Shown::Damage(at + n, why),
                },
                _ if is_space(byte) => 1,
                State::Value | State::ValueOrEnd if self.is_bare(byte) => {
                    let Some(n) = rest.iter().position(|&b| is_space(b) || is_structural(b)) else {
                        // Memory is bounded. A number that long is none.
                        match rest.len() > SKIPPED_NUMBER_BYTES_MAX {
                            true => return Shown::Damage(at, Flaw::Value.sentence()),
                            false => return Shown::More(at),
                        }
                    };
                    if n > SKIPPED_NUMBER_BYTES_MAX {
                        return Shown::Damage(at, Flaw::Value.sentence());
                    }
                    if let Err((n, why)) = scan::bare(&rest[..n]) {
                        return Shown::Damage(at + n, why);
                    }
                    self.state = State::CommaOrEnd;
                    n
                }
                _ => match self.mark(at, byte) {
                    None => 1,
                    Some(shown) => return shown,
                },
            };
            at += n;
        }
        Shown::More(at)
    }

    /// Passes a part of a string.
    fn pass_text(&mut self, text: &[u8], closed: bool) {
        if self.state == State::InName && self.skipped.is_empty() {
            let room = MEMBER_NAME_BYTES_MAX.saturating_sub(self.name.len());
            self.name.extend_from_slice(&text[..text.len().min(room)]);
        }
        if closed {
            self.state = if self.state == State::InName { State::Colon } else { State::CommaOrEnd };
        }
    }

    /// Whether a value off the path that begins with this byte is neither a string nor a container.
    fn is_bare(&self, byte: u8) -> bool {
        !(is_structural(byte) || self.skipped.is_empty() && self.is_on_path())
    }

    /// Passes a byte with a meaning of its own. Returns what it shows, if the scan stops there.
    fn mark(&mut self, at: usize, byte: u8) -> Option<Shown> {
        let innermost = self.skipped.last().copied();
        match (self.state, byte) {
            (State::Object, b'{') => {
                (self.depth, self.found) = (1, false);
                self.state = State::NameOrEnd;
            }
            (State::NameOrEnd | State::Name, b'"') => {
                self.name.clear();
                self.name.push(byte);
                self.state = State::InName;
            }
            (State::NameOrEnd | State::CommaOrEnd, b'}') if innermost == Some(Container::Object) => self.close(),
            (State::ValueOrEnd | State::CommaOrEnd, b']') if innermost == Some(Container::Array) => self.close(),
            (State::NameOrEnd | State::CommaOrEnd, b'}') if innermost.is_none() => {
                self.depth -= 1;
                if !self.found {
                    return Some(Shown::Wrong(at + 1, "is not there".into()));
                }
                self.state = if self.depth == 0 { State::Object } else { State::CommaOrEnd };
            }
            (State::Colon, b':') => self.state = State::Value,
            (State::CommaOrEnd, b',') if innermost == Some(Container::Array) => self.state = State::Value,
            (State::CommaOrEnd, b',') => self.state = State::Name,
            (State::Value | State::ValueOrEnd, b',' | b':' | b']' | b'}') => {
                let expected = if self.state == State::Value { "a value" } else { "a value or ']'" };
                return Some(unexpected(at, byte, expected));
            }
            (State::Value | State::ValueOrEnd, _) => return self.begin(at, byte),
            (State::Object, _) => return Some(unexpected(at, byte, "a JSON object")),
            (State::NameOrEnd | State::Name, _) => return Some(unexpected(at, byte, "the name of a member")),
            (State::Colon, _) => return Some(unexpected(at, byte, "':'")),
            _ if innermost == Some(Container::Array) => return Some(unexpected(at, byte, "',' or ']'")),
            _ => return Some(unexpected(at, byte, "',' or '}'")),
        }
        None
    }

    /// Ends the innermost container off the path.
    fn close(&mut self) {
        self.skipped.pop();
        self.state = State::CommaOrEnd;
    }

    /// Begins a value with this byte: on the path any, off the path a string or a container.
    fn begin(&mut self, at: usize, byte: u8) -> Option<Shown> {
        if self.skipped.is_empty() && self.is_on_path() {
            let last = self.depth == self.root.len();
            match byte {
                b'[' if last => {
                    self.found = true;
                    self.state = State::CommaOrEnd;
                    return Some(Shown::Array(at + 1));
                }
                b'{' if !last => {
                    (self.depth, self.found) = (self.depth + 1, false);
                    self.state = State::NameOrEnd;
                    return None;
                }
                _ => return Some(Shown::Wrong(at, wrong(byte, last))),
            }
        }
        let (container, state) = match byte {
            b'{' => (Container::Object, State::NameOrEnd),
            b'[' => (Container::Array, State::ValueOrEnd),
            _ => {
                self.state = State::InString;
                return None;
            }
        };
        if self.depth + self.skipped.len() >= NESTING_MAX {
            return Some(Shown::Damage(at, Flaw::TooDeep.sentence()));
        }
        self.skipped.push(container);
        self.state = state;
        None
    }

    /// Whether the current member is the next segment of the path.
    fn is_on_path(&self) -> bool {
        let name = serde_json::from_slice::<String>(&self.name);
        name.is_ok_and(|name| name == self.root[self.depth - 1])
    }
}

fn unexpected(at: usize, byte: u8, expected: &str) -> Shown {
    Shown::Damage(at, format!("found {}, expected {expected}", shown(byte)))
}

fn wrong(first: u8, last: bool) -> String {
    let found = match first {
        b'{' => "an object",
        b'[' => "an array",
        b'"' => "a string",
        b't' | b'f' => "a boolean",
        b'n' => "null",
        _ => "a number",
    };
    let wanted = if last { "an array" } else { "an object with its next segment" };
    format!("leads to {found}, not to {wanted}")
}

#[cfg(test)]
mod tests {
    use super::super::dialect::Dialect;
    use super::super::transcript::{ReadFrame, bad, good, sizes, transcribe};
    use super::super::{Input, SourceError};
    use super::*;
    use fastrand::Rng;
    use millstream_model::Reason::DamagedSource;
    use millstream_testkit::Cases;
    use millstream_testkit::Pieces;

    fn read(root: &str, text: &str, rng: &mut Rng) -> Result<Vec<ReadFrame>, SourceError> {
        read_bytes(root, text.as_bytes(), rng)
    }

    fn read_bytes(root: &str, text: &[u8], rng: &mut Rng) -> Result<Vec<ReadFrame>, SourceError> {
        let largest = *rng.choice(&[1, 7, 5000]).unwrap();
        let input = Input::from_reader(Box::new(Pieces::new(text, largest, rng)), "test", None)?;
        let mut options = sizes(*rng.choice(&[1, 3, 16, 1000]).unwrap(), 100);
        let root = root.split('.').map(str::to_owned).collect();
        options.dialect = Dialect { root, ..Dialect::default() };
        let format = *rng.choice(&["json", "auto"]).unwrap();
        transcribe(input, format, text, &options)
    }

    #[test]
    fn documents_of_an_envelope_are_read_for_any_chunking() {
        for (root, text, expected) in [
            ("a", "", vec![]),
            ("a", "{\"a\":[]}", vec![]),
            ("a", "{\"a\":[{}, {\"b\":2}]}\n", vec![good(6, 1, "{}"), good(10, 1, "{\"b\":2}")]),
            ("d.i", "{\"n\":1,\"d\":{\"x\":[{\"i\":[5]}],\"i\":[{}]},\"z\":null}", vec![good(33, 1, "{}")]),
            ("a", "{\"b\":{\"a\":[1]},\n\"\\u0061\": [\n{}],\"a\":[3]}", vec![good(28, 3, "{}"), good(37, 3, "3")]),
            (
                "f.e",
                "{\"f\":{\"e\":[1],\"x\":1,\"e\":[3]},\"e\":[0],\"f\":{\"e\":[],\"f\":{\"e\":[9]}},\"f\":{\"e\":[5]}}",
                vec![good(11, 1, "1"), good(25, 1, "3"), good(74, 1, "5")],
            ),
            ("a", "{\"a\":[{}],\"next\":2}\n{\"a\":[{}]}", vec![good(6, 1, "{}"), good(26, 2, "{}")]),
        ] {
            for mut rng in Cases::new(30) {
                assert_eq!(read(root, text, &mut rng).unwrap(), expected, "{text}");
            }
        }
    }

    #[test]
    fn a_missing_array_is_an_error_and_damage_is_reported() {
        for (root, text, part) in [
            ("a", "{}", "is not there"),
            ("a.b", "{\"a\":{\"c\":1},\"b\":[]}", "is not there"),
            ("a", "{\"a\":{\"b\":[]}}", "leads to an object, not to an array"),
            ("a.b", "{\"a\":[{\"b\":[]}]}", "leads to an array, not to an object"),
            ("a", "{\"a\":null}", "null"),
            ("a", "{\"a\":[{}],\"a\":null}", "leads to null, not to an array"),
            ("a.b", "{\"a\":{\"b\":[{}]},\"a\":{\"c\":1}}", "is not there"),
            ("a.b", "{\"a\":{\"b\":[{}]},\"a\":[]}", "leads to an array, not to an object"),
            ("a", "{\"a\":[{}]}{\"b\":[{}]}", "is not there"),
        ] {
            for mut rng in Cases::new(20) {
                let error = read(root, text, &mut rng).unwrap_err();
                assert!(matches!(error, SourceError::Root { .. }), "{error}");
                assert!(error.to_string().contains(part) && error.to_string().contains(root), "{error}");
            }
        }
        for (text, expected) in [
            ("{\"a\":[{}", vec![good(6, 1, "{}"), bad(8, 1, "", DamagedSource)]),
            ("{\"a\":[{}]", vec![good(6, 1, "{}"), bad(9, 1, "", DamagedSource)]),
            ("{\"a\":[{}],\"b", vec![good(6, 1, "{}"), bad(12, 1, "", DamagedSource)]),
            ("{\"a\":[{}]}x", vec![good(6, 1, "{}"), bad(10, 1, "x", DamagedSource)]),
            ("{\"a\":[{}] 1}", vec![good(6, 1, "{}"), bad(10, 1, "1}", DamagedSource)]),
            ("[{}]", vec![bad(0, 1, "[{}]", DamagedSource)]),
        ] {
            for mut rng in Cases::new(20) {
                assert_eq!(read("a", text, &mut rng).unwrap(), expected, "{text}");
            }
        }
    }

    #[test]
    fn what_is_skipped_is_read_as_strictly_as_documents() {
        let deep = |levels: usize| ["[".repeat(levels), "]".repeat(levels)].concat();
        let (allowed, too_deep) = (deep(NESTING_MAX - 1), deep(NESTING_MAX));
        for value in [
            &b"{\"a\":[1,{\"b\":[]}],\"c\":{}}"[..],
            b"[ ]",
            b"[1 , -0.5e+7,true,false,null,\"\"]",
            // Not stored, so what jsonb cannot hold does not matter.
            b"\"\\u0000\\ud800 \xf0\x9f\x98\x80 ]}\\\"[{\"",
            b"1e99999",
            allowed.as_bytes(),
        ] {
            let around = [b"{\"m\":", value, b",\"a\":[{}],\"n\":", value, b"}"].concat();
            let found = good(value.len() as u64 + 11, 1, "{}");
            for mut rng in Cases::new(20) {
                assert_eq!(
                    read_bytes("a", &around, &mut rng).unwrap(),
                    std::slice::from_ref(&found),
                    "{}",
                    value.escape_ascii()
                );
            }
        }
        for (value, at) in [
            (&b"{bad}"[..], 1),
            (b"nope", 0),
            (b"{'\"':1}", 1),
            (b"\"a\nb\"", 2),
            (b"\"\\q\"", 2),
            (b"\"\0\"", 1),
            (b"\"a\xff\"", 2),
            (b"\"\xc3\"", 1),
            (b"{\"\xff\":1}", 2),
            (b"01", 0),
            (b"-", 1),
            (b"1.e5", 2),
            (b"+1", 0),
            (b"truex", 4),
            (b"NaN", 0),
            (b"\0", 0),
            (b"[1 2]", 3),
            (b"[1,]", 3),
            (b"[,1]", 1),
            (b"[1}", 2),
            (b"{\"b\":1,}", 7),
            (b"{\"b\" 1}", 5),
            (b"{\"b\":}", 5),
            (b"{\"b\":1]", 6),
            (b"{1:2}", 1),
            (too_deep.as_bytes(), NESTING_MAX - 1),
        ] {
            let before = [b"{\"m\":", value, b",\"a\":[{}]}"].concat();
            let after = [b"{\"a\":[{}],\"n\":", value, b"}"].concat();
            for (text, begin, documents) in [(before, 5, 0), (after, 14, 1)] {
                for mut rng in Cases::new(20) {
                    let got = read_bytes("a", &text, &mut rng).unwrap();
                    let (damage, read) = got.split_last().unwrap();
                    let found = (read.len(), damage.offset, damage.unreadable);
                    let expected = (documents, (begin + at) as u64, Some((DamagedSource, None)));
                    assert_eq!(found, expected, "{}", text.escape_ascii());
                }
            }
        }
    }

    #[test]
    fn skipped_values_of_any_length_pass_in_bounded_memory() {
        let (text, number) = ("x\\u00e9é".repeat(200_000), "7".repeat(2 * SKIPPED_NUMBER_BYTES_MAX));
        let around = |value: &str| format!("{{\"m\":[{value}],\"a\":[{{}}]}}");
        let held = |text: &str| {
            let pieces = Pieces::new(text.as_bytes(), 5000, &mut Rng::new());
            let mut options = sizes(1000, 100);
            options.dialect = Dialect { root: vec!["a".into()], ..Dialect::default() };
            let input = Input::from_reader(Box::new(pieces), "test", None).unwrap();
            transcribe(input, "json", text.as_bytes(), &options).unwrap()
        };
        let whole = around(&format!("\"{text}\",{{\"{text}\":0}}"));
        assert_eq!(held(&whole), [good(whole.len() as u64 - 4, 1, "{}")]);
        let endless = held(&around(&number));
        assert_eq!((endless.len(), endless[0].offset), (1, 6));
    }
}
