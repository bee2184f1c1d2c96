//! A document in a sorted run: its key, what its mode needs, and its bytes.

/// Where a document is in the sources, for reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Place {
    /// Index of the source.
    pub(super) source: u32,
    /// Line on which the document begins.
    pub(super) line: u64,
}

/// A document with its key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Record {
    /// Canonical bytes.
    pub(super) key: Vec<u8>,
    /// Canonical bytes of the version; empty if the mode compares no versions.
    pub(super) version: Vec<u8>,
    /// Whether the document deletes.
    pub(super) tombstone: bool,
    pub(super) place: Place,
    pub(super) document: Vec<u8>,
}

impl Record {
    pub(super) fn header(&self) -> Header {
        Header::new(&self.key, &self.version, &self.document, self.tombstone, self.place)
    }
}

/// What is written before key, version and document, in memory and on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) key_bytes: u32,
    pub(super) version_bytes: u32,
    pub(super) document_bytes: u32,
    pub(super) tombstone: bool,
    pub(super) place: Place,
}

impl Header {
    pub(super) const BYTES: usize = 25;

    pub(super) fn new(key: &[u8], version: &[u8], document: &[u8], tombstone: bool, place: Place) -> Self {
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).expect("a frame counts its bytes in 32 bits");
        Self {
            key_bytes: length(key),
            version_bytes: length(version),
            document_bytes: length(document),
            tombstone,
            place,
        }
    }

    /// Bytes of the whole record.
    pub(super) fn record_bytes(self) -> usize {
        Self::BYTES + self.key_bytes as usize + self.version_bytes as usize + self.document_bytes as usize
    }

    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.key_bytes.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.version_bytes.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.document_bytes.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.place.source.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.place.line.to_le_bytes());
        bytes[24] = u8::from(self.tombstone);
        bytes
    }

    pub(super) fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let [numbers @ .., a, b, c, d, e, f, g, h, tombstone] = bytes;
        let [key, version, document, source]: [u32; 4] =
            std::array::from_fn(|n| u32::from_le_bytes(std::array::from_fn(|byte| numbers[4 * n + byte])));
        Self {
            key_bytes: key,
            version_bytes: version,
            document_bytes: document,
            tombstone: tombstone != 0,
            place: Place { source, line: u64::from_le_bytes([a, b, c, d, e, f, g, h]) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip() {
        let place = Place { source: 7, line: u64::MAX - 3 };
        for tombstone in [false, true] {
            let header = Header { key_bytes: 1 << 20, version_bytes: 300, document_bytes: u32::MAX, tombstone, place };
            assert_eq!(Header::from_bytes(header.to_bytes()), header);
        }
    }
}
