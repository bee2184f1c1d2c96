//! Compressed content for the tests of everything that reads files.

use std::io::Write;

/// One member of gzip.
pub fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(plain).expect("memory takes everything");
    encoder.finish().expect("memory takes everything")
}

/// One frame of zstd, with a checksum.
pub fn zstd(plain: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).expect("the level exists");
    encoder.include_checksum(true).expect("zstd has checksums");
    encoder.write_all(plain).expect("memory takes everything");
    encoder.finish().expect("memory takes everything")
}
