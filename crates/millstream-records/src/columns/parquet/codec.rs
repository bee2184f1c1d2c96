//! Opens compressed pages, and never more of one than its header says.

use crate::Trouble;
use flate2::read::MultiGzDecoder;
use parquet::basic::Compression;
use std::io::Read;

/// How pages are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Codec {
    Plain,
    Snappy,
    Gzip,
    Zstd,
    Lz4,
}

impl Codec {
    /// # Errors
    /// We do not open it.
    pub(super) fn of(compression: Compression) -> Result<Self, Trouble> {
        let name = match compression {
            Compression::UNCOMPRESSED => return Ok(Self::Plain),
            Compression::SNAPPY => return Ok(Self::Snappy),
            Compression::GZIP(_) => return Ok(Self::Gzip),
            Compression::ZSTD(_) => return Ok(Self::Zstd),
            Compression::LZ4_RAW => return Ok(Self::Lz4),
            Compression::BROTLI(_) => "Brotli",
            Compression::LZ4 => "LZ4 in Hadoop's frames",
            Compression::LZO => "LZO",
        };
        let problem = format!("is Parquet compressed with {name}, which Millstream does not open");
        Err(Trouble::Refused {
            problem,
            hint: "write it with zstd, snappy, gzip, lz4_raw or without compression".into(),
        })
    }

    /// Opens a part of a page into a buffer, which it must fill.
    pub(super) fn open(self, from: &[u8], into: &mut [u8]) -> Result<(), String> {
        let opened = match self {
            Self::Plain if from.len() == into.len() => {
                into.copy_from_slice(from);
                Ok(into.len())
            }
            Self::Plain => Ok(from.len()),
            Self::Snappy => snap::raw::Decoder::new().decompress(from, into).map_err(|error| error.to_string()),
            Self::Gzip => gunzip(from, into).map_err(|error| error.to_string()),
            Self::Zstd => zstd::bulk::decompress_to_buffer(from, into).map_err(|error| error.to_string()),
            Self::Lz4 => lz4_flex::block::decompress_into(from, into).map_err(|error| error.to_string()),
        };
        match opened {
            Ok(bytes) if bytes == into.len() => Ok(()),
            Ok(bytes) => Err(format!("a page has {bytes} bytes in place of {}", into.len())),
            Err(why) => Err(format!("a page cannot be decompressed: {why}")),
        }
    }
}

fn gunzip(from: &[u8], into: &mut [u8]) -> std::io::Result<usize> {
    let (mut decoder, mut filled) = (MultiGzDecoder::new(from), 0);
    while filled < into.len() {
        match decoder.read(&mut into[filled..])? {
            0 => break,
            n => filled += n,
        }
    }
    // The checksum stands behind the last byte.
    let more = decoder.read(&mut [0])?;
    Ok(filled + more)
}
