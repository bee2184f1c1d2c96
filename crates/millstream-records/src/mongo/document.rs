//! One document of BSON (<https://bsonspec.org/spec.html>) as one object of JSON.

use super::value::{IDENTITY_BYTES, date, decimal_of_bits, double, identity, integer, uuid};
use crate::limits::BSON_NESTING_MAX;
use crate::spelling::string;
use crate::{Nan, spelling};

/// Length of a document without members.
pub(super) const SHORTEST_BYTES: usize = 5;

/// The types of values. Those in brackets are deprecated, and stand in old documents.
mod kind {
    pub(super) const DOUBLE: u8 = 0x01;
    pub(super) const STRING: u8 = 0x02;
    pub(super) const DOCUMENT: u8 = 0x03;
    pub(super) const ARRAY: u8 = 0x04;
    pub(super) const BINARY: u8 = 0x05;
    /// (undefined)
    pub(super) const UNDEFINED: u8 = 0x06;
    pub(super) const OBJECT_ID: u8 = 0x07;
    pub(super) const BOOLEAN: u8 = 0x08;
    pub(super) const DATE: u8 = 0x09;
    pub(super) const NULL: u8 = 0x0a;
    pub(super) const REGULAR_EXPRESSION: u8 = 0x0b;
    /// (a reference to a document)
    pub(super) const POINTER: u8 = 0x0c;
    pub(super) const CODE: u8 = 0x0d;
    /// (symbol)
    pub(super) const SYMBOL: u8 = 0x0e;
    /// (code with the values of its variables)
    pub(super) const CODE_WITH_SCOPE: u8 = 0x0f;
    pub(super) const INT32: u8 = 0x10;
    pub(super) const TIMESTAMP: u8 = 0x11;
    pub(super) const INT64: u8 = 0x12;
    pub(super) const DECIMAL: u8 = 0x13;
    pub(super) const MAX_KEY: u8 = 0x7f;
    pub(super) const MIN_KEY: u8 = 0xff;
}

/// Subtypes of binary values that are not plain bytes. The older subtype of UUIDs, 3, is plain: in which order its bytes are
/// depends on the program that wrote them.
const BINARY_OLD: u8 = 2;
const BINARY_UUID: u8 = 4;

/// Whether a value can have this type.
pub(super) fn is_kind(byte: u8) -> bool {
    matches!(byte, kind::DOUBLE..=kind::DECIMAL | kind::MAX_KEY | kind::MIN_KEY)
}

/// Why a document cannot be written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// Its byte in the document.
    pub(super) at: usize,
    /// What is wrong there.
    pub(super) problem: &'static str,
}

/// Writes documents. It does not recurse, so that no nesting exhausts the stack.
pub(super) struct Writer {
    levels: Vec<Level>,
    nan: Nan,
    /// Numbers of the document that became null.
    pub(super) not_finite: u64,
}

/// A document or an array that is being written.
struct Level {
    /// Where its last byte stands, which is zero.
    end: usize,
    is_array: bool,
    has_members: bool,
    closes: &'static [u8],
}

impl Writer {
    pub(super) fn new(nan: Nan) -> Self {
        Self { levels: Vec::new(), nan, not_finite: 0 }
    }

    /// Appends a document, whose length is that of the bytes.
    ///
    /// # Errors
    /// [`Fault`]. A part of it was appended.
    pub(super) fn write(&mut self, bytes: &[u8], text: &mut Vec<u8>) -> Result<(), Fault> {
        self.levels.clear();
        self.not_finite = 0;
        let mut at = self.open(&mut Reader { bytes, at: 0 }, b"}", text)?;
        while let Some(level) = self.levels.last_mut() {
            let (end, is_array) = (level.end, level.is_array);
            if at == end {
                if bytes[at] != 0 {
                    return Err(Fault { at, problem: "a document or array does not end where its length says" });
                }
                text.extend_from_slice(level.closes);
                self.levels.pop();
                at += 1;
                continue;
            }
            let has_members = std::mem::replace(&mut level.has_members, true);
            let mut reader = Reader { bytes: &bytes[..end], at };
            let [kind] = reader.take::<1>()?;
            if kind == 0 {
                return Err(Fault { at, problem: "a document or array ends before its length says" });
            }
            if !is_kind(kind) {
                return Err(Fault { at, problem: "a value has a type that BSON does not have" });
            }
            let name = reader.c_string()?;
            if has_members {
                text.push(b',');
            }
            // The names within an array are its indexes. Some programs write others; the order counts.
            if !is_array {
                string(text, name);
                text.push(b':');
            }
            at = match kind {
                kind::DOCUMENT => self.open(&mut reader, b"}", text)?,
                kind::ARRAY => self.open(&mut reader, b"]", text)?,
                kind::CODE_WITH_SCOPE => self.open_scope(&mut reader, text)?,
                _ => {
                    self.value(kind, &mut reader, text)?;
                    reader.at
                }
            };
        }
        Ok(())
    }

    /// Begins a document or an array. Returns where its first member stands.
    fn open(&mut self, reader: &mut Reader<'_>, closes: &'static [u8], text: &mut Vec<u8>) -> Result<usize, Fault> {
        let at = reader.at;
        let length = reader.length()?;
        if length < SHORTEST_BYTES || length > reader.bytes.len() - at {
            return Err(Fault { at, problem: "the length of a document or array is wrong" });
        }
        if self.levels.len() == BSON_NESTING_MAX {
            return Err(Fault { at, problem: "a document or array is nested too deeply" });
        }
        let is_array = closes == b"]";
        text.push(if is_array { b'[' } else { b'{' });
        self.levels.push(Level { end: at + length - 1, is_array, has_members: false, closes });
        Ok(reader.at)
    }

    fn open_scope(&mut self, reader: &mut Reader<'_>, text: &mut Vec<u8>) -> Result<usize, Fault> {
        let at = reader.at;
        let length = reader.length()?;
        text.extend_from_slice(b"{\"$code\":");
        string(text, reader.string()?);
        text.extend_from_slice(b",\"$scope\":");
        let first = self.open(reader, b"}}", text)?;
        match self.levels.last() {
            Some(scope) if at + length == scope.end + 1 => Ok(first),
            _ => Err(Fault { at, problem: "the length of code with its scope is wrong" }),
        }
    }

    fn value(&mut self, kind: u8, reader: &mut Reader<'_>, text: &mut Vec<u8>) -> Result<(), Fault> {
        match kind {
            kind::DOUBLE => {
                let value = f64::from_le_bytes(reader.take()?);
                self.not_finite += u64::from(double(text, value, self.nan));
            }
            kind::STRING | kind::SYMBOL => string(text, reader.string()?),
            kind::BINARY => binary(reader, text)?,
            kind::UNDEFINED | kind::NULL => text.extend_from_slice(b"null"),
            kind::OBJECT_ID => identity(text, &reader.take::<IDENTITY_BYTES>()?),
            kind::BOOLEAN => {
                let at = reader.at;
                text.extend_from_slice(match reader.take::<1>()? {
                    [0] => b"false",
                    [1] => b"true",
                    _ => return Err(Fault { at, problem: "a boolean is neither true nor false" }),
                });
            }
            kind::DATE => date(text, i64::from_le_bytes(reader.take()?)),
            kind::REGULAR_EXPRESSION => {
                text.extend_from_slice(b"{\"$regularExpression\":{\"pattern\":");
                string(text, reader.c_string()?);
                text.extend_from_slice(b",\"options\":");
                string(text, reader.c_string()?);
                text.extend_from_slice(b"}}");
            }
            kind::POINTER => {
                text.extend_from_slice(b"{\"$dbPointer\":{\"$ref\":");
                string(text, reader.string()?);
                text.extend_from_slice(b",\"$id\":");
                identity(text, &reader.take::<IDENTITY_BYTES>()?);
                text.extend_from_slice(b"}}");
            }
            kind::CODE => {
                text.extend_from_slice(b"{\"$code\":");
                string(text, reader.string()?);
                text.push(b'}');
            }
            kind::INT32 => integer(text, i32::from_le_bytes(reader.take()?).into()),
            kind::TIMESTAMP => {
                let (increment, seconds) = (u32::from_le_bytes(reader.take()?), u32::from_le_bytes(reader.take()?));
                text.extend_from_slice(b"{\"$timestamp\":{\"t\":");
                integer(text, seconds.into());
                text.extend_from_slice(b",\"i\":");
                integer(text, increment.into());
                text.extend_from_slice(b"}}");
            }
            kind::INT64 => integer(text, i64::from_le_bytes(reader.take()?)),
            kind::DECIMAL => {
                let bits = u128::from_le_bytes(reader.take()?);
                self.not_finite += u64::from(decimal_of_bits(text, bits, self.nan));
            }
            kind::MAX_KEY => text.extend_from_slice(b"{\"$maxKey\":1}"),
            _ => text.extend_from_slice(b"{\"$minKey\":1}"),
        }
        Ok(())
    }
}

fn binary(reader: &mut Reader<'_>, text: &mut Vec<u8>) -> Result<(), Fault> {
    let at = reader.at;
    let length = reader.length()?;
    let [subtype] = reader.take::<1>()?;
    let value = reader.part(length)?;
    match subtype {
        // It has its length twice.
        BINARY_OLD => {
            let mut within = Reader { bytes: value, at: 0 };
            let inner = within.length().ok().filter(|inner| Some(*inner) == length.checked_sub(4));
            if inner.is_none() {
                return Err(Fault { at, problem: "the two lengths of a binary value differ" });
            }
            spelling::bytes(text, &value[within.at..]);
        }
        BINARY_UUID if uuid(text, value) => {}
        _ => spelling::bytes(text, value),
    }
    Ok(())
}

/// Reads what stands in a document, up to the end of the innermost one.
struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Reader<'b> {
    fn fault<T>(&self, problem: &'static str) -> Result<T, Fault> {
        Err(Fault { at: self.at, problem })
    }

    /// So many bytes.
    fn part(&mut self, length: usize) -> Result<&'b [u8], Fault> {
        let Some(taken) = self.bytes[self.at..].get(..length) else {
            return self.fault("a value goes beyond the end of its document");
        };
        self.at += length;
        Ok(taken)
    }

    /// As many bytes as the result has.
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let Some(taken) = self.bytes[self.at..].first_chunk() else {
            return self.fault("a value goes beyond the end of its document");
        };
        self.at += N;
        Ok(*taken)
    }

    /// A length.
    fn length(&mut self) -> Result<usize, Fault> {
        let at = self.at;
        let length = i32::from_le_bytes(self.take()?);
        usize::try_from(length).map_err(|_| Fault { at, problem: "a length is negative" })
    }

    /// A text up to a zero byte, without it.
    fn c_string(&mut self) -> Result<&'b [u8], Fault> {
        let rest = &self.bytes[self.at..];
        let Some(length) = rest.iter().position(|byte| *byte == 0) else {
            return self.fault("a name or an expression does not end");
        };
        self.at += length + 1;
        Ok(&rest[..length])
    }

    /// A text with its length, which counts the zero byte behind it.
    fn string(&mut self) -> Result<&'b [u8], Fault> {
        let at = self.at;
        let length = self.length()?;
        match self.part(length)?.split_last() {
            Some((0, text)) => Ok(text),
            _ => Err(Fault { at, problem: "a string does not end where its length says" }),
        }
    }
}
