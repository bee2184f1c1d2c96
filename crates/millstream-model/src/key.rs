//! The key of a collection: typed values found in a document by path.

use serde::{Deserialize, Serialize};

/// Type of a key column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyType {
    /// `text`, collation "C".
    Text,
    /// `bigint`.
    Bigint,
    /// `integer`.
    Integer,
    /// `uuid`.
    Uuid,
    /// `timestamp with time zone`.
    Timestamptz,
    /// `date`.
    Date,
    /// `boolean`.
    Boolean,
}

/// A key column as asked for: the type may still be open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRequest {
    /// Column name.
    pub column: String,
    /// Path of object members (or array indexes) from the document's root, as for `#>>`.
    pub path: Vec<String>,
    /// The type if it was given.
    pub key_type: Option<KeyType>,
}

/// A column of a key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeyColumn {
    /// Column name.
    pub name: String,
    /// Path from the document's root, as for `#>>`.
    pub path: Vec<String>,
    /// Column type.
    #[serde(rename = "type")]
    pub key_type: KeyType,
}

/// A whole key: columns in index order.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeySpec {
    /// The columns, at least one.
    pub columns: Vec<KeyColumn>,
}

/// Why a text is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Empty key or path.
    #[error("\"{0}\" is not a key: expected [COLUMN=]PATH[:TYPE][,..]")]
    Shape(String),
}
