//! What a build did, and what its file must be.

use crate::column_type::ColumnTypes;
use serde::{Deserialize, Serialize};

/// The number of the layout, see `docs/guides/ranges.md`.
pub const FORMAT: u32 = 1;

/// How ranges are kept in the file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// Two named databases, `v4` and `v6`, and a third one, `meta`.
    #[default]
    Named,
    /// Both families in the one database without a name.
    Single,
}

/// The account of a build: every entry that was read is in exactly one of `whole`, `merged`, `cut`, `covered` and
/// `rejected`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// [`FORMAT`] of the program that built it.
    pub format: u32,
    /// Number of the generation in its store.
    pub generation: u64,
    /// How ranges are kept.
    pub layout: Layout,
    /// What was read, in order.
    pub sources: Vec<String>,
    /// Types of members that have one.
    #[serde(default, skip_serializing_if = "ColumnTypes::is_empty")]
    pub types: ColumnTypes,
    /// Entries read.
    pub read: u64,
    /// Stored as they are.
    pub whole: u64,
    /// Joined to the range before them, which has the same members.
    pub merged: u64,
    /// Partly hidden by others, and stored in part.
    pub cut: u64,
    /// Fully hidden by others, and not stored.
    pub covered: u64,
    /// Not usable.
    pub rejected: u64,
    /// Ranges in the store.
    pub stored: u64,
    /// Those of IPv4.
    pub stored_v4: u64,
    /// Those of IPv6.
    pub stored_v6: u64,
    /// Size of the file.
    pub bytes: u64,
    /// XXH3-128 of the file, in hex.
    pub xxh3: String,
    /// Seconds that the build took.
    pub seconds: f64,
    /// Entries read in a second.
    pub ranges_per_second: f64,
}

impl Receipt {
    /// Whether the account adds up.
    pub fn adds_up(&self) -> bool {
        self.read == self.whole + self.merged + self.cut + self.covered + self.rejected
            && self.stored == self.stored_v4 + self.stored_v6
    }
}
