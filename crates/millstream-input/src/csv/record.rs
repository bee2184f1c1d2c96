//! One CSV record, found and split into fields piece by piece.

use super::separators::{QUOTE, Separators};
use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator};

/// A record of a window. It begins at the window's byte `start`.
pub struct Record {
    reader: Reader,
    separators: Separators,
    /// Its first byte.
    pub start: usize,
    /// First byte of the window that was not scanned yet.
    pub at: usize,
    /// Fields without quotes, one after the other.
    text: Vec<u8>,
    text_len: usize,
    /// Where in the text each field ends.
    ends: Vec<usize>,
    /// How many fields are kept at most; the others are only counted. `None` keeps all.
    kept_max: Option<usize>,
    /// Fields seen.
    pub count: usize,
}

/// How much of a record the window holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// All of it, with its line end.
    Whole,
    /// A part that ends with the window.
    Part,
    /// More bytes of it than the limit allows.
    TooLong,
}

/// Text and ends of fields grow by this.
const GROWTH: usize = 64;

impl Record {
    /// A record that keeps all fields, until [`Record::keep`] limits them.
    pub fn new(separators: Separators) -> Self {
        let Separators { delimiter, quote, returns } = separators;
        let mut builder = ReaderBuilder::new();
        builder.terminator(if returns { Terminator::CRLF } else { Terminator::Any(b'\n') });
        builder.delimiter(delimiter).quoting(quote.is_some()).quote(quote.unwrap_or(QUOTE));
        let mut reader = builder.build();
        // The reader drops a byte order mark if its first input holds a whole one. But the window has taken that of the
        // source, so another one is text. This first input holds none, and an empty line gives no record.
        reader.read_record(b"\n", &mut [0], &mut [0]);
        Self {
            reader,
            separators,
            start: 0,
            at: 0,
            text: Vec::new(),
            text_len: 0,
            ends: Vec::new(),
            kept_max: None,
            count: 0,
        }
    }

    /// Keeps at most this many fields from now on, and counts the others.
    pub fn keep(&mut self, fields: usize) {
        self.kept_max = Some(fields);
        self.ends.resize(fields, 0);
    }

    /// Scans the window up to the end of the record, or to two bytes beyond `bytes_max`: one of them may be the carriage
    /// return of the line end.
    #[inline]
    pub fn look(&mut self, bytes: &[u8], bytes_max: usize) -> Seen {
        if self.at == self.start {
            let returns = self.separators.returns;
            let is_end = |b: &&u8| **b == b'\n' || (returns && **b == b'\r');
            self.start += bytes[self.start..].iter().take_while(is_end).count();
            self.at = self.start;
        }
        let limit = bytes.len().min(self.start.saturating_add(bytes_max + 2));
        while self.at < limit {
            let (n, whole) = self.feed(&bytes[self.at..limit]);
            self.at += n;
            if whole {
                return Seen::Whole;
            }
        }
        if self.at - self.start > bytes_max + 1 { Seen::TooLong } else { Seen::Part }
    }

    /// Gives bytes to the reader. Returns how many it took, and whether they end the record.
    #[inline]
    pub fn feed(&mut self, bytes: &[u8]) -> (usize, bool) {
        if self.text.len() == self.text_len {
            self.text.resize(self.text.len() * 2 + GROWTH, 0);
        }
        if self.count >= self.ends.len() && self.kept_max.is_none() {
            self.ends.resize(self.count + GROWTH, 0);
        }
        let mut surplus = [0; GROWTH];
        let ends = self.ends.get_mut(self.count..).filter(|e| !e.is_empty()).unwrap_or(&mut surplus);
        let (result, read, written, fields) = self.reader.read_record(bytes, &mut self.text[self.text_len..], ends);
        self.text_len += written;
        self.count += fields;
        (read, result == ReadRecordResult::Record)
    }

    /// Ends the record at the end of the source; `false` if a quote is open.
    ///
    /// At the end of its input the reader would close an open quote silently. So it gets a line end, which is text in a
    /// quote.
    pub fn end(&mut self) -> bool {
        self.feed(b"\n").1
    }

    /// The record as it is in the window, without its line end. Call it once, when all of the record was seen: it takes
    /// the carriage return of the line end from the last field.
    #[inline]
    pub fn raw<'a>(&mut self, bytes: &'a [u8], seen: &Seen) -> &'a [u8] {
        // The reader ends a record with the first byte of its line end.
        let raw = &bytes[self.start..self.at - usize::from(*seen == Seen::Whole)];
        let Some(raw) = raw.strip_suffix(b"\r").filter(|_| !self.separators.returns) else { return raw };
        self.text_len = self.text_len.saturating_sub(1);
        if let Some(end) = self.count.checked_sub(1).and_then(|last| self.ends.get_mut(last)) {
            *end -= 1;
        }
        raw
    }

    /// The fields that were kept.
    #[inline]
    pub fn fields(&self) -> impl Iterator<Item = &[u8]> {
        let ends = &self.ends[..self.count.min(self.ends.len())];
        let starts = std::iter::once(0).chain(ends.iter().copied());
        starts.zip(ends).map(|(start, &end)| &self.text[start..end])
    }

    /// The text of all fields, without what is between them, and where in it each field ends. Only for a record that
    /// keeps all.
    #[inline]
    pub fn text(&self) -> (&[u8], &[usize]) {
        (&self.text[..self.text_len], &self.ends[..self.count.min(self.ends.len())])
    }

    /// Drops the fields so far. Only for a record that is not stored.
    pub fn forget(&mut self) {
        self.text_len = 0;
        self.count = 0;
    }

    /// Moves to the next record.
    #[inline]
    pub fn next(&mut self) {
        self.start = self.at;
        self.text_len = 0;
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csv::{ends_in_return, quoted};
    use millstream_testkit::Cases;

    /// Fields of all records, seen in windows that grow by so many bytes.
    fn records(text: &[u8], separators: Separators, size: usize) -> Vec<Vec<String>> {
        let (mut record, mut all, mut end) = (Record::new(separators), Vec::new(), 0);
        loop {
            let seen = record.look(&text[..end], 1000);
            if seen == Seen::Part && end < text.len() {
                end = text.len().min(end + size);
                continue;
            }
            if seen == Seen::Part && (record.at == record.start || !record.end()) {
                return all;
            }
            if !record.raw(text, &seen).is_empty() {
                all.push(record.fields().map(|field| String::from_utf8_lossy(field).into_owned()).collect());
            }
            record.next();
        }
    }

    #[test]
    fn records_are_the_same_for_any_chunking() {
        for mut rng in Cases::new(3000) {
            let alphabet = if rng.bool() { &b"ab,\n\"\r"[..] } else { b"ab,\n" };
            let text: Vec<u8> = (0..rng.usize(0..40)).map(|_| *rng.choice(alphabet).unwrap()).collect();
            let returns = ends_in_return(&text).unwrap_or_default();
            let separators = Separators { delimiter: b',', quote: Some(b'"'), returns };
            let sizes = [1, 2, 5, 100].map(|size| records(&text, separators, size));
            assert!(sizes.iter().all(|found| *found == sizes[0]), "{:?}: {sizes:?}", text.escape_ascii().to_string());
            // Without quotes and carriage returns every reader agrees, blank lines apart.
            if text.contains(&b'"') || text.contains(&b'\r') {
                continue;
            }
            let text = String::from_utf8(text).unwrap();
            let lines = text.lines().filter(|line| !line.is_empty());
            let expected: Vec<Vec<String>> = lines.map(|line| line.split(',').map(str::to_owned).collect()).collect();
            assert_eq!(sizes[0], expected, "{text:?}");
        }
    }

    #[test]
    fn fields_that_are_not_kept_are_counted() {
        for text in ["a,b,c\n", "\"a\",b,c\n"] {
            let mut record = Record::new(Separators { delimiter: b',', quote: Some(QUOTE), returns: false });
            record.keep(2);
            assert_eq!(record.look(text.as_bytes(), 100), Seen::Whole);
            assert_eq!((record.count, record.fields().collect::<Vec<_>>()), (3, vec![&b"a"[..], b"b"]));
            assert_eq!(record.raw(text.as_bytes(), &Seen::Whole), text.trim_end().as_bytes());
        }
    }

    #[test]
    fn quoted_flags_match_the_fields_of_the_reader() {
        let separators = Separators { delimiter: b',', quote: Some(b'"'), returns: false };
        for mut rng in Cases::new(2000) {
            let len = rng.usize(0..12);
            let text: String = (0..len).map(|_| *rng.choice(&['a', '"', ',']).unwrap()).collect();
            let mut record = Record::new(separators);
            let whole = record.feed(text.as_bytes()).0 == text.len() && record.end();
            if !whole || text.is_empty() {
                continue;
            }
            let flags: Vec<bool> = quoted(text.as_bytes(), separators).collect();
            assert_eq!(flags.len(), record.count, "{text}");
            let starts_quoted = |n: usize, field: &[u8]| !flags[n] && field.first() == Some(&b'"');
            assert!(!record.fields().enumerate().any(|(n, field)| starts_quoted(n, field)), "{text}");
        }
    }
}
