//! Committed batches that a crash of the server could still take, kept until a commit has waited for the disk.

use crate::batch::Part;
use crate::limits::{HELD_BATCHES_MAX, PART_BYTES};

/// Parts of batches in the order of their commits. They still count against the memory budget.
#[derive(Debug, Default)]
pub(super) struct Kept {
    batches: Vec<Vec<Part>>,
    bytes: u64,
    held_bytes: usize,
}

impl Kept {
    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Whether half as much is kept as goes into a batch. The commit of the next batch then waits for the disk. For
    /// large batches that is every second commit: if more were kept, the next batches would wait for memory.
    pub(super) fn is_full(&self, batch_bytes_max: usize) -> bool {
        self.bytes >= batch_bytes_max as u64 / 2 || self.held_bytes >= HELD_BATCHES_MAX * batch_bytes_max / 2
    }

    pub(super) fn push(&mut self, parts: Vec<Part>) {
        self.bytes += parts.iter().map(|p| p.bytes_read).sum::<u64>();
        self.held_bytes += parts.iter().map(|part| part.held_bytes() + PART_BYTES).sum::<usize>();
        self.batches.push(parts);
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The last `count` batches, which the server has lost; `None` if not all of them are kept. Whatever came before
    /// them survived the crash, so it is on disk.
    pub(super) fn lost(&mut self, count: usize) -> Option<Vec<Vec<Part>>> {
        let first = self.batches.len().checked_sub(count)?;
        Some(std::mem::take(self).batches.split_off(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty_part() -> Part {
        Part {
            source: 0,
            end: 0,
            prefix_hash: 0,
            bytes: bytes::Bytes::new(),
            keys: Vec::new(),
            rows: Vec::new(),
            rejects: Vec::new(),
            original: None,
            outcomes: Vec::new(),
            refused: 0.into(),
            bytes_read: 0,
            hold: None,
            acknowledged: false,
        }
    }

    #[test]
    fn parts_without_documents_count_towards_the_limit() {
        let mut kept = Kept::default();
        for _ in 0..1_000 {
            assert!(!kept.is_full(2 * 1_000 * PART_BYTES / HELD_BATCHES_MAX));
            kept.push(vec![empty_part()]);
        }
        assert!(kept.is_full(2 * 1_000 * PART_BYTES / HELD_BATCHES_MAX));
    }

    #[test]
    fn lost_batches_are_the_last_ones_kept() {
        let mut kept = Kept::default();
        for _ in 0..3 {
            kept.push(Vec::new());
        }
        assert!(kept.lost(4).is_none(), "more than is kept cannot be given back");
        assert_eq!(kept.lost(2).map(|lost| lost.len()), Some(2));
        assert!(kept.is_empty(), "what came before is on disk");
        assert_eq!(kept.lost(0).map(|lost| lost.len()), Some(0));
    }
}
