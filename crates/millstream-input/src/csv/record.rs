//! One CSV record, found and split into fields piece by piece.

use super::line::{Enclosed, enclosed, line_fields};
use super::separators::{QUOTE, Quotes, Separators};
use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator};
use memchr::{memchr, memchr2};

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
    doubt: Doubt,
}

/// The lines behind the first one of a badly quoted record, which are read anew.
///
/// Each of them might open a quote that leads to the same bad place again. A record that begins in the doubt and goes on
/// behind its first line stands from there on as the one before it stood: both are within quotes. So its end and its
/// bad places are known, and no byte is scanned more than a few times.
#[derive(Debug, Clone, Copy, Default)]
struct Doubt {
    /// Offset in the source up to which the badly quoted record was scanned.
    end: u64,
    /// Lines whose own quote is still open at their end are badly quoted if they end before this offset.
    bad_before: u64,
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
        begin_anew(&mut reader);
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
            doubt: Doubt::default(),
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
        self.skip_line_ends(bytes);
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

    #[inline]
    fn skip_line_ends(&mut self, bytes: &[u8]) {
        if self.at == self.start {
            let returns = self.separators.returns;
            let is_end = |b: &&u8| **b == b'\n' || (returns && **b == b'\r');
            self.start += bytes[self.start..].iter().take_while(is_end).count();
            self.at = self.start;
        }
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
        let Some(raw) = self.without_return(raw) else { return raw };
        self.text_len = self.text_len.saturating_sub(1);
        if let Some(end) = self.count.checked_sub(1).and_then(|last| self.ends.get_mut(last)) {
            *end -= 1;
        }
        raw
    }

    /// The text without the carriage return of its line end, if it has one.
    #[inline]
    fn without_return<'a>(&self, text: &'a [u8]) -> Option<&'a [u8]> {
        text.strip_suffix(b"\r").filter(|_| !self.separators.returns)
    }

    /// The record's first line, without its line end. `None` if the window does not hold all of it.
    pub fn first_line<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let rest = &bytes[self.start..];
        let returns = self.separators.returns;
        let end = if returns { memchr2(b'\n', b'\r', rest) } else { memchr(b'\n', rest) };
        end.map(|end| self.without_return(&rest[..end]).unwrap_or(&rest[..end]))
    }

    /// Whether a record that is too long is more likely to be badly quoted: text follows a closing quote, or its quote
    /// opens in front of the last column and the first line has all columns if that quote is data.
    pub fn seems_misquoted(&self, bytes: &[u8], columns: usize) -> bool {
        let Some(line) = self.first_line(&bytes[..self.at]) else { return false };
        let text = &bytes[self.start..self.at];
        let text = self.without_return(text).unwrap_or(text);
        Quotes::of(text, self.separators).stray.is_some()
            || (Quotes::of(line, self.separators).open.is_some_and(|field| field < columns)
                && enclosed(line, self.separators).count() == columns)
    }

    /// Casts doubt on the lines of the record, which is badly quoted. Read its first line next, by itself. `raw` is what
    /// was scanned of it, without its line end, and `base` the offset of the window. `is_whole`: its end was found.
    pub fn give_back(&mut self, raw: &[u8], base: u64, is_whole: bool) {
        let last_stray = Quotes::of(raw, self.separators).last_stray.filter(|_| is_whole);
        self.doubt = Doubt {
            end: base + self.at as u64,
            bad_before: last_stray.map_or(u64::MAX, |at| base + (self.start + at) as u64),
        };
    }

    /// Whether the record begins on a line that was given back, and which cannot be more than that line. `base` is the
    /// offset of the window. Lines are looked at as far as [`Record::look`] would, so that this does not depend on how
    /// much the window holds.
    #[inline]
    pub fn is_given_back(&mut self, bytes: &[u8], base: u64, bytes_max: usize) -> bool {
        base + (self.start as u64) < self.doubt.end && self.begins_misquoted(bytes, base, bytes_max)
    }

    fn begins_misquoted(&mut self, bytes: &[u8], base: u64, bytes_max: usize) -> bool {
        self.skip_line_ends(bytes);
        let limit = bytes.len().min(self.start.saturating_add(bytes_max + 2));
        let Some(line) = self.first_line(&bytes[..limit]) else { return false };
        let (start, end) = (base + self.start as u64, base + (self.start + line.len()) as u64);
        let quotes = Quotes::of(line, self.separators);
        start < self.doubt.end && (quotes.stray.is_some() || (quotes.open.is_some() && end < self.doubt.bad_before))
    }

    /// Ends the record with its first line, and reads that by itself: a quote that encloses no field of it is data.
    /// Returns the line without its line end, and whether it is clear what encloses its fields.
    pub fn read_line<'a>(&mut self, bytes: &'a [u8]) -> (&'a [u8], bool) {
        let line = self.first_line(bytes);
        let raw = line.unwrap_or_else(|| {
            let rest = &bytes[self.start..];
            self.without_return(rest).unwrap_or(rest)
        });
        let behind = &bytes[self.start + raw.len()..];
        // As the reader does, it takes one byte of the line end, and the return before it.
        let returned = usize::from(!self.separators.returns && behind.first() == Some(&b'\r'));
        self.at = self.start + raw.len() + returned + usize::from(line.is_some());
        begin_anew(&mut self.reader);
        self.forget();
        let mut is_clear = true;
        for field in line_fields(raw, self.separators) {
            is_clear &= field.enclosed != Enclosed::ButForBlanks;
            self.put(field.raw, field.enclosed == Enclosed::Yes);
        }
        (raw, is_clear)
    }

    /// Appends a field of a line.
    fn put(&mut self, field: &[u8], is_enclosed: bool) {
        if self.kept_max.is_none_or(|most| self.count < most) {
            self.text.truncate(self.text_len);
            match self.separators.quote.filter(|_| is_enclosed) {
                None => self.text.extend_from_slice(field),
                // A quote stands twice for itself.
                Some(quote) => {
                    let mut inner = field[1..field.len() - 1].iter();
                    while let Some(&byte) = inner.next() {
                        self.text.push(byte);
                        if byte == quote {
                            inner.next();
                        }
                    }
                }
            }
            self.text_len = self.text.len();
            if self.count >= self.ends.len() {
                self.ends.resize(self.count + GROWTH, 0);
            }
            self.ends[self.count] = self.text_len;
        }
        self.count += 1;
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

/// Makes the reader expect a record.
fn begin_anew(reader: &mut Reader) {
    reader.reset();
    // The reader drops a byte order mark if its first input holds a whole one. But the window has taken that of the source,
    // so another one is text. This first input holds none, and an empty line gives no record.
    reader.read_record(b"\n", &mut [0], &mut [0]);
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
