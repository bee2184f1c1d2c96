//! One CSV record, found and split into fields piece by piece.

use super::super::dialect::{Dialect, Quote};
use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator};

/// The characters between and around fields.
#[derive(Debug, Clone, Copy)]
pub(super) struct Separators {
    pub(super) delimiter: u8,
    pub(super) quote: Option<u8>,
    /// Whether a carriage return alone ends a line too. Otherwise it is data, unless a line feed follows it.
    pub(super) returns: bool,
}

impl Separators {
    /// Those of a dialect. The delimiter is used if it names none. What ends lines is not known yet.
    pub(super) fn of(dialect: &Dialect, delimiter: u8) -> Self {
        let quote = match dialect.quote {
            Some(Quote::Byte(quote)) => Some(quote),
            Some(Quote::None) => None,
            None => Some(QUOTE),
        };
        Self { delimiter: dialect.delimiter.unwrap_or(delimiter), quote, returns: false }
    }
}

/// The quote if the dialect names none.
pub(super) const QUOTE: u8 = b'"';

/// The record that begins at the window's byte `start`.
pub(super) struct Record {
    reader: Reader,
    separators: Separators,
    pub(super) start: usize,
    /// First byte of the window that was not scanned yet.
    pub(super) at: usize,
    /// Fields without quotes, one after the other.
    text: Vec<u8>,
    text_len: usize,
    /// Where in the text each field ends.
    ends: Vec<usize>,
    /// How many fields are kept at most; the others are only counted. `None` keeps all.
    kept_max: Option<usize>,
    /// Fields seen.
    pub(super) count: usize,
}

/// How much of a record the window holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Seen {
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
    pub(super) fn new(separators: Separators) -> Self {
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
    pub(super) fn keep(&mut self, fields: usize) {
        self.kept_max = Some(fields);
        self.ends.resize(fields, 0);
    }

    /// Scans the window up to the end of the record, or to two bytes beyond `bytes_max`: one of them may be the carriage
    /// return of the line end.
    pub(super) fn look(&mut self, bytes: &[u8], bytes_max: usize) -> Seen {
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
    pub(super) fn feed(&mut self, bytes: &[u8]) -> (usize, bool) {
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
    pub(super) fn end(&mut self) -> bool {
        self.feed(b"\n").1
    }

    /// Whether a quote is open at the end of this beginning of a record.
    pub(super) fn is_in_quotes(&self, beginning: &[u8]) -> bool {
        // Another reader reads it again, because a copy of a reader does not work (csv-core 0.1.13).
        let mut probe = Self::new(self.separators);
        probe.keep(0);
        let mut rest = beginning;
        while !rest.is_empty() {
            let (n, _) = probe.feed(rest);
            probe.forget_text();
            rest = &rest[n..];
        }
        !probe.end()
    }

    /// The record as it is in the window, without its line end. Call it once, when all of the record was seen: it takes
    /// the carriage return of the line end from the last field.
    pub(super) fn raw<'a>(&mut self, bytes: &'a [u8], seen: &Seen) -> &'a [u8] {
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
    pub(super) fn fields(&self) -> impl Iterator<Item = &[u8]> {
        let ends = &self.ends[..self.count.min(self.ends.len())];
        let starts = std::iter::once(0).chain(ends.iter().copied());
        starts.zip(ends).map(|(start, &end)| &self.text[start..end])
    }

    /// Drops the text of the fields so far. Only for a record that is not stored.
    pub(super) fn forget_text(&mut self) {
        self.text_len = 0;
    }

    /// Moves to the next record.
    pub(super) fn next(&mut self) {
        self.start = self.at;
        self.text_len = 0;
        self.count = 0;
    }
}
