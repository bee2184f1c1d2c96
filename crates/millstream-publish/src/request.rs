//! The request to publish a model, and what it did.

use millstream_model::CollectionName;
use millstream_store::Definition;

/// A request to publish a model.
#[derive(Debug, Clone)]
pub struct PublishRequest {
    /// The collection.
    pub collection: CollectionName,
    /// The model's name.
    pub model: CollectionName,
    /// Its definition.
    pub definition: Definition,
    /// Hears what is odd about the definition, with the model's name.
    pub warn: fn(&CollectionName, &str),
}

/// What publishing did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published {
    /// The model is new, and empty until it is refreshed.
    Made,
    /// Its indexes were changed.
    Reindexed {
        /// Indexes made.
        made: usize,
        /// Indexes that its definition no longer has.
        dropped: usize,
        /// Indexes that could not be dropped because readers use them. Publishing again, or a swap, drops them.
        in_use: usize,
    },
    /// Its rows or columns change. The next refresh builds it anew; until then it stays as it is.
    Redefined,
}
