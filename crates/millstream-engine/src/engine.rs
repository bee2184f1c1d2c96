//! The running engine: chunks from any number of producers in, commits out.

use crate::batch::{Hold, Part, Splitter, attach};
use crate::chunk::Chunk;
use crate::error::Error;
use crate::failpoint;
use crate::limits::{DECODE_QUEUE, FRAME_BYTES, LANE_QUEUE};
use crate::observe::Tally;
use crate::write::{Lane, LaneReport, LaneSetup};
use std::sync::{Arc, Mutex};
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;

/// Limits under which an engine stops taking documents.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RejectLimits {
    /// Rejected documents, those of earlier runs included.
    pub(crate) documents_max: u64,
    /// Bytes kept of them.
    pub(crate) bytes_max: u64,
    /// What earlier runs of the load rejected.
    pub(crate) documents_before: u64,
    pub(crate) bytes_before: u64,
}

impl RejectLimits {
    pub(crate) fn reached(&self, tally: &Tally) -> bool {
        self.documents_before + tally.rejects() >= self.documents_max
            || self.bytes_before + tally.reject_bytes() >= self.bytes_max
    }

    /// Whether the server's refusals alone reach a limit. They are slow to find, so a lane then
    /// leaves what it has not yet written to the next run.
    pub(crate) fn refused_too_many(&self, tally: &Tally) -> bool {
        let (documents, bytes) = tally.refusals();
        documents > 0
            && (self.documents_before + documents >= self.documents_max || self.bytes_before + bytes >= self.bytes_max)
    }
}

/// Why decoding ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The producers are gone and everything is with the lanes.
    Drained,
    /// Too many documents were rejected.
    Rejects,
    /// A lane has ended, and its error tells why.
    LaneGone,
}

/// Takes chunks and commits their documents. Clones of its [`Producer`] may be used at once from
/// many tasks; the documents of one producer take effect in the order in which it submits them.
pub(crate) struct Engine {
    producer: Producer,
    lanes: JoinSet<Result<LaneReport, Error>>,
    decoding: std::thread::JoinHandle<Ended>,
    lane_ended: Arc<Notify>,
    rejects: RejectLimits,
    tally: Arc<Tally>,
}

/// Tells that a lane is at its end, however it came there.
struct LaneEnd(Arc<Notify>);

impl Drop for LaneEnd {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// An entry into the engine.
#[derive(Debug, Clone)]
pub struct Producer {
    intake: mpsc::Sender<(Chunk, Hold)>,
    memory: Arc<Semaphore>,
    memory_bytes: usize,
}

/// Resolves when every document of a chunk is committed.
#[derive(Debug)]
pub struct Commit(oneshot::Receiver<()>);

impl Commit {
    /// Waits for the commit.
    ///
    /// # Errors
    /// [`Error::BrokenOff`] when the engine stopped before; some documents of the chunk may be
    /// committed all the same.
    pub async fn committed(self) -> Result<(), Error> {
        self.0.await.map_err(|_| Error::BrokenOff("it stopped before the documents were committed"))
    }
}

impl Producer {
    /// Hands a chunk over, waiting for memory. Resolves when the chunk is taken; the value
    /// returned resolves when it is committed.
    ///
    /// # Errors
    /// [`Error::BrokenOff`] when the engine has stopped.
    pub async fn submit(&self, chunk: Chunk) -> Result<Commit, Error> {
        const STOPPED: Error = Error::BrokenOff("it takes no more documents");
        let chunk_bytes = chunk.bytes.len();
        let weight = weight(&chunk, self.memory_bytes);
        let permit = Arc::clone(&self.memory).acquire_many_owned(weight).await.map_err(|_| STOPPED)?;
        let (sender, receiver) = oneshot::channel();
        let hold = Hold {
            _permit: permit,
            chunk_bytes,
            committed: Mutex::new(Some(sender)),
            parts_open: std::sync::atomic::AtomicU32::new(0),
        };
        self.intake.send((chunk, hold)).await.map_err(|_| STOPPED)?;
        Ok(Commit(receiver))
    }
}

impl Engine {
    /// Opens the lanes and starts decoding.
    pub(crate) async fn start(
        splitter: Splitter,
        lanes: Vec<LaneSetup>,
        rejects: RejectLimits,
        memory_bytes: usize,
        tally: Arc<Tally>,
    ) -> Result<Self, Error> {
        let (mut tasks, lane_ended) = (JoinSet::new(), Arc::new(Notify::new()));
        let mut queues = Vec::with_capacity(lanes.len());
        let mut opening = JoinSet::new();
        for setup in lanes {
            opening.spawn(async move { (setup.lane, Lane::open(setup).await) });
        }
        let mut open = Vec::new();
        while let Some(joined) = opening.join_next().await {
            let (number, lane) = joined.map_err(|_| Error::BrokenOff("a lane could not start"))?;
            open.push((number, lane?));
        }
        open.sort_by_key(|(number, _)| *number);
        for (_, lane) in open {
            let (queue, parts) = mpsc::channel(LANE_QUEUE);
            queues.push(queue);
            let end = LaneEnd(Arc::clone(&lane_ended));
            tasks.spawn(async move {
                let _end = end;
                lane.run(parts).await
            });
        }
        let (intake, chunks) = mpsc::channel(DECODE_QUEUE);
        let counts = Arc::clone(&tally);
        let decoding = std::thread::Builder::new()
            .name("decode".into())
            .spawn(move || decode(splitter, chunks, &queues, rejects, &counts))
            .map_err(|_| Error::BrokenOff("the decoding thread could not start"))?;
        let producer = Producer { intake, memory: Arc::new(Semaphore::new(memory_bytes)), memory_bytes };
        Ok(Self { producer, lanes: tasks, decoding, lane_ended, rejects, tally })
    }

    /// Resolves when a lane has ended before its documents did, which a source that is silent
    /// must not hide.
    pub(crate) async fn lane_ended(&self) {
        self.lane_ended.notified().await;
    }

    /// An entry for documents.
    pub(crate) fn producer(&self) -> &Producer {
        &self.producer
    }

    /// Takes no more documents, commits those it has and ends.
    ///
    /// # Errors
    /// The first error that ended a lane; the reports are those of the other lanes.
    pub(crate) async fn finish(self) -> (Vec<LaneReport>, Ended, Option<Error>) {
        let Self { producer, mut lanes, decoding, rejects, tally, .. } = self;
        drop(producer);
        let (mut reports, mut first_error) = (Vec::new(), None);
        while let Some(joined) = lanes.join_next().await {
            match joined {
                Ok(Ok(report)) => reports.push(report),
                Ok(Err(error)) => first_error = first_error.or(Some(error)),
                // A failed assertion stops the whole process: no lane goes missing.
                Err(panic) => std::panic::resume_unwind(panic.into_panic()),
            }
        }
        // With the lanes gone the thread is at its end or about to be.
        let ended = decoding.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let ended = if rejects.refused_too_many(&tally) { Ended::Rejects } else { ended };
        (reports, ended, first_error)
    }
}

/// A chunk's share of the memory, never more than there is.
fn weight(chunk: &Chunk, memory_bytes: usize) -> u32 {
    let held_bytes = chunk.bytes.len() + chunk.frames.len() * FRAME_BYTES;
    u32::try_from(held_bytes.clamp(1, memory_bytes)).unwrap_or(u32::MAX)
}

/// Decodes chunks in order and hands every lane its part of every chunk, until the producers are
/// gone, a lane has ended or too much was rejected.
fn decode(
    mut splitter: Splitter,
    mut chunks: mpsc::Receiver<(Chunk, Hold)>,
    lanes: &[mpsc::Sender<Part>],
    rejects: RejectLimits,
    tally: &Tally,
) -> Ended {
    while let Some((chunk, hold)) = chunks.blocking_recv() {
        let (mut parts, skipped) = splitter.split(&chunk);
        tally.decoded(chunk.bytes.len() as u64, parts.iter().map(|p| p.bytes_read).sum());
        drop(chunk);
        tally.skipped(skipped.documents);
        let rejected = parts.iter().flat_map(|p| &p.rejects);
        tally.rejected(rejected.clone().count() as u64, rejected.map(|r| r.bytes.len() as u64).sum());
        attach(&mut parts, hold);
        failpoint::hit_on_thread("chunk-decoded");
        for (lane, part) in lanes.iter().zip(parts) {
            if lane.blocking_send(part).is_err() {
                return Ended::LaneGone;
            }
        }
        if rejects.reached(tally) {
            return Ended::Rejects;
        }
    }
    Ended::Drained
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::Frame;

    #[test]
    fn short_documents_weigh_more_than_their_bytes() {
        let frame = Frame { start: 0, len: 1, offset: 0, line: 1, broken: None };
        let bytes = bytes::Bytes::from_static(b"x\nx\n");
        let mut chunk = Chunk { source: 0, end: 4, prefix_hash: 0, bytes, frames: Vec::new() };
        assert_eq!(weight(&chunk, 1 << 20), 4);
        chunk.frames = vec![frame; 100];
        assert!(weight(&chunk, 1 << 20) as usize > 100 * 40);
        assert_eq!(weight(&chunk, 1_000), 1_000);
    }
}
