//! Sets of addresses.

use millstream_model::range::{Family, Range};
use xxhash_rust::xxh3::Xxh3;

/// Addresses of one family that rules look up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Set {
    pub(super) family: Family,
    /// The addresses, merged and in order.
    pub(super) ranges: Vec<Range>,
    /// Whether addresses are added later, each for a time.
    pub(super) is_timed: bool,
}

impl Set {
    /// What tells these addresses from others where they are not listed: their number and a hash.
    pub(super) fn digest(&self) -> String {
        let mut hash = Xxh3::new();
        for range in &self.ranges {
            hash.update(&range.start.to_be_bytes());
            hash.update(&range.end.to_be_bytes());
        }
        let noun = if self.ranges.len() == 1 { "range" } else { "ranges" };
        format!("{} {noun}, hash {:032x}", self.ranges.len(), hash.digest128())
    }
}

/// The name of a set of a family.
pub(crate) fn name(what: &str, family: Family) -> String {
    let digit = match family {
        Family::V4 => 4,
        Family::V6 => 6,
    };
    format!("{what}.{digit}")
}
