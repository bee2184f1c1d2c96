//! A record: a key by which it is sorted, and a body.

/// A key and what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SortRecord {
    /// What the record is sorted by, byte by byte.
    pub key: Vec<u8>,
    /// Anything.
    pub body: Vec<u8>,
}

/// What stands before key and body, in memory and on disk.
pub(super) type Header = [u8; 8];

/// What stands before a key and a body of these lengths.
pub(super) fn header(key_bytes: usize, body_bytes: usize) -> Header {
    let length = |bytes: usize| u32::try_from(bytes).expect("a record has less than 4 GiB").to_le_bytes();
    let ([a, b, c, d], [e, f, g, h]) = (length(key_bytes), length(body_bytes));
    [a, b, c, d, e, f, g, h]
}

/// The lengths of the key and of the body behind a header.
pub(super) fn lengths([a, b, c, d, e, f, g, h]: Header) -> (usize, usize) {
    let length = |bytes| u32::from_le_bytes(bytes) as usize;
    (length([a, b, c, d]), length([e, f, g, h]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip() {
        let both = (1 << 20, u32::MAX as usize);
        assert_eq!(lengths(header(both.0, both.1)), both);
    }
}
