//! What a source hands to the decoder: consecutive framed documents with their positions.

use bytes::Bytes;
use millstream_model::Fault;

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
    /// Set when the source already knows that this is no document.
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

impl Frame {
    /// Length of the whole document in bytes, even if only its head and tail are kept.
    #[inline]
    pub fn whole_bytes(&self) -> u64 {
        self.unreadable.as_ref().and_then(|unreadable| unreadable.truncated_from).unwrap_or(u64::from(self.len))
    }
}

impl Chunk {
    /// The bytes of one of this chunk's frames.
    #[inline]
    pub fn document(&self, frame: &Frame) -> &[u8] {
        &self.bytes[frame.start as usize..frame.start as usize + frame.len as usize]
    }
}
