//! Records in memory, sorted by key before they go to disk.

use super::record::{Header, header, lengths};

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
    /// Where the record begins; a later record begins later.
    start: u64,
}

impl Buffer {
    /// A buffer that takes about this many bytes of memory.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes_max), order: Vec::new(), bytes_max }
    }

    /// Number of records.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether a record with so many bytes of key and body fits. An empty buffer takes any.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        let used = self.bytes.len() + size_of_val(self.order.as_slice());
        self.order.is_empty() || used + size_of::<Header>() + bytes + size_of::<Entry>() <= self.bytes_max
    }

    /// Appends a record whose body is given in parts.
    pub(super) fn push(&mut self, key: &[u8], body: &[&[u8]]) {
        let mut head = [0; 8];
        let n = key.len().min(8);
        head[..n].copy_from_slice(&key[..n]);
        self.order.push(Entry { prefix: u64::from_be_bytes(head), start: self.bytes.len() as u64 });
        let header = header(key.len(), body.iter().map(|part| part.len()).sum());
        self.bytes.extend_from_slice(&header);
        self.bytes.extend_from_slice(key);
        body.iter().for_each(|part| self.bytes.extend_from_slice(part));
    }

    /// Puts the records into the order of their keys, those of a key in the order in which they came.
    pub(super) fn sort(&mut self) {
        let Self { bytes, order, .. } = self;
        let key = |entry: &Entry| split(bytes, *entry).0;
        order.sort_unstable_by(|a, b| {
            a.prefix.cmp(&b.prefix).then_with(|| key(a).cmp(key(b))).then(a.start.cmp(&b.start))
        });
    }

    /// Key and body of a record by its place in the order.
    pub(super) fn get(&self, place: usize) -> Option<(&[u8], &[u8])> {
        self.order.get(place).map(|entry| split(&self.bytes, *entry))
    }

    /// Each record as it is written to disk.
    pub(super) fn records(&self) -> impl Iterator<Item = &[u8]> {
        self.order.iter().map(|entry| {
            let (key, body) = split(&self.bytes, *entry);
            let start = index(entry.start);
            &self.bytes[start..start + size_of::<Header>() + key.len() + body.len()]
        })
    }

    /// Drops all records. Keeps the memory, except what one large record needed beyond the limit.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(self.bytes_max);
        self.order.clear();
    }
}

fn split(bytes: &[u8], entry: Entry) -> (&[u8], &[u8]) {
    let (header, rest) = bytes[index(entry.start)..].split_first_chunk().expect("a record begins with its header");
    let (key_bytes, body_bytes) = lengths(*header);
    rest[..key_bytes + body_bytes].split_at(key_bytes)
}

fn index(start: u64) -> usize {
    usize::try_from(start).expect("a place in memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_sorted_by_key_then_by_arrival() {
        let mut buffer = Buffer::new(1 << 10);
        for (number, key) in (1..).zip(["b", "abcdefgh2", "abcdefgh1", "b", "", "b", "b\0"]) {
            buffer.push(key.as_bytes(), &[b"v", &[b'0' + number]]);
        }
        buffer.sort();
        let shown = |place| {
            let (key, body) = buffer.get(place).unwrap();
            format!("{}@{}", key.escape_ascii(), body.escape_ascii())
        };
        let sorted: Vec<String> = (0..buffer.len()).map(shown).collect();
        assert_eq!(sorted, ["@v5", "abcdefgh1@v3", "abcdefgh2@v2", "b@v1", "b@v4", "b@v6", "b\\x00@v7"]);
        assert!(buffer.get(7).is_none());
        buffer.clear();
        assert_eq!((buffer.len(), buffer.records().count()), (0, 0));
    }

    #[test]
    fn only_an_empty_buffer_takes_a_record_beyond_its_size() {
        let mut buffer = Buffer::new(110);
        assert!(buffer.has_room(1000));
        buffer.push(b"k", &[&[b'x'; 1000]]);
        assert!(!buffer.has_room(0));
        buffer.clear();
        buffer.push(b"k", &[b"x"]);
        assert!(buffer.has_room(2) && !buffer.has_room(100));
    }
}
