//! Keeps a document that is not stored: all of it, or its head and tail.

use bytes::Bytes;
use millstream_model::limits::REJECT_END_BYTES;

/// Collects a document of any length in bounded memory.
#[derive(Debug, Default)]
pub(super) struct Clip {
    head: Vec<u8>,
    tail: Vec<u8>,
    len: u64,
}

/// What a [`Clip`] kept.
#[derive(Debug)]
pub(super) struct Clipped {
    pub(super) bytes: Bytes,
    pub(super) whole_len: u64,
}

/// How much of the tail is kept: two bytes more than asked for, so that a line end can still be dropped.
const TAIL_BYTES: usize = REJECT_END_BYTES + 2;

impl Clip {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.len += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(REJECT_END_BYTES - self.head.len()));
        self.head.extend_from_slice(head);
        if rest.len() >= TAIL_BYTES {
            self.tail.clear();
        }
        self.tail.extend_from_slice(&rest[rest.len() - rest.len().min(TAIL_BYTES)..]);
        // Dropping only at twice the size keeps many small pushes cheap.
        if self.tail.len() > 2 * TAIL_BYTES {
            self.tail.drain(..self.tail.len() - TAIL_BYTES);
        }
    }

    /// Drops the last byte if it is a carriage return or a line feed.
    pub(super) fn drop_line_end(&mut self) {
        let end = if self.tail.is_empty() { &mut self.head } else { &mut self.tail };
        if matches!(end.last(), Some(b'\r' | b'\n')) {
            end.pop();
            self.len -= 1;
        }
    }

    pub(super) fn finish(self) -> Clipped {
        let mut bytes = self.head;
        let tail = self.tail.len().min(REJECT_END_BYTES);
        bytes.extend_from_slice(&self.tail[self.tail.len() - tail..]);
        Clipped { bytes: bytes.into(), whole_len: self.len }
    }
}

impl Clipped {
    /// The whole length, if not all of it was kept.
    pub(super) fn truncated_from(&self) -> Option<u64> {
        (self.whole_len > self.bytes.len() as u64).then_some(self.whole_len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clips_keep_head_and_tail_for_any_chunking() {
        let end = REJECT_END_BYTES;
        for len in [0, 1, end, end + 1, 2 * end, 2 * end + 1, 5 * end + 7] {
            let whole: Vec<u8> = (0..=250).cycle().take(len).collect();
            for piece in [1000, end - 1, end + 3, 3 * end] {
                let mut clip = Clip::default();
                whole.chunks(piece).for_each(|p| clip.push(p));
                clip.push(b"\r");
                clip.drop_line_end();
                let clipped = clip.finish();
                assert_eq!(clipped.whole_len, len as u64);
                if len <= 2 * end {
                    assert!(clipped.bytes == whole, "length {len} in pieces of {piece}");
                    assert_eq!(clipped.truncated_from(), None);
                } else {
                    assert_eq!(clipped.truncated_from(), Some(len as u64));
                    assert!(clipped.bytes[..end] == whole[..end]);
                    assert!(clipped.bytes[end..] == whole[len - end..]);
                }
            }
        }
    }
}
