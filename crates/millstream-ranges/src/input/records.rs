//! Records of CSV with the lines on which they begin, in bounded memory.

use super::members::is_plain;
use super::{Rejected, fill, rejected};
use crate::error::Error;
use crate::limits::{LINE_BYTES_MAX, SHOWN_BYTES};
use memchr::memchr_iter;
use millstream_input::csv::{QUOTE, Quotes, Record, Seen, Separators, ends_in_return, stray};
use millstream_input::{LineNumber, MARK, Window};

/// Records, one after the other. Empty lines are skipped, and quotation marks count at the beginning of a field. A line
/// feed ends a record, with or without a carriage return before it. If the first line ends in a carriage return alone,
/// so do the others.
///
/// Once the number of columns is known, a badly quoted record gives its lines back, as in a load: they are read anew, the
/// first one by itself.
pub(super) struct Records {
    /// It begins with the record, except in one that is too long.
    window: Window,
    separators: Separators,
    record: Record,
    /// Where the record begins.
    line: u64,
    /// Bytes of the record as it was read.
    raw_bytes: usize,
    /// The beginning of a record that is too long.
    head: Vec<u8>,
    /// How many lines that one has.
    long_lines: u64,
    /// What is wrong with the record.
    problem: Option<String>,
    /// How many columns there are, if that is known.
    columns: Option<usize>,
}

/// The fields of a record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a> {
    text: &'a str,
    ends: &'a [usize],
    /// Whether JSON strings can hold all fields as they are.
    pub(super) is_plain: bool,
}

impl<'a> Fields<'a> {
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
    /// As for [`Fields::field`].
    pub(super) fn all(&self) -> Result<Vec<&'a str>, String> {
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
    /// The delimiter cannot be one, or the file cannot be read or is no text.
    pub(super) fn new(mut window: Window, delimiter: u8) -> Result<Self, Error> {
        if !delimiter.is_ascii() || b"\"\r\n".contains(&delimiter) {
            let problem = format!("the byte {:?} cannot separate columns", char::from(delimiter));
            let hint = "choose another --delimiter, such as ';'";
            return Err(Error::refused(problem, hint));
        }
        let mark = window.begin_text(None)?;
        window.skip(mark);
        let returns = loop {
            match ends_in_return(window.bytes()) {
                Some(returns) => break returns,
                None if window.bytes().len() > LINE_BYTES_MAX || !fill(&mut window)? => break false,
                None => {}
            }
        };
        if returns {
            // No two records may begin on one line.
            window.count_returns();
        }
        let separators = Separators { delimiter, quote: Some(QUOTE), returns };
        let record = Record::new(separators);
        let (head, problem, columns) = (Vec::new(), None, None);
        Ok(Self { window, separators, record, line: 0, raw_bytes: 0, head, long_lines: 0, problem, columns })
    }

    /// Tells how many columns the records have that follow.
    pub(super) fn expect(&mut self, columns: usize) {
        self.columns = Some(columns);
    }

    /// The file.
    pub(super) fn window(&self) -> &Window {
        &self.window
    }

    /// The line on which the record begins, from 1. No two records begin on one line.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// The fields of the record that was read.
    ///
    /// # Errors
    /// It is too long, breaks the rules of CSV, or is not UTF-8.
    #[inline]
    pub(super) fn fields(&self) -> Result<Fields<'_>, String> {
        if let Some(problem) = &self.problem {
            return Err(problem.clone());
        }
        let (text, ends) = self.record.text();
        let text = std::str::from_utf8(text).map_err(|_| not_utf8())?;
        Ok(Fields { text, ends, is_plain: is_plain(text) })
    }

    /// The record that was read, as a reject. It says how many lines it holds, if it holds several.
    pub(super) fn rejected(&self, reason: String) -> Rejected {
        let (shown, lines) = if self.head.is_empty() {
            let raw = &self.window.bytes()[..self.raw_bytes];
            (raw, self.lines_of(raw))
        } else {
            (self.head.as_slice(), self.long_lines)
        };
        let reason = if lines > 1 { format!("{reason}; it holds {lines} lines") } else { reason };
        rejected(reason, shown)
    }

    fn lines_of(&self, raw: &[u8]) -> u64 {
        let mut lines = LineNumber::default();
        if self.separators.returns {
            lines.count_returns();
        }
        lines.pass(raw);
        lines.get()
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
        self.head.clear();
        self.problem = None;
        loop {
            self.record.next();
            let seen = self.look()?;
            self.skip_done();
            self.line = self.window.line();
            let Some(seen) = seen else {
                self.read_line();
                return Ok(true);
            };
            match seen {
                Seen::TooLong => return self.long().map(|()| true),
                Seen::Part if self.record.at == 0 => return Ok(false),
                Seen::Part if !self.record.end() => return self.open().map(|()| true),
                Seen::Part | Seen::Whole => {}
            }
            // A line with nothing but a carriage return is empty.
            if self.check(seen) {
                return Ok(true);
            }
        }
    }

    /// Looks for the end of the record, and reads more until it is there or the file ends. `None`: the record begins on a
    /// line that was given back, and is that line.
    fn look(&mut self) -> Result<Option<Seen>, Error> {
        loop {
            if self.record.is_given_back(self.window.bytes(), self.window.offset(), LINE_BYTES_MAX) {
                return Ok(None);
            }
            let seen = self.record.look(self.window.bytes(), LINE_BYTES_MAX);
            if seen != Seen::Part {
                return Ok(Some(seen));
            }
            self.skip_done();
            if !fill(&mut self.window)? {
                return Ok(Some(seen));
            }
        }
    }

    /// Moves the window to the record.
    fn skip_done(&mut self) {
        let done = std::mem::take(&mut self.record.start);
        self.record.at -= done;
        self.window.skip(done);
    }

    /// Looks for what is wrong with the record. `false` if it is empty.
    fn check(&mut self, seen: Seen) -> bool {
        let raw = self.record.raw(self.window.bytes(), &seen);
        self.raw_bytes = raw.len();
        let stray = stray(raw, self.separators);
        if stray.is_some() && self.columns.is_some() {
            self.record.give_back(raw, self.window.offset(), true);
            self.read_line();
            return true;
        }
        self.problem = unfit(raw).or_else(|| {
            stray.map(|(field, rest)| {
                let line = self.line + memchr_iter(b'\n', &raw[..raw.len() - rest.len()]).count() as u64;
                format!("{} on line {line}; {TWICE}", behind_quote(field))
            })
        });
        !raw.is_empty()
    }

    /// Reads the record's first line by itself.
    fn read_line(&mut self) {
        let (raw, is_clear) = self.record.read_line(self.window.bytes());
        self.raw_bytes = raw.len();
        self.problem = unfit(raw).or_else(|| {
            if is_clear && Some(self.record.count) == self.columns {
                return None;
            }
            let quotes = Quotes::of(raw, self.separators);
            let stray = quotes.stray.map(|(field, _)| behind_quote(field));
            let problem = stray.or_else(|| Some(format!("field {} has an open quote", quotes.open?)))?;
            Some(format!("{problem}; {TWICE}"))
        });
    }

    /// Reads a record whose quote is still open at the end of the file.
    ///
    /// # Errors
    /// It is the last line, which has no end and is most likely cut off, or it is not known how many columns there are.
    fn open(&mut self) -> Result<(), Error> {
        if self.columns.is_none() || self.record.first_line(self.window.bytes()).is_none() {
            return Err(self.never_closed());
        }
        let raw = &self.window.bytes()[..self.record.at];
        self.record.give_back(raw, self.window.offset(), false);
        self.read_line();
        Ok(())
    }

    /// Passes a record without holding it, unless it is badly quoted.
    fn long(&mut self) -> Result<(), Error> {
        if self.columns.is_some_and(|columns| self.record.seems_misquoted(self.window.bytes(), columns)) {
            let raw = &self.window.bytes()[..self.record.at];
            self.record.give_back(raw, self.window.offset(), false);
            self.read_line();
            return Ok(());
        }
        self.head.extend_from_slice(&self.window.bytes()[..=SHOWN_BYTES]);
        self.problem = Some(too_long());
        loop {
            self.window.skip(std::mem::take(&mut self.record.at));
            self.record.forget();
            if self.window.bytes().is_empty() && !fill(&mut self.window)? {
                self.long_lines = self.window.line() - self.line + 1;
                return if self.record.end() { Ok(()) } else { Err(self.never_closed()) };
            }
            let (read, is_whole) = self.record.feed(self.window.bytes());
            self.record.at = read;
            if is_whole {
                // The last byte that was taken is of the line end.
                self.long_lines = self.window.line() - self.line + self.lines_of(&self.window.bytes()[..read - 1]);
                return Ok(());
            }
        }
    }

    /// Where the quotation mark should have been closed is unknown, and so is how many records the last one has swallowed.
    fn never_closed(&self) -> Error {
        self.failed("the record that begins here has a quotation mark that is never closed")
    }
}

/// What to do about a quote that is data.
const TWICE: &str = "write a quote within quotes twice";

fn behind_quote(field: usize) -> String {
    format!("field {field} has text behind its closing quote")
}

/// What is wrong with a record besides its quotes.
fn unfit(raw: &[u8]) -> Option<String> {
    if raw.len() > LINE_BYTES_MAX {
        return Some(too_long());
    }
    raw.starts_with(MARK).then(|| {
        "the record begins with a byte order mark, as the header of a joined file does; give the files without joining them"
            .into()
    })
}

fn too_long() -> String {
    format!("the record has more than {LINE_BYTES_MAX} bytes")
}

const _: () = assert!(SHOWN_BYTES < LINE_BYTES_MAX);

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
                    let fields = records.fields().and_then(|fields| fields.all());
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
            let reason = records.fields().unwrap_err();
            assert_eq!(reason, format!("the record has more than {LINE_BYTES_MAX} bytes"));
            let text = records.rejected(reason).text;
            assert!(text.starts_with(&format!("{quote}x,yéx,y")) && text.ends_with('…'), "{text}");
            assert!(text.len() <= SHOWN_BYTES + '…'.len_utf8());
            assert!(records.window.bytes().len() <= 2 * LINE_BYTES_MAX);
            assert!(records.read().unwrap());
            assert_eq!((records.line(), records.fields().unwrap().all().unwrap()), (3, vec!["b"]));
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
                reasons.push(records.fields().and_then(|fields| fields.all().map(|_| ())).err());
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
