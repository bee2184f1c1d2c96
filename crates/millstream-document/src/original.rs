//! The documents of a chunk as the source has them, beside those that the transforms made of them.

use crate::limits::{TRANSFORM_OUTCOMES_MAX, TRANSFORMS_MAX};
use bytes::Bytes;

/// A chunk before its transforms.
#[derive(Debug)]
pub struct Original {
    /// The bytes that the source gave.
    pub(crate) bytes: Bytes,
    /// One for each frame of the chunk, in the same order.
    pub(crate) documents: Vec<SourceDocument>,
}

/// One document before its transforms.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SourceDocument {
    /// Byte offset in the uncompressed source.
    pub(crate) offset: u64,
    /// First byte in the original's bytes.
    pub(crate) start: u32,
    /// Length in bytes.
    pub(crate) len: u32,
    /// What the transforms did with it.
    pub(crate) outcomes: Outcomes,
}

impl Original {
    /// The bytes of a document that begins at an offset of the source.
    ///
    /// # Panics
    /// No document of the chunk begins there.
    pub fn at(&self, offset: u64) -> Bytes {
        let found = self.documents.binary_search_by_key(&offset, |document| document.offset);
        self.document(found.expect("every document of a chunk has an original"))
    }

    /// The bytes of the document of a frame.
    pub(crate) fn document(&self, frame: usize) -> Bytes {
        let SourceDocument { start, len, .. } = self.documents[frame];
        self.bytes.slice(start as usize..start as usize + len as usize)
    }
}

/// What each transform did with one document: three bits a transform, 0 for nothing, else one more than the outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Outcomes(u32);

const _: () = assert!(TRANSFORM_OUTCOMES_MAX < 8 && TRANSFORMS_MAX * 3 <= u32::BITS as usize);

impl Outcomes {
    /// Notes the outcome of a transform.
    pub(crate) fn set(&mut self, transform: usize, outcome: usize) {
        assert!(outcome < TRANSFORM_OUTCOMES_MAX, "a transform has few outcomes");
        let bits = u32::try_from(outcome + 1).expect("it is less than 8");
        self.0 |= bits << (3 * transform);
    }

    /// Adds them to counts: [`TRANSFORM_OUTCOMES_MAX`] for each transform.
    pub(crate) fn count(self, counts: &mut [u64]) {
        for (transform, counts) in counts.chunks_mut(TRANSFORM_OUTCOMES_MAX).enumerate() {
            if let Some(outcome) = ((self.0 >> (3 * transform) & 7) as usize).checked_sub(1) {
                counts[outcome] += 1;
            }
        }
    }
}
