//! A format as CONTRIBUTING.md says to write one: NDJSON in which a line that begins with `#` is a comment.

use crate::chunk::Chunk;
use crate::source::ndjson::Ndjson;
use crate::source::{Format, Source, SourceError};

pub(super) const FORMAT: Format = Format {
    name: "commented",
    about: "one JSON object per line; lines that begin with # are comments",
    takes: &[],
    made: None,
    open: |window| Ok(Box::new(Commented(Ndjson::new(window)))),
};

struct Commented(Ndjson);

impl Source for Commented {
    fn next_chunk(&mut self) -> Result<Option<Chunk>, SourceError> {
        let Some(mut chunk) = self.0.next_chunk()? else { return Ok(None) };
        let bytes = chunk.bytes.clone();
        chunk.frames.retain(|frame| frame.unreadable.is_some() || bytes[frame.start as usize] != b'#');
        Ok(Some(chunk))
    }
}
