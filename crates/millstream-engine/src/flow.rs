//! A load from its first byte to its receipt.

use crate::chunk::Chunk;
use crate::engine::{Engine, Finish};
use crate::error::Error;
use crate::failpoint;
use crate::feed::Feed;
use crate::limits::EMPTIED_MAX;
use crate::observe::{Event, Observer, Silent, Tally};
use crate::request::LoadRequest;
use crate::run::{Begun, Run};
use crate::source;
use crate::stop::{Stop, StopReason};
use millstream_model::Receipt;
use millstream_pg::ConnInfo;
use std::path::Path;
use std::sync::Arc;

/// How a load ended. The receipt is right in every case.
#[derive(Debug)]
pub struct Outcome {
    /// The account of the load.
    pub receipt: Receipt,
    /// Why it ended before the end of its sources, if it did.
    pub stopped: Option<StopReason>,
    /// The error behind [`StopReason::Failed`].
    pub error: Option<Error>,
}

/// What a load works with besides its request.
#[derive(Clone)]
pub struct Surroundings {
    /// The database.
    pub db: ConnInfo,
    /// Ends the load early.
    pub stop: Stop,
    /// Hears what happens.
    pub observer: Arc<dyn Observer>,
    /// Counts for a progress bar.
    pub tally: Arc<Tally>,
}

impl Surroundings {
    /// A database and nobody who watches.
    pub fn new(db: ConnInfo) -> Self {
        Self { db, stop: Stop::default(), observer: Arc::new(Silent), tally: Arc::default() }
    }
}

/// Loads the sources of a request, again from their start when a crash of the server has emptied an
/// unlogged collection and they are files.
///
/// # Errors
/// While nothing has been written by this run, when the server is gone for good, so that no receipt
/// can be had, and with [`Error::Emptied`] when a stream cannot be read again; every other failure
/// is part of the [`Outcome`].
pub async fn load(request: &LoadRequest, around: &Surroundings) -> Result<Outcome, Error> {
    let (mut request, mut tries) = (request.clone(), 0);
    loop {
        tries += 1;
        let error = match Box::pin(load_once(&request, around)).await {
            Err(Error::Emptied { documents }) => Error::Emptied { documents: documents.max(around.tally.documents()) },
            ended => return ended,
        };
        around.tally.clear();
        if tries > EMPTIED_MAX || !request.sources.iter().all(|source| Path::new(source).is_file()) {
            return Err(error);
        }
        around.observer.event(Event::Warning(error.to_string()));
        // Also where this load was not to go on with an earlier one: it is its own earlier one now.
        request.resume = true;
    }
}

/// This is the whole path: feed, decode, slots, lanes, receipt.
async fn load_once(request: &LoadRequest, around: &Surroundings) -> Result<Outcome, Error> {
    request.check()?;
    let mut feed = Feed::open(request, Arc::clone(&around.tally))?;
    let run = match Run::begin(request, around, &mut feed).await? {
        Begun::Run(run) => run,
        Begun::Finished(receipt) => return Ok(Outcome { receipt: *receipt, stopped: None, error: None }),
    };
    let finish = match run.start_engine().await {
        Err(error) => Finish::failed(error),
        Ok(engine) => {
            let fed = feed_all(&mut feed, &engine, around).await;
            engine.finish(fed).await
        }
    };
    run.end(finish).await
}

/// Hands every chunk to the engine until the sources end, somebody stops the load, or the engine
/// takes no more.
async fn feed_all(feed: &mut Feed, engine: &Engine, around: &Surroundings) -> Result<Option<StopReason>, Error> {
    let mut last: Option<(u32, u64, u128)> = None;
    loop {
        let chunk = tokio::select! {
            biased;
            reason = around.stop.wait() => return Ok(Some(reason)),
            () = engine.lane_ended() => return Ok(None),
            chunk = feed.next() => chunk?,
        };
        let Some(mut chunk) = chunk else { return Ok(None) };
        let damage = damage(&chunk);
        if damage.is_some() {
            // The watermark stays behind the last document, so that the file can be mended from there.
            (chunk.end, chunk.prefix_hash) = match last {
                Some((source, end, hash)) if source == chunk.source => (end, hash),
                before => (0, source::beginning(before.map(|(_, _, hash)| hash)).digest128()),
            };
        }
        last = Some((chunk.source, chunk.end, chunk.prefix_hash));
        failpoint::hit("chunk-submitted").await?;
        let room = tokio::select! {
            biased;
            reason = around.stop.wait() => return Ok(Some(reason)),
            room = engine.intake().room(&chunk) => room,
        };
        // Without room the engine has ended, and knows why.
        let Some(room) = room else { return Ok(None) };
        // The commit is awaited by `finish`, for all chunks together.
        drop(room.take(chunk));
        if let Some(reason) = damage {
            return Ok(Some(reason));
        }
    }
}

fn damage(chunk: &Chunk) -> Option<StopReason> {
    let frame = chunk.frames.last()?;
    let broken = frame.broken.as_ref().filter(|b| b.ends_source)?;
    Some(StopReason::Damage {
        source: chunk.source,
        offset: frame.offset,
        line: frame.line,
        detail: broken.fault.detail.to_string(),
    })
}
