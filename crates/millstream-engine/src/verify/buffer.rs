//! Documents in memory, sorted by key before they go to disk.

use super::record::Header;

/// Records back to back as they are written to disk, and their order.
#[derive(Debug)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    order: Vec<Entry>,
    bytes_max: usize,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// First eight bytes of the key, big-endian. They decide most comparisons.
    prefix: u64,
    /// Where the record begins; a later document begins later.
    start: u64,
}

impl Buffer {
    /// A buffer that takes about this many bytes of memory.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes_max), order: Vec::new(), bytes_max }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Whether a record fits. An empty buffer takes any.
    pub(super) fn has_room(&self, header: Header) -> bool {
        let used = self.bytes.len() + size_of_val(self.order.as_slice());
        self.is_empty() || used + header.record_bytes() + size_of::<Entry>() <= self.bytes_max
    }

    pub(super) fn push(&mut self, header: Header, key: &[u8], version: &[u8], document: &[u8]) {
        let mut head = [0; 8];
        let n = key.len().min(8);
        head[..n].copy_from_slice(&key[..n]);
        self.order.push(Entry { prefix: u64::from_be_bytes(head), start: self.bytes.len() as u64 });
        self.bytes.extend_from_slice(&header.to_bytes());
        for part in [key, version, document] {
            self.bytes.extend_from_slice(part);
        }
    }

    /// The records in the order of their keys, those of a key in the order in which they came, each
    /// as it is written to disk.
    pub(super) fn sorted(&mut self) -> impl Iterator<Item = &[u8]> {
        let Self { bytes, order, .. } = self;
        let bytes = &*bytes;
        order.sort_unstable_by(|a, b| {
            let keys = || key(bytes, *a).cmp(key(bytes, *b));
            a.prefix.cmp(&b.prefix).then_with(keys).then(a.start.cmp(&b.start))
        });
        order.iter().map(move |entry| record(bytes, *entry))
    }

    /// Drops all records. Keeps the memory, except what one large document needed beyond the limit.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(self.bytes_max);
        self.order.clear();
    }
}

fn split(bytes: &[u8], entry: Entry) -> (Header, &[u8]) {
    let start = usize::try_from(entry.start).expect("a place in memory");
    let (header, rest) = bytes[start..].split_first_chunk().expect("a record begins with its header");
    (Header::from_bytes(*header), rest)
}

fn key(bytes: &[u8], entry: Entry) -> &[u8] {
    let (header, rest) = split(bytes, entry);
    &rest[..header.key_bytes as usize]
}

fn record(bytes: &[u8], entry: Entry) -> &[u8] {
    let (header, _) = split(bytes, entry);
    let start = usize::try_from(entry.start).expect("a place in memory");
    &bytes[start..start + header.record_bytes()]
}

#[cfg(test)]
mod tests {
    use super::super::record::Place;
    use super::*;

    fn push(buffer: &mut Buffer, key: &str, line: u64, document: &[u8]) {
        let header = Header::new(key.as_bytes(), b"v", document, false, Place { source: 0, line });
        buffer.push(header, key.as_bytes(), b"v", document);
    }

    fn described(record: &[u8]) -> String {
        let (header, rest) = record.split_first_chunk().unwrap();
        let header = Header::from_bytes(*header);
        let (key, rest) = rest.split_at(header.key_bytes as usize);
        assert_eq!(rest, b"vx");
        format!("{}@{}", key.escape_ascii(), header.place.line)
    }

    #[test]
    fn records_are_sorted_by_key_then_by_position() {
        let mut buffer = Buffer::new(1 << 10);
        for (line, key) in [(1, "b"), (2, "abcdefgh2"), (3, "abcdefgh1"), (4, "b"), (5, ""), (6, "b"), (7, "b\0")] {
            push(&mut buffer, key, line, b"x");
        }
        let sorted: Vec<String> = buffer.sorted().map(described).collect();
        assert_eq!(sorted, ["@5", "abcdefgh1@3", "abcdefgh2@2", "b@1", "b@4", "b@6", "b\\x00@7"]);
        buffer.clear();
        assert_eq!(buffer.sorted().count(), 0);
    }

    #[test]
    fn only_an_empty_buffer_takes_a_document_beyond_its_size() {
        let header = |bytes| Header::new(b"k", b"v", &vec![b'x'; bytes], false, Place::default());
        let mut buffer = Buffer::new(110);
        assert!(buffer.has_room(header(1000)));
        push(&mut buffer, "k", 0, &[b'x'; 1000]);
        assert!(!buffer.has_room(header(0)));
        buffer.clear();
        push(&mut buffer, "k", 0, b"x");
        assert!(buffer.has_room(header(1)) && !buffer.has_room(header(100)));
    }
}
