//! What a decoder finds and checks in a document besides its key.

use millstream_model::VersionType;

/// What the caller wants of a document besides its key. By default nothing. No path is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Path of the version, and the type by which versions are compared.
    pub version: Option<(Vec<String>, VersionType)>,
    /// A document deletes when the text at this path, as `#>>` gives it, is this value.
    pub delete_when: Option<(Vec<String>, String)>,
    /// Paths of numbers that are to be added up. A document that does not delete has a number or nothing (missing or
    /// null) at each, and objects or nothing around it.
    pub sums: Vec<Vec<String>>,
}
