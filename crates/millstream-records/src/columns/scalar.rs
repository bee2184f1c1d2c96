//! Numbers, strings and bytes as JSON.

pub(super) use crate::spelling::{bytes, uuid};

use serde::de::IgnoredAny;

/// Writes a value as `serde_json` does: numbers are as short as they can be without loss.
#[inline]
pub(super) fn json<T: serde::Serialize + ?Sized>(text: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(text, value).expect("memory takes all, and the value is a number or a string");
}

/// Writes a decimal number with all digits of its scale.
pub(super) fn decimal(text: &mut Vec<u8>, unscaled: &str, scale: i32) {
    let digits = unscaled.strip_prefix('-').unwrap_or(unscaled);
    if digits.len() < unscaled.len() {
        text.push(b'-');
    }
    let places = scale.unsigned_abs() as usize;
    if scale <= 0 {
        text.extend_from_slice(digits.as_bytes());
        let zeros = if digits == "0" { 0 } else { places };
        text.resize(text.len() + zeros, b'0');
        return;
    }
    let (whole, fraction) = digits.split_at(digits.len().saturating_sub(places));
    text.extend_from_slice(if whole.is_empty() { b"0" } else { whole.as_bytes() });
    text.push(b'.');
    text.resize(text.len() + places - fraction.len(), b'0');
    text.extend_from_slice(fraction.as_bytes());
}

/// Writes a value that is JSON already, on one line. What is none is a string.
pub(super) fn embedded(text: &mut Vec<u8>, value: &str) {
    if serde_json::from_str::<IgnoredAny>(value).is_err() {
        return json(text, value);
    }
    // Within a string a line end is no JSON, so these stand between values.
    text.extend(value.trim().bytes().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte }));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut text = Vec::new();
        write(&mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn decimals_keep_all_digits() {
        for (unscaled, scale, expected) in [
            ("12345", 2, "123.45"),
            ("-12345", 2, "-123.45"),
            ("12300", 2, "123.00"),
            ("5", 3, "0.005"),
            ("-5", 1, "-0.5"),
            ("123", 3, "0.123"),
            ("0", 2, "0.00"),
            ("7", 0, "7"),
            ("-7", -3, "-7000"),
            ("0", -3, "0"),
            ("99999999999999999999999999999999999999", 38, "0.99999999999999999999999999999999999999"),
        ] {
            assert_eq!(written(|text| decimal(text, unscaled, scale)), expected);
        }
    }

    #[test]
    fn bytes_and_uuids_are_strings() {
        assert_eq!(written(|text| bytes(text, b"")), "\"\"");
        assert_eq!(written(|text| bytes(text, b"\xff\x00a")), "\"/wBh\"");
        assert_eq!(written(|text| bytes(text, b"ab")), "\"YWI=\"");
        let value: Vec<u8> = (0..16).map(|n| n * 17).collect();
        assert_eq!(written(|text| uuid(text, &value)), "\"00112233-4455-6677-8899-aabbccddeeff\"");
    }

    #[test]
    fn embedded_json_stays_json_on_one_line() {
        for (value, expected) in [
            ("{\"a\": 1}", "{\"a\": 1}"),
            ("{\n \"a\":\r\n1}\n", "{  \"a\":  1}"),
            ("1.50", "1.50"),
            ("\"x\\n\"", "\"x\\n\""),
            ("1, \"id\": 2", "\"1, \\\"id\\\": 2\""),
            ("", "\"\""),
            ("NaN", "\"NaN\""),
        ] {
            assert_eq!(written(|text| embedded(text, value)), expected);
        }
    }
}
