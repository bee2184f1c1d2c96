//! Random documents: JSON with every oddity it allows, and damaged copies of it.

use fastrand::Rng;

/// Member names. They are few and mostly the first, so that keys are found, and so that duplicates, escaped twins and
/// array indexes are common.
const NAMES: &[&str] = &[
    "a",
    "a",
    "a",
    "a",
    "a",
    "a",
    "b",
    "b",
    "b",
    "c",
    "0",
    "1",
    "-1",
    "",
    "\\u0061",
    "\\u00e9",
    "é",
    "a\\n",
    "A",
    "ab",
    "long member name",
];

const PIECES: &[&str] = &[
    "x",
    "é",
    "漢",
    "😀",
    "0",
    "-",
    " ",
    "\\n",
    "\\\"",
    "\\\\",
    "\\/",
    "\\u0041",
    "\\u00e9",
    "\\ud83d\\ude00",
    "\\uDBFF\\uDFFF",
    "\\t\\r\\b\\f",
    "\u{7f}",
    "\u{80}",
    "plain text of more than sixteen bytes",
    "'",
    "{",
    "]",
    "\u{2028}",
    "\\uffff",
    "\u{fffd}",
];

/// Pieces jsonb refuses in a string.
const BAD_PIECES: &[&str] =
    &["\\u0000", "\\ud800", "\\udc00", "\\ud800\\ud800", "\\ud800\\u0041", "\\x", "\\u12", "\n", "\\"];

const NUMBERS: &[&str] = &[
    "0",
    "-0",
    "1",
    "-1",
    "7",
    "42",
    "1.5",
    "1.50",
    "-0.0",
    "0.001",
    "1e2",
    "1E+2",
    "1e-3",
    "-12.345e1",
    "12.5e-2",
    "0e5",
    "0e-3",
    "2147483647",
    "2147483648",
    "-2147483648",
    "-2147483649",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "123456789012345678901234567890.5",
    "1e18",
    "1e19",
    "1e1023",
    "10e-1",
    "1.0e1",
];

/// Numbers that jsonb refuses or that explode.
const HUGE_NUMBERS: &[&str] = &[
    "1e1024",
    "1e131071",
    "1e131072",
    "1e-1024",
    "1e-1025",
    "1e-16383",
    "1e-16384",
    "1e99999999999999999999",
    "0e99999999999999999999",
    "0e-20000",
    "0e1073741822",
    "0e1073741824",
    "-1E-99999",
];

const BAD_NUMBERS: &[&str] = &["01", "-", "+1", "1.", ".5", "1e", "1e+", "--1", "0x1", "NaN", "Infinity", "1_0", "-01"];

const LITERALS: &[&str] = &[
    "007",
    "-5",
    "+5",
    " 5",
    "5 ",
    "0x1f",
    "1_000",
    "2147483648",
    "-9223372036854775808",
    "9223372036854775808",
    "1e2",
    "1.0",
    "6f1c0e0a-7d3b-4a52-9f0e-3c1f5f0b9a11",
    "6F1C0E0A-7D3B-4A52-9F0E-3C1F5F0B9A11",
    "{6f1c0e0a-7d3b-4a52-9f0e-3c1f5f0b9a11}",
    "6f1c0e0a7d3b4a529f0e3c1f5f0b9a11",
    "2024-02-29",
    "2023-02-29",
    "0001-01-01",
    "9999-12-31",
    "2024-2-9",
    "20240229",
    "2024-02-29T12:34:56Z",
    "2024-02-29 12:34:56.5+01:00",
    "2024-02-29t12:34:56z",
    "2024-02-29T12:34:56",
    "2024-02-29T24:00:00Z",
    "2016-12-31T23:59:60Z",
    "2016-12-31T23:59:60.5Z",
    "0001-01-01T00:00:00+15:59",
    "9999-12-31T23:59:59.9999999Z",
    "2024-02-29T12:34:56-15:59",
    "2024-02-29T12:34:56+16:00",
    "2024-02-29T12:34:56+01",
    "now",
    "infinity",
    "epoch",
    "today",
    "true",
    "false",
    "TRUE",
    "t",
    "yes",
    "1",
    "0",
    "on",
    "",
    "null",
];

/// Containers that may be nested below a document's own.
const ROOT: u32 = 4;

/// One document, most often an object that jsonb takes.
pub(super) fn document(rng: &mut Rng) -> Vec<u8> {
    let mut text = String::new();
    let oddity = if rng.u8(..4) == 0 { 40 } else { 0 };
    let mut writer = Writer { rng, oddity, text: &mut text };
    writer.space();
    if writer.rng.u8(..50) == 0 {
        writer.value(4)
    } else {
        writer.object(4)
    }
    writer.space();
    let mut bytes = text.into_bytes();
    if rng.u8(..3) == 0 {
        for _ in 0..rng.u8(1..3) {
            damage(rng, &mut bytes);
        }
    }
    bytes
}

/// A text that is, or nearly is, a literal of a time or date.
pub(super) fn moment(rng: &mut Rng) -> String {
    let year = if rng.bool() { rng.u32(1..=9999) } else { rng.u32(1990..2030) };
    let (month, day) = (rng.u32(1..=12), rng.u32(1..=31));
    let date = format!("{year:04}-{month:02}-{day:02}");
    if rng.u8(..4) == 0 {
        return date;
    }
    let (hour, minute, second) = (rng.u32(..24), rng.u32(..60), rng.u32(..=60));
    let separator = rng.choice(["T", "t", " "]).unwrap_or("T");
    let fraction: String = match rng.usize(..18) {
        0 => String::new(),
        digits => {
            let digit = if rng.u8(..3) == 0 { |_: &mut Rng| '9' } else { |rng: &mut Rng| rng.digit(10) };
            std::iter::once('.').chain((0..digits).map(|_| digit(rng))).collect()
        }
    };
    let zone = match rng.u8(..4) {
        0 => rng.choice(["Z", "z", ""]).unwrap_or("Z").to_owned(),
        _ => format!("{}{:02}:{:02}", if rng.bool() { '+' } else { '-' }, rng.u32(..=16), rng.u32(..=60)),
    };
    format!("{date}{separator}{hour:02}:{minute:02}:{second:02}{fraction}{zone}")
}

struct Writer<'r> {
    rng: &'r mut Rng,
    /// One in this many elements is bad; 0 is none.
    oddity: u32,
    text: &'r mut String,
}

impl Writer<'_> {
    fn odd(&mut self) -> bool {
        self.oddity > 0 && self.rng.u32(..self.oddity) == 0
    }

    fn pick(&mut self, good: &[&'static str], bad: &[&'static str]) -> &'static str {
        let list = if self.odd() { bad } else { good };
        list[self.rng.usize(..list.len())]
    }

    fn space(&mut self) {
        let space =
            self.pick(&["", "", "", "", " ", "\n", "\t\r\n ", "        "], &["\u{b}", "\u{a0}", "\u{feff}", "\0"]);
        self.text.push_str(space);
    }

    fn object(&mut self, depth: u32) {
        let members = if depth == ROOT { self.rng.usize(2..12) } else { self.rng.usize(..6) };
        self.list('{', '}', members, |writer| {
            let name = writer.pick(NAMES, BAD_PIECES);
            writer.text.push('"');
            writer.text.push_str(name);
            writer.text.push('"');
            writer.space();
            let colon = writer.pick(&[":"], &["", "=", "::"]);
            writer.text.push_str(colon);
            writer.space();
            writer.value(depth - 1);
        });
    }

    fn list(&mut self, open: char, close: char, elements: usize, mut element: impl FnMut(&mut Self)) {
        self.text.push(open);
        self.space();
        for n in 0..elements {
            if n > 0 {
                let comma = self.pick(&[","], &["", ",,", ";"]);
                self.text.push_str(comma);
                self.space();
            }
            element(self);
            self.space();
        }
        if self.odd() {
            self.text.push(',');
        }
        self.text.push(close);
    }

    fn value(&mut self, depth: u32) {
        match self.rng.u8(..if depth == 0 { 7 } else { 12 }) {
            0..=1 => {
                let huge = self.rng.u8(..100) == 0;
                let number = self.pick(if huge { HUGE_NUMBERS } else { NUMBERS }, BAD_NUMBERS);
                self.text.push_str(number);
            }
            2 => {
                let number = format!("{}.{:03}", self.rng.i32(..), self.rng.u32(..1000));
                self.text.push_str(&number);
            }
            3 => {
                let name = self.pick(&["true", "false", "null"], &["True", "nul", "nulll", "undefined"]);
                self.text.push_str(name);
            }
            4 => self.string(),
            5 => {
                let literal = self.pick(LITERALS, BAD_PIECES);
                self.text.push_str(&format!("\"{literal}\""));
            }
            6 => {
                let moment = moment(self.rng);
                self.text.push_str(&format!("\"{moment}\""));
            }
            7..=9 => self.object(depth),
            _ => {
                let elements = self.rng.usize(..4);
                self.list('[', ']', elements, |writer| writer.value(depth - 1));
            }
        }
    }

    fn string(&mut self) {
        self.text.push('"');
        for _ in 0..self.rng.usize(..8) {
            let piece = self.pick(PIECES, BAD_PIECES);
            self.text.push_str(piece);
        }
        self.text.push('"');
    }
}

/// Changes some bytes, without regard for UTF-8.
fn damage(rng: &mut Rng, bytes: &mut Vec<u8>) {
    const BYTES: &[u8] = b"\"\\{}[]:,0123456789.-+eEtfnu \n\t\0\x01\x1f\x7f\x80\xbf\xc0\xc3\xed\xa0\xf0\xf4\xff";
    let at = rng.usize(..=bytes.len());
    let byte = BYTES[rng.usize(..BYTES.len())];
    match rng.u8(..5) {
        0 => bytes.insert(at, byte),
        1 if at < bytes.len() => bytes[at] = byte,
        2 if at < bytes.len() => drop(bytes.remove(at)),
        3 => bytes.truncate(at),
        _ => {
            let end = (at + rng.usize(..8)).min(bytes.len());
            let copy = bytes[at..end].to_vec();
            let to = rng.usize(..=bytes.len());
            bytes.splice(to..to, copy);
        }
    }
}
