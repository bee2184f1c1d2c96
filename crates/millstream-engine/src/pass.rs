//! One run of a load, from its first byte to its receipt.

use crate::batch::Keys;
use crate::engine::{Engine, Finish};
use crate::error::Error;
use crate::feed::Feed;
use crate::missing::delete_missing;
use crate::observe::Event;
use crate::outcome::{Outcome, Surroundings};
use crate::request::LoadRequest;
use crate::run::{Begun, Run};
use crate::stop::StopReason;
use millstream_document::chunk::Chunk;
use millstream_document::source;
use millstream_failpoint as failpoint;
use std::sync::Arc;

/// One run of a load: its sources are fed to the engine, which decodes them, gives each document to a lane by its slot,
/// and commits. `interrupted` is the load that an interrupted run has left.
///
/// # Errors
/// As for [`crate::load`].
pub(crate) async fn load_once(
    request: &LoadRequest,
    around: &Surroundings,
    interrupted: Option<i64>,
) -> Result<Outcome, Error> {
    request.check()?;
    let mut feed = Feed::open(request, Arc::clone(&around.tally))?;
    feed.reports_to(&around.observer);
    let keys = request.delete_missing.as_ref().map(|wanted| Keys::new(&wanted.directory, wanted.memory_bytes));
    let keys = keys.transpose()?.map(Arc::new);
    let mut run = match Run::begin(request, around, &mut feed, interrupted, None).await? {
        Begun::Run(run) => run,
        Begun::Finished(receipt) => {
            if request.delete_missing.is_some() {
                let warning = "no missing row is deleted now, because these sources were added before; `millstream verify \
                               FILE .. --exact` lists the rows that they lack";
                around.observer.event(Event::Warning(warning.to_owned()));
            }
            return Ok(Outcome { receipt: *receipt, stopped: None, error: None, recalled: true });
        }
    };
    let finish = match run.start_engine(keys.clone()).await {
        Err(error) => Finish::failed(error),
        Ok(engine) => {
            let (lanes, watched) = run.lanes();
            let finish = async {
                let fed = feed_all(&mut feed, &engine, around).await;
                let finish = engine.finish(fed).await;
                Box::pin(delete_missing(finish, keys, &lanes, watched)).await
            };
            tokio::select! {
                biased;
                finish = finish => finish,
                fenced = run.hold() => Finish::failed(fenced),
            }
        }
    };
    run.end(finish, feed.contents()).await
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
            // The watermark stays behind the last document, so that the load can resume there once the file is
            // repaired.
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
            room = engine.intake.room(&chunk) => room,
        };
        // Without room, the engine has ended and knows why.
        let Some(room) = room else { return Ok(None) };
        // The commit is awaited by `finish`, for all chunks together.
        drop(room.take(chunk));
        if let Some(reason) = damage {
            return Ok(Some(reason));
        }
    }
}

fn damage(chunk: &Chunk) -> Option<StopReason> {
    let (frame, fault) = chunk.damage()?;
    let (source, offset, line, detail) = (chunk.source, frame.offset, frame.line, fault.detail.to_string());
    Some(StopReason::Damage { source, offset, line, detail })
}
