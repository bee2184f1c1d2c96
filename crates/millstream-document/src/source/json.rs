//! Reads documents that are the elements of JSON arrays, or values one after another, on any lines.

use super::clip::Clip;
use super::envelope::{Envelope, Shown};
use super::extent::{Extent, Piece, is_space, shown};
use super::window::{HashedPosition, Window, index};
use super::{Format, Source, SourceError, Takes};
use crate::chunk::{Chunk, Frame};
use crate::limits::DAMAGE_BYTES_MAX;
use millstream_input::End;
use std::ops::Range;

/// The format's entry in the list.
pub(super) const FORMAT: Format = Format {
    name: "json",
    about: "JSON arrays of objects, or objects one after another; may be pretty-printed",
    takes: &[Takes::Root],
    made: None,
    open: |window| Ok(Box::new(Json::new(window))),
};

/// Values of a source, found by their brackets and quotes. The decoder validates them.
struct Json {
    window: Window,
    document_bytes_max: usize,
    expected: Expected,
    /// First byte of the window that was not scanned yet.
    at: usize,
    /// The value that is being scanned.
    value: Option<Value>,
    /// The object around the array, if there is one.
    envelope: Option<Envelope>,
    /// What was found after values which must be handed out first.
    found: Option<Step>,
    done: bool,
}

struct Value {
    start: usize,
    extent: Extent,
    ended: bool,
}

/// What may come next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// The object around the array, or its rest after the array.
    Envelope,
    /// An array or the first of a sequence of values.
    Anything,
    /// Another value of a sequence.
    NextInSequence,
    ElementOrEnd,
    Element,
    CommaOrEnd,
    /// Another array, or nothing: the array is closed.
    NextArray,
}

/// What comes next in the window.
enum Step {
    /// A whole value.
    Value(Range<usize>),
    /// A value that is longer than the limit. Its end may not be in the window.
    TooLong,
    /// All bytes are scanned; more are needed.
    More,
    /// It ends the source.
    Damage(String),
    Refused(SourceError),
}

impl Json {
    fn new(window: Window) -> Self {
        let root = &window.options().dialect.root;
        let envelope = (!root.is_empty()).then(|| Envelope::new(root));
        Self {
            document_bytes_max: window.options().document_bytes_max,
            window,
            expected: if envelope.is_some() { Expected::Envelope } else { Expected::Anything },
            envelope,
            at: 0,
            value: None,
            found: None,
            done: false,
        }
    }

    fn step(&mut self) -> Step {
        if let Some(step) = self.found.take() {
            return step;
        }
        if self.value.is_some() {
            return self.follow();
        }
        if let Some(step) = self.follow_envelope() {
            return step;
        }
        while let Some(&byte) = self.window.bytes().get(self.at) {
            if is_space(byte) {
                self.at += 1;
                continue;
            }
            match (self.expected, byte) {
                (Expected::Anything | Expected::NextArray, b'[') => self.expected = Expected::ElementOrEnd,
                (Expected::ElementOrEnd | Expected::CommaOrEnd, b']') if self.envelope.is_some() => {
                    self.at += 1;
                    self.expected = Expected::Envelope;
                    match self.follow_envelope() {
                        Some(step) => return step,
                        None => continue,
                    }
                }
                (Expected::ElementOrEnd | Expected::CommaOrEnd, b']') => self.expected = Expected::NextArray,
                (Expected::CommaOrEnd, b',') => self.expected = Expected::Element,
                (Expected::CommaOrEnd | Expected::NextArray, _) | (_, b',' | b':' | b']' | b'}') => {
                    return Step::Damage(self.expected.but_found(byte));
                }
                _ => return self.begin(byte),
            }
            self.at += 1;
        }
        Step::More
    }

    /// Scans the envelope up to its array, if the envelope comes next. `None` when the array begins or something else
    /// comes next.
    fn follow_envelope(&mut self) -> Option<Step> {
        let envelope = self.envelope.as_mut().filter(|_| self.expected == Expected::Envelope)?;
        match envelope.feed(&self.window.bytes()[self.at..]) {
            Shown::More(n) => {
                self.at += n;
                Some(Step::More)
            }
            Shown::Array(n) => {
                self.at += n;
                self.expected = Expected::ElementOrEnd;
                None
            }
            Shown::Damage(n, why) => {
                self.at += n;
                Some(Step::Damage(why))
            }
            Shown::Wrong(n, problem) => {
                self.at += n;
                let (name, root) = (self.window.name().into(), self.window.options().dialect.root_text());
                Some(Step::Refused(SourceError::Root { name, root, problem }))
            }
        }
    }

    fn begin(&mut self, first: u8) -> Step {
        self.expected = match self.expected {
            Expected::Anything | Expected::NextInSequence => Expected::NextInSequence,
            _ => Expected::CommaOrEnd,
        };
        self.value = Some(Value { start: self.at, extent: Extent::new(first), ended: false });
        self.follow()
    }

    /// Scans the value up to its end, or to one byte more than the limit.
    fn follow(&mut self) -> Step {
        let value = self.value.as_mut().expect("only called with one");
        let bytes = self.window.bytes();
        let limit = bytes.len().min(value.start.saturating_add(self.document_bytes_max + 1));
        if !value.ended && self.at < limit {
            match value.extent.feed(&bytes[self.at..limit]) {
                Piece::More => self.at = limit,
                Piece::End(n) => {
                    self.at += n;
                    value.ended = true;
                }
                Piece::Mismatch(n) => {
                    self.at += n + 1;
                    let why = mismatch(bytes[self.at - 1], self.window.offset() + self.at as u64 - 1);
                    return Step::Damage(why);
                }
            }
        }
        let found = value.start..self.at;
        if found.len() > self.document_bytes_max {
            return Step::TooLong;
        }
        if !value.ended {
            return Step::More;
        }
        self.value = None;
        Step::Value(found)
    }

    /// First byte of the window that is still needed.
    fn needed_from(&self) -> usize {
        self.value.as_ref().map_or(self.at, |v| v.start)
    }

    /// Takes what is no longer needed.
    fn take_done(&mut self) -> Result<bytes::Bytes, SourceError> {
        self.take(self.needed_from())
    }

    fn take(&mut self, n: usize) -> Result<bytes::Bytes, SourceError> {
        self.at -= n;
        if let Some(value) = &mut self.value {
            value.start -= n;
        }
        self.window.take(n)
    }

    fn chunk(&mut self, values: Vec<Range<usize>>) -> Result<Chunk, SourceError> {
        let base = self.window.offset();
        let frame = |value: Range<usize>| Frame {
            start: index(value.start),
            len: index(value.len()),
            offset: base + value.start as u64,
            line: 0,
            unreadable: None,
        };
        let end = values.last().map_or(0, |last| last.end);
        let mut frames: Vec<Frame> = values.into_iter().map(frame).collect();
        self.window.number(&mut frames);
        // Not beyond the last value: the bytes after it may be damage that the user mends.
        let bytes = self.take(end)?;
        self.window.chunk(bytes, frames)
    }

    /// Takes the value that is too long, in bounded memory.
    fn long_value(&mut self) -> Result<Chunk, SourceError> {
        self.take_done()?;
        let begin = self.window.place();
        let mut value = self.value.take().expect("it is the one that is too long");
        let mut clip = Clip::default();
        loop {
            clip.push(&self.window.bytes()[..self.at]);
            self.window.take(std::mem::take(&mut self.at))?;
            if value.ended {
                return self.window.too_large(begin, clip.finish(), self.document_bytes_max, 1);
            }
            if self.window.bytes().is_empty() && !self.window.fill()? {
                match self.why_ended(Some(&value)) {
                    Some(why) => return Ok(self.damaged(begin, clip, &why)),
                    None => value.ended = true,
                }
                continue;
            }
            let bytes = self.window.bytes();
            match value.extent.feed(bytes) {
                Piece::More => self.at = bytes.len(),
                Piece::End(n) => {
                    self.at = n;
                    value.ended = true;
                }
                Piece::Mismatch(n) => {
                    clip.push(&bytes[..=n]);
                    let why = mismatch(bytes[n], self.window.offset() + n as u64);
                    return Ok(self.damaged(begin, clip, &why));
                }
            }
        }
    }

    fn damaged(&mut self, begin: HashedPosition, clip: Clip, why: &str) -> Chunk {
        self.done = true;
        begin.damaged(clip.finish(), why)
    }

    /// The last chunk, for damage in the value that is being scanned or at the next byte.
    fn damaged_here(&mut self, why: &str) -> Result<Chunk, SourceError> {
        self.take_done()?;
        let mut shown = self.at;
        if self.value.is_none() {
            while self.window.bytes().len() < DAMAGE_BYTES_MAX && self.window.fill()? {}
            shown = self.window.bytes().len().min(DAMAGE_BYTES_MAX);
        }
        self.done = true;
        Ok(self.window.damaged(shown, why))
    }

    /// Why the source may not end here; `None` if it may.
    fn why_ended(&self, value: Option<&Value>) -> Option<String> {
        if let Some(End::Damaged(why)) = self.window.end() {
            return Some(why.clone());
        }
        let in_sequence = matches!(self.expected, Expected::Anything | Expected::NextInSequence | Expected::NextArray);
        let envelope = self.envelope.as_ref().filter(|_| self.expected == Expected::Envelope);
        match value {
            None if envelope.is_some_and(Envelope::may_end) => None,
            None if envelope.is_some() => Some("the JSON object around the array is not closed".into()),
            None if in_sequence => None,
            None => Some("the JSON array is not closed".into()),
            Some(value) if in_sequence && value.extent.is_bare() => None,
            Some(_) => Some("the source ends within a document".into()),
        }
    }
}

impl Source for Json {
    fn next_chunk(&mut self) -> Result<Option<Chunk>, SourceError> {
        let mut values = Vec::new();
        while !self.done {
            match self.step() {
                Step::Value(value) => {
                    values.push(value);
                    if self.at >= self.window.options().chunk_bytes {
                        return self.chunk(values).map(Some);
                    }
                }
                step if !values.is_empty() => {
                    self.found = Some(step);
                    return self.chunk(values).map(Some);
                }
                Step::More => {
                    self.take_done()?;
                    if self.window.fill()? {
                        continue;
                    }
                    match self.why_ended(self.value.as_ref()) {
                        Some(why) => return self.damaged_here(&why).map(Some),
                        None => match &mut self.value {
                            Some(value) => value.ended = true,
                            None => self.done = true,
                        },
                    }
                }
                Step::TooLong => return self.long_value().map(Some),
                Step::Damage(why) => return self.damaged_here(&why).map(Some),
                Step::Refused(error) => {
                    // First compare what was read: if the source has changed, that error matters more.
                    self.take_done()?;
                    return Err(error);
                }
            }
        }
        Ok(None)
    }
}

impl Expected {
    fn but_found(self, byte: u8) -> String {
        let expected = match self {
            Self::Envelope => "the object around the array",
            Self::Anything => "a JSON array or object",
            Self::NextInSequence => "another document (documents in a row are not separated)",
            Self::ElementOrEnd => "an element or ']'",
            Self::Element => "an element of the array",
            Self::CommaOrEnd => "',' or ']'",
            Self::NextArray => "another JSON array or nothing",
        };
        format!("found {}, expected {expected}", shown(byte))
    }
}

fn mismatch(byte: u8, offset: u64) -> String {
    format!("the bracket {} at byte {offset} closes none of its kind", shown(byte))
}

#[cfg(test)]
mod tests {
    use super::super::transcript::{ReadFrame, bad, good, read, read_oddly};
    use fastrand::Rng;
    use millstream_model::Reason::{DamagedSource, TooLarge};
    use millstream_testkit::Cases;

    #[test]
    fn arrays_and_rows_of_values_become_documents() {
        for (text, expected) in [
            ("", vec![]),
            (" \n ", vec![]),
            ("[ ]\n", vec![]),
            ("[{}]", vec![good(1, 1, "{}")]),
            ("\u{feff}[{},\n {\"a\":\n[]}\n]\n", vec![good(4, 1, "{}"), good(9, 2, "{\"a\":\n[]}")]),
            ("[1,\"]\",null]", vec![good(1, 1, "1"), good(3, 1, "\"]\""), good(7, 1, "null")]),
            ("[{}]\n[]\n[1,{}] ", vec![good(1, 1, "{}"), good(9, 3, "1"), good(11, 3, "{}")]),
            ("{}{}\n{\n}", vec![good(0, 1, "{}"), good(2, 1, "{}"), good(5, 2, "{\n}")]),
            ("{} [1] tru", vec![good(0, 1, "{}"), good(3, 1, "[1]"), good(7, 1, "tru")]),
        ] {
            assert_eq!(read("json", text.as_bytes()).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn damage_ends_the_source_where_it_is() {
        for (text, expected) in [
            ("[{}\n{}]", vec![good(1, 1, "{}"), bad(4, 2, "{}]", DamagedSource)]),
            ("[{},{}", vec![good(1, 1, "{}"), good(4, 1, "{}"), bad(6, 1, "", DamagedSource)]),
            ("[{},", vec![good(1, 1, "{}"), bad(4, 1, "", DamagedSource)]),
            ("[{},\n{\"a\"", vec![good(1, 1, "{}"), bad(5, 2, "{\"a\"", DamagedSource)]),
            ("[{},]", vec![good(1, 1, "{}"), bad(4, 1, "]", DamagedSource)]),
            ("[{}]{}", vec![good(1, 1, "{}"), bad(4, 1, "{}", DamagedSource)]),
            ("[{}],[{}]", vec![good(1, 1, "{}"), bad(4, 1, ",[{}]", DamagedSource)]),
            ("[{}][{}", vec![good(1, 1, "{}"), good(5, 1, "{}"), bad(7, 1, "", DamagedSource)]),
            ("[{}]x", vec![good(1, 1, "{}"), bad(4, 1, "x", DamagedSource)]),
            ("[{},{]},{}]", vec![good(1, 1, "{}"), bad(4, 1, "{]", DamagedSource)]),
            ("{},{}", vec![good(0, 1, "{}"), bad(2, 1, ",{}", DamagedSource)]),
            ("[12", vec![bad(1, 1, "12", DamagedSource)]),
            ("]", vec![bad(0, 1, "]", DamagedSource)]),
        ] {
            assert_eq!(read("json", text.as_bytes()).unwrap(), expected, "{text}");
            for mut rng in Cases::new(10) {
                let got = read_oddly("json", text.as_bytes(), text.as_bytes(), 100, &mut rng);
                assert_eq!(got.unwrap(), expected, "{text}");
            }
        }
    }

    #[test]
    fn an_element_too_long_is_the_only_reject() {
        let text = b"[{}, {\"a\":12},\n{\"b\":1}, 123456789 ,{\"a\":  }]";
        let expected = [
            good(1, 1, "{}"),
            bad(5, 1, "{\"a\":12}", TooLarge),
            good(15, 2, "{\"b\":1}"),
            bad(24, 2, "123456789", TooLarge),
            good(35, 2, "{\"a\":  }"),
        ];
        for mut rng in Cases::new(100) {
            let got = read_oddly("json", text, text, 7, &mut rng).unwrap();
            assert_eq!(got[..4], expected[..4]);
            assert_eq!(got[4].unreadable, Some((TooLarge, None)));
            assert_eq!(read_oddly("json", text, text, 8, &mut rng).unwrap()[4], expected[4]);
        }
    }

    #[test]
    fn a_giant_element_keeps_its_head_and_tail() {
        let mut text = b"[{},\"".to_vec();
        text.resize((5 << 20) + 4, b'\n');
        text.extend_from_slice(b"END\",\n{}]");
        let got = read_oddly("json", &text, &text, 1 << 20, &mut Rng::new()).unwrap();
        assert_eq!(got.len(), 3);
        assert_eq!(got[1].unreadable, Some((TooLarge, Some((5 << 20) + 4))));
        assert!(got[1].bytes.len() == 1 << 20 && got[1].bytes.ends_with(b"\nEND\""));
        assert_eq!(got[2], good((5 << 20) + 10, (5 << 20) + 1, "{}"));
    }

    fn put_space(text: &mut String, rng: &mut Rng) {
        (0..rng.usize(0..3)).for_each(|_| text.push(*rng.choice(&[' ', '\n', '\t', '\r']).unwrap()));
    }

    fn put_value(text: &mut String, depth: usize, rng: &mut Rng) {
        let kinds = if depth == 0 { 2 } else { 4 };
        match rng.usize(0..kinds) {
            0 => text.push_str(rng.choice(["0", "-1.5e3", "true", "null"]).unwrap()),
            1 => text.push_str(rng.choice([r#""""#, r#""]}\"[{\\""#, r#""é,:""#]).unwrap()),
            kind => {
                text.push(if kind == 2 { '[' } else { '{' });
                for n in 0..rng.usize(0..4) {
                    text.push_str(if n > 0 { "," } else { "" });
                    text.push_str(if kind == 3 { "\"k\":" } else { "" });
                    put_space(text, rng);
                    put_value(text, depth - 1, rng);
                }
                put_space(text, rng);
                text.push(if kind == 2 { ']' } else { '}' });
            }
        }
    }

    /// A source of random values, and the frames to expect.
    fn source(rng: &mut Rng) -> (String, Vec<ReadFrame>) {
        let array = rng.bool();
        let (mut text, mut got) = (String::new(), Vec::new());
        put_space(&mut text, rng);
        text.push_str(if array { "[" } else { "" });
        for n in 0..rng.usize(0..8) {
            put_space(&mut text, rng);
            text.push_str(if n > 0 && array { "," } else { " " });
            put_space(&mut text, rng);
            let start = text.len();
            text.push_str(if array { "" } else { "{\"v\":" });
            put_value(&mut text, 4, rng);
            text.push_str(if array { "" } else { "}" });
            let line = text[..start].matches('\n').count() as u64 + 1;
            got.push(good(start as u64, line, &text[start..]));
        }
        put_space(&mut text, rng);
        text.push_str(if array { "]" } else { "" });
        (text, got)
    }

    #[test]
    fn every_value_is_found_for_any_chunking() {
        for mut rng in Cases::new(1000) {
            let (text, expected) = source(&mut rng);
            let got = read_oddly("json", text.as_bytes(), text.as_bytes(), 1 << 20, &mut rng);
            assert_eq!(got.unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn hostile_bytes_read_the_same_for_any_chunking() {
        for mut rng in Cases::new(2000) {
            let mut text = source(&mut rng).0.into_bytes();
            for _ in 0..rng.usize(1..4) {
                let at = rng.usize(0..=text.len());
                let end = rng.usize(at..=text.len().min(at + 3));
                let byte = *rng.choice(b"[]{},:\"\\ \n1\xff").unwrap();
                text.splice(at..end, (0..rng.usize(0..3)).map(|_| byte));
            }
            let document_bytes_max = rng.usize(1..60);
            let one = read_oddly("json", &text, &text, document_bytes_max, &mut rng).unwrap();
            let other = read_oddly("json", &text, &text, document_bytes_max, &mut rng).unwrap();
            assert_eq!(one, other, "{}", String::from_utf8_lossy(&text));
        }
    }
}
