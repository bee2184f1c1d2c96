//! Opens compressed blocks, and never more of one than a block may have.

use crate::Trouble;
use flate2::{Decompress, FlushDecompress, Status};
use std::fmt::Display;
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

/// Room that is made at least for more of an opened block. Writers make blocks of 16 to 64 KiB.
const ROOM: usize = 64 << 10;

/// How many times as long as its snappy data a block can be: three bytes repeat 64.
const SNAPPY_GROWTH_MAX: usize = 22;

/// Characters of the name of a codec that are shown.
const NAME_CHARACTERS_SHOWN: usize = 40;

/// How blocks are compressed.
pub(super) enum Codec {
    Null,
    Deflate(Decompress),
    Snappy,
    Zstandard(Decoder<'static>),
}

/// Why a block cannot be opened.
#[derive(Debug)]
pub(super) enum Unopened {
    TooLarge,
    Damaged(String),
}

impl Codec {
    /// # Errors
    /// We do not open it.
    pub(super) fn of(name: &[u8]) -> Result<Self, Trouble> {
        Ok(match name {
            b"" | b"null" => Self::Null,
            b"deflate" => Self::Deflate(Decompress::new(false)),
            b"snappy" => Self::Snappy,
            b"zstandard" => Self::Zstandard(Decoder::new()?),
            other => {
                let name = String::from_utf8_lossy(other);
                let name: String = name.escape_debug().take(NAME_CHARACTERS_SHOWN).collect();
                let problem = format!("is Avro compressed with {name}, which Millstream does not open");
                let hint = "write it with zstandard, snappy, deflate or without compression".into();
                return Err(Trouble::Refused { problem, hint });
            }
        })
    }

    /// Opens a block into a buffer, in place of what that held. It becomes so many bytes at most.
    ///
    /// # Errors
    /// It is too large, or damaged.
    pub(super) fn open(
        &mut self,
        stored: &mut Vec<u8>,
        opened: &mut Vec<u8>,
        bytes_max: usize,
    ) -> Result<(), Unopened> {
        match self {
            Self::Null => {
                std::mem::swap(stored, opened);
                Ok(())
            }
            Self::Deflate(decoder) => inflate(decoder, stored, opened, bytes_max),
            Self::Snappy => unsnap(stored, opened, bytes_max),
            Self::Zstandard(decoder) => unpack(decoder, stored, opened, bytes_max),
        }
    }
}

/// Opens deflate data. What follows it stays unread: some writers leave a part of a checksum there.
fn inflate(decoder: &mut Decompress, stored: &[u8], opened: &mut Vec<u8>, bytes_max: usize) -> Result<(), Unopened> {
    decoder.reset(false);
    opened.clear();
    loop {
        make_room(opened, bytes_max)?;
        let (read, written) = (decoder.total_in(), opened.len());
        let rest = stored.get(usize::try_from(read).unwrap_or(usize::MAX)..).unwrap_or_default();
        match decoder.decompress_vec(rest, opened, FlushDecompress::None) {
            Ok(Status::StreamEnd) => return Ok(()),
            Ok(_) if decoder.total_in() == read && opened.len() == written => return Err(cut()),
            Ok(_) => {}
            Err(error) => return Err(damaged(&error)),
        }
    }
}

/// Opens snappy data, behind which the checksum of what it opens to stands.
fn unsnap(stored: &[u8], opened: &mut Vec<u8>, bytes_max: usize) -> Result<(), Unopened> {
    let Some((packed, checksum)) = stored.split_last_chunk() else { return Err(cut()) };
    let length = snap::raw::decompress_len(packed).map_err(|error| damaged(&error))?;
    if length > packed.len().saturating_mul(SNAPPY_GROWTH_MAX) {
        return Err(damaged(&"its length is another one"));
    }
    if length > bytes_max {
        return Err(Unopened::TooLarge);
    }
    opened.resize(length, 0);
    snap::raw::Decoder::new().decompress(packed, opened).map_err(|error| damaged(&error))?;
    if crc32fast::hash(opened) == u32::from_be_bytes(*checksum) {
        Ok(())
    } else {
        Err(damaged(&"its checksum is another one"))
    }
}

/// Opens zstd data of any number of frames.
fn unpack(
    decoder: &mut Decoder<'static>,
    stored: &[u8],
    opened: &mut Vec<u8>,
    bytes_max: usize,
) -> Result<(), Unopened> {
    decoder.reinit().map_err(|error| damaged(&error))?;
    opened.clear();
    let mut from = InBuffer::around(stored);
    loop {
        make_room(opened, bytes_max)?;
        let (read, written) = (from.pos(), opened.len());
        let wanted = decoder.run(&mut from, &mut OutBuffer::around_pos(&mut *opened, written));
        match wanted.map_err(|error| damaged(&error))? {
            0 if from.pos() == stored.len() => return Ok(()),
            _ if from.pos() == read && opened.len() == written => return Err(cut()),
            _ => {}
        }
    }
}

/// Makes room for more of an opened block.
fn make_room(opened: &mut Vec<u8>, bytes_max: usize) -> Result<(), Unopened> {
    let left = bytes_max.saturating_sub(opened.len());
    if left == 0 {
        return Err(Unopened::TooLarge);
    }
    if opened.len() < opened.capacity() {
        return Ok(());
    }
    opened.reserve_exact(opened.len().max(ROOM).min(left));
    Ok(())
}

fn cut() -> Unopened {
    damaged(&"it ends too early")
}

fn damaged(why: &dyn Display) -> Unopened {
    Unopened::Damaged(why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block, and what it opens to if that may have so many bytes.
    fn opened(name: &str, stored: &[u8], bytes_max: usize) -> Result<Vec<u8>, Unopened> {
        let (mut stored, mut opened) = (stored.to_vec(), b"of the block before".to_vec());
        Codec::of(name.as_bytes()).unwrap().open(&mut stored, &mut opened, bytes_max).map(|()| opened)
    }

    #[test]
    fn no_more_is_opened_than_a_block_may_have() {
        let content = vec![7_u8; 4 * ROOM];
        let mut deflate = flate2::Compress::new(flate2::Compression::fast(), false);
        let mut deflated = Vec::with_capacity(content.len());
        deflate.compress_vec(&content, &mut deflated, flate2::FlushCompress::Finish).unwrap();
        let checksum = crc32fast::hash(&content).to_be_bytes();
        let snapped = [&snap::raw::Encoder::new().compress_vec(&content).unwrap()[..], &checksum].concat();
        // Of two frames, the second has no length.
        let (first, second) = content.split_at(ROOM);
        let packed = [zstd::bulk::compress(first, 1).unwrap(), zstd::stream::encode_all(second, 1).unwrap()].concat();
        for (name, stored) in [("deflate", deflated), ("snappy", snapped), ("zstandard", packed)] {
            assert_eq!(opened(name, &stored, content.len() + 1).unwrap(), content, "{name}");
            for bytes_max in [1, ROOM, content.len() - 1] {
                let ended = opened(name, &stored, bytes_max);
                assert!(matches!(ended, Err(Unopened::TooLarge)), "{name} {bytes_max}");
            }
        }
    }
}
