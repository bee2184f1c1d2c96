//! Delimited records (RFC 4180) under a header, each turned into a JSON object.

#[cfg(test)]
mod given_back;
mod header;
mod reading;
mod value;

pub(super) use header::{Header, HeaderProblem};
pub(super) use reading::SingleRecords;

use super::clip::Clip;
use super::window::{Window, index};
use super::{Format, Source, SourceError, Takes};
use crate::chunk::{Chunk, Frame, UnreadableFrame};
use crate::limits::CSV_RECORD_DOCUMENTS_MAX;
use millstream_input::csv::{Record, Seen};
use millstream_input::{End, LineNumber};
use millstream_model::Fault;
use reading::{Conversion, Unread, separators, stray_on};

/// The format's entry in the list.
pub(super) const FORMAT: Format = Format {
    name: "csv",
    about: "comma-separated values with a header line (RFC 4180); strings, unless the option types or null says \
            otherwise",
    takes: &[Takes::Fields, Takes::Delimiter],
    made: None,
    open: |window| open(window, b','),
};

/// Reads records. The delimiter is used if the dialect names none.
pub(super) fn open(window: Window, delimiter: u8) -> Result<Box<dyn Source>, SourceError> {
    Ok(Box::new(Csv::new(window, delimiter)?))
}

/// Records of a source. A document has the position of its record; its text is made here. An empty field is the empty
/// string, but the dialect can make an unquoted one null. Empty lines are skipped.
///
/// A quote that opens a field may be data, and then swallow lines up to the next quote. So a record that turns out badly
/// quoted gives its lines back: each is read anew, the first one by itself.
struct Csv {
    window: Window,
    record: Record,
    reading: Conversion,
    done: bool,
}

impl Csv {
    fn new(mut window: Window, delimiter: u8) -> Result<Self, SourceError> {
        let mut separators = separators(&window.options().dialect, delimiter);
        let (header, mut record) = Header::read(&mut window, &mut separators)?;
        record.keep(header.len());
        record.next();
        let (dialect, document_bytes_max) = (window.options().dialect.clone(), window.options().document_bytes_max);
        let reading = Conversion { header, separators, dialect, document_bytes_max };
        Ok(Self { window, record, reading, done: false })
    }

    /// Appends the record's document to the chunk, or an unreadable frame if something is wrong with the record. A blank
    /// line gives nothing. Of a badly quoted record, only the first line is read.
    fn put(&mut self, seen: &Seen, chunk: &mut Pending) {
        let raw = self.record.raw(self.window.bytes(), seen);
        if raw.is_empty() {
            return self.record.next();
        }
        let start = chunk.bytes.len();
        let fault = match self.reading.put(&self.record, raw, &mut chunk.bytes) {
            Ok(()) => None,
            Err(Unread::Fault(fault)) => Some(fault),
            Err(Unread::Misquoted(..)) if self.reading.gives_back() => {
                self.record.give_back(raw, self.window.offset(), true);
                return self.put_line(chunk);
            }
            Err(Unread::Misquoted(field, at)) => Some(stray_on(field, self.window.line_at(self.record.start + at))),
        };
        self.push(start, raw, fault, chunk);
        self.record.next();
    }

    /// The same for the record's first line, whatever the rest of it.
    fn put_line(&mut self, chunk: &mut Pending) {
        let (raw, is_clear) = self.record.read_line(self.window.bytes());
        let start = chunk.bytes.len();
        let fault = self.reading.put_line(&self.record, raw, is_clear, &mut chunk.bytes).err();
        self.push(start, raw, fault, chunk);
        self.record.next();
    }

    /// Appends the frame of what was put into the chunk's bytes from `start` on, or of the record as it is.
    fn push(&self, start: usize, raw: &[u8], fault: Option<Fault>, chunk: &mut Pending) {
        let offset = self.window.offset() + self.record.start as u64;
        chunk.refused = chunk.refused.take().or_else(|| self.window.admit(offset, raw.len() as u64).err());
        let fault = fault.map(|fault| {
            chunk.bytes.truncate(start);
            chunk.bytes.extend_from_slice(raw);
            let mut lines = LineNumber::default();
            if self.reading.separators.returns {
                lines.count_returns();
            }
            lines.pass(raw);
            fault.over_lines(lines.get())
        });
        chunk.frames.push(Frame {
            start: index(start),
            len: index(chunk.bytes.len() - start),
            offset,
            line: 0,
            unreadable: fault.map(UnreadableFrame::whole),
        });
    }

    fn chunk(&mut self, mut pending: Pending) -> Result<Chunk, SourceError> {
        self.window.number(&mut pending.frames);
        self.take_done()?;
        match pending.refused {
            Some(error) => Err(error),
            None => Ok(self.window.place().chunk(pending.bytes.into(), pending.frames)),
        }
    }

    /// Takes everything before the record.
    fn take_done(&mut self) -> Result<(), SourceError> {
        let n = std::mem::take(&mut self.record.start);
        self.record.at -= n;
        self.window.take(n).map(drop)
    }

    /// Reads what is left at the end of the source. Returns the last chunk if the source is damaged there.
    fn at_end(&mut self, pending: &mut Pending) -> Option<Chunk> {
        if let Some(End::Damaged(why)) = self.window.end() {
            self.done = true;
            return Some(self.window.damaged(self.window.bytes().len(), why));
        }
        if self.record.at == self.record.start {
            self.done = true;
        } else if self.record.end() {
            self.put(&Seen::Part, pending);
        } else if self.reading.gives_back() && self.record.first_line(self.window.bytes()).is_some() {
            let raw = &self.window.bytes()[self.record.start..self.record.at];
            self.record.give_back(raw, self.window.offset(), false);
            self.put_line(pending);
        } else {
            // Nobody knows where the open quote closes, so the next record cannot be found. A last line without its end
            // is most likely cut off.
            self.done = true;
            return Some(self.window.damaged(self.record.at, OPEN_QUOTE));
        }
        None
    }

    /// Whether the record that is too long gives its lines back.
    fn is_misquoted(&self) -> bool {
        self.reading.gives_back() && self.record.seems_misquoted(self.window.bytes(), self.reading.header.len())
    }

    /// Takes a record that is too long, in bounded memory. An open quote may still close. If it does not for long, it is
    /// one that should not be there, and what comes after it would be lost as one record.
    fn long_record(&mut self) -> Result<Chunk, SourceError> {
        self.take_done()?;
        let (begin, first_line) = (self.window.place(), self.window.line());
        let mut clip = Clip::default();
        let mut left = CSV_RECORD_DOCUMENTS_MAX.saturating_mul(self.reading.document_bytes_max);
        let whole = loop {
            clip.push(&self.window.bytes()[..self.record.at]);
            left = left.saturating_sub(self.record.at);
            self.window.take(std::mem::take(&mut self.record.at))?;
            self.record.forget();
            if left == 0 || self.window.bytes().is_empty() && !self.window.fill()? {
                break false;
            }
            let bytes = self.window.bytes();
            let (n, whole) = self.record.feed(&bytes[..bytes.len().min(left)]);
            self.record.at = n;
            if whole {
                clip.push(&self.window.bytes()[..n]);
                clip.drop_line_end();
                break true;
            }
        };
        let damage = match self.window.end() {
            _ if whole => None,
            Some(End::Damaged(why)) if left > 0 => Some(why.as_str()),
            _ if !self.record.end() => Some(OPEN_QUOTE),
            _ if left == 0 => Some("the CSV record does not end"),
            _ => None,
        };
        if let Some(why) = damage {
            self.done = true;
            return Ok(begin.damaged(clip.finish(), why));
        }
        // The carriage return before the line feed, or at the end of the source.
        clip.drop_line_end();
        self.done = !whole;
        self.record.next();
        self.take_done()?;
        let lines = self.window.line() - first_line + u64::from(!whole);
        self.window.too_large(begin, clip.finish(), self.reading.document_bytes_max, lines)
    }
}

/// What an open quote at the end of a source, or far behind its record, is called.
const OPEN_QUOTE: &str = "the CSV record has an open quote";

/// Documents for the next chunk.
#[derive(Default)]
struct Pending {
    bytes: Vec<u8>,
    frames: Vec<Frame>,
    /// Why the chunk is refused. Returned after its bytes were compared, because a changed source must be reported
    /// first.
    refused: Option<SourceError>,
}

impl Source for Csv {
    fn next_chunk(&mut self) -> Result<Option<Chunk>, SourceError> {
        let mut pending = Pending::default();
        while !self.done {
            if pending.bytes.len() >= self.window.options().chunk_bytes {
                return self.chunk(pending).map(Some);
            }
            let bytes_max = self.reading.document_bytes_max;
            if self.record.is_given_back(self.window.bytes(), self.window.offset(), bytes_max) {
                self.put_line(&mut pending);
                continue;
            }
            match self.record.look(self.window.bytes(), bytes_max) {
                Seen::Whole => self.put(&Seen::Whole, &mut pending),
                _ if !pending.frames.is_empty() => return self.chunk(pending).map(Some),
                Seen::TooLong if self.is_misquoted() => {
                    let raw = &self.window.bytes()[self.record.start..self.record.at];
                    self.record.give_back(raw, self.window.offset(), false);
                    self.put_line(&mut pending);
                }
                Seen::TooLong => return self.long_record().map(Some),
                Seen::Part => {
                    self.take_done()?;
                    if !self.window.fill()?
                        && let Some(damaged) = self.at_end(&mut pending)
                    {
                        return Ok(Some(damaged));
                    }
                }
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::super::dialect::{Dialect, Quote};
    use super::super::transcript::{ReadFrame, bad, good, read, read_oddly, sizes, transcribe};
    use super::super::{Input, SourceError};
    use fastrand::Rng;
    use millstream_model::Reason::{CsvFields, DamagedSource, InvalidUtf8, TooLarge};
    use millstream_testkit::Cases;
    use millstream_testkit::Pieces;

    #[test]
    fn a_byte_order_mark_within_a_record_is_text_and_at_its_beginning_a_reject() {
        let name = |offset, line, value: &str| good(offset, line, &format!("{{\"\u{feff}a\":\"{value}\"}}"));
        assert_eq!(read_both_ways("\n\u{feff}a\n1\n".as_bytes()), [name(6, 3, "1")]);
        assert_eq!(read_both_ways("\u{feff}\u{feff}a\n1\u{feff}\n".as_bytes()), [name(8, 2, "1\u{feff}")]);
        // A mark in front of a quote makes that text, also where the record is too long.
        let long = format!("\u{feff}\"{}", "x".repeat(200));
        let text = format!("a\n{long}\n2\n");
        let expected = [bad(2, 2, &long, TooLarge), good(3 + long.len() as u64, 3, "{\"a\":\"2\"}")];
        for mut rng in Cases::new(20) {
            assert_eq!(read_oddly("csv", text.as_bytes(), text.as_bytes(), 100, &mut rng).unwrap(), expected);
        }
    }

    #[test]
    fn a_carriage_return_is_data_where_lines_end_in_line_feeds() {
        let two = |offset, line, a: &str, b: &str| good(offset, line, &format!("{{\"a\":{a},\"b\":{b}}}"));
        for (text, expected) in [
            ("a,b\n1,x\ry\n", vec![two(4, 2, r#""1""#, r#""x\ry""#)]),
            ("a,b\r\n\r\n\r1,x\r\r\n", vec![two(7, 3, r#""\r1""#, r#""x\r""#)]),
            ("a,b\n1,\"x\r\"\r\n", vec![two(4, 2, r#""1""#, r#""x\r""#)]),
            ("a,b\n1,x\r", vec![two(4, 2, r#""1""#, r#""x""#)]),
            ("a,b\r1,x\r\r2,y\r", vec![two(4, 2, r#""1""#, r#""x""#), two(9, 4, r#""2""#, r#""y""#)]),
        ] {
            assert_eq!(read_both_ways(text.as_bytes()), expected, "{text:?}");
        }
        let named = Dialect { header: Some(vec!["a".into(), "b".into()]), ..Dialect::default() };
        assert_eq!(read_as(&named, "csv", "1,2\n3,4\r5\n").unwrap()[1], r#"{"a":"3","b":"4\r5"}"#);
        assert_eq!(read_as(&named, "csv", "1,2\r3,4\r").unwrap()[1], r#"{"a":"3","b":"4"}"#);
    }

    fn read_both_ways(text: &[u8]) -> Vec<ReadFrame> {
        let got = read("csv", text).unwrap();
        for mut rng in Cases::new(20) {
            assert_eq!(read_oddly("csv", text, text, 100, &mut rng).unwrap(), got);
        }
        got
    }

    #[test]
    fn records_become_objects_of_strings() {
        for (text, expected) in [
            ("a,b\n", vec![]),
            ("a,b", vec![]),
            ("\u{feff}a,\"b\"\"\"\r\n1,x\r\n", vec![good(12, 2, r#"{"a":"1","b\"":"x"}"#)]),
            ("a,b\n1,\n\"\",2", vec![good(4, 2, r#"{"a":"1","b":""}"#), good(7, 3, r#"{"a":"","b":"2"}"#)]),
            ("a\n\n\r\n1\n\n2", vec![good(5, 4, r#"{"a":"1"}"#), good(8, 6, r#"{"a":"2"}"#)]),
            ("a\n\"x\n\"\"y\"\"\"\n\t\n", vec![good(2, 2, r#"{"a":"x\n\"y\""}"#), good(12, 4, r#"{"a":"\t"}"#)]),
        ] {
            assert_eq!(read_both_ways(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn a_bad_record_is_the_only_reject() {
        let text = b"a,b\n1\n1,2,3,\r\n\xff,2\n1,2\n";
        let mut got = read_both_ways(text);
        assert_eq!(got.remove(2).unreadable, Some((InvalidUtf8, None)));
        let expected = [bad(4, 2, "1", CsvFields), bad(6, 3, "1,2,3,", CsvFields), good(18, 5, r#"{"a":"1","b":"2"}"#)];
        assert_eq!(got, expected);
        let many = [b"a,b\n".to_vec(), vec![b','; 100_000]].concat();
        assert_eq!(read("csv", &many).unwrap()[0].unreadable, Some((CsvFields, None)));
    }

    #[test]
    fn an_open_quote_ends_the_source_at_its_record() {
        // The last line has no end, so it is most likely cut off.
        let expected = [good(4, 2, r#"{"a":"1","b":"2"}"#), bad(8, 3, "3,\"4", DamagedSource)];
        assert_eq!(read_both_ways(b"a,b\n1,2\n3,\"4"), expected);
        let mut endless = b"a,b\n1,2\n3,\"".to_vec();
        endless.resize(1000, b'\n');
        for mut rng in Cases::new(20) {
            let got = read_oddly("csv", &endless, &endless, 100, &mut rng).unwrap();
            assert_eq!(got[0], expected[0]);
            assert_eq!((got[1].offset, got[1].bytes.len()), (8, 992));
            assert_eq!(got[1].unreadable, Some((DamagedSource, None)));
        }
        // It closes, but so late that it should not have been there.
        let late = [&endless[..], &[b'\n'; 2000], b"\"\n5,6\n"].concat();
        for mut rng in Cases::new(20) {
            let got = read_oddly("csv", &late, &late, 100, &mut rng).unwrap();
            assert_eq!((got.len(), got[1].offset, got[1].unreadable), (2, 8, Some((DamagedSource, None))));
        }
        let unquoted = [b"a\n".to_vec(), vec![b'x'; 5000], b"\n1\n".to_vec()].concat();
        for mut rng in Cases::new(20) {
            let got = read_oddly("csv", &unquoted, &unquoted, 100, &mut rng).unwrap();
            assert_eq!((got.len(), got[0].unreadable), (1, Some((DamagedSource, None))));
        }
    }

    #[test]
    fn a_record_too_long_is_the_only_reject() {
        let text = b"a\n1234567890\n12345678901\n\"1\"\n123456789012345\r\n1\n12345678901";
        for mut rng in Cases::new(50) {
            let got = read_oddly("csv", text, text, 10, &mut rng).unwrap();
            // The first record fits, but not the document made of it.
            let expected = [
                bad(2, 2, "1234567890", TooLarge),
                bad(13, 3, "12345678901", TooLarge),
                good(25, 4, r#"{"a":"1"}"#),
                bad(29, 5, "123456789012345", TooLarge),
                good(46, 6, r#"{"a":"1"}"#),
                bad(48, 7, "12345678901", TooLarge),
            ];
            assert_eq!(got, expected);
        }
    }

    #[test]
    fn a_quoted_record_too_long_is_the_only_reject() {
        let (first, whole, last) = ("\"12345678,\n\n\"\"9012345\"", "\"1\"", "\"1\",\"\n2345678901\"");
        for line_end in ["\n", "\r\n"] {
            let text = ["a", first, whole, last].join(line_end);
            let at = |part: &str| text.find(part).unwrap() as u64;
            let expected = [
                bad(at(first), 2, first, TooLarge),
                good(at(whole), 5, r#"{"a":"1"}"#),
                bad(at(last), 6, last, TooLarge),
            ];
            for mut rng in Cases::new(20) {
                assert_eq!(read_oddly("csv", text.as_bytes(), text.as_bytes(), 10, &mut rng).unwrap(), expected);
            }
        }
    }

    #[test]
    fn unusable_headers_are_refused() {
        for (text, part) in [
            (&b""[..], "missing"),
            (b"\n\r\n", "missing"),
            (b"a,\n", "no name for column 2"),
            (b"a,b,a\n", "the name of column 3 twice"),
            (b"a,\xff\n", "not UTF-8 in column 2"),
            (b"a,\"b\n1,2", "open quote"),
            (b"a\0,b", "NUL"),
            (b"a;b\n1;2", "semicolons"),
            (b"a\tb\n1\t2", "tabs"),
        ] {
            let error = read("csv", text).unwrap_err();
            assert!(matches!(error, SourceError::CsvHeader { .. }));
            assert!(error.to_string().contains(part), "{error}");
            assert!(!error.hint().is_empty());
        }
    }

    fn read_as(dialect: &Dialect, format: &str, text: &str) -> Result<Vec<String>, SourceError> {
        let mut got = Vec::new();
        for mut rng in Cases::new(10) {
            let input = Input::from_reader(Box::new(Pieces::new(text.as_bytes(), 7, &mut rng)), "test", None)?;
            let mut options = sizes(*rng.choice(&[1, 16, 1000]).unwrap(), 100);
            options.dialect = dialect.clone();
            let frames = transcribe(input, format, text.as_bytes(), &options)?;
            assert!(frames.iter().all(|frame| frame.unreadable.is_none()), "{frames:?}");
            got = frames.into_iter().map(|frame| String::from_utf8(frame.bytes).unwrap()).collect();
        }
        Ok(got)
    }

    #[test]
    fn dialects_are_read_as_configured() {
        let plain = Dialect::default;
        let names = |names: &[&str]| Some(names.iter().map(|&n| n.to_owned()).collect());
        let null = |text: &str| Some(text.to_owned());
        let semicolon = Dialect { delimiter: Some(b';'), ..plain() };
        let apostrophe = Dialect { quote: Some(Quote::Byte(b'\'')), ..plain() };
        let unquoted = Dialect { quote: Some(Quote::None), ..plain() };
        let not_available = Dialect { null: null("NA"), ..plain() };
        let empty_is_null = Dialect { null: null(""), ..plain() };
        let named = Dialect { header: names(&["a", "b"]), ..plain() };
        let preamble = Dialect { skip_lines: 2, ..plain() };
        let trimmed = Dialect { trim: true, null: null("-"), ..plain() };
        let typed = Dialect { infer_types: true, trim: true, ..plain() };
        for (dialect, format, text, expected) in [
            (semicolon, "auto", "a;b\n1,5;\"x;\"\"\"\n", r#"{"a":"1,5","b":"x;\""}"#),
            (plain(), "tsv", "a\tb,c\n1\t\"2\t\"\n", r#"{"a":"1","b,c":"2\t"}"#),
            (plain(), "auto", "a\tb\n1\t2\n", r#"{"a":"1","b":"2"}"#),
            (apostrophe, "csv", "a,b\n'1,',\"2\n", r#"{"a":"1,","b":"\"2"}"#),
            (unquoted, "csv", "a,b\n\"1,2\"\n", r#"{"a":"\"1","b":"2\""}"#),
            (not_available, "csv", "a,b,c\nNA,\"NA\",\n", r#"{"a":null,"b":"NA","c":""}"#),
            (empty_is_null, "csv", "a,b,c\n,\"\",x\n", r#"{"a":null,"b":"","c":"x"}"#),
            (named, "auto", "1,2\n", r#"{"a":"1","b":"2"}"#),
            (preamble.clone(), "auto", "made by\n\na,b\n1,2\n", r#"{"a":"1","b":"2"}"#),
            (preamble.clone(), "auto", "made by\n\n\u{feff}a,b\n1,2\n", r#"{"a":"1","b":"2"}"#),
            (preamble.clone(), "csv", "made by\n\n\u{feff}\"a,\nb\",c\n1,2\n", r#"{"a,\nb":"1","c":"2"}"#),
            (preamble.clone(), "auto", "made by\r\ra,b\r1,2\r", r#"{"a":"1","b":"2"}"#),
            (preamble, "auto", "made by\r\r\n{\"a\":\"1\",\"b\":\"2\"}\r", r#"{"a":"1","b":"2"}"#),
            (trimmed, "csv", " a ,b,c\n 1\t,\" 2 \", - \n", r#"{"a":"1","b":" 2 ","c":null}"#),
            (typed, "csv", "a,b,c,d,e\n 1.50,\"2\",true,007,x\n", r#"{"a":1.50,"b":"2","c":true,"d":"007","e":"x"}"#),
        ] {
            assert_eq!(read_as(&dialect, format, text).unwrap(), [expected], "{dialect:?}");
        }
        let twice = Dialect { header: names(&["a", "a"]), ..plain() };
        assert!(matches!(read_as(&twice, "csv", "1,2\n"), Err(SourceError::CsvHeader { .. })));
        let comma = Dialect { delimiter: Some(b','), ..plain() };
        assert_eq!(read_as(&comma, "csv", "a;b\n1;2\n").unwrap(), [r#"{"a;b":"1;2"}"#]);
    }

    fn put_field(text: &mut Vec<u8>, field: &str, rng: &mut Rng) {
        if rng.bool() || field.contains(['"', ',', '\n', '\r']) {
            text.extend_from_slice(format!("\"{}\"", field.replace('"', "\"\"")).as_bytes());
        } else {
            text.extend_from_slice(field.as_bytes());
        }
    }

    /// A source of random records, and the frames to expect.
    fn source(rng: &mut Rng) -> (Vec<u8>, Vec<ReadFrame>) {
        let (mut text, mut got) = (b"k,v\n".to_vec(), Vec::new());
        for _ in 0..rng.usize(0..8) {
            let start = text.len();
            let line = text.iter().filter(|&&b| b == b'\n').count() as u64 + 1;
            let mut members = serde_json::Map::new();
            for name in ["k", "v"] {
                let field: String = (0..rng.usize(0..6))
                    .map(|_| *rng.choice(&['a', 'é', '"', ',', '\n', '\r', ' ']).unwrap())
                    .collect();
                text.extend_from_slice(if name == "v" { b"," } else { b"" });
                put_field(&mut text, &field, rng);
                members.insert(name.into(), field.into());
            }
            got.push(good(start as u64, line, &serde_json::to_string(&members).unwrap()));
            text.extend_from_slice(rng.choice([&b"\n"[..], b"\r\n", b"\n\n"]).unwrap());
        }
        (text, got)
    }

    #[test]
    fn every_record_is_found_for_any_chunking() {
        for mut rng in Cases::new(1000) {
            let (text, expected) = source(&mut rng);
            let got = read_oddly("csv", &text, &text, 1 << 20, &mut rng);
            assert_eq!(got.unwrap(), expected, "{}", String::from_utf8_lossy(&text));
        }
    }

    #[test]
    fn hostile_bytes_read_the_same_for_any_chunking() {
        for mut rng in Cases::new(2000) {
            let mut text = source(&mut rng).0;
            for _ in 0..rng.usize(1..4) {
                let at = rng.usize(3..=text.len());
                let end = rng.usize(at..=text.len().min(at + 3));
                let byte = *rng.choice(b"\"\",\n\ra\xff").unwrap();
                text.splice(at..end, (0..rng.usize(0..3)).map(|_| byte));
            }
            let document_bytes_max = rng.usize(1..60);
            let one = read_oddly("csv", &text, &text, document_bytes_max, &mut rng);
            let other = read_oddly("csv", &text, &text, document_bytes_max, &mut rng);
            assert_eq!(one.map_err(|e| e.to_string()), other.map_err(|e| e.to_string()), "{text:?}");
        }
    }
}
