//! The objects of Extended JSON that stand for a value (<https://github.com/mongodb/specifications/blob/master/source/extended-json/extended-json.md>).

use super::date;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use millstream_input::{Nan, mongo};
use serde::Deserialize;
use std::borrow::Cow;

/// Most members of such an object.
pub(super) const MEMBERS_MAX: usize = 2;

/// What an object became.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Became {
    /// It stands for itself, or for a value that has no shorter form.
    Itself,
    /// The value was written.
    Value {
        /// It is a number that became null.
        null: bool,
    },
    /// It should stand for a value, and does not. What is wrong.
    Malformed(&'static str),
}

/// The subtype of binary values that are UUIDs.
const SUBTYPE_UUID: u8 = 4;

/// A member: its name as it is spelled, without quotes, and its value, whose own members were replaced.
type Member<'t> = (&'t [u8], &'t [u8]);

/// Writes the value for which an object of these members stands. An object with other members stands for itself.
pub(super) fn unwrapped(members: &[Member<'_>], nan: Nan, out: &mut Vec<u8>) -> Became {
    let (written, problem) = match members {
        [(b"$oid", value)] => (object_id(value, out), "$oid is not a string of 24 hexadecimal digits"),
        [(b"$date", value)] => (date(value, out), "$date is neither a time in whole milliseconds nor their number"),
        [(b"$numberInt" | b"$numberLong", value)] => (integer(value, out), "a whole number has no 64 bits"),
        [(b"$numberDouble", value)] => (double(value, nan, out), "$numberDouble is not a number"),
        [(b"$numberDecimal", value)] => (decimal(value, nan, out), "$numberDecimal is not a decimal number"),
        [(b"$binary", value)] => (binary(value, out), "$binary has no base64 and no subType"),
        [(b"$binary", value), (b"$type", subtype)] | [(b"$type", subtype), (b"$binary", value)] => {
            (binary_of_version_1(value, subtype, out), "$binary has no base64, or $type is no subtype")
        }
        [(b"$uuid", value)] => (uuid(value, out), "$uuid is not a UUID"),
        [(b"$symbol", value)] => (symbol(value, out), "$symbol is not a string"),
        [(b"$undefined", value)] => {
            out.extend_from_slice(b"null");
            ((*value == b"true").then_some(false), "$undefined is not true")
        }
        [(b"$regex", pattern), (b"$options", options)] | [(b"$options", options), (b"$regex", pattern)] => {
            return regular_expression(pattern, options, out);
        }
        _ => return Became::Itself,
    };
    written.map_or(Became::Malformed(problem), |null| Became::Value { null })
}

/// The text of a string of JSON.
fn text(value: &[u8]) -> Option<Cow<'_, str>> {
    let inner = value.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    if inner.contains(&b'\\') {
        return serde_json::from_slice::<String>(value).ok().map(Cow::Owned);
    }
    std::str::from_utf8(inner).ok().map(Cow::Borrowed)
}

/// Bytes in hexadecimal digits.
fn of_hex(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| if let [high, low] = pair { Some(digit(*high)? * 16 + digit(*low)?) } else { None }).collect()
}

fn object_id(value: &[u8], out: &mut Vec<u8>) -> Option<bool> {
    let bytes = of_hex(&text(value)?).filter(|bytes| bytes.len() == mongo::IDENTITY_BYTES)?;
    mongo::identity(out, &bytes);
    Some(false)
}

/// A number, which version 2 has in a string, and version 1 also as it is.
fn whole(value: &[u8]) -> Option<i64> {
    match text(value) {
        Some(text) => text.parse().ok(),
        // JSON has no leading zeros and no plus signs: Rust would take both.
        None => serde_json::from_slice(value).ok(),
    }
}

fn date(value: &[u8], out: &mut Vec<u8>) -> Option<bool> {
    let milliseconds = match text(value) {
        Some(text) => date::milliseconds(&text)?,
        None => whole(value)?,
    };
    mongo::date(out, milliseconds);
    Some(false)
}

fn integer(value: &[u8], out: &mut Vec<u8>) -> Option<bool> {
    out.extend_from_slice(whole(value)?.to_string().as_bytes());
    Some(false)
}

fn double(value: &[u8], nan: Nan, out: &mut Vec<u8>) -> Option<bool> {
    let text = text(value)?;
    if matches!(&*text, "NaN" | "Infinity" | "-Infinity") {
        return Some(nan.write(&text, out));
    }
    // Rust would also take words.
    let is_number = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
    let value = text.parse::<f64>().ok().filter(|value| is_number && value.is_finite())?;
    Some(mongo::double(out, value, nan))
}

fn decimal(value: &[u8], nan: Nan, out: &mut Vec<u8>) -> Option<bool> {
    mongo::decimal_of_text(out, &text(value)?, nan)
}

/// `{"base64": "..", "subType": ".."}`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Binary<'t> {
    #[serde(borrow)]
    base64: Cow<'t, str>,
    #[serde(borrow, rename = "subType")]
    subtype: Cow<'t, str>,
}

fn binary(value: &[u8], out: &mut Vec<u8>) -> Option<bool> {
    let Binary { base64, subtype } = serde_json::from_slice(value).ok()?;
    put_binary(&base64, &subtype, out)
}

fn binary_of_version_1(value: &[u8], subtype: &[u8], out: &mut Vec<u8>) -> Option<bool> {
    put_binary(&text(value)?, &text(subtype)?, out)
}

fn put_binary(base64: &str, subtype: &str, out: &mut Vec<u8>) -> Option<bool> {
    let subtype = u8::from_str_radix(subtype, 16).ok()?;
    let bytes = STANDARD.decode(base64).ok()?;
    if subtype != SUBTYPE_UUID || !mongo::uuid(out, &bytes) {
        out.push(b'"');
        out.extend_from_slice(base64.as_bytes());
        out.push(b'"');
    }
    Some(false)
}

/// Some programs write it without hyphens.
fn uuid(value: &[u8], out: &mut Vec<u8>) -> Option<bool> {
    const HYPHENS: [usize; 4] = [8, 13, 18, 23];
    let text = text(value)?;
    let digits = match text.len() {
        36 if HYPHENS.iter().all(|at| text.as_bytes()[*at] == b'-') => text.replace('-', ""),
        _ => text.into_owned(),
    };
    mongo::uuid(out, &of_hex(&digits)?).then_some(false)
}

fn symbol(value: &[u8], out: &mut Vec<u8>) -> Option<bool> {
    text(value)?;
    out.extend_from_slice(value);
    Some(false)
}

/// What version 2 writes for the expression of version 1. Operators of queries have the same members, with other values.
fn regular_expression(pattern: &[u8], options: &[u8], out: &mut Vec<u8>) -> Became {
    if text(pattern).is_none() || text(options).is_none() {
        return Became::Itself;
    }
    let parts: [&[u8]; 5] = [b"{\"$regularExpression\":{\"pattern\":", pattern, b",\"options\":", options, b"}}"];
    parts.iter().for_each(|part| out.extend_from_slice(part));
    Became::Value { null: false }
}
