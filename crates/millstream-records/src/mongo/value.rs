//! What a value of MongoDB becomes as JSON, the same whether it was BSON or Extended JSON.

use super::decimal::Decimal;
use crate::nan::word_of;
use crate::{Nan, spelling};

/// Length of an ObjectId, and of a UUID.
pub const IDENTITY_BYTES: usize = 12;
const UUID_BYTES: usize = 16;

/// How many of MongoDB's unit of time a second has.
const A_SECOND: i64 = 1_000;

/// Writes a time in milliseconds since 1970.
pub fn date(text: &mut Vec<u8>, milliseconds: i64) {
    spelling::timestamp(text, milliseconds, A_SECOND, true);
}

/// Writes a floating point number. True if it became null.
pub fn double(text: &mut Vec<u8>, value: f64, nan: Nan) -> bool {
    if value.is_finite() {
        serde_json::to_writer(text, &value).expect("memory takes all");
        return false;
    }
    nan.write(word_of(value), text)
}

/// Writes a decimal number that is a text. True if it became null; `None` if it is no number, and nothing was written.
pub fn decimal_of_text(text: &mut Vec<u8>, number: &str, nan: Nan) -> Option<bool> {
    Decimal::of_text(number).map(|number| put_decimal(text, &number, nan))
}

/// Writes a decimal number of 128 bits. True if it became null.
pub(super) fn decimal_of_bits(text: &mut Vec<u8>, bits: u128, nan: Nan) -> bool {
    put_decimal(text, &Decimal::of_bits(bits), nan)
}

fn put_decimal(text: &mut Vec<u8>, number: &Decimal, nan: Nan) -> bool {
    match number {
        Decimal::Finite { negative, digits, exponent } => {
            Decimal::write(*negative, digits, *exponent, text);
            false
        }
        Decimal::NotFinite(word) => nan.write(word, text),
    }
}

/// Writes the 12 bytes of an ObjectId.
pub fn identity(text: &mut Vec<u8>, value: &[u8]) {
    text.push(b'"');
    text.extend(value.iter().flat_map(|byte| spelling::hex(*byte)));
    text.push(b'"');
}

/// Writes bytes of the subtype of UUIDs if they are one. `false`: they are not, and nothing was written.
pub fn uuid(text: &mut Vec<u8>, value: &[u8]) -> bool {
    if value.len() == UUID_BYTES {
        spelling::uuid(text, value);
    }
    value.len() == UUID_BYTES
}

/// Writes a whole number.
pub(super) fn integer(text: &mut Vec<u8>, value: i64) {
    if value < 0 {
        text.push(b'-');
    }
    spelling::digits(text, value.unsigned_abs(), 1);
}
