//! A lane's share of a chunk.

use crate::budget::Memory;
use crate::merge::Member;
use bytes::Bytes;
use millstream_document::Original;
use millstream_model::Position;
use millstream_store::RejectedDocument;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;

/// One document of a lane, pointing into its part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) offset: u64,
    pub(crate) line: u64,
    pub(crate) key_start: u32,
    pub(crate) key_len: u32,
    /// The version's bytes follow the key's.
    pub(crate) version_len: u32,
    pub(crate) doc_start: u32,
    pub(crate) doc_len: u32,
    /// Whether the document deletes.
    pub(crate) tombstone: bool,
}

/// A lane's share of a chunk, possibly empty. Every lane gets its part of every chunk, in order, so that the chunk's
/// end is a watermark for all of the lane's slots.
#[derive(Debug, Default)]
pub(crate) struct Part {
    pub(crate) source: u32,
    /// The chunk's end, see [`millstream_document::chunk::Chunk::end`].
    pub(crate) end: u64,
    pub(crate) prefix_hash: u128,
    pub(crate) bytes: Bytes,
    /// Canonical keys of the rows, each followed by the document's version, back to back.
    pub(crate) keys: Vec<u8>,
    pub(crate) rows: Vec<Row>,
    pub(crate) rejects: Vec<RejectedDocument>,
    /// The documents before transforms changed them, if there are any.
    pub(crate) original: Option<Arc<Original>>,
    /// How often each outcome of each transform came.
    pub(crate) outcomes: Vec<u64>,
    /// How many documents the server refused in the current try.
    pub(crate) refused: AtomicU64,
    /// Bytes of the documents of this part, stored and rejected.
    pub(crate) bytes_read: u64,
    /// Shared by the chunk's parts that hold documents. When the last of them is dropped, the chunk's memory is free.
    pub(crate) hold: Option<Arc<Hold>>,
    /// Whether this part was reported to the producer as committed.
    pub(crate) acknowledged: bool,
}

/// Holds a chunk's share of the memory budget, and reports to its producer when the chunk is committed.
#[derive(Debug)]
pub(crate) struct Hold {
    memory: Memory,
    chunk_bytes: usize,
    committed: Mutex<Option<oneshot::Sender<u64>>>,
    shares: u32,
    rejected: AtomicU64,
    parts_open: AtomicU32,
}

impl Hold {
    pub(crate) fn new(memory: Memory, chunk_bytes: usize, committed: oneshot::Sender<u64>) -> Self {
        let committed = Mutex::new(Some(committed));
        Self { memory, chunk_bytes, committed, shares: 1, rejected: AtomicU64::new(0), parts_open: AtomicU32::new(0) }
    }

    /// From now on so many parts share it. If there are none, the chunk counts as committed.
    pub(crate) fn share(mut self, parts: usize) -> Arc<Self> {
        self.shares = u32::try_from(parts.max(1)).expect("few lanes");
        self.parts_open.store(self.shares, Release);
        if parts == 0 {
            self.part_committed(0);
        }
        Arc::new(self)
    }

    /// Counts one part as committed, with so many of its documents as rejects. The last part reports the number of all
    /// rejects to the producer.
    pub(crate) fn part_committed(&self, rejected: u64) {
        self.rejected.fetch_add(rejected, Release);
        if self.parts_open.fetch_sub(1, AcqRel) == 1
            && let Some(sender) = self.committed.lock().unwrap_or_else(|e| e.into_inner()).take()
        {
            // If the producer is gone, nobody needs the answer.
            let _ = sender.send(self.rejected.load(Acquire));
        }
    }
}

impl Part {
    /// Bytes of memory that the part keeps alive, which it shares with other parts of its chunk.
    pub(crate) fn held_bytes(&self) -> usize {
        self.hold.as_ref().map_or(0, |h| h.chunk_bytes)
    }

    /// The part's share of what its chunk takes from the memory budget, in bytes as the budget counts them.
    pub(crate) fn budget_bytes(&self) -> usize {
        self.hold.as_ref().map_or(0, |h| h.memory.bytes() / h.shares as usize)
    }

    pub(crate) fn key(&self, row: &Row) -> &[u8] {
        &self.keys[row.key_start as usize..(row.key_start + row.key_len) as usize]
    }

    pub(crate) fn document(&self, row: &Row) -> &[u8] {
        &self.bytes[row.doc_start as usize..row.doc_start as usize + row.doc_len as usize]
    }

    /// The document as the source has it.
    pub(crate) fn source_document(&self, row: &Row) -> Bytes {
        match &self.original {
            Some(original) => original.at(row.offset),
            None => self.bytes.slice(row.doc_start as usize..row.doc_start as usize + row.doc_len as usize),
        }
    }

    /// The document as a merge mode sees it.
    pub(crate) fn member(&self, row: &Row) -> Member<'_> {
        let version = (row.key_start + row.key_len) as usize;
        Member {
            document: self.document(row),
            version: &self.keys[version..version + row.version_len as usize],
            tombstone: row.tombstone,
        }
    }

    pub(crate) fn position(&self, row: &Row) -> Position {
        Position { source: self.source, offset: row.offset }
    }

    /// Where the part and its chunk end.
    pub(crate) fn mark(&self) -> Position {
        Position { source: self.source, offset: self.end }
    }

    /// Adds up what became of its documents in the transforms of the load.
    pub(crate) fn add_outcomes(&self, sum: &mut Vec<u64>) {
        sum.resize(sum.len().max(self.outcomes.len()), 0);
        for (sum, count) in sum.iter_mut().zip(&self.outcomes) {
            *sum += count;
        }
    }

    /// Reports to the producer that its documents are committed, unless it knows already.
    pub(crate) fn committed(&mut self) {
        if !std::mem::replace(&mut self.acknowledged, true)
            && let Some(hold) = &self.hold
        {
            hold.part_committed(self.rejects.len() as u64 + self.refused.load(Relaxed));
        }
    }

    /// Documents in this part.
    pub(crate) fn documents(&self) -> usize {
        self.rows.len() + self.rejects.len()
    }
}
