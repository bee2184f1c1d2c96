//! CSV records (RFC 4180) under a header, each turned into a JSON object of strings.

mod header;
mod record;

pub(super) use header::{Header, HeaderProblem};

use super::clip::Clip;
use super::window::{End, Window, index, too_large};
use super::{Format, Source, SourceError};
use crate::chunk::{BrokenFrame, Chunk, Frame};
use millstream_model::{Fault, Reason};
use record::{Record, Seen};

/// The format's entry in the list.
pub(super) const FORMAT: Format = Format {
    name: "csv",
    about: "comma-separated values with a header (RFC 4180); every value becomes a string, an empty one \"\"",
    open: |window| Ok(Box::new(Csv::new(window)?)),
};

/// Records of a source. A document's position is that of its record; its text is ours. An empty
/// field is the empty string, quoted or not. Empty lines are skipped.
struct Csv {
    window: Window,
    document_bytes_max: usize,
    record: Record,
    header: Header,
    done: bool,
}

impl Csv {
    fn new(mut window: Window) -> Result<Self, SourceError> {
        let (header, mut record) = Header::read(&mut window)?;
        record.keep(header.len());
        record.next();
        Ok(Self { document_bytes_max: window.options().document_bytes_max, window, record, header, done: false })
    }

    /// Appends the record's document to the chunk, or what is wrong with the record.
    fn put(&self, seen: &Seen, chunk: &mut Pending) {
        let raw = self.record.raw(self.window.bytes(), seen);
        let offset = self.window.offset() + self.record.start as u64;
        chunk.refused = chunk.refused.take().or_else(|| self.window.admit(offset, raw.len() as u64).err());
        let start = chunk.bytes.len();
        let fault = self.put_document(&mut chunk.bytes).err();
        if fault.is_some() {
            chunk.bytes.truncate(start);
            chunk.bytes.extend_from_slice(raw);
        }
        chunk.frames.push(Frame {
            start: index(start),
            len: index(chunk.bytes.len() - start),
            offset,
            line: 0,
            broken: fault.map(|fault| Box::new(BrokenFrame { fault, truncated_from: None, ends_source: false })),
        });
    }

    fn put_document(&self, out: &mut Vec<u8>) -> Result<(), Fault> {
        let (count, expected) = (self.record.count, self.header.len());
        if count != expected {
            let detail = format!("the record has {count} fields, the header {expected}");
            return Err(Fault::new(Reason::CsvFields, detail));
        }
        let start = out.len();
        for (n, (name, field)) in self.header.members().zip(self.record.fields()).enumerate() {
            let Ok(text) = std::str::from_utf8(field) else {
                let detail = format!("field {} of the record is not UTF-8", n + 1);
                return Err(Fault::new(Reason::InvalidUtf8, detail));
            };
            out.extend_from_slice(name);
            serde_json::to_writer(&mut *out, text).expect("a string can be written into memory");
        }
        out.push(b'}');
        if out.len() - start > self.document_bytes_max {
            return Err(too_large((out.len() - start) as u64, self.document_bytes_max));
        }
        Ok(())
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

    /// What to do at the end of the source.
    fn at_end(&mut self) -> Result<Option<Chunk>, SourceError> {
        self.done = true;
        if let Some(End::Damaged(why)) = self.window.end() {
            let clip = Clip::of(self.window.bytes());
            return Ok(Some(self.window.place().damaged(clip, why)));
        }
        if self.record.at == self.record.start {
            return Ok(None);
        }
        if !self.record.end() {
            return self.open_quote().map(Some);
        }
        let mut pending = Pending::default();
        self.put(&Seen::Part, &mut pending);
        self.record.next();
        self.chunk(pending).map(Some)
    }

    /// Where the quote that is open closes is unknown, and so is where the next record begins.
    fn open_quote(&mut self) -> Result<Chunk, SourceError> {
        self.done = true;
        let clip = Clip::of(&self.window.bytes()[..self.record.at]);
        Ok(self.window.place().damaged(clip, OPEN_QUOTE))
    }

    /// Takes a record that is too long in bounded memory.
    fn long_record(&mut self) -> Result<Chunk, SourceError> {
        self.take_done()?;
        if Record::is_in_quotes(&self.window.bytes()[..self.record.at]) {
            return self.open_quote();
        }
        let begin = self.window.place();
        let mut clip = Clip::default();
        let whole = loop {
            clip.push(&self.window.bytes()[..self.record.at]);
            self.window.take(std::mem::take(&mut self.record.at))?;
            self.record.forget_text();
            if self.window.bytes().is_empty() && !self.window.fill()? {
                break false;
            }
            let (n, whole) = self.record.feed(self.window.bytes());
            self.record.at = n;
            if whole {
                clip.push(&self.window.bytes()[..n]);
                clip.drop_line_end();
                break true;
            }
        };
        let damage = match self.window.end() {
            _ if whole => None,
            Some(End::Damaged(why)) => Some(why.as_str()),
            _ if !self.record.end() => Some(OPEN_QUOTE),
            _ => None,
        };
        if let Some(why) = damage {
            self.done = true;
            return Ok(begin.damaged(clip.finish(), why));
        }
        self.done = !whole;
        self.record.next();
        self.take_done()?;
        self.window.too_large(begin, clip.finish(), self.document_bytes_max)
    }
}

const OPEN_QUOTE: &str = "the CSV record has an open quote";

/// Documents for the next chunk.
#[derive(Default)]
struct Pending {
    bytes: Vec<u8>,
    frames: Vec<Frame>,
    /// Why it cannot be had, told when its bytes were compared: that they changed comes first.
    refused: Option<SourceError>,
}

impl Source for Csv {
    fn next_chunk(&mut self) -> Result<Option<Chunk>, SourceError> {
        let mut pending = Pending::default();
        while !self.done {
            match self.record.look(self.window.bytes(), self.document_bytes_max) {
                Seen::Whole => {
                    self.put(&Seen::Whole, &mut pending);
                    self.record.next();
                    if pending.bytes.len() >= self.window.options().chunk_bytes {
                        return self.chunk(pending).map(Some);
                    }
                }
                _ if !pending.frames.is_empty() => return self.chunk(pending).map(Some),
                Seen::TooLong => return self.long_record().map(Some),
                Seen::Part => {
                    self.take_done()?;
                    if !self.window.fill()? {
                        return self.at_end();
                    }
                }
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::super::SourceError;
    use super::super::transcript::{Told, bad, good, read, read_oddly};
    use fastrand::Rng;
    use millstream_model::Reason::{CsvFields, DamagedSource, InvalidUtf8, TooLarge};
    use millstream_testkit::Cases;

    fn read_both_ways(text: &[u8]) -> Vec<Told> {
        let told = read("csv", text).unwrap();
        for mut rng in Cases::new(20) {
            assert_eq!(read_oddly("csv", text, text, 100, &mut rng).unwrap(), told);
        }
        told
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
    fn a_bad_record_costs_only_itself() {
        let text = b"a,b\n1\n1,2,3,\r\n\xff,2\n1,2\n";
        let mut told = read_both_ways(text);
        assert_eq!(told.remove(2).broken, Some((InvalidUtf8, None)));
        let expected = [bad(4, 2, "1", CsvFields), bad(6, 3, "1,2,3,", CsvFields), good(18, 5, r#"{"a":"1","b":"2"}"#)];
        assert_eq!(told, expected);
        let many = [b"a,b\n".to_vec(), vec![b','; 100_000]].concat();
        assert_eq!(read("csv", &many).unwrap()[0].broken, Some((CsvFields, None)));
    }

    #[test]
    fn an_open_quote_ends_the_source_where_its_record_begins() {
        let expected = [good(4, 2, r#"{"a":"1","b":"2"}"#), bad(8, 3, "3,\"4\n5,6\n", DamagedSource)];
        assert_eq!(read_both_ways(b"a,b\n1,2\n3,\"4\n5,6\n"), expected);
        let mut endless = b"a,b\n1,2\n3,\"".to_vec();
        endless.resize(1000, b'\n');
        for mut rng in Cases::new(20) {
            let told = read_oddly("csv", &endless, &endless, 100, &mut rng).unwrap();
            assert_eq!(told[0], expected[0]);
            assert_eq!((told[1].offset, told[1].bytes.len()), (8, 101));
            assert_eq!(told[1].broken, Some((DamagedSource, None)));
        }
    }

    #[test]
    fn a_record_that_is_too_long_costs_only_itself() {
        let text = b"a\n1234567890\n12345678901\n\"1\"\n123456789012345\r\n1\n12345678901";
        for mut rng in Cases::new(50) {
            let told = read_oddly("csv", text, text, 10, &mut rng).unwrap();
            // The first record fits, but not the document made of it.
            let expected = [
                bad(2, 2, "1234567890", TooLarge),
                bad(13, 3, "12345678901", TooLarge),
                good(25, 4, r#"{"a":"1"}"#),
                bad(29, 5, "123456789012345", TooLarge),
                good(46, 6, r#"{"a":"1"}"#),
                bad(48, 7, "12345678901", TooLarge),
            ];
            assert_eq!(told, expected);
        }
    }

    #[test]
    fn headers_that_make_no_documents_are_refused() {
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

    fn put_field(text: &mut Vec<u8>, field: &str, rng: &mut Rng) {
        if rng.bool() || field.contains(['"', ',', '\n', '\r']) {
            text.extend_from_slice(format!("\"{}\"", field.replace('"', "\"\"")).as_bytes());
        } else {
            text.extend_from_slice(field.as_bytes());
        }
    }

    /// A source of random records, and what must be told of it.
    fn source(rng: &mut Rng) -> (Vec<u8>, Vec<Told>) {
        let (mut text, mut told) = (b"k,v\n".to_vec(), Vec::new());
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
            told.push(good(start as u64, line, &serde_json::to_string(&members).unwrap()));
            text.extend_from_slice(rng.choice([&b"\n"[..], b"\r\n", b"\n\n"]).unwrap());
        }
        (text, told)
    }

    #[test]
    fn every_record_is_found_whatever_the_pieces() {
        for mut rng in Cases::new(1000) {
            let (text, expected) = source(&mut rng);
            let told = read_oddly("csv", &text, &text, 1 << 20, &mut rng);
            assert_eq!(told.unwrap(), expected, "{}", String::from_utf8_lossy(&text));
        }
    }

    #[test]
    fn hostile_bytes_are_told_the_same_whatever_the_pieces() {
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
