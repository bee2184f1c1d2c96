//! What the values and schemas of Avro become.

use super::avro_file::schema_of;
use super::{converted, whole};
use crate::columns::AVRO;
use crate::limits::{AVRO_DECIMAL_BYTES_MAX, AVRO_EMPTY_ITEMS_MAX, AVRO_NESTING_MAX};
use crate::{Nan, Trouble};
use millstream_testkit::avro::{block, header, number, sized};
use std::io::Cursor;

/// A file of one record, whose field has this type and these bytes.
fn file(of: &str, bytes: &[u8]) -> Vec<u8> {
    [header(&schema_of(of), ""), block(1, bytes)].concat()
}

/// What a value becomes.
fn value(of: &str, bytes: &[u8]) -> String {
    let text = whole(AVRO, &file(of, bytes));
    text.strip_prefix("{\"v\":").unwrap().strip_suffix("}\n").unwrap().to_owned()
}

/// Why a value cannot be read.
fn fault(of: &str, bytes: &[u8]) -> String {
    match converted(AVRO, &file(of, bytes)) {
        (text, Err(Trouble::Damaged(why))) if text.is_empty() => why,
        other => panic!("{other:?}"),
    }
}

/// Why a file with this schema is not read.
fn refusal(schema: &str) -> String {
    match converted(AVRO, &[header(schema, ""), block(1, b"\0")].concat()) {
        (text, Err(Trouble::Damaged(why))) if text.is_empty() => why,
        (text, Err(Trouble::Refused { problem, hint })) if text.is_empty() => format!("{problem}; {hint}"),
        other => panic!("{other:?}"),
    }
}

/// A type with what it means.
fn meaning(of: &str, meaning: &str) -> String {
    format!(r#"{{"type":"{of}","logicalType":"{meaning}"}}"#)
}

fn fixed(size: usize, more: &str) -> String {
    format!(r#"{{"type":"fixed","name":"F","size":{size}{more}}}"#)
}

#[test]
fn every_type_has_its_json() {
    let hex: Vec<u8> = (0..16).map(|n| n * 17).collect();
    for (of, bytes, expected) in [
        ("\"null\"", &b""[..], "null"),
        ("\"boolean\"", b"\0", "false"),
        ("\"boolean\"", b"\x01", "true"),
        ("\"int\"", &number(i64::from(i32::MIN)), "-2147483648"),
        ("\"long\"", &number(i64::MIN), "-9223372036854775808"),
        ("\"long\"", &number(9_007_199_254_740_993), "9007199254740993"),
        ("\"float\"", &0.1_f32.to_le_bytes(), "0.1"),
        ("\"double\"", &5e-324_f64.to_le_bytes(), "5e-324"),
        ("\"double\"", &(-0.0_f64).to_le_bytes(), "-0.0"),
        ("\"string\"", &sized("a\"\\\n\u{1}é".as_bytes()), "\"a\\\"\\\\\\n\\u0001é\""),
        ("{\"type\":\"string\",\"made.for\":\"Java\"}", &sized(b"x"), "\"x\""),
        ("{\"type\":{\"type\":\"string\"}}", &sized(b"x"), "\"x\""),
        ("\"bytes\"", &sized(b"\xff\x00a"), "\"/wBh\""),
        (&fixed(3, ""), b"\xff\x00a", "\"/wBh\""),
        (&fixed(0, ""), b"", "\"\""),
        (r#"{"type":"enum","name":"E","symbols":["a","b\""]}"#, &number(1), "\"b\\\"\""),
        (r#"{"type":"array","items":"int"}"#, &number(0), "[]"),
        (r#"{"type":"array","items":["null","int"]}"#, b"\x04\0\x02\x0e\x02\x02\x0c\0", "[null,7,6]"),
        // The bytes of a block may stand before its items.
        (r#"{"type":"array","items":"int"}"#, b"\x03\x04\x02\x04\x02\x06\0", "[1,2,3]"),
        (r#"{"type":"array","items":"null"}"#, b"\x06\0", "[null,null,null]"),
        (r#"{"type":"map","values":"int"}"#, b"\x02\x02a\x02\x01\x06\x02\x22\x04\0", "{\"a\":1,\"\\\"\":2}"),
        (r#"{"type":"map","values":"int"}"#, &number(0), "{}"),
        (r#"{"type":"record","name":"S","fields":[]}"#, b"", "{}"),
        (r#"{"type":"error","name":"S","fields":[{"name":"é","type":"int"}]}"#, b"\x02", "{\"é\":1}"),
        (r#"["null","int","string"]"#, b"\0", "null"),
        (r#"["null","int","string"]"#, b"\x02\x02", "1"),
        (r#"["null","int","string"]"#, b"\x04\x02x", "\"x\""),
        (&meaning("int", "date"), &number(11_016), "\"2000-02-29\""),
        (&meaning("int", "time-millis"), &number(11_045_006), "\"03:04:05.006000\""),
        (&meaning("long", "time-micros"), &number(1), "\"00:00:00.000001\""),
        (&meaning("long", "timestamp-millis"), &number(-1), "\"1969-12-31T23:59:59.999000Z\""),
        (&meaning("long", "timestamp-micros"), &number(1), "\"1970-01-01T00:00:00.000001Z\""),
        (&meaning("long", "timestamp-nanos"), &number(1), "\"1970-01-01T00:00:00.000000001Z\""),
        (&meaning("long", "local-timestamp-millis"), &number(1), "\"1970-01-01T00:00:00.001000\""),
        (&meaning("long", "local-timestamp-micros"), &number(1), "\"1970-01-01T00:00:00.000001\""),
        (&meaning("long", "local-timestamp-nanos"), &number(1_000), "\"1970-01-01T00:00:00.000001\""),
        (&meaning("string", "uuid"), &sized(b"no UUID"), "\"no UUID\""),
        (&fixed(16, ",\"logicalType\":\"uuid\""), &hex, "\"00112233-4455-6677-8899-aabbccddeeff\""),
        (&fixed(12, ",\"logicalType\":\"duration\""), b"\x0e\0\0\0\x03\0\0\0\xdc\x05\0\0", "\"P14M3DT1.500000S\""),
        // What is not known, or fits no such type, changes nothing.
        (&meaning("int", "timestamp-millis"), &number(5), "5"),
        (&meaning("long", "date"), &number(5), "5"),
        (&meaning("int", "of-elsewhere"), &number(5), "5"),
        (&fixed(3, ",\"logicalType\":\"uuid\""), b"\xff\x00a", "\"/wBh\""),
        (&fixed(4, ",\"logicalType\":\"duration\""), b"\0\0\0\0", "\"AAAAAA==\""),
    ] {
        assert_eq!(value(of, bytes), expected, "{of} {}", bytes.escape_ascii());
    }
    for meant in ["timestamp-millis", "timestamp-nanos", "local-timestamp-micros", "time-micros"] {
        for extreme in [i64::MIN, i64::MAX] {
            assert!(value(&meaning("long", meant), &number(extreme)).contains(':'), "{meant}");
        }
    }
}

#[test]
fn decimals_keep_all_digits_and_an_impossible_scale_is_no_decimal() {
    let decimal = |precision: &str, scale: &str| {
        format!(r#"{{"type":"bytes","logicalType":"decimal","precision":{precision}{scale}}}"#)
    };
    for (of, bytes, expected) in [
        (decimal("9", ",\"scale\":2"), &b"\x00\x96"[..], "1.50"),
        (decimal("9", ",\"scale\":2"), b"\xfb", "-0.05"),
        (decimal("9", ",\"scale\":2"), b"", "0.00"),
        (decimal("9", ""), b"\x80", "-128"),
        // Old writers put numbers into strings.
        (decimal("\"9\"", ",\"scale\":\"3\""), b"\x05", "0.005"),
        (decimal("60", ",\"scale\":3"), &[&[1_u8][..], &[0; 16]].concat(), "340282366920938463463374607431768211.456"),
        (decimal("0", ""), b"\x05", "\"BQ==\""),
        (decimal("2", ",\"scale\":3"), b"\x05", "\"BQ==\""),
        (decimal("9", ",\"scale\":-1"), b"\x05", "\"BQ==\""),
        (decimal("99999999", ",\"scale\":9999999"), b"\x05", "\"BQ==\""),
        (decimal("null", ""), b"\x05", "\"BQ==\""),
    ] {
        assert_eq!(value(&of, &sized(bytes)), expected, "{of}");
    }
    assert_eq!(value(&fixed(2, ",\"logicalType\":\"decimal\",\"precision\":4,\"scale\":1"), b"\xff\xff"), "-0.1");
    assert!(value(&decimal("9", ""), &sized(&[0x7f; AVRO_DECIMAL_BYTES_MAX])).len() > 2_000);
    let long = fault(&decimal("9", ""), &sized(&[0x7f; AVRO_DECIMAL_BYTES_MAX + 1]));
    assert!(long.contains("more digits than any database takes"), "{long}");
}

#[test]
fn numbers_that_json_lacks_are_null_or_words() {
    let schema = r#"{"type":"record","name":"R","fields":[{"name":"f","type":"float"},{"name":"d","type":"double"}]}"#;
    let record = [&f32::NAN.to_le_bytes()[..], &f64::NEG_INFINITY.to_le_bytes()].concat();
    let content = [header(schema, ""), block(1, &record)].concat();
    for (nan, nulls, expected) in [
        (Nan::Null, 2, "{\"f\":null,\"d\":null}\n"),
        (Nan::Reject, 0, "{\"f\":NaN,\"d\":-Infinity}\n"),
        (Nan::Text, 0, "{\"f\":\"NaN\",\"d\":\"-Infinity\"}\n"),
    ] {
        let mut converter = AVRO.expect("the feature is on")(None, nan).unwrap();
        let (mut from, mut text) = (Cursor::new(&content), Vec::new());
        while converter.more(&mut from, &mut text).unwrap() {}
        assert_eq!((String::from_utf8(text).unwrap().as_str(), converter.not_finite()), (expected, nulls));
    }
}

#[test]
fn names_are_those_of_their_space() {
    let pair = |inner: &str, again: &str| {
        format!(
            r#"{{"type":"record","name":"R","namespace":"a.b","fields":[
                 {{"name":"x","type":{inner}}},{{"name":"y","type":{again}}}]}}"#
        )
    };
    let two = r#""fields":[{"name":"n","type":"int"}]"#;
    for (inner, again) in [
        (format!(r#"{{"type":"record","name":"S",{two}}}"#), "\"S\""),
        (format!(r#"{{"type":"record","name":"S",{two}}}"#), "\"a.b.S\""),
        (format!(r#"{{"type":"record","name":"c.S","namespace":"is.not.used",{two}}}"#), "\"c.S\""),
        (format!(r#"{{"type":"record","name":"S","namespace":"c",{two}}}"#), "\"c.S\""),
        (format!(r#"{{"type":"record","name":"S","namespace":"",{two}}}"#), "\"S\""),
        (format!(r#"{{"type":"record","name":".S",{two}}}"#), "\".S\""),
        (format!(r#"{{"type":"record","name":"S",{two}}}"#), r#"{"type":"S"}"#),
    ] {
        let content = [header(&pair(&inner, again), ""), block(1, b"\x02\x04")].concat();
        assert_eq!(whole(AVRO, &content), "{\"x\":{\"n\":1},\"y\":{\"n\":2}}\n", "{inner} {again}");
    }
    // A name within a type is one of the space of that type.
    let within =
        r#"{"type":"record","name":"c.S","fields":[{"name":"n","type":{"type":"fixed","name":"F","size":1}}]}"#;
    assert!(refusal(&pair(within, "\"F\"")).contains("there is no type \"F\""));
    let content = [header(&pair(within, "\"c.F\""), ""), block(1, b"\xff\xff")].concat();
    assert_eq!(whole(AVRO, &content), "{\"x\":{\"n\":\"/w==\"},\"y\":\"/w==\"}\n");
}

#[test]
fn a_type_may_hold_itself_as_deep_as_it_goes_and_no_nesting_exhausts_the_stack() {
    let list = r#"{"type":"record","name":"L","fields":[{"name":"next","type":["null","L"]}]}"#;
    let nested =
        |levels: usize| [header(list, ""), block(1, &[&b"\x02".repeat(levels - 1)[..], b"\0"].concat())].concat();
    assert_eq!(whole(AVRO, &nested(3)), "{\"next\":{\"next\":{\"next\":null}}}\n");
    let deepest = whole(AVRO, &nested(AVRO_NESTING_MAX));
    assert_eq!(deepest.matches('{').count(), AVRO_NESTING_MAX);
    // One that holds nothing but itself has no end.
    let endless = r#"{"type":"record","name":"E","fields":[{"name":"e","type":"E"}]}"#;
    for content in [nested(AVRO_NESTING_MAX + 1), [header(endless, ""), block(1, b"")].concat()] {
        let (text, ended) = converted(AVRO, &content);
        assert!(text.is_empty());
        assert!(matches!(&ended, Err(Trouble::Damaged(why)) if why.ends_with("it nests too deeply")), "{ended:?}");
    }
}

#[test]
fn documents_of_several_types_are_read_and_what_is_no_document_is_refused() {
    let of = |name: &str| format!(r#"{{"type":"record","name":"{name}","fields":[{{"name":"{name}","type":"int"}}]}}"#);
    let union = format!("[{},{}]", of("a"), of("b"));
    let content = [header(&union, ""), block(2, b"\x02\x02\0\x04")].concat();
    assert_eq!(whole(AVRO, &content), "{\"b\":1}\n{\"a\":2}\n");
    let content = [header(r#"{"type":"map","values":"int"}"#, ""), block(2, b"\x02\x02a\x02\0\0")].concat();
    assert_eq!(whole(AVRO, &content), "{\"a\":1}\n{}\n");
    for root in ["\"long\"", "\"null\"", r#"{"type":"array","items":"int"}"#, &format!("[\"null\",{}]", of("a")), "[]"]
    {
        assert!(refusal(root).starts_with("is Avro whose values are no records; write records"), "{root}");
    }
}

#[test]
fn a_schema_that_is_none_names_what_is_wrong() {
    let deep = format!("{}\"int\"{}", "[".repeat(200), "]".repeat(200));
    for (schema, says) in [
        ("{", "its schema cannot be read: EOF while parsing"),
        ("7", "a type is neither a name nor an object nor a union"),
        ("\"other\"", "there is no type \"other\""),
        (r#"{"name":"R"}"#, "an object describes no type"),
        (r#"{"type":"record","name":"R"}"#, "a type of the kind record has no fields"),
        (r#"{"type":"record","name":"R","fields":{}}"#, "the fields of a record are no list"),
        (r#"{"type":"record","name":"R","fields":[{"type":"int"}]}"#, "a field has no name"),
        (r#"{"type":"record","name":"R","fields":[{"name":"a"}]}"#, "a field has no type"),
        (&schema_of(r#"{"type":"enum","name":"E","symbols":[1]}"#), "a symbol of an enum is no string"),
        (&schema_of(r#"{"type":"fixed","name":"F","size":-1}"#), "the size of a fixed is no length"),
        (&schema_of(r#"["int",["null"]]"#), "a union holds a union"),
        (&schema_of("\"R.\\n\""), "there is no type \"R.\\n\""),
        (&deep, "whose schema nests too deeply; write it with records that nest less"),
        (
            r#"{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}"#,
            "has a record with two fields of the same name, \"a\"; rename one of them",
        ),
    ] {
        let why = refusal(schema);
        assert!(why.contains(says), "{says}: {why}");
    }
    let long = refusal(&format!("\"{}\"", "x".repeat(1_000)));
    assert!(long.len() < 200, "{long}");
}

#[test]
fn a_value_that_lies_is_damage_with_its_place() {
    for (of, bytes, says) in [
        ("\"boolean\"", &b"\x02"[..], "a boolean is neither true nor false"),
        ("\"int\"", &number(i64::from(i32::MAX) + 1), "an int has more than 32 bits"),
        ("\"long\"", &[0xff; 11], "a number has more than 64 bits"),
        ("\"long\"", b"\xff", "a value goes beyond the end of its block"),
        ("\"string\"", &number(-1), "a length is negative"),
        ("\"string\"", b"\x04x", "a value goes beyond the end of its block"),
        ("\"double\"", b"1234567", "a value goes beyond the end of its block"),
        (r#"{"type":"enum","name":"E","symbols":["a"]}"#, &number(1), "the schema has no such symbol or branch"),
        (r#"["null","int"]"#, &number(-1), "the schema has no such symbol or branch"),
        ("[]", &number(0), "the schema has no such symbol or branch"),
        (r#"{"type":"array","items":"int"}"#, b"\x01\x01\x02\0", "a length is negative"),
        (
            r#"{"type":"array","items":"null"}"#,
            &number(i64::try_from(AVRO_EMPTY_ITEMS_MAX).unwrap() + 1),
            "an array or a map names more items than there are bytes",
        ),
        (
            r#"{"type":"map","values":"null"}"#,
            &[&number(i64::MIN)[..], &number(1)].concat(),
            "an array or a map names more items than there are bytes",
        ),
    ] {
        let why = fault(of, bytes);
        let place = format!(
            "its block 1 (at byte {}) has a record, number 1, that cannot be read: ",
            header(&schema_of(of), "").len()
        );
        assert_eq!(why, format!("{place}{says}"), "{of}");
    }
}

#[test]
fn text_that_is_not_utf8_stays_and_the_records_behind_it_are_read() {
    let records = [sized(b"\xff\xc3"), sized(b"a")].concat();
    let content = [header(&schema_of("\"string\""), ""), block(2, &records)].concat();
    let mut converter = AVRO.expect("the feature is on")(None, Nan::Null).unwrap();
    let (mut from, mut text) = (Cursor::new(&content), Vec::new());
    while converter.more(&mut from, &mut text).unwrap() {}
    assert_eq!(text, b"{\"v\":\"\xff\xc3\"}\n{\"v\":\"a\"}\n");
}

/// The type of the column of a field, and whether it is exact.
fn column(of: &str, nan: Nan) -> (Option<&'static str>, bool) {
    let content = header(&schema_of(of), "");
    let mut converter = AVRO.expect("the feature is on")(None, nan).unwrap();
    assert!(converter.columns().is_none(), "nothing was read yet");
    assert!(converter.more(&mut Cursor::new(content), &mut Vec::new()).unwrap());
    let columns = converter.columns().unwrap();
    assert_eq!((columns.len(), columns[0].name.as_str()), (1, "v"));
    (columns[0].type_name, columns[0].is_exact)
}

#[test]
fn each_type_has_a_column_that_takes_its_values() {
    let decimal = r#"{"type":"bytes","logicalType":"decimal","precision":9}"#;
    for (of, expected) in [
        ("\"null\"", None),
        ("\"boolean\"", Some("boolean")),
        ("\"int\"", Some("integer")),
        ("\"long\"", Some("bigint")),
        ("\"float\"", Some("double precision")),
        ("\"double\"", Some("double precision")),
        ("\"string\"", Some("text")),
        ("\"bytes\"", Some("text")),
        (&fixed(3, ""), Some("text")),
        (decimal, Some("numeric")),
        (&meaning("int", "date"), Some("date")),
        (&meaning("int", "time-millis"), Some("text")),
        (&meaning("long", "time-micros"), Some("text")),
        (&meaning("long", "timestamp-micros"), Some("timestamptz")),
        (&meaning("long", "local-timestamp-millis"), Some("timestamp")),
        (&meaning("string", "uuid"), Some("uuid")),
        (&fixed(16, ",\"logicalType\":\"uuid\""), Some("uuid")),
        (&fixed(12, ",\"logicalType\":\"duration\""), Some("text")),
        (r#"{"type":"enum","name":"E","symbols":["a"]}"#, Some("text")),
        (r#"{"type":"array","items":"int"}"#, Some("jsonb")),
        (r#"{"type":"map","values":"int"}"#, Some("jsonb")),
        (r#"{"type":"record","name":"S","fields":[]}"#, Some("jsonb")),
        (r#"["null","long"]"#, Some("bigint")),
        (r#"["long","null"]"#, Some("bigint")),
        (r#"["long"]"#, Some("bigint")),
        (r#"["null"]"#, None),
        (r#"["null","long","string"]"#, None),
    ] {
        assert_eq!(column(of, Nan::Null), (expected, true), "{of}");
    }
    assert_eq!(column(r#"["null","float"]"#, Nan::Text), (Some("text"), true));
    assert_eq!(column(&meaning("long", "timestamp-nanos"), Nan::Null), (Some("timestamptz"), false));
    assert_eq!(column(&meaning("long", "local-timestamp-nanos"), Nan::Null), (Some("timestamp"), false));
}
