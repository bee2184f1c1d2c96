//! Turns the values of MongoDB's Extended JSON into those of JSON, in all its forms: canonical, relaxed and of version 1.

mod date;
#[cfg(test)]
mod tests;
mod wrapper;

use super::{Applied, Transform};
use memchr::{memchr2, memmem};
use millstream_input::Nan;
use millstream_model::limits::NESTING_MAX;
use millstream_model::{Fault, Reason};
use std::ops::Range;
use wrapper::{Became, MEMBERS_MAX};

/// Replaces the objects that stand for values which JSON lacks, such as `{"$oid": ".."}`, by what the same value of BSON
/// becomes.
#[derive(Debug)]
pub struct ExtendedJson {
    nan: Nan,
}

const OUTCOMES: &[&str] = &["converted", "null", "plain", "malformed"];
const CONVERTED: usize = 0;
/// A number that JSON does not have became null.
const NULL: usize = 1;
const PLAIN: usize = 2;
const MALFORMED: usize = 3;

/// A document without any of these has nothing to convert.
const SIGNS: [&[u8]; 3] = [b"\"$", b"NaN", b"Infinity"];

impl ExtendedJson {
    /// A transform. `nan` says what becomes of numbers that JSON does not have.
    pub fn new(nan: Nan) -> Self {
        Self { nan }
    }

    fn convert(&self, document: &[u8], changed: &mut Vec<u8>) -> Applied {
        if SIGNS.iter().all(|sign| memmem::find(document, sign).is_none()) {
            return Applied::Same(PLAIN);
        }
        let begin = changed.len();
        let mut writer = Writer {
            document,
            at: 0,
            nan: self.nan,
            text: &mut *changed,
            levels: Vec::new(),
            value: Vec::new(),
            converted: false,
            null: false,
            malformed: None,
        };
        let whole = writer.write();
        let Writer { converted, null, malformed, .. } = writer;
        let applied = match (whole, malformed) {
            (_, Some(detail)) => Applied::Rejected(MALFORMED, Fault::new(Reason::NotBson, detail)),
            (None, None) => Applied::Unreadable,
            (Some(()), None) if converted => {
                return Applied::Changed(if null { NULL } else { CONVERTED }, begin..changed.len());
            }
            (Some(()), None) => Applied::Same(PLAIN),
        };
        changed.truncate(begin);
        applied
    }
}

impl Transform for ExtendedJson {
    fn name(&self) -> String {
        match self.nan {
            Nan::Null => "extended JSON".to_owned(),
            nan => format!("extended JSON, NaN {}", nan.name()),
        }
    }

    fn outcomes(&self) -> &'static [&'static str] {
        OUTCOMES
    }

    fn writes(&self, _: &str) -> bool {
        true
    }

    fn apply(&self, _source: u32, documents: &[&[u8]], changed: &mut Vec<u8>, applied: &mut Vec<Applied>) {
        applied.extend(documents.iter().map(|document| self.convert(document, changed)));
    }
}

/// Writes a document anew, without the space between its tokens. It does not recurse.
struct Writer<'d, 't> {
    document: &'d [u8],
    at: usize,
    nan: Nan,
    text: &'t mut Vec<u8>,
    levels: Vec<Level>,
    /// What an object that closes becomes.
    value: Vec<u8>,
    converted: bool,
    null: bool,
    /// What is wrong with an object that should stand for a value.
    malformed: Option<String>,
}

/// An object or an array that is open.
struct Level {
    /// Where it begins in the document, and in the text.
    from: usize,
    start: usize,
    is_object: bool,
    members: usize,
    /// Places of its first members in the text.
    first: [Member; MEMBERS_MAX],
}

#[derive(Default)]
struct Member {
    name: Range<usize>,
    value: Range<usize>,
}

/// What may stand next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// A value.
    Value,
    /// A value, or the end of the array.
    Element,
    /// A name.
    Name,
    /// A name, or the end of the object.
    Member,
    /// A comma, or the end of what is open.
    Comma,
}

impl Writer<'_, '_> {
    /// Appends the document. `None`: it is none, or is malformed.
    fn write(&mut self) -> Option<()> {
        let mut next = Next::Value;
        while let Some(byte) = self.peek() {
            next = match (next, byte) {
                (Next::Value | Next::Element, b'{') => self.open(true)?,
                (Next::Value | Next::Element, b'[') => self.open(false)?,
                (Next::Element | Next::Comma, b']') => self.close(false)?,
                (Next::Member | Next::Comma, b'}') => self.close(true)?,
                (Next::Value | Next::Element, _) => self.scalar(byte)?,
                (Next::Name | Next::Member, b'"') => self.name()?,
                (Next::Comma, b',') => {
                    self.pass();
                    if self.levels.last()?.is_object { Next::Name } else { Next::Value }
                }
                _ => return None,
            };
        }
        (self.levels.is_empty() && next == Next::Comma).then_some(())
    }

    /// The next byte that is no space.
    fn peek(&mut self) -> Option<u8> {
        let rest = &self.document[self.at..];
        let space = rest.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))?;
        self.at += space;
        Some(rest[space])
    }

    /// Copies the next byte.
    fn pass(&mut self) {
        self.text.push(self.document[self.at]);
        self.at += 1;
    }

    fn open(&mut self, is_object: bool) -> Option<Next> {
        // The decoder refuses deeper documents.
        if self.levels.len() > NESTING_MAX {
            return None;
        }
        let (from, start) = (self.at, self.text.len());
        self.levels.push(Level { from, start, is_object, members: 0, first: Default::default() });
        self.pass();
        Some(if is_object { Next::Member } else { Next::Element })
    }

    fn close(&mut self, is_object: bool) -> Option<Next> {
        let level = self.levels.pop().filter(|level| level.is_object == is_object)?;
        self.pass();
        // The document itself is an object whatever it holds.
        if is_object && !self.levels.is_empty() && (1..=MEMBERS_MAX).contains(&level.members) {
            self.replace(&level)?;
        }
        self.end_value();
        Some(Next::Comma)
    }

    /// Replaces an object that stands for a value.
    fn replace(&mut self, level: &Level) -> Option<()> {
        let text = &*self.text;
        let members = level.first.each_ref().map(|member| (&text[member.name.clone()], &text[member.value.clone()]));
        self.value.clear();
        match wrapper::unwrapped(&members[..level.members], self.nan, &mut self.value) {
            Became::Itself => {}
            Became::Value { null } => {
                self.text.truncate(level.start);
                self.text.extend_from_slice(&self.value);
                self.converted = true;
                self.null |= null;
            }
            Became::Malformed(problem) => {
                self.malformed = Some(format!("at byte {}: {problem}", level.from));
                return None;
            }
        }
        Some(())
    }

    fn name(&mut self) -> Option<Next> {
        let start = self.text.len() + 1;
        self.string()?;
        let name = start..self.text.len() - 1;
        if self.peek()? != b':' {
            return None;
        }
        self.pass();
        let value = self.text.len()..self.text.len();
        let level = self.levels.last_mut()?;
        if let Some(member) = level.first.get_mut(level.members) {
            *member = Member { name, value };
        }
        level.members += 1;
        Some(Next::Value)
    }

    /// Copies a string with its quotes.
    fn string(&mut self) -> Option<()> {
        let (start, mut at) = (self.at, self.at + 1);
        loop {
            let rest = self.document.get(at..)?;
            let found = memchr2(b'"', b'\\', rest)?;
            at += found + 1;
            if rest[found] == b'"' {
                break;
            }
            at += 1;
        }
        self.text.extend_from_slice(&self.document[start..at]);
        self.at = at;
        Some(())
    }

    fn scalar(&mut self, first: u8) -> Option<Next> {
        if first == b'"' {
            self.string()?;
        } else {
            let rest = &self.document[self.at..];
            let ends = |byte: &u8| {
                matches!(byte, b',' | b':' | b'"' | b'{' | b'}' | b'[' | b']' | b' ' | b'\t' | b'\r' | b'\n')
            };
            let token = &rest[..rest.iter().position(ends).unwrap_or(rest.len())];
            match token {
                b"" => return None,
                // Old versions write them so, and no JSON has them.
                b"NaN" | b"Infinity" | b"-Infinity" => {
                    let word = std::str::from_utf8(token).ok()?;
                    self.null |= self.nan.write(word, self.text);
                    self.converted = true;
                }
                _ => self.text.extend_from_slice(token),
            }
            self.at += token.len();
        }
        self.end_value();
        Some(Next::Comma)
    }

    /// Notes where a value ends that is a member.
    fn end_value(&mut self) {
        let end = self.text.len();
        if let Some(level) = self.levels.last_mut().filter(|level| level.is_object)
            && let Some(member) = level.first.get_mut(level.members - 1)
        {
            member.value.end = end;
        }
    }
}
