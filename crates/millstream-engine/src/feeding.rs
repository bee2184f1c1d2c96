//! Hands the chunks of a feed to an engine.

use crate::engine::Engine;
use crate::error::Error;
use crate::feed::Feed;
use crate::outcome::Surroundings;
use crate::stop::StopReason;
use millstream_document::chunk::Chunk;
use millstream_document::source;
use millstream_failpoint as failpoint;

/// Hands every chunk to the engine until the sources end, somebody stops the load, or the engine
/// takes no more.
pub(crate) async fn feed_all(
    feed: &mut Feed,
    engine: &Engine,
    around: &Surroundings,
) -> Result<Option<StopReason>, Error> {
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
