//! Turns the value at a path into the bytes of its key column.

use super::path_scan::Found;
use super::text;
use crate::scan::number;
use millstream_model::key_bytes::{put_bool, put_text};
use millstream_model::{Fault, KeyColumn, KeyType, LiteralError, Reason, is_decimal, put_literal};

/// Appends one column's value.
#[inline]
pub(super) fn put(
    column: &KeyColumn,
    document: &[u8],
    found: &Found,
    scratch: &mut Vec<u8>,
    key: &mut Vec<u8>,
) -> Result<(), Fault> {
    let put = put_typed(column.key_type, document, found, scratch, key, put_literal);
    put.or_else(|unfit| put_exact_whole(column.key_type, found, scratch, key).ok_or(unfit)).map_err(|unfit| match unfit
    {
        Unfit::Literal(error) => not_literal(column, found, error),
        Unfit::ValueKind => unusable(column, found),
    })
}

/// Appends a number such as 1.0 if the type is one of whole numbers. `scratch` holds its spelling. Not used for
/// versions, because the server casts their text.
#[cold]
fn put_exact_whole(key_type: KeyType, found: &Found, scratch: &[u8], key: &mut Vec<u8>) -> Option<()> {
    let number = matches!(found, Found::Number(_)) && is_whole(key_type);
    put_literal(key_type, whole(scratch).filter(|_| number)?, key).ok()
}

/// The part of a number before a fraction of zeros.
pub(super) fn whole(spelling: &[u8]) -> Option<&[u8]> {
    let point = spelling.iter().position(|&byte| byte == b'.')?;
    spelling[point + 1..].iter().all(|&byte| byte == b'0').then(|| &spelling[..point])
}

/// Why a value does not fit the type.
pub(super) enum Unfit {
    /// Its kind fits, a string or a number, but its text does not.
    Literal(LiteralError),
    /// Its kind never fits.
    ValueKind,
}

/// Appends the canonical bytes of a value of that type. `put_literal` converts a typed text; versions have their own.
#[inline]
pub(super) fn put_typed(
    key_type: KeyType,
    document: &[u8],
    found: &Found,
    scratch: &mut Vec<u8>,
    key: &mut Vec<u8>,
    put_literal: impl Fn(KeyType, &[u8], &mut Vec<u8>) -> Result<(), LiteralError>,
) -> Result<(), Unfit> {
    match found {
        Found::Number(_) if !takes_numbers(key_type) => return Err(Unfit::ValueKind),
        Found::Boolean(value, _) if key_type == KeyType::Boolean => {
            put_bool(*value, key);
            return Ok(());
        }
        Found::Boolean(value, _) if key_type.is_text() => {
            return put_literal(key_type, if *value { b"true" } else { b"false" }, key).map_err(Unfit::Literal);
        }
        _ => {}
    }
    let text = spelled(document, found, scratch).ok_or(Unfit::ValueKind)?;
    if key_type == KeyType::Text {
        put_text(text, key);
        return Ok(());
    }
    let put = put_literal(key_type, text, key);
    put.or_else(|error| {
        let respelled = without_exponent(text).filter(|_| key_type == KeyType::Numeric);
        respelled.map_or(Err(error), |text| put_literal(key_type, &text, key)).map_err(Unfit::Literal)
    })
}

/// A decimal with an exponent as jsonb would spell it. Numbers come without one, so this is the text of a string, which
/// PostgreSQL casts to the same number. `None` if it is no such text, or too many digits when spelled out.
#[cold]
fn without_exponent(text: &[u8]) -> Option<Vec<u8>> {
    let at = text.iter().position(|byte| matches!(byte, b'e' | b'E'))?;
    let exponent = &text[at + 1..];
    let digits = exponent.strip_prefix(b"-").or_else(|| exponent.strip_prefix(b"+")).unwrap_or(exponent);
    let is_number = is_decimal(&text[..at]) && !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    if !is_number || number::expansion(text).is_err() {
        return None;
    }
    let mut spelling = Vec::new();
    number::put_spelling(text, &mut spelling);
    Some(spelling)
}

/// A string's text, or a number as jsonb spells it.
#[inline]
pub(super) fn spelled<'t>(document: &'t [u8], found: &Found, scratch: &'t mut Vec<u8>) -> Option<&'t [u8]> {
    match found {
        Found::String { range, escaped: false } => return Some(&document[range.clone()]),
        Found::String { range, .. } => {
            scratch.clear();
            text::put_unescaped(&document[range.clone()], scratch);
        }
        Found::Number(range) => {
            scratch.clear();
            number::put_spelling(&document[range.clone()], scratch);
        }
        _ => return None,
    }
    Some(scratch)
}

fn takes_numbers(key_type: KeyType) -> bool {
    use KeyType::{Numeric, TimestamptzEpoch, TimestamptzEpochMs};
    key_type.is_text() || is_whole(key_type) || matches!(key_type, Numeric | TimestamptzEpoch | TimestamptzEpochMs)
}

fn is_whole(key_type: KeyType) -> bool {
    matches!(key_type, KeyType::Bigint | KeyType::Integer | KeyType::Smallint)
}

#[cold]
fn not_literal(column: &KeyColumn, found: &Found, error: LiteralError) -> Fault {
    let (name, path) = (&column.name, column.path_text());
    let detail = match error {
        LiteralError::Form(_) => {
            format!("key column \"{name}\": {error}, but the {what} at {path} is not one", what = kind(found))
        }
        LiteralError::Long(_) => {
            return Fault::new(Reason::KeyTooLong, format!("key column \"{name}\": {error}, found more at {path}"));
        }
        LiteralError::Finer | LiteralError::LeapSecond => {
            format!("key column \"{name}\": {error}, at {path}; a key of type text keeps it")
        }
    };
    Fault::new(Reason::KeyType, detail)
}

#[cold]
fn unusable(column: &KeyColumn, found: &Found) -> Fault {
    let (name, path) = (&column.name, column.path_text());
    let expected = column.key_type.expectation();
    match found {
        Found::Missing => Fault::new(Reason::KeyMissing, format!("key column \"{name}\": nothing at {path}")),
        Found::Null(_) => Fault::new(Reason::KeyNull, format!("key column \"{name}\": null at {path}")),
        found => Fault::new(
            Reason::KeyType,
            format!("key column \"{name}\": expected {expected}, found {} at {path}", kind_with_article(found)),
        ),
    }
}

fn kind(found: &Found) -> &'static str {
    kind_with_article(found).split_once(' ').map_or("value", |(_, kind)| kind)
}

pub(super) fn kind_with_article(found: &Found) -> &'static str {
    match found {
        Found::Missing => "no value",
        Found::Null(_) => "a null",
        Found::Boolean(..) => "a boolean",
        Found::Number(_) => "a number",
        Found::String { .. } => "a string",
        Found::Container(_) => "an array or object",
    }
}
