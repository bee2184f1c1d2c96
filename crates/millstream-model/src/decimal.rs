//! The canonical bytes of a decimal: `memcmp` order is the order of `numeric`, equal bytes are equal numbers.
//!
//! | number | bytes |
//! |---|---|
//! | negative | 0, then those of its absolute value without the first, each complemented |
//! | zero | 1 |
//! | -Infinity | 0, 0 |
//! | positive | 2, the place of the decimal point as an integer, the digits from the first to the last that is not 0, then 0x00 |
//! | Infinity | 3 |
//! | NaN | 4 |
//!
//! Documents never hold -Infinity, Infinity or NaN. A table may.

use crate::limits::{NUMERIC_FRACTION_DIGITS_MAX, NUMERIC_INTEGER_DIGITS_MAX};
use crate::ordered::put_i32;
use bytes::BufMut;

const NEGATIVE: u8 = 0;
const ZERO: u8 = 1;
const POSITIVE: u8 = 2;
const INFINITY: u8 = 3;
const NAN: u8 = 4;
/// Ends the digits, so that of two numbers the one whose digits begin the other's sorts first.
const DIGITS_END: u8 = 0;

/// Whether a text is a plain decimal: `-?[0-9]+(\.[0-9]+)?`, within the bounds of `numeric`.
pub fn is_decimal(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let (integer, fraction) = match digits.iter().position(|&byte| byte == b'.') {
        Some(point) => (&digits[..point], Some(&digits[point + 1..])),
        None => (digits, None),
    };
    let is_number = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    let zeros = integer.iter().take_while(|&&byte| byte == b'0').count();
    is_number(integer)
        && integer.len() - zeros <= NUMERIC_INTEGER_DIGITS_MAX
        && fraction.is_none_or(|fraction| is_number(fraction) && fraction.len() <= NUMERIC_FRACTION_DIGITS_MAX)
}

/// Appends the canonical bytes of a decimal. Returns `false` and appends nothing if the text is not a decimal.
pub fn put_decimal(text: &[u8], out: &mut Vec<u8>) -> bool {
    if !is_decimal(text) {
        return false;
    }
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let point = digits.iter().position(|&byte| byte == b'.').unwrap_or(digits.len());
    match digits.get(point + 1..) {
        Some(fraction) if digits[..point].iter().all(|&byte| byte == b'0') => put_digits(negative, 0, fraction, out),
        _ => put_digits(negative, length(point), digits, out),
    }
    true
}

/// Appends `0.DIGITS` times ten to the power of `place`. Skips a decimal point among the digits.
fn put_digits(negative: bool, place: i32, digits: &[u8], out: &mut Vec<u8>) {
    let significant = |byte: &u8| matches!(byte, b'1'..=b'9');
    let (Some(first), Some(last)) = (digits.iter().position(significant), digits.iter().rposition(significant)) else {
        out.push(ZERO);
        return;
    };
    out.push(if negative { NEGATIVE } else { POSITIVE });
    let start = out.len();
    put_i32(place - length(first), out);
    out.extend(digits[first..=last].iter().filter(|&&byte| byte != b'.'));
    out.push(DIGITS_END);
    if negative {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

/// Number of bytes of the decimal at the front.
pub(crate) fn encoded_bytes(bytes: &[u8]) -> Option<usize> {
    const PLACE_END: usize = 5;
    let end = match *bytes.first()? {
        NEGATIVE if bytes.get(1) == Some(&0) => return Some(2),
        NEGATIVE => !DIGITS_END,
        POSITIVE => DIGITS_END,
        _ => return Some(1),
    };
    let digits = bytes.get(PLACE_END..)?.iter().position(|&byte| byte == end)?;
    Some(PLACE_END + digits + 1)
}

/// A decimal taken apart: its value is `0.DIGITS` times ten to the power of `place`.
struct Parts {
    negative: bool,
    place: i32,
    digits: Vec<u8>,
}

impl Parts {
    /// Decodes bytes that are not a special value.
    fn of(bytes: &[u8]) -> Self {
        let negative = bytes[0] == NEGATIVE;
        let plain: Vec<u8> = bytes[1..].iter().map(|&byte| if negative { !byte } else { byte }).collect();
        match plain.split_first_chunk() {
            Some((place, digits)) => {
                let place = i32::from_be_bytes(*place) ^ i32::MIN;
                let digits = digits.strip_suffix(&[DIGITS_END]).unwrap_or(digits).to_vec();
                Self { negative, place, digits }
            }
            None => Self { negative: false, place: 0, digits: Vec::new() },
        }
    }

    /// The digits in groups of four from the decimal point, and the weight of the first group, as in `numeric`.
    fn groups(&self) -> (Vec<i16>, i32) {
        let weight = (self.place + 3).div_euclid(4) - 1;
        let zeros = usize::try_from(4 * (weight + 1) - self.place).unwrap_or(0);
        let mut digits: Vec<u8> = vec![b'0'; zeros];
        digits.extend_from_slice(&self.digits);
        digits.resize(digits.len().next_multiple_of(4), b'0');
        let value = |group: &[u8]| group.iter().fold(0, |value, digit| value * 10 + i16::from(digit - b'0'));
        (digits.chunks(4).map(value).collect(), weight)
    }

    /// Digits after the decimal point.
    fn scale(&self) -> usize {
        usize::try_from(length(self.digits.len()) - self.place).unwrap_or(0)
    }
}

/// Name of an infinity or NaN and its sign field on the wire; `None` for a number.
fn special(bytes: &[u8]) -> Option<(&'static str, u16)> {
    match bytes {
        [NEGATIVE, 0] => Some(("-Infinity", 0xf000)),
        [INFINITY] => Some(("Infinity", 0xd000)),
        [NAN] => Some(("NaN", 0xc000)),
        _ => None,
    }
}

/// The number as text, without trailing zeros in its fraction.
pub(crate) fn decimal_text(bytes: &[u8]) -> String {
    if let Some((name, _)) = special(bytes) {
        return name.to_owned();
    }
    let parts = Parts::of(bytes);
    if parts.digits.is_empty() {
        return "0".to_owned();
    }
    let (digits, sign) = (String::from_utf8_lossy(&parts.digits), if parts.negative { "-" } else { "" });
    match usize::try_from(parts.place) {
        Ok(place) if place >= digits.len() => format!("{sign}{digits}{}", "0".repeat(place - digits.len())),
        Ok(place) if place > 0 => format!("{sign}{}.{}", &digits[..place], &digits[place..]),
        _ => format!("{sign}0.{}{digits}", "0".repeat(usize::try_from(-parts.place).unwrap_or(0))),
    }
}

/// Appends the number as `numeric_recv` reads it: count of groups, weight of the first, sign, scale, groups.
pub(crate) fn put_wire(bytes: &[u8], out: &mut impl BufMut) {
    if let Some((_, sign)) = special(bytes) {
        [0, 0, sign, 0].into_iter().for_each(|half| out.put_u16(half));
        return;
    }
    let parts = Parts::of(bytes);
    let (groups, weight) = if parts.digits.is_empty() { (Vec::new(), 0) } else { parts.groups() };
    out.put_u16(u16::try_from(groups.len()).expect("numeric has at most 36,864 groups"));
    out.put_i16(i16::try_from(weight).expect("numeric has at most 32,768 groups before the point"));
    out.put_u16(if parts.negative { 0x4000 } else { 0 });
    out.put_u16(u16::try_from(parts.scale()).expect("numeric has at most 16,383 digits after the point"));
    groups.into_iter().for_each(|group| out.put_i16(group));
}

/// Number of bytes that [`put_wire`] appends.
pub(crate) fn wire_bytes(bytes: &[u8]) -> usize {
    const HEADER_BYTES: usize = 8;
    match special(bytes).is_some() || bytes.len() < 6 {
        true => HEADER_BYTES,
        false => HEADER_BYTES + 2 * Parts::of(bytes).groups().0.len(),
    }
}

/// Bytes of the number in a row, without the length header. `numeric` stores small numbers with a shorter header.
pub(crate) fn stored_bytes(bytes: &[u8]) -> usize {
    const SHORT_WEIGHTS: std::ops::Range<i32> = -64..64;
    const SHORT_SCALE_END: usize = 64;
    let parts = Parts::of(bytes);
    let (groups, weight) = if parts.digits.is_empty() { (Vec::new(), 0) } else { parts.groups() };
    let short = SHORT_WEIGHTS.contains(&weight) && parts.scale() < SHORT_SCALE_END;
    (if short { 2 } else { 4 }) + 2 * groups.len()
}

/// Appends the canonical bytes of a number in the format of `numeric_send`. Returns `false` if there is no number.
pub(crate) fn put_from_wire(wire: &[u8], out: &mut Vec<u8>) -> bool {
    let halves: Vec<u16> = wire.chunks_exact(2).map(|half| u16::from_be_bytes([half[0], half[1]])).collect();
    let [_, weight, sign, _, groups @ ..] = &halves[..] else { return false };
    match *sign {
        0xf000 => out.extend([NEGATIVE, 0]),
        0xd000 => out.push(INFINITY),
        0xc000 => out.push(NAN),
        _ => {
            let digits: Vec<u8> = groups.iter().flat_map(|group| format!("{group:04}").into_bytes()).collect();
            let place = (i32::from(weight.cast_signed()) + 1) * 4;
            put_digits(*sign != 0, place, &digits, out);
        }
    }
    true
}

fn length(digits: usize) -> i32 {
    i32::try_from(digits).expect("a document is shorter")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        put_decimal(text.as_bytes(), &mut out).then_some(out)
    }

    #[test]
    fn bytes_sort_like_numbers_in_every_spelling() {
        let ascending: &[&[&str]] = &[
            &["-100", "-0100.00"],
            &["-20.5"],
            &["-11"],
            &["-10.01"],
            &["-10", "-10.0"],
            &["-9.99"],
            &["-1"],
            &["-0.5", "-0.50"],
            &["-0.05"],
            &["0", "-0", "0.00", "000"],
            &["0.001"],
            &["0.05"],
            &["0.5", "00.500"],
            &["0.51"],
            &["1"],
            &["9.5"],
            &["9.51"],
            &["10", "10.0"],
            &["10.5", "010.50"],
            &["12"],
            &["100"],
            &["9223372036854775808"],
            &["9223372036854775808.000000000000000000000000000001"],
        ];
        let keys: Vec<Vec<u8>> = ascending.iter().map(|texts| bytes(texts[0]).unwrap()).collect();
        assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
        for (texts, key) in ascending.iter().zip(&keys) {
            assert!(texts.iter().all(|text| bytes(text).as_ref() == Some(key)), "{texts:?}");
        }
    }

    #[test]
    fn decimals_survive_key_bytes_and_wire_format() {
        for text in
            ["0", "1", "-1", "10", "-0.05", "0.0001", "0.00001", "12345", "99999999.9", "1000000000000", "-120.5"]
        {
            let key = bytes(text).unwrap();
            assert_eq!((decimal_text(&key).as_str(), encoded_bytes(&key)), (text, Some(key.len())));
            let (mut wire, mut again) = (Vec::new(), Vec::new());
            put_wire(&key, &mut wire);
            assert!(put_from_wire(&wire, &mut again));
            assert_eq!((again, wire.len()), (key.clone(), wire_bytes(&key)), "{text}");
        }
        let mut last = [bytes("9").unwrap(), bytes("-9").unwrap()];
        for (sign, name, at) in [(0xd0, "Infinity", 0), (0xc0, "NaN", 0), (0xf0, "-Infinity", 1)] {
            let wire = [0, 0, 0, 0, sign, 0, 0, 0];
            let (mut key, mut again) = (Vec::new(), Vec::new());
            assert!(put_from_wire(&wire, &mut key));
            put_wire(&key, &mut again);
            assert_eq!(
                (decimal_text(&key).as_str(), encoded_bytes(&key), &again[..]),
                (name, Some(key.len()), &wire[..])
            );
            assert_eq!(key < last[at], at == 1);
            last[at] = key;
        }
        assert!(!put_from_wire(&[], &mut Vec::new()));
    }

    #[test]
    fn text_that_is_no_decimal_is_refused() {
        let long = format!("0.{}", "0".repeat(16_384));
        for text in ["", "-", "+1", ".5", "5.", "1.2.3", "1e2", " 1", "1 ", "NaN", "Infinity", "0x1", "1_0", "١", &long]
        {
            assert_eq!(bytes(text), None, "{text}");
        }
    }
}
