//! What a column's metadata say beside its type.

/// Arrow's extension types that change how a value is written ("Canonical Extension Types").
pub(super) const JSON: &str = "arrow.json";
pub(super) const UUID: &str = "arrow.uuid";

/// The key by which we mark a column whose text the decoder does not check. `parquet` checks only what is called UTF-8,
/// and hands out as text also what is called JSON.
pub(super) const UNCHECKED: &str = "millstream.unchecked";

/// The key by which we mark a column of Parquet's INTERVAL, which we get as its 12 bytes: as Arrow's spans, `parquet` hands
/// out only the months or all but the months.
pub(super) const SPAN: &str = "millstream.span";

/// Our own marks.
pub(super) const OURS: [&str; 2] = [UNCHECKED, SPAN];
