//! The running engine: chunks from any number of producers in, commits out.

use crate::batch::{Hold, Part, Splitter};
use crate::budget::{Budget, Memory};
use crate::error::Error;
use crate::flow::{Ended, flow};
use crate::limits::{DECODE_QUEUE_BYTES, FRAME_BYTES, LANE_QUEUE, LARGE_CHUNK_BYTES, LARGE_COPIES, PART_BYTES};
use crate::observe::Tally;
use crate::reject_limits::RejectLimits;
use crate::stop::StopReason;
use crate::write::{LaneReport, LaneSetup, Lanes, open_lane};
use millstream_document::chunk::Chunk;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;

/// Takes chunks from any number of tasks and commits their documents. The documents take effect in the order in which
/// their chunks are taken.
pub(crate) struct Engine {
    /// The way in.
    pub(crate) intake: Intake,
    lanes: JoinSet<(usize, LaneReport, Result<(), Error>)>,
    decoding: std::thread::JoinHandle<Ended>,
    lane_ended: Arc<Notify>,
    shared: Arc<Lanes>,
}

/// How an engine ended.
pub(crate) struct Finish {
    /// Reports of the lanes, in their order, including those that failed.
    pub(crate) reports: Vec<LaneReport>,
    /// Why not everything was taken and committed, if so.
    pub(crate) stopped: Option<StopReason>,
    /// The error behind [`StopReason::Failed`].
    pub(crate) error: Option<Error>,
}

/// Signals that a lane has ended, for whatever reason.
struct LaneEnd(Arc<Notify>);

impl Drop for LaneEnd {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// The way into an engine.
#[derive(Debug, Clone)]
pub(crate) struct Intake {
    /// Bounded by `queue`. The channel itself is not bounded: a sender that waits for a place in a bounded channel and
    /// is not polled any more would keep the engine from ending.
    arrivals: mpsc::UnboundedSender<Option<Arrival>>,
    queue: Arc<Semaphore>,
    budget: Budget,
    lanes: usize,
}

/// A chunk on its way to the decoder. `None` in its place marks the end; whatever comes after it is too late.
#[derive(Debug)]
struct Arrival {
    chunk: Chunk,
    hold: Hold,
    place: OwnedSemaphorePermit,
}

/// Room for one chunk.
pub(crate) struct Room<'a> {
    arrivals: &'a mpsc::UnboundedSender<Option<Arrival>>,
    place: OwnedSemaphorePermit,
    memory: Memory,
}

impl Intake {
    /// Waits for memory and a place in the queue. `None` if the engine takes no more.
    pub(crate) async fn room(&self, chunk: &Chunk) -> Option<Room<'_>> {
        let memory = self.budget.take(weight(chunk, self.lanes, self.budget.bytes_max())).await?;
        let place = weight(chunk, self.lanes, DECODE_QUEUE_BYTES);
        let place = Arc::clone(&self.queue).acquire_many_owned(place).await.ok()?;
        (!self.arrivals.is_closed()).then_some(Room { arrivals: &self.arrivals, place, memory })
    }
}

impl Room<'_> {
    /// Hands over the chunk. The receiver returned resolves to the number of its rejected documents when all of it is
    /// committed. It fails if the engine ends before.
    pub(crate) fn take(self, chunk: Chunk) -> oneshot::Receiver<u64> {
        let (sender, committed) = oneshot::channel();
        let hold = Hold::new(self.memory, chunk.held_bytes(), sender);
        // If nobody receives any more, the sender is dropped with the chunk, so the receiver fails.
        let _ = self.arrivals.send(Some(Arrival { chunk, hold, place: self.place }));
        committed
    }
}

impl Engine {
    /// Opens the lanes and starts decoding. The setups are in the order in which the splitter counts lanes.
    pub(crate) async fn start(splitter: Splitter, setups: Vec<LaneSetup>, shared: Arc<Lanes>) -> Result<Self, Error> {
        let (mut tasks, lane_ended) = (JoinSet::new(), Arc::new(Notify::new()));
        let mut queues = Vec::with_capacity(setups.len());
        let mut opening = JoinSet::new();
        for (place, setup) in setups.into_iter().enumerate() {
            opening.spawn(async move { (place, open_lane(setup).await) });
        }
        let mut open = Vec::new();
        while let Some(joined) = opening.join_next().await {
            let (place, lane) = joined.map_err(|_| Error::BrokenOff("a lane could not start"))?;
            open.push((place, lane?));
        }
        open.sort_by_key(|(place, _)| *place);
        for (place, lane) in open {
            let (queue, parts) = mpsc::channel(LANE_QUEUE);
            queues.push(queue);
            let end = LaneEnd(Arc::clone(&lane_ended));
            let shared = Arc::clone(&shared);
            tasks.spawn(async move {
                let _end = end;
                let (report, ended) = lane.run(parts).await;
                if ended.is_err() || shared.refused_too_many() {
                    shared.drain.begin();
                }
                (place, report, ended)
            });
        }
        let (sender, arrivals) = mpsc::unbounded_channel();
        let queue = Arc::new(Semaphore::new(DECODE_QUEUE_BYTES));
        let intake = Intake { arrivals: sender, queue, budget: shared.budget.clone(), lanes: queues.len() };
        let of_thread = Arc::clone(&shared);
        let decoding = std::thread::Builder::new()
            .name("decode".into())
            .spawn(move || {
                let ended = decode(splitter, arrivals, &queues, of_thread.rejects(), &of_thread.around.tally);
                if !matches!(ended, Ended::Drained) {
                    of_thread.drain.begin();
                }
                ended
            })
            .map_err(|_| Error::BrokenOff("the decoding thread could not start"))?;
        Ok(Self { intake, lanes: tasks, decoding, lane_ended, shared })
    }

    /// Resolves when a lane has ended before its documents did. A silent source must not hide that.
    pub(crate) async fn lane_ended(&self) {
        self.lane_ended.notified().await;
    }

    /// Bounds what is in flight from now on: what is not committed within this time is rolled back.
    pub(crate) fn end_within(&self, longest: Duration) {
        self.shared.drain.begin_within(longest);
    }

    /// Takes no more chunks, commits those it has, and ends. `fed` says why no more chunks come, if not because the
    /// sources have ended. If it ends early, a lane that takes too long is cut off: its batch is rolled back.
    pub(crate) async fn finish(self, fed: Result<Option<StopReason>, Error>) -> Finish {
        let Self { intake, mut lanes, decoding, shared, .. } = self;
        if !matches!(fed, Ok(None)) {
            shared.drain.begin();
        }
        // An error means that decoding has already ended.
        let _ = intake.arrivals.send(None);
        let (mut reports, mut lane_error) = (Vec::new(), None);
        while let Some(joined) = lanes.join_next().await {
            match joined {
                Ok((place, report, ended)) => {
                    reports.push((place, report));
                    lane_error = lane_error.or(ended.err());
                }
                // A failed assertion stops the whole process: no lane goes missing.
                Err(panic) => std::panic::resume_unwind(panic.into_panic()),
            }
        }
        // The lanes are gone, so the thread has ended or is about to end.
        let ended = decoding.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let ended = if shared.refused_too_many() { Ended::Rejects } else { ended };
        reports.sort_by_key(|(place, _)| *place);
        let reports: Vec<LaneReport> = reports.into_iter().map(|(_, report)| report).collect();
        let cut = reports.iter().any(|report| report.cut);
        let ended = match (lane_error, ended, fed) {
            // After a lane has ended, the feed ends without an error. So an error of the feed came first.
            (Some(_), _, Err(error))
            | (Some(error), _, Ok(_))
            | (None, Ended::Drained | Ended::LaneGone, Err(error))
            | (None, Ended::Rejected(error), _) => Err(error),
            (None, Ended::Rejects, _) => Ok(Some(StopReason::Rejects)),
            (None, Ended::Drained | Ended::LaneGone, Ok(reason)) if cut => {
                let error = shared.drain.ended();
                reason.or_else(|| shared.drain.reason()).map(Some).ok_or(error)
            }
            (None, Ended::LaneGone, Ok(_)) => Err(Error::BrokenOff("a lane ended before its documents did")),
            (None, Ended::Drained, Ok(reason)) => Ok(reason),
        };
        Finish::new(reports, ended)
    }
}

impl Finish {
    fn new(reports: Vec<LaneReport>, ended: Result<Option<StopReason>, Error>) -> Self {
        match ended {
            Ok(stopped) => Self { reports, stopped, error: None },
            Err(error) => Self { reports, stopped: Some(StopReason::Failed), error: Some(error) },
        }
    }

    /// The end of an engine that did not start.
    pub(crate) fn failed(error: Error) -> Self {
        Self::new(Vec::new(), if let Error::Stopped(reason) = error { Ok(Some(reason)) } else { Err(error) })
    }
}

/// A chunk's share of the memory, at most all of it.
fn weight(chunk: &Chunk, lanes: usize, memory_bytes: usize) -> u32 {
    // A large document is copied as a whole on its way to the server; small documents are copied as a part of a batch.
    let copied_bytes = chunk.bytes.len().saturating_sub(LARGE_CHUNK_BYTES) * LARGE_COPIES;
    let held_bytes = chunk.held_bytes() + copied_bytes + chunk.frames.len() * FRAME_BYTES + lanes * PART_BYTES;
    u32::try_from(held_bytes.clamp(1, memory_bytes)).unwrap_or(u32::MAX)
}

/// Decodes until the end, or until a lane has ended or too much was rejected. What arrives later is dropped.
fn decode(
    splitter: Splitter,
    mut arrivals: mpsc::UnboundedReceiver<Option<Arrival>>,
    lanes: &[mpsc::Sender<Part>],
    rejects: RejectLimits,
    tally: &Tally,
) -> Ended {
    let next = || {
        let Arrival { chunk, hold, place } = arrivals.blocking_recv().flatten()?;
        drop(place);
        Some((chunk, hold))
    };
    let ended = flow(next, splitter, lanes, rejects, tally);
    arrivals.close();
    while arrivals.blocking_recv().is_some() {}
    ended
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_document::chunk::Frame;

    #[test]
    fn memory_of_a_chunk_includes_its_frames() {
        let frame = Frame { start: 0, len: 1, offset: 0, line: 1, unreadable: None };
        let bytes = bytes::Bytes::from_static(b"x\nx\n");
        let mut chunk = Chunk { source: 0, end: 4, prefix_hash: 0, bytes, frames: Vec::new(), original: None };
        assert!(weight(&chunk, 2, 1 << 20) as usize > 2 * 128);
        chunk.frames = vec![frame; 100];
        assert!(weight(&chunk, 1, 1 << 20) as usize > 100 * 40);
        assert_eq!(weight(&chunk, 1, 1_000), 1_000);
    }
}
