//! What publishing is asked for, and what it did.

use millstream_model::CollectionName;
use millstream_store::Definition;

/// A model that is to be there.
#[derive(Debug, Clone)]
pub struct PublishRequest {
    /// The collection.
    pub collection: CollectionName,
    /// The model's name.
    pub model: CollectionName,
    /// What it is made of.
    pub definition: Definition,
}

/// What publishing did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published {
    /// The model is new and still empty: it is to be refreshed.
    Made,
    /// Its indexes were changed.
    Reindexed {
        /// Indexes made.
        made: usize,
        /// Indexes that it has no more.
        dropped: usize,
        /// Indexes that could not be removed, because readers did not let go of them; publishing again, or a swap,
        /// removes them.
        in_use: usize,
    },
    /// It is made of other rows or columns: its next refresh builds it anew, and it is what it was until then.
    Redefined,
}
