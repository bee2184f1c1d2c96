//! Numbers as Avro writes them: whole ones of any length, and those of decimals in two's complement.

/// Length of the longest whole number.
pub(super) const LONGEST: usize = 10;

/// Digits of a decimal that are kept in one group.
const GROUP_DIGITS: usize = 9;
const GROUP: u64 = 1_000_000_000;

/// A whole number at the beginning of bytes, and its length. `None`: it does not end there, or has more than 64 bits.
#[inline]
pub(super) fn whole(bytes: &[u8]) -> Option<(i64, usize)> {
    let mut bits = 0_u64;
    for (n, byte) in bytes.iter().take(LONGEST).enumerate() {
        let part = u64::from(byte & 0x7f);
        bits |= part << (7 * n);
        if *byte < 0x80 {
            // Of the last byte, one bit is left.
            let fits = n + 1 < LONGEST || part <= 1;
            return fits.then(|| (unfolded(bits), n + 1));
        }
    }
    None
}

/// Numbers stand in the order 0, -1, 1, -2.
fn unfolded(bits: u64) -> i64 {
    (bits >> 1).cast_signed() ^ -(bits & 1).cast_signed()
}

/// The digits of a number in two's complement, whose highest byte is the first. No byte means 0.
pub(super) fn digits(bytes: &[u8]) -> String {
    let is_negative = bytes.first().is_some_and(|byte| *byte >= 0x80);
    let flip = if is_negative { 0xff } else { 0 };
    if let Some(missing) = size_of::<i128>().checked_sub(bytes.len()) {
        let mut wide = [flip; size_of::<i128>()];
        wide[missing..].copy_from_slice(bytes);
        return i128::from_be_bytes(wide).to_string();
    }
    // The lowest group is the first. A negative number is the complement of its bytes, and 1 more.
    let mut groups = vec![0_u64];
    for (n, byte) in bytes.iter().enumerate() {
        let mut carry = u64::from(byte ^ flip) + u64::from(is_negative && n + 1 == bytes.len());
        for group in &mut groups {
            let value = *group * 256 + carry;
            (*group, carry) = (value % GROUP, value / GROUP);
        }
        if carry > 0 {
            groups.push(carry);
        }
    }
    let mut text = if is_negative { "-".to_owned() } else { String::new() };
    for (n, group) in groups.iter().rev().enumerate() {
        text += &if n == 0 { group.to_string() } else { format!("{group:0GROUP_DIGITS$}") };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_have_at_most_64_bits() {
        for (bytes, expected) in [
            (&b"\x00"[..], Some((0, 1))),
            (b"\x01", Some((-1, 1))),
            (b"\x02", Some((1, 1))),
            (b"\x7f", Some((-64, 1))),
            (b"\x80\x01", Some((64, 2))),
            (b"\x80\x01\x80", Some((64, 2))),
            // Some writers fill up a number.
            (b"\x82\x80\x00", Some((1, 3))),
            (b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", Some((i64::MAX, 10))),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", Some((i64::MIN, 10))),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", None),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x80\x00", None),
            (b"\x80", None),
            (b"", None),
        ] {
            assert_eq!(whole(bytes), expected, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn digits_are_those_of_the_number_at_any_length() {
        for (number, short) in [
            (0_i128, &b""[..]),
            (5, b"\x05"),
            (-1, b"\xff"),
            (-128, b"\x80"),
            (128, b"\x00\x80"),
            (-12_345, b"\xcf\xc7"),
        ] {
            assert_eq!(digits(short), number.to_string());
        }
        for number in [0, 1, -1, 999_999_999, 1_000_000_000, -1_000_000_000, i128::MAX, i128::MIN, i128::MIN + 1] {
            for fill in [0, 1, 2, 50] {
                let mut bytes = vec![if number < 0 { 0xff } else { 0 }; fill];
                bytes.extend_from_slice(&number.to_be_bytes());
                assert_eq!(digits(&bytes), number.to_string(), "{fill}");
            }
        }
        // 2^128, and its negative.
        let power = [&[1_u8][..], &[0; 16]].concat();
        assert_eq!(digits(&power), "340282366920938463463374607431768211456");
        let negative = [&[0xff_u8][..], &[0; 16]].concat();
        assert_eq!(digits(&negative), "-340282366920938463463374607431768211456");
        assert_eq!(digits(&[0x7f; 1024]).len(), 2_466);
    }
}
