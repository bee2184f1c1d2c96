//! What documents of BSON become, whole and broken ones, in small inputs of the kinds that others had trouble with.

use crate::limits::{BSON_DOCUMENT_BYTES_MAX, BSON_NESTING_MAX, BSON_READ_BYTES};
use crate::{BSON, MALFORMED, Nan, Trouble};
use millstream_testkit::Cases;
use serde_json::value::RawValue;
use std::io::{self, Cursor, Read};

/// A document with a member of every type, and several documents.
const EVERY_TYPE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/bson/every_type");
const ROWS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/bson/rows");

/// A document of members, each a type, a name and a value.
fn document(members: &[(u8, &str, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    for (kind, name, value) in members {
        bytes.push(*kind);
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(0);
        bytes.extend_from_slice(value);
    }
    bytes.push(0);
    with_length(bytes)
}

fn with_length(mut bytes: Vec<u8>) -> Vec<u8> {
    let length = i32::try_from(bytes.len()).unwrap();
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes
}

/// A text as a string has it.
fn string(text: &[u8]) -> Vec<u8> {
    let length = i32::try_from(text.len() + 1).unwrap();
    [&length.to_le_bytes()[..], text, b"\0"].concat()
}

fn binary(subtype: u8, bytes: &[u8]) -> Vec<u8> {
    let length = i32::try_from(bytes.len()).unwrap();
    [&length.to_le_bytes()[..], &[subtype], bytes].concat()
}

/// Gives few bytes at once.
struct Pieces<'b>(Cursor<&'b [u8]>, usize);

impl Read for Pieces<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = self.1.min(into.len());
        self.0.read(&mut into[..most])
    }
}

/// What a file becomes, how many numbers became null, and how it ends.
fn converted(content: &[u8], piece: usize, nan: Nan) -> (Vec<u8>, u64, Result<(), Trouble>) {
    let mut converter = BSON.open.expect("it is in every build")(None, nan).unwrap();
    let (mut from, mut text) = (Pieces(Cursor::new(content), piece), Vec::new());
    let ended = loop {
        match converter.more(&mut from, &mut text) {
            Ok(true) => {}
            Ok(false) => break Ok(()),
            Err(trouble) => break Err(trouble),
        }
    };
    (text, converter.not_finite(), ended)
}

/// The line of one document.
fn line(document: &[u8]) -> String {
    let (text, _, ended) = converted(document, usize::MAX, Nan::Null);
    ended.unwrap();
    String::from_utf8(text).unwrap().strip_suffix('\n').unwrap().to_owned()
}

/// The value of a member.
fn value(kind: u8, value: &[u8]) -> String {
    let line = line(&document(&[(kind, "v", value)]));
    line.strip_prefix("{\"v\":").unwrap().strip_suffix('}').unwrap().to_owned()
}

#[test]
fn every_type_has_its_json() {
    let id = b"\x50\x7f\x1f\x77\xbc\xf8\x6c\xd7\x99\x43\x90\x11";
    let hex = "507f1f77bcf86cd799439011";
    let inner = document(&[(0x10, "n", &1_i32.to_le_bytes())]);
    // The names within an array do not count: others wrote empty, equal and other ones.
    let array = document(&[(0x10, "7", &1_i32.to_le_bytes()), (0x0a, "", b""), (0x03, "", &inner)]);
    let uuid: Vec<u8> = (0..16).map(|n| n * 17).collect();
    let scope = [&string(b"f(x)")[..], &document(&[(0x07, "x", id)])].concat();
    let scope = [&i32::try_from(scope.len() + 4).unwrap().to_le_bytes()[..], &scope].concat();
    let pointer = [&string(b"db.c")[..], id].concat();
    let timestamp = [7_u32.to_le_bytes(), u32::MAX.to_le_bytes()].concat();
    let cases: &[(u8, &[u8], &str)] = &[
        (0x01, &1.0_f64.to_le_bytes(), "1.0"),
        (0x01, &(-0.0_f64).to_le_bytes(), "-0.0"),
        (0x01, &5e-324_f64.to_le_bytes(), "5e-324"),
        (0x02, &string(b""), "\"\""),
        (0x02, &string("a\"\\\n\u{1}é".as_bytes()), "\"a\\\"\\\\\\n\\u0001é\""),
        (0x03, &inner, "{\"n\":1}"),
        (0x03, &document(&[]), "{}"),
        (0x04, &document(&[]), "[]"),
        (0x04, &array, "[1,null,{\"n\":1}]"),
        (0x05, &binary(0, b"\xff\x00a"), "\"/wBh\""),
        (0x05, &binary(0, b""), "\"\""),
        (0x05, &binary(2, &[&3_i32.to_le_bytes()[..], b"\xff\x00a"].concat()), "\"/wBh\""),
        (0x05, &binary(3, &uuid), "\"ABEiM0RVZneImaq7zN3u/w==\""),
        (0x05, &binary(4, &uuid), "\"00112233-4455-6677-8899-aabbccddeeff\""),
        (0x05, &binary(4, b"short"), "\"c2hvcnQ=\""),
        (0x05, &binary(0x80, b"\xff\x00a"), "\"/wBh\""),
        (0x06, b"", "null"),
        (0x07, id, &format!("\"{hex}\"")),
        (0x08, b"\x00", "false"),
        (0x08, b"\x01", "true"),
        (0x09, &1_704_164_645_006_i64.to_le_bytes(), "\"2024-01-02T03:04:05.006000Z\""),
        (0x09, &(-1_i64).to_le_bytes(), "\"1969-12-31T23:59:59.999000Z\""),
        // The year before the first, and those that RFC 3339 cannot write.
        (0x09, &(-62_135_769_600_000_i64).to_le_bytes(), "\"0000-12-30T00:00:00.000000Z\""),
        (0x09, &253_402_300_800_000_i64.to_le_bytes(), "\"+10000-01-01T00:00:00.000000Z\""),
        (0x0a, b"", "null"),
        (0x0b, b"^a/\"\0im\0", "{\"$regularExpression\":{\"pattern\":\"^a/\\\"\",\"options\":\"im\"}}"),
        (0x0c, &pointer, &format!("{{\"$dbPointer\":{{\"$ref\":\"db.c\",\"$id\":\"{hex}\"}}}}")),
        (0x0d, &string(b"f()"), "{\"$code\":\"f()\"}"),
        (0x0e, &string(b"sym"), "\"sym\""),
        (0x0f, &scope, &format!("{{\"$code\":\"f(x)\",\"$scope\":{{\"x\":\"{hex}\"}}}}")),
        (0x10, &i32::MIN.to_le_bytes(), "-2147483648"),
        (0x11, &timestamp, "{\"$timestamp\":{\"t\":4294967295,\"i\":7}}"),
        (0x12, &i64::MIN.to_le_bytes(), "-9223372036854775808"),
        (0x12, &9_007_199_254_740_993_i64.to_le_bytes(), "9007199254740993"),
        (0x13, &(0x303c_u128 << 112 | 150).to_le_bytes(), "1.50"),
        (0x7f, b"", "{\"$maxKey\":1}"),
        (0xff, b"", "{\"$minKey\":1}"),
    ];
    for (kind, bytes, expected) in cases {
        assert_eq!(value(*kind, bytes), *expected, "{kind:x} {}", bytes.escape_ascii());
    }
    for milliseconds in [i64::MIN, i64::MAX] {
        assert!(value(0x09, &milliseconds.to_le_bytes()).ends_with("Z\""));
    }
}

#[test]
fn numbers_that_json_lacks_are_null_or_words() {
    let decimal = |high: u64| (u128::from(high) << 64).to_le_bytes();
    let content = document(&[
        (0x01, "a", &f64::NAN.to_le_bytes()),
        (0x01, "b", &f64::NEG_INFINITY.to_le_bytes()),
        (0x13, "c", &decimal(0x7c00_0000_0000_0000)),
        (0x13, "d", &decimal(0x7800_0000_0000_0000)),
    ]);
    for (nan, nulls, expected) in [
        (Nan::Null, 4, "{\"a\":null,\"b\":null,\"c\":null,\"d\":null}\n"),
        (Nan::Reject, 0, "{\"a\":NaN,\"b\":-Infinity,\"c\":NaN,\"d\":Infinity}\n"),
        (Nan::Text, 0, "{\"a\":\"NaN\",\"b\":\"-Infinity\",\"c\":\"NaN\",\"d\":\"Infinity\"}\n"),
    ] {
        let (text, not_finite, ended) = converted(&content, 7, nan);
        assert_eq!((String::from_utf8(text).unwrap().as_str(), not_finite), (expected, nulls));
        ended.unwrap();
    }
}

#[test]
fn members_keep_their_order_and_their_bytes() {
    // Of members with the same name jsonb takes the last.
    let twice = document(&[(0x10, "a", &1_i32.to_le_bytes()), (0x10, "a", &2_i32.to_le_bytes())]);
    assert_eq!(line(&twice), "{\"a\":1,\"a\":2}");
    assert_eq!(line(&document(&[(0x0a, "", b""), (0x0a, "$a.b\"", b"")])), "{\"\":null,\"$a.b\\\"\":null}");
    // Text that is not UTF-8 stays, and whoever reads the line rejects it. So does what jsonb cannot hold.
    let (text, _, ended) = converted(&document(&[(0x02, "a", &string(b"\xff\xc3"))]), 100, Nan::Null);
    assert_eq!(text, b"{\"a\":\"\xff\xc3\"}\n");
    ended.unwrap();
    assert_eq!(value(0x02, &string(b"a\0b")), "\"a\\u0000b\"");
    assert_eq!(value(0x02, &string(&[0xef, 0xbf, 0xbd])), "\"\u{fffd}\"");
}

#[test]
fn a_document_that_lies_within_its_length_is_one_line_and_the_next_is_read() {
    let good = document(&[(0x10, "n", &1_i32.to_le_bytes())]);
    let with = |kind: u8, value: &[u8]| document(&[(kind, "v", value)]);
    let lying = |kind: u8, length: i32, rest: &[u8]| with(kind, &[&length.to_le_bytes()[..], rest].concat());
    let scope = |length: i32| lying(0x0f, length, &[&string(b"")[..], &document(&[])].concat());
    assert!(line(&scope(14)).starts_with('{'));
    for (document, says) in [
        (lying(0x02, 0, b""), "a string does not end where its length says"),
        (lying(0x02, -1, b"\0"), "a length is negative"),
        (lying(0x02, 100, b"a\0"), "a value goes beyond the end of its document"),
        (lying(0x02, 2, b"ab\0"), "a string does not end where its length says"),
        (lying(0x03, 4, b"\0"), "the length of a document or array is wrong"),
        (lying(0x03, 100, b"\0"), "the length of a document or array is wrong"),
        (lying(0x04, 6, b"\0\0"), "a document or array ends before its length says"),
        (lying(0x03, i32::MIN, b"\0"), "a length is negative"),
        (lying(0x05, i32::MAX, b"\0"), "a value goes beyond the end of its document"),
        (
            with(0x05, &binary(2, &[&7_i32.to_le_bytes()[..], b"abc"].concat())),
            "the two lengths of a binary value differ",
        ),
        (with(0x05, &binary(2, b"ab")), "the two lengths of a binary value differ"),
        (with(0x08, b"\x02"), "a boolean is neither true nor false"),
        (with(0x0b, b"^a"), "a name or an expression does not end"),
        (with(0x14, b""), "a value has a type that BSON does not have"),
        (scope(15), "the length of code with its scope is wrong"),
        (scope(0), "the length of code with its scope is wrong"),
        (with(0x12, b"1234567"), "a value goes beyond the end of its document"),
        (with_length(b"....\x10name".iter().chain(b"\0").copied().collect()), "a name or an expression does not end"),
        (with_length(b"....\x0aa\0\0\0".to_vec()), "a document or array ends before its length says"),
    ] {
        let content = [&good[..], &document, &good].concat();
        let (text, _, ended) = converted(&content, 5, Nan::Null);
        ended.unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[0], lines[2]), (3, "{\"n\":1}", "{\"n\":1}"), "{says}: {text}");
        assert!(lines[1].starts_with(&format!("!{says} (byte ")), "{says}: {}", lines[1]);
        let base64 = lines[1].rsplit_once(": ").unwrap().1;
        let mut expected = Vec::new();
        crate::spelling::bytes(&mut expected, &document);
        assert_eq!(format!("\"{base64}\"").as_bytes(), expected);
    }
}

#[test]
fn a_file_that_lies_about_its_documents_is_damaged_and_what_stands_before_comes_out() {
    let good = document(&[(0x10, "n", &1_i32.to_le_bytes())]);
    let mut open_end = good.clone();
    *open_end.last_mut().unwrap() = 1;
    let length = |length: i32| length.to_le_bytes().to_vec();
    for (rest, says) in [
        (length(4), "stands no length of one"),
        (length(-5), "stands no length of one"),
        (length(i32::MAX), "stands no length of one"),
        (length(i32::try_from(BSON_DOCUMENT_BYTES_MAX + 1).unwrap()), "stands no length of one"),
        (b"\0\0\0\0\0\0".to_vec(), "stands no length of one"),
        (open_end, "a document begins that does not end where its length says"),
        (vec![5], "it ends within the document that begins at its byte 12"),
        (good[..good.len() - 1].to_vec(), "it ends within the document that begins at its byte 12"),
    ] {
        for piece in [1, 5, 1000] {
            let (text, _, ended) = converted(&[&good[..], &rest].concat(), piece, Nan::Null);
            assert_eq!(text, b"{\"n\":1}\n");
            let why = match ended {
                Err(Trouble::Damaged(why)) => why,
                other => panic!("{other:?}"),
            };
            assert!(why.contains(says) && why.contains("its byte 12"), "{why}");
        }
    }
}

#[test]
fn no_nesting_exhausts_the_stack() {
    let nested = |depth: usize| {
        let mut inner = document(&[]);
        for _ in 1..depth {
            inner = document(&[(0x03, "d", &inner)]);
        }
        inner
    };
    let deepest = line(&nested(BSON_NESTING_MAX));
    assert_eq!(deepest.matches('{').count(), BSON_NESTING_MAX);
    assert!(line(&nested(BSON_NESTING_MAX + 1)).starts_with("!a document or array is nested too deeply"));
    // Scopes nest, too.
    let mut scope = document(&[]);
    for _ in 0..BSON_NESTING_MAX {
        let value = [&string(b"")[..], &scope].concat();
        let length = i32::try_from(value.len() + 4).unwrap();
        scope = document(&[(0x0f, "", &[&length.to_le_bytes()[..], &value].concat())]);
    }
    assert!(line(&scope).starts_with("!a document or array is nested too deeply"));
}

#[test]
fn the_sizes_of_reads_change_nothing() {
    let long = document(&[(0x02, "text", &string(&vec![b'x'; 2 * BSON_READ_BYTES]))]);
    let content: Vec<u8> = (0..3000_i32)
        .flat_map(|n| if n == 1000 { long.clone() } else { document(&[(0x10, "n", &n.to_le_bytes())]) })
        .collect();
    let (expected, _, ended) = converted(&content, usize::MAX, Nan::Null);
    ended.unwrap();
    assert_eq!(expected.iter().filter(|byte| **byte == b'\n').count(), 3000);
    for piece in [997, 65_536] {
        assert!(converted(&content, piece, Nan::Null).0 == expected, "{piece}");
    }
    assert_eq!(converted(b"", 1, Nan::Null).0, b"", "a collection without documents is a file without bytes");
}

#[test]
fn the_longest_document_is_read() {
    let empty = document(&[(0x05, "b", &binary(0, b""))]).len();
    let longest = document(&[(0x05, "b", &binary(0, &vec![7; BSON_DOCUMENT_BYTES_MAX - empty]))]);
    assert_eq!(longest.len(), BSON_DOCUMENT_BYTES_MAX);
    assert!(line(&longest).len() > BSON_DOCUMENT_BYTES_MAX);
}

#[test]
fn a_file_is_recognised_by_its_first_document_and_text_is_not() {
    let dump = document(&[(0x07, "_id", b"\x50\x7f\x1f\x77\xbc\xf8\x6c\xd7\x99\x43\x90\x11")]);
    let large = |length: i32| [&length.to_le_bytes()[..], b"\x02_id\0"].concat();
    for content in [&dump, &document(&[]), &large(0x62_0061), &large(0x7b_feff), &large(1_000_000)] {
        let known = content.iter().skip(4).position(|byte| *byte == 0).unwrap() + 5;
        for length in 0..known {
            assert!(BSON.is_open(&content[..length]) && !BSON.begins(&content[..length]), "{length}");
        }
        assert!(BSON.begins(content) && !BSON.is_open(content), "{}", content.escape_ascii());
    }
    let wide = |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
    for content in [
        &b"{}"[..],
        b"[]\n",
        b"{\"a\":1}",
        b"1,2\n",
        b"\0\0\0\0\0",
        b"\x04\0\0\0\0",
        b"\x05\0\0\0\x01\0",
        b"\x06\0\0\0\0\0",
        b"\x10\0\0\0\x14a\0",
        b"\x10\0\0\0\x10\0",
        b"\x10\0\0\0\x10a\nb\0",
        b"\xff\xff\xff\xff\x10\0\0\0",
        b"PAR1",
        b"\x6d\xe2\x99\x81",
        &wide("{\n\t\"a\":1}"),
        &wide("ab\u{4e0a},"),
        &wide("\u{feff}a\u{4e0a},"),
        b"{\0\0\0\n\0\0\0",
    ] {
        assert!(!BSON.begins(content) && !BSON.is_open(content), "{}", content.escape_ascii());
    }
}

#[test]
fn bytes_that_are_changed_or_cut_anywhere_leave_whole_lines() {
    let contents = [EVERY_TYPE, ROWS].map(|file| std::fs::read(file).unwrap());
    for mut rng in Cases::new(3000) {
        let mut content = [&contents[rng.usize(0..2)][..], &contents[1]].concat();
        for _ in 0..rng.usize(0..4) {
            let (at, any) = (rng.usize(0..content.len()), rng.u8(..));
            content[at] = *rng.choice(&[0, 1, 2, 4, 0x7f, 0x80, 0xff, any]).unwrap();
        }
        if rng.bool() {
            content.truncate(rng.usize(0..=content.len()));
        }
        let (text, nulls, ended) = converted(&content, rng.usize(1..100), Nan::Null);
        let (other, other_nulls, other_ended) = converted(&content, usize::MAX, Nan::Null);
        assert!(text == other && nulls == other_nulls, "the sizes of reads change the text");
        assert_eq!(format!("{ended:?}"), format!("{other_ended:?}"));
        assert!(matches!(ended, Ok(()) | Err(Trouble::Damaged(_))), "{ended:?}");
        assert!(text.is_empty() || text.ends_with(b"\n"), "half a line");
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            // What is not UTF-8 stays so within strings.
            let shown = String::from_utf8_lossy(line);
            let is_object = serde_json::from_str::<&RawValue>(&shown).is_ok_and(|value| value.get().starts_with('{'));
            assert!(is_object || line[0] == MALFORMED, "{shown}");
        }
    }
}
