//! Decodes a chunk and distributes its documents to the lanes by their class.

use super::classes::Classes;
use super::keys::Keys;
use super::part::{Hold, Part, Row};
use bytes::Bytes;
use millstream_document::chunk::{Chunk, Frame};
use millstream_document::decode::Decoder;
use millstream_document::limits::TRANSFORM_OUTCOMES_MAX;
use millstream_model::limits::{REJECT_BYTES_MAX, REJECT_END_BYTES};
use millstream_model::{Fault, Position};
use millstream_store::RejectedDocument;
use std::sync::Arc;

/// Decodes documents and assigns them to lanes.
#[derive(Debug)]
pub(crate) struct Splitter {
    decoder: Decoder,
    classes: Classes,
    /// Whether any floor is above zero.
    resumed: bool,
    lanes: usize,
    /// Counts that the transforms of a load need.
    outcomes: usize,
    /// Gets the keys of all documents, also of those that are committed, if somebody wants them.
    keys: Option<Arc<Keys>>,
    key: Vec<u8>,
    version: Vec<u8>,
}

impl Splitter {
    pub(crate) fn new(decoder: Decoder, classes: Classes, transforms: usize, keys: Option<Arc<Keys>>) -> Self {
        let (lanes, resumed) = (classes.lanes(), classes.resumed());
        let outcomes = transforms * TRANSFORM_OUTCOMES_MAX;
        let (key, version) = (Vec::new(), Vec::new());
        Self { decoder, classes, resumed, lanes, outcomes, keys, key, version }
    }

    /// One part for each lane, in lane order, without the documents that an earlier run of the load has committed.
    pub(crate) fn split(&mut self, chunk: &Chunk) -> Vec<Part> {
        let rows_per_lane = chunk.frames.len() / self.lanes + chunk.frames.len() / 16 + 1;
        let mut parts: Vec<Part> = (0..self.lanes)
            .map(|_| Part {
                source: chunk.source,
                end: chunk.end,
                prefix_hash: chunk.prefix_hash,
                bytes: chunk.bytes.clone(),
                keys: Vec::with_capacity(rows_per_lane * 20),
                rows: Vec::with_capacity(rows_per_lane),
                original: chunk.original.clone(),
                outcomes: vec![0; if chunk.original.is_some() { self.outcomes } else { 0 }],
                ..Part::default()
            })
            .collect();
        let mut skipped = 0;
        let mut collecting = self.keys.as_ref().map(|keys| keys.collecting());
        for (number, frame) in chunk.frames.iter().enumerate() {
            self.key.clear();
            self.version.clear();
            let decoded = match chunk.readable(frame) {
                Err(fault) => Err(fault.clone()),
                Ok(document) => self.decoder.decode_versioned(document, &mut self.key, &mut self.version),
            };
            if let (Some(collecting), Ok(_)) = (&mut collecting, &decoded) {
                collecting.push(&self.key);
            }
            let position = Position { source: chunk.source, offset: frame.offset };
            let class = self.classes.class(decoded.is_ok().then_some(&*self.key), position);
            if self.resumed && position < self.classes.floor(class) {
                skipped += 1;
                continue;
            }
            let part = &mut parts[self.classes.lane(class)];
            part.bytes_read += chunk.source_bytes(number);
            chunk.count_outcomes(number, &mut part.outcomes);
            match decoded {
                Ok(tombstone) => push_row(part, frame, &self.key, &self.version, tombstone),
                Err(fault) => part.rejects.push(reject(chunk, number, position, fault)),
            }
        }
        let dealt: usize = parts.iter().map(Part::documents).sum();
        assert_eq!(dealt + skipped, chunk.frames.len(), "every document of a chunk is in one part or committed before");
        parts
    }
}

fn push_row(part: &mut Part, frame: &Frame, key: &[u8], version: &[u8], tombstone: bool) {
    part.rows.push(Row {
        offset: frame.offset,
        line: frame.line,
        key_start: u32::try_from(part.keys.len()).expect("keys of a chunk fit 4 GiB"),
        key_len: u32::try_from(key.len()).expect("a key fits an index tuple"),
        version_len: u32::try_from(version.len()).expect("a version is short"),
        doc_start: frame.start,
        doc_len: frame.len,
        tombstone,
    });
    part.keys.extend_from_slice(key);
    part.keys.extend_from_slice(version);
}

fn reject(chunk: &Chunk, frame: usize, position: Position, fault: Fault) -> RejectedDocument {
    RejectedDocument {
        position,
        line: chunk.frames[frame].line,
        fault,
        bytes: kept_bytes(chunk.source_document(frame)),
        whole_bytes: chunk.source_bytes(frame),
    }
}

/// The bytes of a rejected document that are kept; of a long one, head and tail. They are a copy, so that a reject does
/// not keep its whole chunk in memory.
pub(crate) fn kept_bytes(document: Bytes) -> Bytes {
    if document.len() <= REJECT_BYTES_MAX {
        return Bytes::copy_from_slice(&document);
    }
    let tail = document.len() - REJECT_END_BYTES;
    Bytes::from([&document[..REJECT_END_BYTES], &document[tail..]].concat())
}

/// Gives the chunk's hold to the parts that have documents. If there are none, the chunk counts as committed at once.
pub(crate) fn attach(parts: &mut [Part], hold: Hold) {
    let holders = parts.iter().filter(|p| p.documents() > 0).count();
    let hold = hold.share(holders);
    for part in parts {
        if part.documents() > 0 {
            part.hold = Some(Arc::clone(&hold));
        } else {
            // A lane may keep an empty part for a long time, and the memory budget does not count it.
            (part.bytes, part.keys, part.rows, part.original) = (Bytes::new(), Vec::new(), Vec::new(), None);
        }
    }
}
