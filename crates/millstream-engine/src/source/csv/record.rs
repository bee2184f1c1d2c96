//! One CSV record, found and split into fields piece by piece.

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

/// The characters between and around fields.
#[derive(Debug, Clone, Copy)]
pub(super) struct Separators {
    pub(super) delimiter: u8,
    pub(super) quote: Option<u8>,
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
        let Separators { delimiter, quote } = separators;
        let mut builder = ReaderBuilder::new();
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

    /// Scans the window up to the end of the record, or to one byte beyond `bytes_max`.
    pub(super) fn look(&mut self, bytes: &[u8], bytes_max: usize) -> Seen {
        if self.at == self.start {
            self.start += bytes[self.start..].iter().take_while(|b| matches!(b, b'\r' | b'\n')).count();
            self.at = self.start;
        }
        let limit = bytes.len().min(self.start.saturating_add(bytes_max + 1));
        while self.at < limit {
            let (n, whole) = self.feed(&bytes[self.at..limit]);
            self.at += n;
            if whole {
                return Seen::Whole;
            }
        }
        if self.at - self.start > bytes_max { Seen::TooLong } else { Seen::Part }
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

    /// The record as it is in the window, without its line end.
    pub(super) fn raw<'a>(&self, bytes: &'a [u8], seen: &Seen) -> &'a [u8] {
        // The reader ends a record with the first byte of its line end.
        &bytes[self.start..self.at - usize::from(*seen == Seen::Whole)]
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
