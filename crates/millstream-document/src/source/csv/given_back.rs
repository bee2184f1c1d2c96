//! For tests: badly quoted records, whose lines are read anew.

use super::super::Input;
use super::super::dialect::{Dialect, Quote};
use super::super::transcript::{ReadFrame, bad, good, read, read_oddly, sizes, transcribe};
use fastrand::Rng;
use millstream_model::Reason::{CsvFields, CsvSyntax, DamagedSource, TooLarge};
use millstream_testkit::{Cases, Pieces};

fn one(offset: u64, line: u64, text: &str) -> ReadFrame {
    bad(offset, line, text, CsvSyntax)
}

/// A document of two columns.
fn two(offset: u64, line: u64, a: &str, b: &str) -> ReadFrame {
    let text = |value: &str| serde_json::Value::from(value).to_string();
    good(offset, line, &format!("{{\"a\":{},\"b\":{}}}", text(a), text(b)))
}

fn read_as(dialect: &Dialect, format: &str, text: &str, rng: &mut Rng) -> Vec<ReadFrame> {
    let pieces = Pieces::new(text.as_bytes(), *rng.choice(&[1, 7, 5000]).unwrap(), rng);
    let mut options = sizes(*rng.choice(&[1, 16, 1000]).unwrap(), 100);
    options.dialect = dialect.clone();
    let input = Input::from_reader(Box::new(pieces), "test", None).unwrap();
    transcribe(input, format, text.as_bytes(), &options).unwrap()
}

#[test]
fn a_badly_quoted_record_gives_its_lines_back() {
    for (text, expected) in [
        (
            "1,\"open\n2,b\n3,c\"d\n4,e\n",
            vec![two(4, 2, "1", "\"open"), two(12, 3, "2", "b"), two(16, 4, "3", "c\"d"), two(22, 5, "4", "e")],
        ),
        ("1,\"20\" pipe\r\n2,20\" pipe\r\n", vec![two(4, 2, "1", "\"20\" pipe"), two(17, 3, "2", "20\" pipe")]),
        ("\"1\",\"2\"\"\"x", vec![two(4, 2, "1", "\"2\"\"\"x")]),
        // A quote that never closes.
        ("1,\"x\n\n2,y\r\n3,z\n", vec![two(4, 2, "1", "\"x"), two(10, 4, "2", "y"), two(15, 5, "3", "z")]),
        // The line does not have its fields.
        ("1,\"x,y\n2,z\n", vec![one(4, 2, "1,\"x,y"), two(11, 3, "2", "z")]),
        ("\"a\nb\",\"c\" x\n3,d\n", vec![one(4, 2, "\"a"), two(7, 3, "b\"", "\"c\" x"), two(16, 4, "3", "d")]),
        // Blanks behind a quote: nobody knows what it encloses.
        ("\"1\" ,2\n\"3\",4\n", vec![one(4, 2, "\"1\" ,2"), two(11, 3, "3", "4")]),
        // A well quoted record, given back with the one before it, is read as such.
        (
            "1,\"x\n2,\"two\nlines\"\n3,\"y\n",
            vec![two(4, 2, "1", "\"x"), two(9, 3, "2", "two\nlines"), two(23, 5, "3", "\"y")],
        ),
        // Its fields are too many, but its quotes are right.
        ("1,\"two\nlines\",x\n2,y\n", vec![bad(4, 2, "1,\"two\nlines\",x", CsvFields), two(20, 4, "2", "y")]),
        ("\u{feff}a,b\n1,2\n", vec![one(4, 2, "\u{feff}a,b"), two(11, 3, "1", "2")]),
        // As people reported them of other readers: an escaped quote where one should close, a typographic one, and a quote
        // that opens in the last field and takes the rest of the file.
        ("1,\"foo\"\"\n2,bar\n", vec![two(4, 2, "1", "\"foo\"\""), two(13, 3, "2", "bar")]),
        ("1,\"so”\n2,b\n", vec![two(4, 2, "1", "\"so”"), two(13, 3, "2", "b")]),
        ("1,\"Boston\n2,LA\n", vec![two(4, 2, "1", "\"Boston"), two(14, 3, "2", "LA")]),
        ("1,\"CARRS\n\"\",2\n3,4\n", vec![two(4, 2, "1", "\"CARRS"), two(13, 3, "", "2"), two(18, 4, "3", "4")]),
    ] {
        for mut rng in Cases::new(20) {
            let csv = format!("a,b\n{text}");
            assert_eq!(read_as(&Dialect::default(), "csv", &csv, &mut rng), expected, "{text}");
            let tsv = csv.replace(',', "\t");
            let got = read_as(&Dialect::default(), "tsv", &tsv, &mut rng);
            let places = |frames: &[ReadFrame]| -> Vec<_> {
                frames.iter().map(|frame| (frame.offset, frame.line, frame.unreadable)).collect()
            };
            assert_eq!(places(&got), places(&expected), "{tsv}");
        }
    }
}

#[test]
fn strict_quotes_keep_a_badly_quoted_record_whole() {
    let strict = Dialect { strict_quotes: true, ..Dialect::default() };
    for (text, expected) in [
        ("1,\"open\n2,b\n3,c\"d\n4,e\n", vec![one(4, 2, "1,\"open\n2,b\n3,c\"d"), two(22, 5, "4", "e")]),
        ("1,\"20\" pipe\r\n2,20\" pipe\r\n", vec![one(4, 2, "1,\"20\" pipe"), two(17, 3, "2", "20\" pipe")]),
        ("1,2\n3,\"4\n5,6\n", vec![two(4, 2, "1", "2"), bad(8, 3, "3,\"4\n5,6\n", DamagedSource)]),
    ] {
        for mut rng in Cases::new(20) {
            assert_eq!(read_as(&strict, "csv", &format!("a,b\n{text}"), &mut rng), expected, "{text}");
        }
    }
    let unquoted = Dialect { quote: Some(Quote::None), ..Dialect::default() };
    assert_eq!(read_as(&unquoted, "csv", "a,b\n\"1\" x,\"\n", &mut Rng::new()), [two(4, 2, "\"1\" x", "\"")]);
}

#[test]
fn fields_of_a_line_that_is_given_back_follow_the_dialect() {
    let dialect = Dialect { null: Some("-".into()), trim: true, infer_types: true, ..Dialect::default() };
    let got = read_as(&dialect, "csv", "a,b,c,d\n \"x\" ,-,\"-\",\"1\" \" \n2, - ,3,\"4\"\n", &mut Rng::new());
    let documents: Vec<_> = got.iter().map(|frame| String::from_utf8_lossy(&frame.bytes)).collect();
    assert_eq!(documents, [r#"{"a":"\"x\"","b":null,"c":"-","d":"\"1\" \""}"#, r#"{"a":2,"b":null,"c":3,"d":"4"}"#]);
}

/// Reads the records of two columns the slow way: each line that is given back is read to the end again.
fn oracle(text: &[u8]) -> Vec<ReadFrame> {
    let (mut got, mut at) = (Vec::new(), 4);
    while at < text.len() {
        if text[at] == b'\n' {
            at += 1;
            continue;
        }
        let line = text[..at].iter().filter(|&&byte| byte == b'\n').count() as u64 + 1;
        let place = |bytes: &[u8], reason| ReadFrame {
            offset: at as u64,
            line,
            bytes: bytes.to_vec(),
            unreadable: Some((reason, None)),
        };
        let document = |fields: &[String]| two(at as u64, line, &fields[0], &fields[1]);
        let line_end = text[at..].iter().position(|&byte| byte == b'\n').map(|end| at + end);
        match record(&text[at..]) {
            Some((len, fields)) => {
                let raw = text[at..at + len].strip_suffix(b"\n").unwrap_or(&text[at..at + len]);
                got.push(if fields.len() == 2 { document(&fields) } else { place(raw, CsvFields) });
                at += len;
            }
            None if is_open(&text[at..]) && line_end.is_none() => {
                got.push(place(&text[at..], DamagedSource));
                break;
            }
            None => {
                let raw = &text[at..line_end.unwrap_or(text.len())];
                let fields = fields_of_line(raw).filter(|fields| fields.len() == 2);
                got.push(fields.map_or_else(|| place(raw, CsvSyntax), |fields| document(&fields)));
                at += raw.len() + 1;
            }
        }
    }
    got
}

/// A well quoted record: its length with the line end, and its fields.
fn record(text: &[u8]) -> Option<(usize, Vec<String>)> {
    let (mut fields, mut at) = (vec![String::new()], 0);
    let mut begins = true;
    while at < text.len() {
        let byte = text[at];
        if begins && byte == b'"' {
            let (content, len) = quoted(&text[at..])?;
            at += len;
            *fields.last_mut().unwrap() = content;
            if text.get(at).is_some_and(|byte| !b",\n".contains(byte)) {
                return None;
            }
            begins = false;
            continue;
        }
        at += 1;
        match byte {
            b'\n' => return Some((at, fields)),
            b',' => fields.push(String::new()),
            other => fields.last_mut().unwrap().push(char::from(other)),
        }
        begins = byte == b',';
    }
    Some((at, fields))
}

/// What stands between quotes, and the length with them.
fn quoted(text: &[u8]) -> Option<(String, usize)> {
    let (mut content, mut at) = (String::new(), 1);
    loop {
        match (text.get(at)?, text.get(at + 1)) {
            (b'"', Some(b'"')) => at += 1,
            (b'"', _) => return Some((content, at + 1)),
            _ => {}
        }
        content.push(char::from(text[at]));
        at += 1;
    }
}

/// Whether a record as the reader follows it, over text behind closing quotes, ends within quotes.
fn is_open(text: &[u8]) -> bool {
    let (mut at, mut begins) = (0, true);
    while at < text.len() {
        if begins && text[at] == b'"' {
            let Some((_, len)) = quoted(&text[at..]) else { return true };
            at += len;
            begins = false;
            continue;
        }
        if text[at] == b'\n' {
            return false;
        }
        begins = text[at] == b',';
        at += 1;
    }
    false
}

/// The fields of a line by itself. `None` where only blanks follow a closing quote.
fn fields_of_line(line: &[u8]) -> Option<Vec<String>> {
    let (mut fields, mut rest) = (Vec::new(), line);
    loop {
        let comma = |text: &[u8]| text.iter().position(|&byte| byte == b',').unwrap_or(text.len());
        let closed = quoted(rest).filter(|_| rest.first() == Some(&b'"'));
        let (field, len) = match closed {
            Some((content, len)) if rest.get(len).is_none_or(|&byte| byte == b',') => (content, len),
            Some((_, len)) if rest[len..len + comma(&rest[len..])].iter().all(|&byte| byte == b' ') => return None,
            _ => (String::from_utf8(rest[..comma(rest)].to_vec()).unwrap(), comma(rest)),
        };
        fields.push(field);
        match rest.get(len + 1..) {
            Some(next) => rest = next,
            None => return Some(fields),
        }
    }
}

#[test]
fn the_reader_agrees_with_a_slow_one_for_any_chunking() {
    for mut rng in Cases::new(6000) {
        let parts = ["a", ",", ",", "\"", "\"", "\"\"", "\n", "\n", " ", "\",\"", "b,\"c", "\"\n"];
        let body: String = (0..rng.usize(0..30)).map(|_| *rng.choice(&parts).unwrap()).collect();
        let text = format!("a,b\n{body}");
        let got = read_oddly("csv", text.as_bytes(), text.as_bytes(), 1 << 20, &mut rng).unwrap();
        assert_eq!(got, oracle(text.as_bytes()), "{text:?}");
    }
}

/// Files of which each line opens a quote that leads to the end. If each were followed there, reading them would take
/// hours.
#[test]
fn lines_are_given_back_without_following_each_to_the_end() {
    const LINES: usize = 300_000;
    for (line, last, a, b) in [("a\",\"b", "", "a\"", "\"b"), ("\"\"x\",\"c", "z\",1\n", "\"\"x\"", "\"c")] {
        let text = format!("a,b\n{}{last}", format!("{line}\n").repeat(LINES));
        let got = read("csv", text.as_bytes()).unwrap();
        assert_eq!(got.len(), LINES + usize::from(!last.is_empty()));
        let expected = two(0, 0, a, b);
        assert!(got[..LINES].iter().all(|frame| frame.unreadable.is_none() && frame.bytes == expected.bytes));
    }
}

#[test]
fn a_quote_in_front_of_the_last_column_is_data_if_its_record_is_too_long() {
    let lines = "1,\"x,y\n".to_owned() + &"2,z,w\n".repeat(100);
    for mut rng in Cases::new(20) {
        let text = format!("a,b,c\n{lines}");
        let got = read_oddly("csv", text.as_bytes(), text.as_bytes(), 100, &mut rng).unwrap();
        assert_eq!(got.len(), 101);
        assert_eq!(got[0], good(6, 2, r#"{"a":"1","b":"\"x","c":"y"}"#));
        assert!(got.iter().all(|frame| frame.unreadable.is_none()), "{got:?}");
        // In the last column, a long text may begin.
        let text = format!("a,b\n1,\"{}\"\n2,z\n", "text\n".repeat(30));
        let got = read_oddly("csv", text.as_bytes(), text.as_bytes(), 100, &mut rng).unwrap();
        assert_eq!((got.len(), got[0].unreadable), (2, Some((TooLarge, None))));
    }
}
