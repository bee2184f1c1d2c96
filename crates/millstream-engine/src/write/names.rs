//! What a collection and its parts are called in SQL.

/// Names of a collection, quoted, as its statements need them.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) table: String,
    /// The key's columns.
    pub(super) key: String,
    /// The condition that a row of `stored` and a row of `staged` have the same key.
    pub(super) join: String,
}
