//! Transforms between a source and the decoder: each may change a document, or reject it.
//!
//! A transform sees a document after the source's hash, so positions, watermarks, resuming and rejects mean the bytes of the
//! source. A new transform is one file and two lines here.

mod annotate;
mod extended_json;
mod origin;

pub use annotate::{Annotate, Answer, Existing, Lookup, Missing};
pub use extended_json::ExtendedJson;
pub use origin::{Origin, partitions};

use crate::chunk::{Chunk, Frame, UnreadableFrame};
use crate::limits::{TRANSFORM_DOCUMENTS, TRANSFORM_OUTCOMES_MAX};
use crate::original::{Original, Outcomes, SourceDocument};
use bytes::Bytes;
use millstream_model::{Fault, TransformCounts};
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

/// A transform. It decides about each document by itself.
pub trait Transform: Debug + Send + Sync {
    /// What it does, in full: a load resumes only with transforms of the same names, in the same order.
    fn name(&self) -> String;

    /// What can become of a document, as the receipt names it; at most
    /// [`TRANSFORM_OUTCOMES_MAX`].
    fn outcomes(&self) -> &'static [&'static str];

    /// Whether it may write this member of documents, whatever they have there.
    fn writes(&self, member: &str) -> bool;

    /// Looks at documents of the source with this index, each by itself, and appends to `applied` what it did with each, in
    /// their order. It is given several at once so that it can wait for memory once for all of them. Documents that are to
    /// be others are appended to `changed`, which may hold something already.
    fn apply(&self, source: u32, documents: &[&[u8]], changed: &mut Vec<u8>, applied: &mut Vec<Applied>);
}

/// What a transform did with a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// It is not a document: the decoder says why.
    Unreadable,
    /// The document stays as it is. The number is the outcome's.
    Same(usize),
    /// The changed document was appended, and has this place.
    Changed(usize, Range<usize>),
    /// The document cannot be stored.
    Rejected(usize, Fault),
}

/// Applies transforms to every document of a chunk.
pub fn apply(transforms: &[Arc<dyn Transform>], mut chunk: Chunk) -> Chunk {
    if transforms.is_empty() {
        return chunk;
    }
    let mut changed = Vec::with_capacity(chunk.bytes.len() + chunk.bytes.len() / 2);
    let mut documents = Vec::with_capacity(chunk.frames.len());
    let mut buffers = vec![Vec::new(); transforms.len()];
    for frames in chunk.frames.chunks_mut(TRANSFORM_DOCUMENTS) {
        apply_to(transforms, (chunk.source, &chunk.bytes), frames, &mut buffers, &mut changed, &mut documents);
    }
    changed.shrink_to_fit();
    let bytes = std::mem::replace(&mut chunk.bytes, Bytes::from(changed));
    chunk.original = Some(Arc::new(Original { bytes, documents }));
    chunk
}

/// Applies transforms to some documents of a source. Each transform has a buffer. What the documents are at last is
/// appended to `changed`.
fn apply_to(
    transforms: &[Arc<dyn Transform>],
    (source, bytes): (u32, &[u8]),
    frames: &mut [Frame],
    buffers: &mut [Vec<u8>],
    changed: &mut Vec<u8>,
    documents: &mut Vec<SourceDocument>,
) {
    let mut now: Vec<&[u8]> = frames.iter().map(|f| &bytes[f.start as usize..][..f.len as usize]).collect();
    let mut outcomes = vec![Outcomes::default(); frames.len()];
    let mut readable: Vec<usize> = (0..frames.len()).filter(|n| frames[*n].unreadable.is_none()).collect();
    let mut applied = Vec::with_capacity(frames.len());
    for ((which, transform), buffer) in transforms.iter().enumerate().zip(buffers) {
        buffer.clear();
        let given: Vec<&[u8]> = readable.iter().map(|n| now[*n]).collect();
        transform.apply(source, &given, buffer, &mut applied);
        assert_eq!(applied.len(), given.len(), "a transform says what it did with each document");
        let buffer = &*buffer;
        let mut applied = applied.drain(..);
        readable.retain(|&n| {
            let (outcome, stays) = match applied.next().expect("there is one for each") {
                Applied::Unreadable => return false,
                Applied::Same(outcome) => (outcome, true),
                Applied::Changed(outcome, place) => {
                    now[n] = &buffer[place];
                    (outcome, true)
                }
                Applied::Rejected(outcome, fault) => {
                    frames[n].unreadable = Some(UnreadableFrame::whole(fault));
                    (outcome, false)
                }
            };
            outcomes[n].set(which, outcome);
            stays
        });
    }
    for ((frame, now), outcomes) in frames.iter_mut().zip(now).zip(outcomes) {
        documents.push(SourceDocument { offset: frame.offset, start: frame.start, len: frame.len, outcomes });
        frame.start = u32::try_from(changed.len()).expect("a chunk and what is inserted into it fit 4 GiB");
        frame.len = u32::try_from(now.len()).expect("a document fits a chunk");
        changed.extend_from_slice(now);
    }
}

/// The counts of [`Chunk::count_outcomes`] by name. There may be none yet.
pub fn counts(transforms: &[Arc<dyn Transform>], outcomes: &[u64]) -> Vec<TransformCounts> {
    let documents = |which: usize, transform: &Arc<dyn Transform>| {
        let count = |n: usize| outcomes.get(which * TRANSFORM_OUTCOMES_MAX + n).copied().unwrap_or(0);
        transform.outcomes().iter().enumerate().map(|(n, name)| ((*name).to_owned(), count(n))).collect()
    };
    let counted = transforms.iter().enumerate();
    counted
        .map(|(n, transform)| TransformCounts { name: transform.name(), documents: documents(n, transform) })
        .collect()
}
