//! PostgreSQL's binary COPY format, as far as Millstream writes it.
//!
//! Source: PostgreSQL manual, COPY, "Binary Format". A stream is [`HEADER`], rows, and [`END`]. A row is the number of its
//! columns and each column's length and bytes.

use bytes::BufMut;

/// The beginning of a stream: signature, flags and length of the extension.
pub const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// The end of a stream.
pub const END: [u8; 2] = (-1_i16).to_be_bytes();

/// Version byte before the JSON text of a binary jsonb value (`jsonb_recv`).
pub const JSONB_VERSION: u8 = 1;

/// Begins a row of this number of columns.
#[inline]
pub fn begin_row(out: &mut impl BufMut, columns: usize) {
    out.put_i16(i16::try_from(columns).expect("a table has at most 1,600 columns"));
}

/// Begins a column of this number of bytes, which follow.
///
/// # Panics
/// If there are 2 GiB or more, which no message of PostgreSQL can hold.
#[inline]
pub fn begin_column(out: &mut impl BufMut, bytes: usize) {
    out.put_i32(i32::try_from(bytes).expect("a column is below 2 GiB"));
}

/// Begins a jsonb column whose text has this number of bytes, which follow.
#[inline]
pub fn begin_jsonb(out: &mut impl BufMut, bytes: usize) {
    begin_column(out, bytes + 1);
    out.put_u8(JSONB_VERSION);
}

/// Appends a column of these bytes.
#[inline]
pub fn put_column(out: &mut impl BufMut, bytes: &[u8]) {
    begin_column(out, bytes.len());
    out.put_slice(bytes);
}

/// Appends a column that is null.
#[inline]
pub fn put_null(out: &mut impl BufMut) {
    out.put_i32(-1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_has_the_documented_format() {
        let mut out = HEADER.to_vec();
        begin_row(&mut out, 3);
        put_column(&mut out, b"ab");
        begin_jsonb(&mut out, 2);
        out.put_slice(b"{}");
        put_null(&mut out);
        out.extend(END);
        let rest = out.strip_prefix(b"PGCOPY\n\xff\r\n\0".as_slice()).unwrap();
        assert_eq!(rest, b"\0\0\0\0\0\0\0\0\x00\x03\0\0\0\x02ab\0\0\0\x03\x01{}\xff\xff\xff\xff\xff\xff");
    }
}
