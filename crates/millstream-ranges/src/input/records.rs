//! Records of CSV with the lines on which they begin, in bounded memory.

use super::members::is_plain;
use super::window::Window;
use super::{Rejected, dialect, rejected};
use crate::error::Error;
use crate::limits::{LINE_BYTES_MAX, RECORD_PIECE_BYTES, SHOWN_BYTES};
use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator};
use memchr::{memchr, memchr_iter, memchr2};
use millstream_model::Refusal;
use millstream_model::words::option;

/// Records, one after the other. Empty lines are skipped, and quotation marks count at the beginning of a field. A line
/// feed ends a record, with or without a carriage return before it. If the first line ends in a carriage return alone,
/// so do the others.
pub(super) struct Records {
    window: Window,
    delimiter: u8,
    /// Whether a carriage return alone ends a line.
    returns: bool,
    reader: Reader,
    piece: Vec<u8>,
    piece_ends: Vec<usize>,
    /// Where the record begins.
    line: u64,
    /// Whether a carriage return before the bytes in view ended a line, unless a line feed follows it.
    has_returned: bool,
    /// The fields, one after the other, without delimiters.
    text: Vec<u8>,
    /// Where in the text each field ends.
    ends: Vec<usize>,
    /// The record as it was read, or its beginning if it is too long or was split without the reader.
    raw: Vec<u8>,
    /// Bytes of the record as it was read.
    bytes: usize,
    /// What breaks the rules of CSV in it.
    problem: Option<String>,
}

/// A record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record<'a> {
    text: &'a str,
    ends: &'a [usize],
    /// Whether JSON strings can hold all fields as they are.
    pub(super) is_plain: bool,
}

impl<'a> Record<'a> {
    /// Number of fields.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The text of a field.
    ///
    /// # Errors
    /// It is not UTF-8: a character begins in one field and ends in the next.
    #[inline]
    pub(super) fn field(&self, column: usize) -> Result<&'a str, String> {
        let start = if column == 0 { 0 } else { self.ends[column - 1] };
        self.text.get(start..self.ends[column]).ok_or_else(not_utf8)
    }

    /// All fields.
    ///
    /// # Errors
    /// As for [`Record::field`].
    pub(super) fn fields(&self) -> Result<Vec<&'a str>, String> {
        (0..self.len()).map(|column| self.field(column)).collect()
    }
}

#[cold]
fn not_utf8() -> String {
    "the record is not UTF-8".into()
}

impl Records {
    /// Records from the beginning of a file.
    ///
    /// # Errors
    /// The delimiter cannot be one, or the file cannot be read.
    pub(super) fn new(mut window: Window, delimiter: u8) -> Result<Self, Error> {
        if !delimiter.is_ascii() || b"\"\r\n".contains(&delimiter) {
            let problem = format!("the byte {:?} cannot separate columns", char::from(delimiter));
            let hint = format!("choose another {}, such as ';'", option("delimiter"));
            return Err(Error::Refused(Refusal::new(problem).hint(hint)));
        }
        window.skip_byte_order_mark()?;
        let returns = dialect::ends_in_return(&mut window)?;
        let terminator = if returns { Terminator::CRLF } else { Terminator::Any(b'\n') };
        let mut reader = ReaderBuilder::new().delimiter(delimiter).terminator(terminator).build();
        // The reader drops a byte order mark in its first input, which need not be the beginning of the file. An empty
        // line gives no record.
        reader.read_record(b"\n", &mut [0], &mut [0]);
        Ok(Self {
            window,
            delimiter,
            returns,
            reader,
            piece: vec![0; RECORD_PIECE_BYTES],
            piece_ends: vec![0; RECORD_PIECE_BYTES],
            line: 0,
            has_returned: false,
            text: Vec::new(),
            ends: Vec::new(),
            raw: Vec::new(),
            bytes: 0,
            problem: None,
        })
    }

    /// The file.
    pub(super) fn window(&self) -> &Window {
        &self.window
    }

    /// The line on which the record begins, from 1. No two records begin on one line: a carriage return alone ends it,
    /// too.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// The record that was read.
    ///
    /// # Errors
    /// It is too long, breaks the rules of CSV, or is not UTF-8.
    #[inline]
    pub(super) fn record(&self) -> Result<Record<'_>, String> {
        if let Some(problem) = &self.problem {
            return Err(problem.clone());
        }
        if self.bytes > LINE_BYTES_MAX {
            return Err(format!("the record has more than {LINE_BYTES_MAX} bytes"));
        }
        let text = std::str::from_utf8(&self.text).map_err(|_| not_utf8())?;
        Ok(Record { text, ends: &self.ends, is_plain: is_plain(text) })
    }

    /// The record that was read, as a reject.
    pub(super) fn rejected(&self, reason: String) -> Rejected {
        rejected(reason, &self.raw)
    }

    /// An error of the record that was read.
    pub(super) fn failed(&self, problem: &str) -> Error {
        Error::Input { name: self.window.name().to_owned(), problem: format!("line {}: {problem}", self.line) }
    }

    /// Reads the next record. `false` at the end.
    ///
    /// # Errors
    /// The file cannot be read, or it ends within quotation marks.
    pub(super) fn read(&mut self) -> Result<bool, Error> {
        while self.read_line()? {
            // A line with nothing but a carriage return is empty.
            if self.bytes > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads the next record, which may be an empty line.
    fn read_line(&mut self) -> Result<bool, Error> {
        self.text.clear();
        self.ends.clear();
        self.raw.clear();
        (self.bytes, self.problem) = (0, None);
        loop {
            let Some(first) = self.window.bytes().first().copied() else {
                if self.window.fill()? {
                    continue;
                }
                return Ok(false);
            };
            if std::mem::take(&mut self.has_returned) && first != b'\n' {
                self.window.take(0, 1);
            }
            match first {
                b'\n' => self.window.take(1, 1),
                b'\r' if self.returns => self.take_return(1),
                _ => break,
            }
        }
        self.line = self.window.line();
        let mut searched = 0;
        let line_end = loop {
            let bytes = self.window.bytes();
            let rest = &bytes[searched..];
            let line_end = if self.returns { memchr2(b'\n', b'\r', rest) } else { memchr(b'\n', rest) };
            match line_end {
                Some(line_end) => break Some(searched + line_end),
                None => searched = bytes.len(),
            }
            if searched > LINE_BYTES_MAX || !self.window.fill()? {
                break None;
            }
        };
        if line_end.is_some_and(|line_end| self.split(line_end)) {
            return Ok(true);
        }
        self.parse()?;
        Ok(true)
    }

    /// Splits a line into the fields of a record, if it has no quotation marks. Most lines have none, and this takes
    /// less time than the reader's look at each byte.
    fn split(&mut self, line_end: usize) -> bool {
        let line = dialect::without_return(&self.window.bytes()[..line_end], self.returns);
        if line.len() > LINE_BYTES_MAX || memchr(b'"', line).is_some() {
            return false;
        }
        self.problem = dialect::mark_problem(line);
        let mut start = 0;
        for end in memchr_iter(self.delimiter, line).chain([line.len()]) {
            self.text.extend_from_slice(&line[start..end]);
            self.ends.push(self.text.len());
            start = end + 1;
        }
        self.raw.extend_from_slice(&line[..line.len().min(SHOWN_BYTES + 1)]);
        self.bytes = line.len();
        if self.window.bytes()[line_end] == b'\r' {
            self.take_return(line_end + 1);
        } else {
            self.window.take(line_end + 1, 1);
        }
        true
    }

    /// Moves on by bytes that end with the carriage return at the end of a line.
    fn take_return(&mut self, bytes: usize) {
        self.window.take(bytes, 0);
        self.has_returned = true;
    }

    /// Reads any record.
    fn parse(&mut self) -> Result<(), Error> {
        loop {
            if self.window.bytes().is_empty() && !self.window.fill()? {
                return self.end();
            }
            let bytes = self.window.bytes();
            let (result, read, written, ended) = self.reader.read_record(bytes, &mut self.piece, &mut self.piece_ends);
            let room = (LINE_BYTES_MAX + 1).saturating_sub(self.raw.len());
            self.raw.extend_from_slice(&bytes[..read.min(room)]);
            self.bytes += read;
            let lines = memchr_iter(b'\n', &bytes[..read]).count() as u64;
            let has_returned = bytes[..read].ends_with(b"\r");
            self.window.take(read, lines);
            self.keep(written, ended);
            if matches!(result, ReadRecordResult::Record) {
                self.has_returned = has_returned && self.returns;
                self.check(1);
                return Ok(());
            }
        }
    }

    /// Looks for what breaks the rules of CSV in a whole record. So many bytes at its end belong to its line end, or one
    /// more, which is then taken from the last field.
    fn check(&mut self, line_end: usize) {
        if self.bytes > LINE_BYTES_MAX {
            return;
        }
        let line = &self.raw[..self.raw.len() - line_end];
        let record = dialect::without_return(line, self.returns);
        if record.len() < line.len() {
            self.text.pop();
            if let Some(end) = self.ends.last_mut() {
                *end -= 1;
            }
        }
        self.bytes = record.len();
        self.problem = dialect::problem(record, self.delimiter, self.line);
    }

    /// Ends the last record of a file, which has no line end.
    fn end(&mut self) -> Result<(), Error> {
        let (result, _, written, ended) = self.reader.read_record(b"\n", &mut self.piece, &mut self.piece_ends);
        self.keep(written, ended);
        if matches!(result, ReadRecordResult::Record) {
            self.check(0);
            return Ok(());
        }
        // Where it should have been closed is unknown, and so is how many records it has swallowed.
        Err(self.failed("the record that begins here has a quotation mark that is never closed"))
    }

    /// Keeps what the reader put out, unless the record is too long.
    fn keep(&mut self, written: usize, ended: usize) {
        if self.bytes <= LINE_BYTES_MAX {
            self.text.extend_from_slice(&self.piece[..written]);
            self.ends.extend_from_slice(&self.piece_ends[..ended]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::transcript::window;
    use super::*;
    use fastrand::Rng;

    fn records(content: &[u8], drop_bytes: usize) -> (Vec<(u64, Vec<String>)>, Option<Error>) {
        let mut records = Records::new(window(content, drop_bytes), b',').unwrap();
        let mut all = Vec::new();
        loop {
            match records.read() {
                Ok(true) => {
                    let fields = records.record().and_then(|record| record.fields());
                    // Of a reject, nothing but its line.
                    let fields = fields.unwrap_or_default();
                    all.push((records.line(), fields.into_iter().map(str::to_owned).collect()));
                }
                Ok(false) => return (all, None),
                Err(error) => return (all, Some(error)),
            }
        }
    }

    #[test]
    fn records_know_their_lines() {
        let content = b"\r\n\na,b\r\n\r\n\"c\r\nd\",e\r\n\"f\"\ng\rg\n\"h\n\",\r\n\ni\r";
        for drop_bytes in [1, 2, 3, 5, 100] {
            let (records, error) = records(content, drop_bytes);
            let expected: [(u64, &[&str]); 6] =
                [(3, &["a", "b"]), (5, &["c\r\nd", "e"]), (7, &["f"]), (8, &["g\rg"]), (9, &["h\n", ""]), (12, &["i"])];
            let owned = |fields: &[&str]| fields.iter().copied().map(str::to_owned).collect();
            let expected: [(u64, Vec<String>); 6] = expected.map(|(line, fields)| (line, owned(fields)));
            assert_eq!(records, expected);
            assert!(error.is_none(), "{error:?}");
        }
    }

    #[test]
    fn no_two_records_begin_on_one_line() {
        for content in ["a\rb\r\"c\"\rd\r\r\re\r\n\rf", "a\r\rb\n\r\"c\"\r\n\"d\ne\"\rf"] {
            for drop_bytes in [1, 2, 100] {
                let (records, _) = records(content.as_bytes(), drop_bytes);
                assert!(records.is_sorted_by(|(a, _), (b, _)| a < b), "{records:?}");
            }
        }
        let (records, _) = records(b"a\rb\r\n\r\"c\"\r\r\nd", 1);
        assert_eq!(records.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1, 2, 4, 6]);
    }

    #[test]
    fn a_quotation_mark_that_is_never_closed_is_an_error() {
        for content in [&b"a\n\"b\nc\n"[..], b"a\nb,\"", b"a\n\"b\"\"", b"a\nb,\"c\r\n\r\n"] {
            let (records, error) = records(content, 3);
            assert_eq!(records.len(), 1);
            let error = error.unwrap().to_string();
            assert_eq!(error, "here: line 2: the record that begins here has a quotation mark that is never closed");
        }
    }

    #[test]
    fn records_are_those_of_the_csv_crate() {
        let mut rng = Rng::with_seed(11);
        let mut rejects = 0;
        for _ in 0..5_000 {
            let characters = [",", "\"", "\n", "\r\n", "a", "bc", "é", " ", "\t", "1.2.3.4"];
            let content: String = (0..rng.usize(..20)).map(|_| characters[rng.usize(..characters.len())]).collect();
            let mut oracle = csv::ReaderBuilder::new();
            let mut oracle = oracle.has_headers(false).flexible(true).from_reader(content.as_bytes());
            let expected: Vec<Vec<String>> =
                oracle.records().map(|record| record.unwrap().iter().map(str::to_owned).collect()).collect();
            let (records, error) = records(content.as_bytes(), rng.usize(1..10));
            let records: Vec<Vec<String>> = records.into_iter().map(|(_, fields)| fields).collect();
            // An open quotation mark ends a record there.
            let known = expected.len() - usize::from(error.is_some());
            assert_eq!(records.len(), known, "{content:?}");
            for (record, expected) in records.iter().zip(&expected) {
                // Text behind a closing quotation mark is a reject here.
                assert!(record == expected || (record.is_empty() && content.contains('"')), "{content:?}");
                rejects += usize::from(record.is_empty());
            }
        }
        assert!(rejects > 0);
    }

    #[test]
    fn a_carriage_return_ends_lines_only_where_the_first_line_ends_so() {
        for (content, expected) in [
            ("a\rb\nc\r\n", &[(1, &["a"][..]), (2, &["b"]), (3, &["c"])][..]),
            ("a\nb\rc,\r\r\n\rd\n", &[(1, &["a"]), (2, &["b\rc", "\r"]), (3, &["\rd"])]),
            ("a\r\n\"b\r\"\r\n\r", &[(1, &["a"]), (2, &["b\r"])]),
        ] {
            for drop_bytes in [1, 2, 100] {
                let (records, error) = records(content.as_bytes(), drop_bytes);
                let records: Vec<(u64, Vec<&str>)> =
                    records.iter().map(|(line, fields)| (*line, fields.iter().map(String::as_str).collect())).collect();
                let expected: Vec<(u64, Vec<&str>)> =
                    expected.iter().map(|(line, fields)| (*line, fields.to_vec())).collect();
                assert_eq!(records, expected, "{content:?}");
                assert!(error.is_none());
            }
        }
    }

    #[test]
    fn a_record_that_is_too_long_is_passed_without_being_held() {
        for quote in ["", "\""] {
            let long = format!("{quote}{}{quote}", "x,y\u{e9}".repeat(LINE_BYTES_MAX / 3));
            let content = format!("a\n{long}\nb\n");
            let mut records = Records::new(window(content.as_bytes(), 1 << 20), b',').unwrap();
            assert!(records.read().unwrap());
            assert!(records.read().unwrap());
            assert_eq!(records.line(), 2);
            let reason = records.record().unwrap_err();
            assert_eq!(reason, format!("the record has more than {LINE_BYTES_MAX} bytes"));
            let text = records.rejected(reason).text;
            assert!(text.starts_with(&format!("{quote}x,yéx,y")) && text.ends_with('…'), "{text}");
            assert!(text.len() <= SHOWN_BYTES + '…'.len_utf8());
            assert!(records.text.capacity() <= 2 * LINE_BYTES_MAX);
            assert!(records.read().unwrap());
            assert_eq!((records.line(), records.record().unwrap().fields().unwrap()), (3, vec!["b"]));
            assert!(!records.read().unwrap());
        }
    }

    #[test]
    fn bytes_that_are_no_characters_are_found() {
        // The second record has a character that begins in one field and ends in the next.
        let content = b"a,\xff\nb\xc3,\xa9c\nd,\xc3\xa9\n";
        for drop_bytes in [1, 100] {
            let mut records = Records::new(window(content, drop_bytes), b',').unwrap();
            let mut reasons = Vec::new();
            while records.read().unwrap() {
                reasons.push(records.record().and_then(|record| record.fields().map(|_| ())).err());
            }
            let bad = Some("the record is not UTF-8".to_owned());
            assert_eq!(reasons, [bad.clone(), bad, None]);
        }
    }

    #[test]
    fn a_mark_is_cut_once_and_only_at_the_beginning() {
        let (records, _) = records("\u{feff}a\n\"\u{feff}b\"\n\u{feff}\"c\"\n\u{feff}d\n".as_bytes(), 1);
        let fields: Vec<Vec<String>> = records.into_iter().map(|(_, fields)| fields).collect();
        assert_eq!(fields, [vec!["a"], vec!["\u{feff}b"], vec![], vec![]]);
    }

    #[test]
    fn what_cannot_separate_columns_is_refused() {
        for delimiter in [b'"', b'\n', b'\r', 0xe9] {
            assert!(Records::new(window(b"", 1), delimiter).is_err(), "{delimiter}");
        }
    }
}
