//! Sorts records by path within a bounded memory.

use crate::limits::SORT_BYTES_MAX;
use std::io;
use std::path::Path;

/// Takes records in any order. Those of one path stay in the order in which they came.
pub(crate) struct Sorter(millstream_input::Sorter);

/// Records in the order of [`crate::path::order`].
pub(crate) struct Sorted(millstream_input::Sorted);

impl Sorter {
    pub(crate) fn new(folder: &Path) -> Self {
        Self(millstream_input::Sorter::new(folder, SORT_BYTES_MAX))
    }

    /// Takes a record.
    ///
    /// # Errors
    /// A part cannot be written.
    pub(crate) fn push(&mut self, path: &[u8], body: &[u8]) -> io::Result<()> {
        self.0.push(&swapped(path.to_vec()), &[body])
    }

    /// The records in order.
    ///
    /// # Errors
    /// A part cannot be read.
    pub(crate) fn finish(self) -> io::Result<Sorted> {
        self.0.finish().map(Sorted)
    }
}

impl Sorted {
    /// The next record: its path and its bytes.
    ///
    /// # Errors
    /// A part cannot be read.
    pub(crate) fn next(&mut self) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
        let mut record = millstream_input::SortRecord::default();
        let is_there = self.0.next(&mut record)?;
        Ok(is_there.then(|| (swapped(record.key), record.body)))
    }
}

/// A path as a key whose bytes give the order, or a key as its path. No path holds a zero byte, so one stands for each
/// separator.
fn swapped(mut path: Vec<u8>) -> Vec<u8> {
    for byte in &mut path {
        match byte {
            b'/' => *byte = 0,
            0 => *byte = b'/',
            _ => {}
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::order;

    #[test]
    fn records_come_in_the_order_of_their_paths() {
        let dir = tempfile::tempdir().unwrap();
        let mut random = fastrand::Rng::with_seed(7);
        let mut records: Vec<(Vec<u8>, Vec<u8>)> = (0..3_000_u32)
            .map(|n| {
                let path = (0..random.usize(0..4)).flat_map(|_| [random.u8(b'-'..=b'1'), random.u8(b'-'..=b'1')]);
                (path.collect(), n.to_le_bytes().to_vec())
            })
            .collect();
        let mut sorter = Sorter::new(dir.path());
        for (path, body) in &records {
            sorter.push(path, body).unwrap();
        }
        records.sort_by(|a, b| order(&a.0, &b.0));
        let mut sorted = sorter.finish().unwrap();
        for (path, body) in &records {
            let (sorted_path, sorted_body) = sorted.next().unwrap().unwrap();
            assert_eq!((&sorted_path, &sorted_body), (path, body));
        }
        assert!(sorted.next().unwrap().is_none());
    }
}
