//! What a source hands to the decoder: consecutive framed documents with their positions.

use crate::original::Original;
use bytes::Bytes;
use millstream_model::Fault;
use std::sync::Arc;

/// Consecutive documents of one source. The chunks of a source follow each other in order.
#[derive(Debug, Clone)]
pub struct Chunk {
    /// Index of the source in the order given.
    pub source: u32,
    /// Offset in the uncompressed source after the last byte of this chunk. It is the watermark once every document of
    /// the chunk is committed.
    pub end: u64,
    /// XXH3-128 of the uncompressed source from its beginning up to `end`. If the source is not the first, the hash of
    /// the sources before it comes first. Zero for documents that a program sends, because nobody can read them again.
    pub prefix_hash: u128,
    /// The bytes that the frames point into.
    pub bytes: Bytes,
    /// The documents, in order of position.
    pub frames: Vec<Frame>,
    /// The documents before transforms changed them, if there are transforms.
    pub original: Option<Arc<Original>>,
}

/// One document of a chunk.
#[derive(Debug, Clone)]
pub struct Frame {
    /// First byte of the document in the chunk's bytes.
    pub start: u32,
    /// Length of the document in bytes.
    pub len: u32,
    /// Byte offset of the document in the uncompressed source.
    pub offset: u64,
    /// Line on which the document begins, from 1.
    pub line: u64,
    /// Set when the source already knows that this is not a document.
    pub unreadable: Option<Box<UnreadableFrame>>,
}

/// Why a frame holds no document.
#[derive(Debug, Clone)]
pub struct UnreadableFrame {
    /// What is wrong.
    pub fault: Fault,
    /// The document's whole length if the frame holds only its head and tail, else `None`.
    pub truncated_from: Option<u64>,
    /// The source ends here, because we do not know where the next document begins. The frame is alone in its chunk,
    /// which ends where the frame begins. So the watermark never passes the damage, and a later run over the repaired
    /// source resumes there.
    pub ends_source: bool,
}

impl UnreadableFrame {
    /// A document that is whole, but not one.
    pub(crate) fn whole(fault: Fault) -> Box<Self> {
        Box::new(Self { fault, truncated_from: None, ends_source: false })
    }
}

impl Chunk {
    /// Bytes of memory that it keeps alive.
    pub fn held_bytes(&self) -> usize {
        self.bytes.len() + self.original.as_ref().map_or(0, |original| original.bytes.len())
    }

    /// Bytes that the source gave.
    pub fn given_bytes(&self) -> u64 {
        self.original.as_ref().map_or(self.bytes.len(), |original| original.bytes.len()) as u64
    }

    /// The document of a frame as the source has it.
    pub fn source_document(&self, frame: usize) -> Bytes {
        match &self.original {
            Some(original) => original.document(frame),
            None => {
                let Frame { start, len, .. } = &self.frames[frame];
                let (start, len) = (*start as usize, *len as usize);
                self.bytes.slice(start..start + len)
            }
        }
    }

    /// Length of the whole document of a frame in the source, even if only its head and tail are kept.
    #[inline]
    pub fn source_bytes(&self, frame: usize) -> u64 {
        let truncated = self.frames[frame].unreadable.as_ref().and_then(|unreadable| unreadable.truncated_from);
        truncated.unwrap_or_else(|| match &self.original {
            Some(original) => original.documents[frame].len.into(),
            None => self.frames[frame].len.into(),
        })
    }

    /// The bytes of one of this chunk's frames, or why they are no document.
    #[inline]
    pub fn readable<'c>(&'c self, frame: &'c Frame) -> Result<&'c [u8], &'c Fault> {
        match &frame.unreadable {
            None => Ok(self.document(frame)),
            Some(unreadable) => Err(&unreadable.fault),
        }
    }

    /// Adds what the transforms did with the document of a frame to counts: those of the first transform, then of the next.
    #[inline]
    pub fn count_outcomes(&self, frame: usize, counts: &mut [u64]) {
        if let Some(original) = &self.original {
            original.documents[frame].outcomes.count(counts);
        }
    }

    /// The frame at which the source ends because it is damaged, and what is wrong there.
    pub fn damage(&self) -> Option<(&Frame, &Fault)> {
        let frame = self.frames.last()?;
        frame
            .unreadable
            .as_ref()
            .filter(|unreadable| unreadable.ends_source)
            .map(|unreadable| (frame, &unreadable.fault))
    }

    /// The bytes of one of this chunk's frames.
    #[inline]
    pub fn document(&self, frame: &Frame) -> &[u8] {
        &self.bytes[frame.start as usize..frame.start as usize + frame.len as usize]
    }
}
