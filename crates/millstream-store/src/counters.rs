//! The columns that count documents and bytes, of a load and of its lanes.

use millstream_model::COUNTERS;

/// Items of a list, one for each column that counts, given its place and its name.
pub(crate) fn each_counter(item: impl Fn(usize, &str) -> String) -> String {
    COUNTERS.iter().enumerate().map(|(n, counter)| item(n, counter)).collect::<Vec<_>>().join(", ")
}
