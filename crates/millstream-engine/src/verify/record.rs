//! A document with its key and what its mode needs, as it is sorted.

/// Where a document is in the sources, for reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Origin {
    /// Index of the source.
    pub(super) source: u32,
    /// Line on which the document begins.
    pub(super) line: u64,
}

/// A document with its key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct KeyedDocument {
    /// Canonical bytes.
    pub(super) key: Vec<u8>,
    /// Canonical bytes of the version; empty if the mode compares no versions.
    pub(super) version: Vec<u8>,
    /// Whether the document deletes.
    pub(super) tombstone: bool,
    pub(super) place: Origin,
    pub(super) document: Vec<u8>,
}

/// Bytes before version and document.
pub(super) const HEAD_BYTES: usize = 17;

/// What is sorted with a key before the bytes of version and document.
pub(super) fn head(version: &[u8], tombstone: bool, place: Origin) -> [u8; HEAD_BYTES] {
    let version_bytes = u32::try_from(version.len()).expect("a document has less than 4 GiB");
    let ([a, b, c, d], [e, f, g, h]) = (version_bytes.to_le_bytes(), place.source.to_le_bytes());
    let [i, j, k, l, m, n, o, p] = place.line.to_le_bytes();
    [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, u8::from(tombstone)]
}

impl KeyedDocument {
    /// The record that was sorted.
    pub(super) fn of(sorted: millstream_input::SortRecord) -> Self {
        let millstream_input::SortRecord { key, body: mut version } = sorted;
        let (head, _) = version.split_first_chunk::<HEAD_BYTES>().expect("a record begins with its head");
        let [a, b, c, d, e, f, g, h, line @ .., tombstone] = *head;
        let version_bytes = u32::from_le_bytes([a, b, c, d]) as usize;
        let place = Origin { source: u32::from_le_bytes([e, f, g, h]), line: u64::from_le_bytes(line) };
        let document = version.split_off(HEAD_BYTES + version_bytes);
        version.drain(..HEAD_BYTES);
        Self { key, version, tombstone: tombstone != 0, place, document }
    }

    /// Bytes of key, version and document.
    pub(super) fn bytes(&self) -> usize {
        self.key.len() + self.version.len() + self.document.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_round_trip() {
        for (tombstone, version) in [(false, &b""[..]), (true, b"version")] {
            let place = Origin { source: 7, line: u64::MAX - 3 };
            let (key, document) = (b"key".to_vec(), b"{}".to_vec());
            let body = [&head(version, tombstone, place)[..], version, &document].concat();
            let record = KeyedDocument::of(millstream_input::SortRecord { key: key.clone(), body });
            assert_eq!(record, KeyedDocument { key, version: version.to_vec(), tombstone, place, document });
            assert_eq!(record.bytes(), 3 + version.len() + 2);
        }
    }
}
