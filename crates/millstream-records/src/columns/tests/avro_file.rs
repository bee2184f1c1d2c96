//! What files of Avro have beside their bytes: codecs and schemas.

use std::io::Write;

/// The codecs that are opened.
pub(super) const CODECS: [&str; 4] = ["", "deflate", "snappy", "zstandard"];

/// Bytes as a block of this codec has them.
pub(super) fn packed(codec: &str, bytes: &[u8]) -> Vec<u8> {
    match codec {
        "deflate" => {
            let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        "snappy" => {
            let checksum = crc32fast::hash(bytes).to_be_bytes();
            [&snap::raw::Encoder::new().compress_vec(bytes).unwrap()[..], &checksum].concat()
        }
        // Its length is not in it.
        "zstandard" => zstd::stream::encode_all(bytes, 1).unwrap(),
        _ => bytes.to_vec(),
    }
}

/// The schema of a record with one field, `v`.
pub(super) fn schema_of(of: &str) -> String {
    format!(r#"{{"type":"record","name":"R","fields":[{{"name":"v","type":{of}}}]}}"#)
}
