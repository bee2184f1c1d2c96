//! The real data set of the demo; `data/README.md` tells its source and licence.

/// One document a line, compressed with zstd.
pub const ARCHIVE: &[u8] = include_bytes!("../../../../data/cities.ndjson.zst");

/// Documents in it, each with a key of its own.
pub const DOCUMENTS: u64 = 69_472;

/// Whom the data is from.
pub const ATTRIBUTION: &str = "GeoNames, CC BY 4.0";
