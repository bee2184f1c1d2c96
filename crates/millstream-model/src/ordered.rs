//! Bytes of an integer that sort as the integer does.

/// Appends an integer, or the days of a date.
#[inline]
pub fn put_i32(value: i32, key: &mut Vec<u8>) {
    key.extend_from_slice(&(value ^ i32::MIN).to_be_bytes());
}
