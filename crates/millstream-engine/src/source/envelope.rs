//! Scans the JSON object around the array of documents, byte by byte, in bounded memory.

use super::extent::{Extent, Piece, is_space};
use crate::limits::MEMBER_NAME_BYTES_MAX;

/// Scans an object up to the array at a path, and after the array up to the object's end. Several objects may follow
/// one another. If a member on the path is repeated, on any level, each of them leads to an array, which is read.
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
}

#[derive(Debug)]
enum State {
    /// Another object, or the end of the source.
    Object,
    NameOrEnd,
    Name,
    InName(Extent),
    Colon,
    Value,
    /// In a value off the path.
    Skip(Extent),
    CommaOrEnd,
}

/// What the scan found in a piece of the envelope.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// All of it belongs to the envelope.
    More,
    /// The array begins after so many bytes.
    Array(usize),
    /// The byte at this index is not what the text says is expected.
    Damage(usize, &'static str),
    /// After so many bytes it is clear that the path leads to no array.
    Wrong(usize, String),
}

impl Envelope {
    pub(super) fn new(root: &[String]) -> Self {
        Self { root: root.to_vec(), state: State::Object, depth: 0, found: false, name: Vec::new() }
    }

    /// Whether the source may end here.
    pub(super) fn may_end(&self) -> bool {
        matches!(self.state, State::Object)
    }

    /// Scans the next piece of the envelope, up to the array.
    pub(super) fn feed(&mut self, piece: &[u8]) -> Shown {
        let mut at = 0;
        while at < piece.len() {
            match &mut self.state {
                State::InName(extent) => {
                    let n = match extent.feed(&piece[at..]) {
                        Piece::End(n) => {
                            self.state = State::Colon;
                            n
                        }
                        _ => piece.len() - at,
                    };
                    let room = MEMBER_NAME_BYTES_MAX.saturating_sub(self.name.len());
                    self.name.extend_from_slice(&piece[at..at + n.min(room)]);
                    at += n;
                    continue;
                }
                State::Skip(extent) => {
                    match extent.feed(&piece[at..]) {
                        Piece::More => return Shown::More,
                        Piece::End(n) => at += n,
                        Piece::Mismatch(n) => return Shown::Damage(at + n, "a bracket of the other kind"),
                    }
                    self.state = State::CommaOrEnd;
                    continue;
                }
                _ => {}
            }
            let byte = piece[at];
            if is_space(byte) {
                at += 1;
                continue;
            }
            match (&self.state, byte) {
                (State::Object, b'{') => {
                    (self.depth, self.found) = (1, false);
                    self.state = State::NameOrEnd;
                }
                (State::NameOrEnd | State::Name, b'"') => {
                    self.name.clear();
                    self.state = State::InName(Extent::new(byte));
                    continue;
                }
                (State::NameOrEnd | State::CommaOrEnd, b'}') => {
                    self.depth -= 1;
                    if !self.found {
                        return Shown::Wrong(at + 1, "is not there".into());
                    }
                    self.state = if self.depth == 0 { State::Object } else { State::CommaOrEnd };
                }
                (State::Colon, b':') => self.state = State::Value,
                (State::CommaOrEnd, b',') => self.state = State::Name,
                (State::Value, b',' | b':' | b']' | b'}') => return Shown::Damage(at, "a value"),
                (State::Value, _) if !self.is_on_path() => {
                    self.state = State::Skip(Extent::new(byte));
                    continue;
                }
                (State::Value, _) => {
                    let last = self.depth == self.root.len();
                    match byte {
                        b'[' if last => {
                            self.found = true;
                            self.state = State::CommaOrEnd;
                            return Shown::Array(at + 1);
                        }
                        b'{' if !last => {
                            (self.depth, self.found) = (self.depth + 1, false);
                            self.state = State::NameOrEnd;
                        }
                        _ => return Shown::Wrong(at, wrong(byte, last)),
                    }
                }
                (State::Object, _) => return Shown::Damage(at, "a JSON object"),
                (State::NameOrEnd | State::Name, _) => return Shown::Damage(at, "the name of a member"),
                (State::Colon, _) => return Shown::Damage(at, "':'"),
                _ => return Shown::Damage(at, "',' or '}'"),
            }
            at += 1;
        }
        Shown::More
    }

    /// Whether the current member is the next segment of the path.
    fn is_on_path(&self) -> bool {
        let name = serde_json::from_slice::<String>(&self.name);
        name.is_ok_and(|name| name == self.root[self.depth - 1])
    }
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
    use fastrand::Rng;
    use millstream_model::Reason::DamagedSource;
    use millstream_testkit::Cases;
    use millstream_testkit::Pieces;

    fn read(root: &str, text: &str, rng: &mut Rng) -> Result<Vec<ReadFrame>, SourceError> {
        let largest = *rng.choice(&[1, 7, 5000]).unwrap();
        let input = Input::from_reader(Box::new(Pieces::new(text.as_bytes(), largest, rng)), "test", None)?;
        let mut options = sizes(*rng.choice(&[1, 3, 16, 1000]).unwrap(), 100);
        let root = root.split('.').map(str::to_owned).collect();
        options.dialect = Dialect { root, ..Dialect::default() };
        let format = *rng.choice(&["json", "auto"]).unwrap();
        transcribe(input, format, text.as_bytes(), &options)
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
}
