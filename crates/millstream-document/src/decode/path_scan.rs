//! Scans a document once: checks its grammar and finds the values at the paths of the key.
//!
//! jsonb keeps the last of several members with one name, at every level. So whenever a member name continues a path,
//! everything that was found on that path before is dropped.

use super::path::{Columns, Mask, PATHS_MAX};
use crate::scan::{Flaw, Next, Scanner, Stop};
use millstream_model::limits::NESTING_MAX;
use std::ops::Range;

/// What is at the end of a path. Ranges are bytes of the document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    Missing,
    Null(Range<usize>),
    Boolean(bool, Range<usize>),
    Number(Range<usize>),
    /// Without its quotes.
    String {
        range: Range<usize>,
        escaped: bool,
    },
    Container(Range<usize>),
}

/// The scan of a document. Its depth is the number of containers around a value, which is also the number of path
/// segments that lead there.
pub(super) struct PathScan<'d, 'c> {
    pub(super) scanner: Scanner<'d>,
    columns: &'c Columns,
    pub(super) found: [Found; PATHS_MAX],
    /// How many elements the array had that ended last.
    elements: usize,
}

impl<'d, 'c> PathScan<'d, 'c> {
    pub(super) fn new(document: &'d [u8], columns: &'c Columns) -> Self {
        Self { scanner: Scanner::new(document), columns, found: [const { Found::Missing }; PATHS_MAX], elements: 0 }
    }

    /// Scans a whole document. Returns whether it is an object.
    #[inline]
    pub(super) fn document(&mut self) -> Result<bool, Stop> {
        let start = self.scanner.space(0);
        let object = self.scanner.byte(start) == Some(b'{');
        let end = match self.scanner.byte(start) {
            Some(b'{') => self.object(start, 0, self.columns.all())?,
            Some(_) => self.value(start, 0, Mask::NONE)?,
            None => return Err(self.scanner.stop(Flaw::Object, start)),
        };
        let end = self.scanner.space(end);
        match self.scanner.byte(end) {
            None => Ok(object),
            Some(_) => Err(self.scanner.stop(Flaw::End, end)),
        }
    }

    /// An object inside `depth` containers, to which the paths of `open` lead.
    fn object(&mut self, start: usize, depth: usize, open: Mask) -> Next {
        if depth >= NESTING_MAX {
            return Err(self.scanner.stop(Flaw::TooDeep, start));
        }
        let mut at = self.scanner.space(start + 1);
        if self.scanner.byte(at) == Some(b'}') {
            return Ok(at + 1);
        }
        loop {
            if self.scanner.byte(at) != Some(b'"') {
                return Err(self.scanner.stop(Flaw::MemberName, at));
            }
            let escaped_strings = self.scanner.escaped_strings;
            let name_end = self.scanner.string(at)?;
            let hit = if open.is_empty() {
                Mask::NONE
            } else {
                let escaped = self.scanner.escaped_strings != escaped_strings;
                let name = &self.scanner.document[at + 1..name_end - 1];
                self.columns.with_member(open, depth, name, escaped)
            };
            at = self.scanner.space(name_end);
            if self.scanner.byte(at) != Some(b':') {
                return Err(self.scanner.stop(Flaw::Colon, at));
            }
            at = self.scanner.space(at + 1);
            at = self.value(at, depth + 1, hit)?;
            at = self.scanner.space(at);
            match self.scanner.byte(at) {
                Some(b',') => at = self.scanner.space(at + 1),
                Some(b'}') => return Ok(at + 1),
                _ => return Err(self.scanner.stop(Flaw::CommaOrBrace, at)),
            }
        }
    }

    /// An array inside `depth` containers, to which the paths of `open` lead.
    fn array(&mut self, start: usize, depth: usize, open: Mask) -> Next {
        if depth >= NESTING_MAX {
            return Err(self.scanner.stop(Flaw::TooDeep, start));
        }
        let indexes = match open.is_empty() {
            true => None,
            false => Some(self.indexes(start, depth, open)?),
        };
        let mut at = self.scanner.space(start + 1);
        let mut element = 0;
        if self.scanner.byte(at) == Some(b']') {
            self.elements = 0;
            return Ok(at + 1);
        }
        loop {
            let hit = match &indexes {
                None => Mask::NONE,
                Some(indexes) => open.filter(|column| indexes[column] == Some(element)),
            };
            at = self.value(at, depth + 1, hit)?;
            element += 1;
            at = self.scanner.space(at);
            match self.scanner.byte(at) {
                Some(b',') => at = self.scanner.space(at + 1),
                Some(b']') => {
                    self.elements = element;
                    return Ok(at + 1);
                }
                _ => return Err(self.scanner.stop(Flaw::CommaOrBracket, at)),
            }
        }
    }

    /// The element with which each open path continues. Indexes that count from the end need one more scan of the
    /// array.
    #[cold]
    fn indexes(&mut self, start: usize, depth: usize, open: Mask) -> Result<[Option<usize>; PATHS_MAX], Stop> {
        let segments = open.columns().map(|column| (column, self.columns.index(column, depth)));
        let mut length = 0;
        if segments.clone().any(|(_, index)| index.is_some_and(|i| i < 0)) {
            self.array(start, depth, Mask::NONE)?;
            length = self.elements;
        }
        let mut indexes = [None; PATHS_MAX];
        for (column, index) in segments {
            let Some(index) = index else { continue };
            let distance = index.unsigned_abs() as usize;
            indexes[column] = match index < 0 {
                true => length.checked_sub(distance),
                false => Some(distance),
            };
        }
        Ok(indexes)
    }

    /// A value inside `depth` containers, to which the paths of `hit` lead.
    #[inline(always)]
    fn value(&mut self, start: usize, depth: usize, hit: Mask) -> Next {
        let mut inner = Mask::NONE;
        if !hit.is_empty() {
            inner = self.forget(hit, depth);
        }
        let escaped_strings = self.scanner.escaped_strings;
        let end = match self.scanner.byte(start) {
            Some(b'"') => self.scanner.string(start)?,
            Some(b'-' | b'0'..=b'9') => self.scanner.number(start)?,
            Some(b'{') => self.object(start, depth, inner)?,
            Some(b'[') => self.array(start, depth, inner)?,
            Some(b't') => self.scanner.name(start, b"true")?,
            Some(b'f') => self.scanner.name(start, b"false")?,
            Some(b'n') => self.scanner.name(start, b"null")?,
            _ => return Err(self.scanner.stop(Flaw::Value, start)),
        };
        if !hit.is_empty() {
            let escaped = self.scanner.escaped_strings != escaped_strings;
            self.keep(hit, depth, start..end, escaped);
        }
        Ok(end)
    }

    /// Drops what earlier members of the same name led to. Returns the paths that continue.
    #[inline(never)]
    fn forget(&mut self, hit: Mask, depth: usize) -> Mask {
        for column in hit.columns() {
            self.found[column] = Found::Missing;
        }
        hit.filter(|column| !self.columns.ends_at(column, depth))
    }

    /// Stores the value for the paths that end here.
    #[inline(never)]
    fn keep(&mut self, hit: Mask, depth: usize, range: Range<usize>, escaped: bool) {
        let found = match self.scanner.document[range.start] {
            b'"' => Found::String { range: range.start + 1..range.end - 1, escaped },
            b'{' | b'[' => Found::Container(range),
            b't' => Found::Boolean(true, range),
            b'f' => Found::Boolean(false, range),
            b'n' => Found::Null(range),
            _ => Found::Number(range),
        };
        for column in hit.columns() {
            if self.columns.ends_at(column, depth) {
                self.found[column] = found.clone();
            }
        }
    }
}
