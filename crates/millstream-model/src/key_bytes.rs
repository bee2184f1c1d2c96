//! The canonical bytes of a key: `memcmp` order is the order of PostgreSQL's B-tree, equal bytes
//! are equal keys.
//!
//! | type | bytes |
//! |---|---|
//! | text (collation "C") | the UTF-8 bytes, then 0x00, which text cannot hold |
//! | varchar (collation "C") | as text |
//! | bigint, integer, smallint | big-endian, sign bit flipped |
//! | numeric | as in `decimal.rs`, the same for 1 and 1.0 |
//! | uuid | its 16 bytes |
//! | timestamptz, timestamp | microseconds since 2000-01-01 as a bigint |
//! | date | days since 2000-01-01 as an integer |
//! | boolean | 0 or 1 |
//!
//! No encoding is the prefix of another one of its type. So the bytes of the columns are simply
//! concatenated, and hashing, sorting and folding need not know the types.

use crate::key_type::Shape;
pub use crate::ordered::put_i32;
use crate::{KeyType, date, decimal};
use bytes::BufMut;

/// Ends a text, and sorts a prefix first. Text cannot hold this byte.
const TEXT_END: u8 = 0;

/// Appends a text without NUL.
#[inline]
pub fn put_text(text: &[u8], key: &mut Vec<u8>) {
    debug_assert!(!text.contains(&TEXT_END));
    key.extend_from_slice(text);
    key.push(TEXT_END);
}

/// Appends a bigint, or the microseconds of a timestamptz.
#[inline]
pub fn put_i64(value: i64, key: &mut Vec<u8>) {
    key.extend_from_slice(&(value ^ i64::MIN).to_be_bytes());
}

/// Appends a smallint.
#[inline]
pub fn put_i16(value: i16, key: &mut Vec<u8>) {
    key.extend_from_slice(&(value ^ i16::MIN).to_be_bytes());
}

/// Appends a uuid.
#[inline]
pub fn put_uuid(value: [u8; 16], key: &mut Vec<u8>) {
    key.extend_from_slice(&value);
}

/// Appends a boolean.
#[inline]
pub fn put_bool(value: bool, key: &mut Vec<u8>) {
    key.push(u8::from(value));
}

/// Appends the key's columns as fields of PostgreSQL's binary COPY: per column its length as an
/// `i32` and the value as the type's `recv` function reads it.
///
/// # Panics
/// If `key` is not the canonical bytes of these types, which is a bug of the caller.
#[inline]
pub fn put_copy_fields(types: &[KeyType], key: &[u8], out: &mut impl BufMut) {
    let mut rest = key;
    for &key_type in types {
        let (shape, value) = split_column(key_type, &mut rest);
        let bytes = if shape == Shape::Decimal { decimal::wire_bytes(value) } else { value.len() };
        out.put_i32(i32::try_from(bytes).expect("a key column is shorter than a document"));
        match shape {
            Shape::Text | Shape::Uuid | Shape::Boolean => out.put_slice(value),
            Shape::Int64 => out.put_i64(get_i64(value)),
            Shape::Int32 => out.put_i32(get_i32(value)),
            Shape::Int16 => out.put_i16(get_i16(value)),
            Shape::Decimal => decimal::put_wire(value, out),
        }
    }
    assert!(rest.is_empty(), "a key has no bytes after its columns");
}

/// Appends the canonical bytes of a value in the format of the type's `send` function. Returns `None` and appends
/// nothing if the bytes do not have the length of such a value.
pub fn put_from_wire(key_type: KeyType, wire: &[u8], key: &mut Vec<u8>) -> Option<()> {
    match key_type.shape() {
        Shape::Text => put_text(wire, key),
        Shape::Int64 => put_i64(i64::from_be_bytes(wire.try_into().ok()?), key),
        Shape::Int32 => put_i32(i32::from_be_bytes(wire.try_into().ok()?), key),
        Shape::Int16 => put_i16(i16::from_be_bytes(wire.try_into().ok()?), key),
        Shape::Uuid => put_uuid(wire.try_into().ok()?, key),
        Shape::Boolean => put_bool(*wire.first()? != 0, key),
        Shape::Decimal => return decimal::put_from_wire(wire, key).then_some(()),
    }
    Some(())
}

/// Size of the key's B-tree tuple in bytes if PostgreSQL does not compress it. Compare it with
/// [`INDEX_TUPLE_BYTES_MAX`](crate::limits::INDEX_TUPLE_BYTES_MAX). PostgreSQL compresses texts
/// above about 500 bytes if it can. Whether a key fits does not depend on that here.
///
/// Source: `index_form_tuple` and `heap_compute_data_size`.
///
/// # Panics
/// If `key` is not the canonical bytes of these types, which is a bug of the caller.
pub fn index_tuple_bytes(types: &[KeyType], key: &[u8]) -> usize {
    const HEADER_BYTES: usize = 8;
    const SHORT_TEXT_BYTES_MAX: usize = 126;
    let mut rest = key;
    let mut data = 0_usize;
    for &key_type in types {
        let (shape, value) = split_column(key_type, &mut rest);
        let bytes = if shape == Shape::Decimal { decimal::stored_bytes(value) } else { value.len() };
        data = match shape {
            Shape::Text | Shape::Decimal if bytes <= SHORT_TEXT_BYTES_MAX => data + 1,
            Shape::Text | Shape::Decimal => data.next_multiple_of(4) + 4,
            Shape::Int64 => data.next_multiple_of(8),
            Shape::Int32 => data.next_multiple_of(4),
            Shape::Int16 => data.next_multiple_of(2),
            Shape::Uuid | Shape::Boolean => data,
        } + bytes;
    }
    (HEADER_BYTES + data).next_multiple_of(8)
}

/// Each column as readable text, which PostgreSQL reads, and [`put_literal`](crate::put_literal) if documents may have
/// such a key: not years before Christ, and no infinity. Times are in UTC, UUIDs in lower case.
///
/// # Panics
/// If `key` is not the canonical bytes of these types, which is a bug of the caller.
pub fn key_texts(types: &[KeyType], key: &[u8]) -> Vec<String> {
    let mut rest = key;
    types
        .iter()
        .map(|&key_type| {
            let (shape, value) = split_column(key_type, &mut rest);
            match (shape, key_type.column()) {
                (Shape::Text, _) => String::from_utf8_lossy(value).into_owned(),
                (Shape::Int64, KeyType::Timestamptz) => date::timestamp_text(get_i64(value), "Z"),
                (Shape::Int64, KeyType::Timestamp) => date::timestamp_text(get_i64(value), ""),
                (Shape::Int64, _) => get_i64(value).to_string(),
                (Shape::Int32, KeyType::Date) => date::date_text(get_i32(value)),
                (Shape::Int32, _) => get_i32(value).to_string(),
                (Shape::Int16, _) => get_i16(value).to_string(),
                (Shape::Decimal, _) => decimal::decimal_text(value),
                (Shape::Uuid, _) => uuid_text(value),
                (Shape::Boolean, _) => (value[0] != 0).to_string(),
            }
        })
        .collect()
}

/// Takes the next column off the front. A text comes without its end byte, any other value as encoded.
#[inline]
pub(crate) fn split_column<'k>(key_type: KeyType, rest: &mut &'k [u8]) -> (Shape, &'k [u8]) {
    let shape = key_type.shape();
    let bytes = match shape {
        Shape::Text => {
            // The standard library searches for a NUL fast.
            let text = std::ffi::CStr::from_bytes_until_nul(rest).expect("a text column has its end");
            let text = text.to_bytes();
            *rest = &rest[text.len() + 1..];
            return (shape, text);
        }
        Shape::Int64 => 8,
        Shape::Int32 => 4,
        Shape::Int16 => 2,
        Shape::Uuid => 16,
        Shape::Boolean => 1,
        Shape::Decimal => decimal::encoded_bytes(rest).expect("a number has its end"),
    };
    (shape, rest.split_off(..bytes).expect("a key holds all of its columns"))
}

#[inline]
pub(crate) fn get_i64(value: &[u8]) -> i64 {
    i64::from_be_bytes(value.try_into().expect("split to 8 bytes")) ^ i64::MIN
}

#[inline]
pub(crate) fn get_i32(value: &[u8]) -> i32 {
    i32::from_be_bytes(value.try_into().expect("split to 4 bytes")) ^ i32::MIN
}

#[inline]
pub(crate) fn get_i16(value: &[u8]) -> i16 {
    i16::from_be_bytes(value.try_into().expect("split to 2 bytes")) ^ i16::MIN
}

fn uuid_text(value: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(36);
    for (n, byte) in value.iter().enumerate() {
        if matches!(n, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::INDEX_TUPLE_BYTES_MAX;
    use crate::put_literal;

    fn key(columns: &[(KeyType, &str)]) -> Vec<u8> {
        let mut key = Vec::new();
        for (key_type, text) in columns {
            put_literal(*key_type, text.as_bytes(), &mut key).unwrap();
        }
        key
    }

    #[test]
    fn bytes_sort_as_values_do() {
        for (key_type, ascending) in [
            (KeyType::Text, &["", "\u{1}", "Z", "a", "a\u{1}", "aa", "b", "é", "\u{ffff}", "😀"][..]),
            (KeyType::Bigint, &["-9223372036854775808", "-256", "-1", "0", "1", "255", "256", "9223372036854775807"]),
            (KeyType::Integer, &["-2147483648", "-1", "0", "1", "65536", "2147483647"]),
            (KeyType::Varchar(Some(2)), &["", "a", "aa", "é"]),
            (KeyType::Smallint, &["-32768", "-1", "0", "1", "256", "32767"]),
            (KeyType::Numeric, &["-1000000", "-1.5", "-0.0001", "0", "0.0001", "1", "1.5", "10", "100000.00001"]),
            (KeyType::Timestamp, &["0001-01-01T00:00:00", "1999-12-31T23:59:59.999999", "9999-12-31T23:59:59.999999"]),
            (
                KeyType::Uuid,
                &[
                    "00000000-0000-0000-0000-000000000000",
                    "7fffffff-ffff-ffff-ffff-ffffffffffff",
                    "80000000-0000-0000-0000-000000000000",
                ],
            ),
            (
                KeyType::Timestamptz,
                &[
                    "0001-01-01T00:00:00Z",
                    "1999-12-31T23:59:59.999999Z",
                    "2000-01-01T00:00:00Z",
                    "9999-12-31T23:59:59.999999Z",
                ],
            ),
            (KeyType::Date, &["0001-01-01", "1999-12-31", "2000-01-01", "2000-01-02", "9999-12-31"]),
            (KeyType::Boolean, &["false", "true"]),
        ] {
            let keys: Vec<_> = ascending.iter().map(|text| key(&[(key_type, text)])).collect();
            assert!(keys.is_sorted_by(|a, b| a < b), "{key_type}");
            for (text, key) in ascending.iter().zip(&keys) {
                assert_eq!(key_texts(&[key_type], key), [*text]);
            }
        }
    }

    #[test]
    fn a_later_column_never_outweighs_an_earlier_one() {
        let pair = |a, b| key(&[(KeyType::Text, a), (KeyType::Integer, b)]);
        assert!(pair("a", "2147483647") < pair("a\u{1}", "-2147483648"));
        assert!(pair("a", "1") < pair("a", "2"));
    }

    #[test]
    fn copy_fields_match_postgresql() {
        use KeyType::{Bigint, Boolean, Date, Integer, Text, Timestamptz, Uuid};
        let columns = [
            (Text, "ab"),
            (Bigint, "-2"),
            (Integer, "7"),
            (Uuid, "00112233-4455-6677-8899-AABBCCDDEEFF"),
            (Timestamptz, "2000-01-01T00:00:00.000001Z"),
            (Date, "2000-01-03"),
            (Boolean, "true"),
        ];
        let types = columns.map(|(key_type, _)| key_type);
        let mut out = Vec::new();
        put_copy_fields(&types, &key(&columns), &mut out);
        let mut expected = Vec::new();
        for field in [
            &b"ab"[..],
            &(-2_i64).to_be_bytes(),
            &7_i32.to_be_bytes(),
            &[0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff],
            &1_i64.to_be_bytes(),
            &2_i32.to_be_bytes(),
            &[1],
        ] {
            expected.extend_from_slice(&i32::try_from(field.len()).unwrap().to_be_bytes());
            expected.extend_from_slice(field);
        }
        assert_eq!(out, expected);
    }

    #[test]
    fn tuple_sizes_follow_headers_and_alignment() {
        use KeyType::{Bigint, Boolean, Integer, Text};
        let sized = |columns: &[(KeyType, &str)]| {
            let types: Vec<_> = columns.iter().map(|(key_type, _)| *key_type).collect();
            index_tuple_bytes(&types, &key(columns))
        };
        let text = |bytes: usize| "x".repeat(bytes);
        assert_eq!(sized(&[(Text, "")]), 16);
        assert_eq!(sized(&[(Text, &text(7))]), 16);
        assert_eq!(sized(&[(Text, &text(8))]), 24);
        assert_eq!(sized(&[(Text, &text(126))]), 136);
        assert_eq!(sized(&[(Text, &text(127))]), 144);
        assert_eq!(sized(&[(Boolean, "true"), (Bigint, "1")]), 24);
        assert_eq!(sized(&[(Bigint, "1"), (Boolean, "true")]), 24);
        assert_eq!(sized(&[(Boolean, "true"), (Integer, "1")]), 16);
        assert_eq!(sized(&[(Text, &text(2692))]), INDEX_TUPLE_BYTES_MAX);
        assert_eq!(sized(&[(Text, &text(2693))]), INDEX_TUPLE_BYTES_MAX + 8);
    }
}
