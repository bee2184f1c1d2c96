//! The footer of an Arrow file: its columns, and where each of its messages lies.

use crate::limits::MESSAGE_BYTES_MAX;
use crate::{FileExtent, Trouble};
use arrow_ipc::{Block, Schema, root_as_footer};

/// What a file begins with, padded, and ends with.
pub(super) const MAGIC: &[u8] = b"ARROW1";
pub(super) const MAGIC_BYTES_PADDED: usize = 8;

/// What stands before the length of a message.
pub(super) const CONTINUATION: [u8; 4] = [0xff; 4];

/// Bytes of a length, and of what stands at the end of a file: the length of the footer and the magic number.
const LENGTH_BYTES: usize = 4;
const END_BYTES: usize = LENGTH_BYTES + MAGIC.len();

/// The messages of a file, at their places.
pub(super) struct Footer {
    extent: FileExtent,
    /// The dictionaries, and then the batches.
    places: std::vec::IntoIter<Place>,
    /// Where the body of the last message begins.
    body_at: u64,
    /// Bytes that were read.
    pub(super) read: u64,
}

/// Where a message begins, and the length of what stands before its body.
struct Place {
    at: u64,
    head_bytes: usize,
}

impl Footer {
    /// Reads the footer and hands out the columns. `None`: the file does not end as such files do.
    ///
    /// # Errors
    /// It is damaged, or its columns are refused.
    pub(super) fn read(
        extent: FileExtent,
        take: impl FnOnce(Schema<'_>) -> Result<(), Trouble>,
    ) -> Result<Option<Self>, Trouble> {
        let Some(end_at) = extent.len.checked_sub(END_BYTES as u64) else { return Ok(None) };
        let mut footer = Self { extent, places: Vec::new().into_iter(), body_at: 0, read: 0 };
        let end = footer.bytes(end_at, END_BYTES)?;
        let Some((length, _)) = end.split_first_chunk::<LENGTH_BYTES>().filter(|(_, magic)| *magic == MAGIC) else {
            return Ok(None);
        };
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        if length > MESSAGE_BYTES_MAX {
            return Err(damaged(&"its footer has no plausible length"));
        }
        let at = end_at.checked_sub(length as u64).filter(|at| *at >= MAGIC_BYTES_PADDED as u64);
        let at = at.ok_or_else(|| damaged(&"its footer is longer than the file"))?;
        let description = footer.bytes(at, length)?;
        let described = root_as_footer(&description).map_err(|error| damaged(&error))?;
        take(described.schema().ok_or_else(|| damaged(&"its footer has no columns"))?)?;
        let blocks = [described.dictionaries(), described.recordBatches()];
        let places = blocks.into_iter().flatten().flatten().map(Place::of);
        footer.places = places.collect::<Result<Vec<_>, _>>()?.into_iter();
        Ok(Some(footer))
    }

    /// The description of the next message. `None`: that was the last.
    ///
    /// # Errors
    /// It is not within the file.
    pub(super) fn next_description(&mut self) -> Result<Option<Vec<u8>>, Trouble> {
        let Some(Place { at, head_bytes }) = self.places.next() else {
            self.read = self.extent.len;
            return Ok(None);
        };
        let mut description = self.bytes(at, head_bytes)?;
        self.body_at = at + head_bytes as u64;
        // Before version 0.15, the length stood alone.
        let frame = if description.starts_with(&CONTINUATION) { 2 * LENGTH_BYTES } else { LENGTH_BYTES };
        description.drain(..frame.min(head_bytes));
        Ok(Some(description))
    }

    /// The body of that message.
    ///
    /// # Errors
    /// It is not within the file.
    pub(super) fn body(&mut self, length: usize) -> Result<Vec<u8>, Trouble> {
        self.bytes(self.body_at, length)
    }

    /// Bytes of the file. No memory is taken for what is not there.
    fn bytes(&mut self, at: u64, length: usize) -> Result<Vec<u8>, Trouble> {
        if at.checked_add(length as u64).is_none_or(|end| end > self.extent.len) {
            return Err(damaged(&format!("it ends before the {length} bytes from its byte {at} on")));
        }
        let bytes = self.extent.bytes(at, length)?;
        self.read = self.read.saturating_add(length as u64).min(self.extent.len);
        Ok(bytes)
    }
}

impl Place {
    fn of(block: &Block) -> Result<Self, Trouble> {
        let (at, head_bytes) = (u64::try_from(block.offset()), usize::try_from(block.metaDataLength()));
        match (at, head_bytes) {
            (Ok(at), Ok(head_bytes)) if head_bytes <= MESSAGE_BYTES_MAX => Ok(Self { at, head_bytes }),
            _ => Err(damaged(&"its footer names no plausible place of a message")),
        }
    }
}

pub(super) fn damaged(why: &dyn std::fmt::Display) -> Trouble {
    Trouble::Damaged(format!("its Arrow data is cut off or broken: {why}"))
}
