//! The real data set of the demo; `data/README.md` names its source and licence.

/// One document a line, compressed with zstd.
pub const ARCHIVE: &[u8] = include_bytes!("../../../../data/cities.ndjson.zst");

/// Documents in it, each with a key of its own.
pub const DOCUMENTS: u64 = 69_472;

/// Where the data comes from.
pub const ATTRIBUTION: &str = "GeoNames, CC BY 4.0";
