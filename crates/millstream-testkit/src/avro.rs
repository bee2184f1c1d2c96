//! Files of Avro (<https://avro.apache.org/docs/1.12.0/specification/#object-container-files>), written byte by byte.

const MARK: &[u8] = b"sixteen bytes...";

/// A whole number.
pub fn number(value: i64) -> Vec<u8> {
    let mut bits = ((value << 1) ^ (value >> 63)).cast_unsigned();
    let mut bytes = Vec::new();
    while bits >= 0x80 {
        bytes.push(0x80 | bits.to_le_bytes()[0]);
        bits >>= 7;
    }
    bytes.push(bits.to_le_bytes()[0]);
    bytes
}

/// Bytes or a text, with its length.
pub fn sized(value: &[u8]) -> Vec<u8> {
    [&number(i64::try_from(value.len()).unwrap_or(i64::MAX))[..], value].concat()
}

/// What a file begins with. Without a codec it names none.
pub fn header(schema: &str, codec: &str) -> Vec<u8> {
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
pub fn block(records: i64, bytes: &[u8]) -> Vec<u8> {
    [number(records), sized(bytes), MARK.to_vec()].concat()
}
