//! What a source hands to the decoder: a run of framed documents with their positions.

use bytes::Bytes;
use millstream_model::Fault;

/// A run of consecutive documents of one source. Chunks of a source follow each other in order.
#[derive(Debug, Clone)]
pub struct Chunk {
    /// Index of the source in the order given.
    pub source: u32,
    /// Offset in the uncompressed source after the last byte of this chunk: once every document
    /// of the chunk is committed, this is the watermark.
    pub end: u64,
    /// XXH3-128 of the uncompressed source from its beginning up to `end`; of a source that is not
    /// the first, with the hash of those before it in front. Zero for documents that a program hands over,
    /// which nobody can read again.
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
    pub broken: Option<Box<BrokenFrame>>,
}

/// Why a frame holds no document.
#[derive(Debug, Clone)]
pub struct BrokenFrame {
    /// What is wrong.
    pub fault: Fault,
    /// The document's whole length when the frame holds only its head and tail, else `None`.
    pub truncated_from: Option<u64>,
    /// The source ends here, because where the next document begins is unknown. The frame is alone
    /// in its chunk, which ends where the frame begins: the watermark never passes the damage, and a
    /// later run over the mended source reads on from there.
    pub ends_source: bool,
}

impl Frame {
    /// Length of the whole document, also where only its head and tail are kept.
    #[inline]
    pub fn whole_bytes(&self) -> u64 {
        self.broken.as_ref().and_then(|broken| broken.truncated_from).unwrap_or(u64::from(self.len))
    }
}

impl Chunk {
    /// The bytes of one of this chunk's frames.
    #[inline]
    pub fn document(&self, frame: &Frame) -> &[u8] {
        &self.bytes[frame.start as usize..frame.start as usize + frame.len as usize]
    }
}
