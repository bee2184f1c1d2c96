//! Documents of one source whose places their producer knows.

use millstream_document::chunk::{Chunk, Frame, UnreadableFrame};
use millstream_model::Fault;
use millstream_model::limits::{REJECT_BYTES_MAX, REJECT_END_BYTES};

/// Documents with their places, which are whole numbers that grow, not always by one. They are committed together with the
/// place that follows the last of them, and with a hash that the producer may compare when it continues there.
#[derive(Debug, Clone)]
pub struct Placed {
    bytes: Vec<u8>,
    frames: Vec<Frame>,
    begin: u64,
    end: u64,
    hash: u128,
}

impl Placed {
    /// No documents, and that all before this place are done.
    pub fn at(place: u64, hash: u128) -> Self {
        Self { bytes: Vec::new(), frames: Vec::new(), begin: place, end: place, hash }
    }

    /// Adds a document. `hash` says something about all documents up to it.
    ///
    /// # Panics
    /// Its place is not behind that of the last one.
    pub fn push(&mut self, place: u64, document: &[u8], hash: u128) {
        self.add(place, document, hash, None);
    }

    /// Adds a document that becomes a reject for this reason. Of a long one, only head and tail are held.
    ///
    /// # Panics
    /// Its place is not behind that of the last one.
    pub fn push_bad(&mut self, place: u64, document: &[u8], fault: Fault, hash: u128) {
        let clipped;
        let (held, truncated_from) = match document.len() {
            0..=REJECT_BYTES_MAX => (document, None),
            length => {
                clipped = [&document[..REJECT_END_BYTES], &document[length - REJECT_END_BYTES..]].concat();
                (clipped.as_slice(), Some(length as u64))
            }
        };
        self.add(place, held, hash, Some(Box::new(UnreadableFrame { fault, truncated_from, ends_source: false })));
    }

    fn add(&mut self, place: u64, document: &[u8], hash: u128, unreadable: Option<Box<UnreadableFrame>>) {
        assert!(place >= self.end, "places grow");
        let length = |bytes: usize| u32::try_from(bytes).expect("a send is short");
        let (start, len) = (length(self.bytes.len()), length(document.len()));
        self.bytes.extend_from_slice(document);
        self.frames.push(Frame { start, len, offset: place, line: place, unreadable });
        (self.end, self.hash) = (place + 1, hash);
    }

    /// Bytes of its documents.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// How many documents there are.
    pub fn documents(&self) -> usize {
        self.frames.len()
    }

    /// The place behind its last document.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The place of the first document, or before which all are done if there is none.
    pub(crate) fn begin(&self) -> u64 {
        self.frames.first().map_or(self.begin, |frame| frame.offset)
    }

    pub(crate) fn into_chunk(self) -> Chunk {
        let Self { bytes, frames, end, hash, .. } = self;
        Chunk { source: 0, end, prefix_hash: hash, bytes: bytes.into(), frames, original: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_model::Reason;

    #[test]
    fn documents_keep_their_places_and_the_last_hash_counts() {
        let mut placed = Placed::at(5, 1);
        assert_eq!((placed.begin(), placed.end(), placed.documents()), (5, 5, 0));
        placed.push(7, b"{}", 2);
        placed.push_bad(9, b"x", Fault::new(Reason::NotJson, "no"), 3);
        assert_eq!((placed.begin(), placed.end(), placed.documents(), placed.bytes()), (7, 10, 2, 3));
        let chunk = placed.into_chunk();
        assert_eq!((chunk.end, chunk.prefix_hash), (10, 3));
        assert_eq!(chunk.document(&chunk.frames[0]), b"{}");
        assert!(chunk.readable(&chunk.frames[0]).is_ok() && chunk.readable(&chunk.frames[1]).is_err());
    }

    #[test]
    fn of_a_long_bad_document_head_and_tail_are_held() {
        let mut placed = Placed::at(0, 0);
        let long = [vec![b'a'; REJECT_BYTES_MAX], vec![b'z'; 10]].concat();
        placed.push_bad(0, &long, Fault::new(Reason::TooLarge, "long"), 0);
        assert_eq!(placed.bytes(), 2 * REJECT_END_BYTES);
        let chunk = placed.into_chunk();
        assert_eq!(chunk.source_bytes(0), long.len() as u64);
        assert!(chunk.document(&chunk.frames[0]).ends_with(b"zzz"));
    }

    #[test]
    #[should_panic(expected = "places grow")]
    fn places_do_not_go_back() {
        let mut placed = Placed::at(5, 0);
        placed.push(4, b"{}", 0);
    }
}
