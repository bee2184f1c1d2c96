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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) key_bytes: usize,
    pub(super) body_bytes: usize,
}

impl Header {
    pub(super) const BYTES: usize = 8;

    pub(super) fn new(key_bytes: usize, body_bytes: usize) -> Self {
        Self { key_bytes, body_bytes }
    }

    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let length = |bytes: usize| u32::try_from(bytes).expect("a record has less than 4 GiB").to_le_bytes();
        let ([a, b, c, d], [e, f, g, h]) = (length(self.key_bytes), length(self.body_bytes));
        [a, b, c, d, e, f, g, h]
    }

    pub(super) fn from_bytes([a, b, c, d, e, f, g, h]: [u8; Self::BYTES]) -> Self {
        let length = |bytes| u32::from_le_bytes(bytes) as usize;
        Self { key_bytes: length([a, b, c, d]), body_bytes: length([e, f, g, h]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip() {
        let header = Header::new(1 << 20, u32::MAX as usize);
        assert_eq!(Header::from_bytes(header.to_bytes()), header);
    }
}
