//! Documents that many tasks of a program send, and the commit that each task can wait for.

use crate::control::Shared;
use crate::engine::{Engine, Finish, Intake, Room};
use crate::error::Error;
use crate::feed::Feed;
use crate::limits::{SEND_BYTES_MAX, SEND_LINES_MAX};
use crate::outcome::{Outcome, Surroundings};
use crate::placed::Placed;
use crate::request::LoadRequest;
use crate::run::{Begun, Run, Watermark};
use crate::stop::{Stop, StopReason};
use bytes::Bytes;
use millstream_document::chunk::Chunk;
use millstream_document::source::frame_lines;
use millstream_model::Position;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A load whose documents come from the tasks of a program, which may all send at once.
///
/// ```no_run
/// use millstream_engine::{Error, LoadRequest, Stream, Surroundings};
/// use millstream_model::KeyRequest;
/// use millstream_pg::{ConnInfo, Environment};
///
/// async fn load() -> Result<(), Box<dyn std::error::Error>> {
///     let db = ConnInfo::parse("postgres://localhost/shop", &Environment::from_process())?;
///     let request = LoadRequest::new("events".parse()?, KeyRequest::parse_list("id:text")?, Vec::new());
///     let stream = Stream::open(&request, &Surroundings::new(db)).await?;
///     let mut tasks = tokio::task::JoinSet::new();
///     for task in 0..8 {
///         let producer = stream.producer();
///         tasks.spawn(async move {
///             let mut commits = Vec::new();
///             for n in 0..1_000 {
///                 // One document or many lines of them. Those of one task take effect in this order.
///                 commits.push(producer.send(format!("{{\"id\":\"{task}-{}\",\"n\":{n}}}", n % 10)).await?);
///             }
///             for commit in commits {
///                 // What was sent is in the table now, or was rejected.
///                 assert_eq!(commit.committed().await?.rejected, 0);
///             }
///             Ok::<_, Error>(())
///         });
///     }
///     while let Some(ended) = tasks.join_next().await {
///         ended??;
///     }
///     let outcome = stream.close().await?;
///     assert_eq!(outcome.receipt.counters.read, 8_000);
///     Ok(())
/// }
/// ```
///
/// The request's sources are empty, and its format is NDJSON. There is no document before the stream is open. So the
/// request must name the types of the key's columns and of a version, unless the collection exists and has them. A
/// stream that runs for long needs a higher [`LoadRequest::rejects_max`] than a file, because it ends at that many
/// rejects.
///
/// The documents of all producers are one source, in the order in which the sends resolve. The position and line of a
/// reject refer to that source, and [`Commit`] says where a send begins in it.
///
/// A stream that is opened like this cannot be resumed; one of a [`Service`](crate::Service) can. The program knows what
/// it has sent, and [`Commit`] says what of it is committed. Send the rest to another stream. In most modes it does no
/// harm to send committed documents again; in `sum` they count again. A stream that is dropped without being closed ends
/// as if its process had been killed.
#[must_use = "a stream is to be closed"]
pub struct Stream {
    /// Holds the load until the stream is closed.
    run: JoinHandle<Box<Run>>,
    closing: oneshot::Sender<()>,
    engine: Engine,
    stop: Stop,
    place: Arc<Mutex<NextPosition>>,
    load_id: i64,
    watermark: Option<Watermark>,
    /// What it takes from its service, and gives back when it ends.
    member: Option<Member>,
}

/// A stream's part in a service. Its name is free again when it is dropped.
pub(crate) type Member = Box<dyn Send + Sync>;

/// Sends documents to a stream. Each clone is a producer of its own.
#[derive(Debug, Clone)]
pub struct Producer {
    intake: Intake,
    stop: Stop,
    place: Arc<Mutex<NextPosition>>,
}

/// The documents of one send on their way to their commit. They are committed even if this is dropped.
#[derive(Debug)]
pub struct Commit {
    rejected: oneshot::Receiver<u64>,
    documents: u64,
    position: Position,
    line: u64,
}

/// What became of the documents of one send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// How many there were.
    pub documents: u64,
    /// How many of them could not be stored and became rejects.
    pub rejected: u64,
}

/// Where the next documents begin in a stream.
#[derive(Debug, Default)]
struct NextPosition {
    offset: u64,
    lines: u64,
}

impl Stream {
    /// Creates or checks the table and opens the lanes. It runs on the caller's runtime, as does all of the stream
    /// except decoding, which has a thread of its own.
    ///
    /// # Errors
    /// As [`crate::load`], before the first document.
    pub async fn open(request: &LoadRequest, around: &Surroundings) -> Result<Self, Error> {
        request.check_stream()?;
        let request = LoadRequest { resume: false, format: "ndjson".into(), ..request.clone() };
        let feed = Feed::of_stream(&request, Arc::clone(&around.tally), false, None);
        let begun = Box::pin(Self::begin(&request, around, feed, None));
        around.attended(request.standstill_after, begun).await
    }

    /// Opens a stream that shares a session and the memory with others, and so does not look for standstills itself.
    pub(crate) async fn of_service(
        request: &LoadRequest,
        around: &Surroundings,
        feed: Feed,
        (shared, member): (&Shared, Member),
    ) -> Result<Self, Error> {
        Ok(Self { member: Some(member), ..Self::begin(request, around, feed, Some(shared)).await? })
    }

    async fn begin(
        request: &LoadRequest,
        around: &Surroundings,
        mut feed: Feed,
        shared: Option<&Shared>,
    ) -> Result<Self, Error> {
        let mut run = match Box::pin(Run::begin(request, around, &mut feed, None, shared)).await? {
            Begun::Run(run) => run,
            Begun::Finished(_) => return Err(Error::BrokenOff("a stream has begun as one that is finished")),
        };
        let (load_id, watermark) = (run.load_id(), run.watermark());
        let engine = match Box::pin(run.start_engine(None)).await {
            Ok(engine) => engine,
            Err(error) => {
                let outcome = run.end(Finish::failed(error), Vec::new()).await?;
                let stopped = outcome.stopped.filter(|reason| *reason != StopReason::Failed).map(Error::Stopped);
                let error = outcome.error.or(stopped);
                return Err(error.unwrap_or(Error::BrokenOff("the lanes did not open")));
            }
        };
        let (closing, closed) = oneshot::channel();
        let (around_run, after, alone) = (around.clone(), request.standstill_after, shared.is_none());
        let run = tokio::spawn(async move {
            let mut run = run;
            let held = Box::pin(async {
                tokio::select! {
                    // The lanes notice with the next document.
                    _ = run.hold() => {}
                    _ = closed => {}
                }
            });
            match alone {
                true => around_run.attended(after, held).await,
                false => held.await,
            }
            run
        });
        let offset = watermark.map_or(0, |watermark| watermark.offset);
        let place = Arc::new(Mutex::new(NextPosition { offset, lines: 0 }));
        Ok(Self { run, closing, engine, stop: around.stop.clone(), place, load_id, watermark, member: None })
    }

    /// The load's number.
    pub fn load_id(&self) -> i64 {
        self.load_id
    }

    /// How far earlier runs of the load have come: their producer continues there. `None` if they have committed nothing.
    pub fn watermark(&self) -> Option<Watermark> {
        self.watermark
    }

    /// A producer for one task.
    pub fn producer(&self) -> Producer {
        Producer { intake: self.engine.intake.clone(), stop: self.stop.clone(), place: Arc::clone(&self.place) }
    }

    /// Resolves when a lane has met an error that ends the stream. Sends and commits then fail too.
    pub async fn ended(&self) {
        self.engine.lane_ended().await;
    }

    /// Takes no more documents, commits those whose send has resolved, and accounts for all of them. Producers that
    /// still exist get [`Error::StreamEnded`].
    ///
    /// # Errors
    /// When there is no receipt because the server is gone for good; [`Error::Emptied`] when a crash of the server has
    /// emptied the unlogged collection, or a TRUNCATE has emptied the table. Every other failure is part of
    /// the [`Outcome`].
    pub async fn close(self) -> Result<Outcome, Error> {
        let reason = self.stop.reason();
        self.end(reason).await
    }

    /// As [`Stream::close`], and ends as one that is suspended. What is not committed within this time is rolled back, as if
    /// it had not been sent. So the load is soon free for another run.
    ///
    /// # Errors
    /// As [`Stream::close`].
    pub async fn close_within(self, longest: Duration) -> Result<Outcome, Error> {
        self.engine.end_within(longest);
        let reason = self.stop.reason().unwrap_or(StopReason::Suspended);
        self.end(Some(reason)).await
    }

    async fn end(self, reason: Option<StopReason>) -> Result<Outcome, Error> {
        let Self { run, closing, engine, member, .. } = self;
        let mut finish = engine.finish(Ok(reason)).await;
        if member.is_some() {
            // Its load is not finished: another run resumes it.
            finish.stopped.get_or_insert(StopReason::Suspended);
        }
        drop(closing);
        let run = run.await.map_err(|_| Error::BrokenOff("the runtime of the stream ended before it"))?;
        let ended = run.end(finish, Vec::new()).await;
        drop(member);
        ended
    }
}

impl Producer {
    /// Sends documents, one a line; the last line needs no line end. Resolves when they are taken. It waits while the
    /// bytes in flight fill the request's memory. The documents of all sends take effect in the order in which the
    /// sends resolve. A send that is dropped before it resolves has sent nothing.
    ///
    /// # Errors
    /// [`Error::StreamEnded`] when the stream takes no more documents, [`Error::Refused`] when there are more than
    /// [`SEND_BYTES_MAX`] bytes or [`SEND_LINES_MAX`] lines. Nothing is sent then. A bad document is not an error: it
    /// becomes a reject.
    pub async fn send(&self, documents: impl Into<Bytes> + Send) -> Result<Commit, Error> {
        let bytes = documents.into();
        let line_ends = memchr::memchr_iter(b'\n', &bytes).count() as u64;
        let lines = line_ends + u64::from(bytes.last().is_some_and(|&b| b != b'\n'));
        if bytes.len() > SEND_BYTES_MAX || lines > SEND_LINES_MAX {
            let hint = format!(
                "send at most {SEND_BYTES_MAX} bytes and {SEND_LINES_MAX} lines at once, cut after the end of a line"
            );
            let problem = format!("{} bytes in {lines} lines are too many for one send", bytes.len());
            return Err(Error::refused(problem, hint));
        }
        let mut chunk = frame(bytes);
        let room = self.room(&chunk).await?;
        let documents = chunk.frames.len() as u64;
        // Take the chunk while the place is locked, so that chunks are taken in the order of their positions.
        let mut place = self.place.lock().unwrap_or_else(|e| e.into_inner());
        let (position, line) = place.assign(&mut chunk, line_ends);
        let rejected = room.take(chunk);
        drop(place);
        Ok(Commit { rejected, documents, position, line })
    }

    /// Sends documents whose places the program knows, such as their numbers in a log. When the stream is opened again, its
    /// [`Stream::watermark`] is the place behind the last of them that is committed, with its hash. Otherwise as
    /// [`Producer::send`].
    ///
    /// # Errors
    /// As [`Producer::send`]; [`Error::Refused`] also when the first place is before the end of what was sent or committed.
    pub async fn send_placed(&self, placed: Placed) -> Result<Commit, Error> {
        if placed.bytes() > SEND_BYTES_MAX || placed.documents() as u64 > SEND_LINES_MAX {
            let problem =
                format!("{} documents of {} bytes are too many for one send", placed.documents(), placed.bytes());
            let hint = format!("send at most {SEND_BYTES_MAX} bytes and {SEND_LINES_MAX} documents at once");
            return Err(Error::refused(problem, hint));
        }
        let (begin, chunk) = (placed.begin(), placed.into_chunk());
        let room = self.room(&chunk).await?;
        let documents = chunk.frames.len() as u64;
        let mut place = self.place.lock().unwrap_or_else(|e| e.into_inner());
        if begin < place.offset {
            let problem = format!("place {begin} is before place {}, up to which documents were sent", place.offset);
            return Err(Error::refused(problem, "send each document once, in the order of their places"));
        }
        place.offset = chunk.end;
        let rejected = room.take(chunk);
        drop(place);
        Ok(Commit { rejected, documents, position: Position { source: 0, offset: begin }, line: begin })
    }

    /// Waits until a chunk may be taken.
    async fn room(&self, chunk: &Chunk) -> Result<Room<'_>, Error> {
        let room = tokio::select! {
            biased;
            _ = self.stop.wait() => None,
            room = self.intake.room(chunk) => room,
        };
        room.ok_or(Error::StreamEnded("it takes no more documents"))
    }
}

impl Commit {
    /// Waits for the commit. It may take [`crate::limits::FLUSH_AFTER`] (in the log layout `SEGMENT_FLUSH_AFTER`) and
    /// the time of the commit, or longer while the server is away.
    ///
    /// # Errors
    /// [`Error::StreamEnded`] when the stream ended before. Some of the documents may be committed nevertheless.
    pub async fn committed(self) -> Result<Committed, Error> {
        let rejected = self.rejected.await;
        let rejected = rejected.map_err(|_| Error::StreamEnded("not all of these documents are committed"))?;
        Ok(Committed { documents: self.documents, rejected })
    }

    /// Where the bytes of the send begin in the stream. A reject at this offset plus n begins at byte n of the send,
    /// counted from 0.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The line of the stream on which they begin, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }
}

/// Documents as a chunk that begins at offset 0 and line 1. If the last line end is missing, it is counted
/// nevertheless.
fn frame(bytes: Bytes) -> Chunk {
    let open_end = bytes.last().is_some_and(|&b| b != b'\n');
    // The decoder reports documents that are too long.
    let (frames, _) = frame_lines(&bytes, 0, 1, usize::MAX);
    Chunk { source: 0, end: bytes.len() as u64 + u64::from(open_end), prefix_hash: 0, bytes, frames, original: None }
}

impl NextPosition {
    /// Moves a chunk that begins at offset 0 and line 1 to this place, and moves the place behind it.
    fn assign(&mut self, chunk: &mut Chunk, line_ends: u64) -> (Position, u64) {
        let (position, line) = (Position { source: 0, offset: self.offset }, self.lines + 1);
        for frame in &mut chunk.frames {
            frame.offset += self.offset;
            frame.line += self.lines;
        }
        self.lines += line_ends + chunk.end - chunk.bytes.len() as u64;
        self.offset += chunk.end;
        chunk.end = self.offset;
        (position, line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_document::chunk::Frame;

    #[test]
    fn sends_have_positions_as_in_one_file() {
        let sends: [&[u8]; 5] = [b"{\"a\":1}\n\n{\"a\":2}", b"", b" {}\r\n", b"\n\n", b"x"];
        let mut file = Vec::new();
        let mut place = NextPosition::default();
        let mut frames = Vec::new();
        for send in sends {
            let begin = (file.len() as u64, 1 + memchr::memchr_iter(b'\n', &file).count() as u64);
            file.extend_from_slice(send);
            if send.last().is_some_and(|&b| b != b'\n') {
                file.push(b'\n');
            }
            let mut chunk = frame(Bytes::from_static(send));
            let lines = memchr::memchr_iter(b'\n', send).count() as u64;
            let (position, line) = place.assign(&mut chunk, lines);
            assert_eq!((position.offset, line), begin);
            assert_eq!(chunk.end, file.len() as u64);
            frames.extend(chunk.frames.iter().map(|f| (f.offset, f.line, chunk.document(f).to_vec())));
        }
        let (whole, _) = frame_lines(&file, 0, 1, usize::MAX);
        let document = |f: &Frame| file[f.start as usize..(f.start + f.len) as usize].to_vec();
        let whole: Vec<_> = whole.iter().map(|f| (f.offset, f.line, document(f))).collect();
        assert_eq!(whole.len(), 4);
        assert_eq!(frames, whole);
    }
}
