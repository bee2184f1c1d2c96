//! Files of Avro, written byte by byte.

use std::io::Write;

/// The codecs that are opened.
pub(super) const CODECS: [&str; 4] = ["", "deflate", "snappy", "zstandard"];

const MARK: &[u8] = b"sixteen bytes...";

/// A whole number.
pub(super) fn number(value: i64) -> Vec<u8> {
    let mut bits = ((value << 1) ^ (value >> 63)).cast_unsigned();
    let mut bytes = Vec::new();
    while bits >= 0x80 {
        bytes.push(0x80 | u8::try_from(bits & 0x7f).unwrap());
        bits >>= 7;
    }
    bytes.push(u8::try_from(bits).unwrap());
    bytes
}

/// Bytes or a text, with its length.
pub(super) fn sized(value: &[u8]) -> Vec<u8> {
    [&number(i64::try_from(value.len()).unwrap())[..], value].concat()
}

/// What a file begins with. Without a codec it names none.
pub(super) fn header(schema: &str, codec: &str) -> Vec<u8> {
    let entry = |name: &str, value: &str| [sized(name.as_bytes()), sized(value.as_bytes())].concat();
    let mut bytes = b"Obj\x01".to_vec();
    if !codec.is_empty() {
        bytes.extend([number(1), entry("avro.codec", codec)].concat());
    }
    // The entries of this block are behind their length.
    let entries = [entry("made.by", "a test"), entry("avro.schema", schema)].concat();
    bytes.extend([number(-2), sized(&entries), number(0), MARK.to_vec()].concat());
    bytes
}

/// A block of so many records.
pub(super) fn block(records: i64, bytes: &[u8]) -> Vec<u8> {
    [number(records), sized(bytes), MARK.to_vec()].concat()
}

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
