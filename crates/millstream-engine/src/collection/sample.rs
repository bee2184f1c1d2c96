//! The first documents of a load, by which types are inferred.

use crate::error::Error;
use crate::feed::Feed;
use crate::request::LoadRequest;
use millstream_document::chunk::Chunk;
use millstream_document::decode::Sampled;

/// The first chunks of the sources.
///
/// # Errors
/// A source cannot be read, or is damaged before the first document.
pub(super) async fn sample(request: &LoadRequest, feed: &mut Feed) -> Result<Vec<Chunk>, Error> {
    let sample = feed.sample().await?;
    if documents(&sample).all(|document| document.is_err())
        && let Some(damaged) = sample.iter().find_map(|chunk| Error::of_damage(chunk, &request.sources))
    {
        return Err(damaged);
    }
    Ok(sample)
}

/// The documents of chunks, and why others cannot be read.
pub(super) fn documents(chunks: &[Chunk]) -> impl Iterator<Item = Sampled<'_>> {
    let frames = chunks.iter().flat_map(|chunk| chunk.frames.iter().map(move |frame| (chunk, frame)));
    frames.map(|(chunk, frame)| chunk.readable(frame))
}
