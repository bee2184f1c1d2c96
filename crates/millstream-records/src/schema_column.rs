//! What the schema of a file says about a member of the documents that it stands for.

/// A member that the schema of a file describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaColumn {
    /// Its name.
    pub name: String,
    /// The type of PostgreSQL that takes all its values. `None`: the values decide.
    pub type_name: Option<&'static str>,
    /// Whether the type keeps all its values apart: it has nothing finer than PostgreSQL stores.
    pub is_exact: bool,
    /// What it is in the schema, such as `decimal`.
    pub what: &'static str,
}
