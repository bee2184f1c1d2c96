//! What a read model is made of.

use crate::error::Error;
use millstream_model::KeyRequest;
use serde::{Deserialize, Serialize};

/// A read model as asked for, beside the key, which every model has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// Columns of their own for values in the documents.
    pub columns: Vec<Column>,
    /// What follows `create index on TABLE`, one entry per index.
    pub indexes: Vec<String>,
    /// Rows of the collection for which this SQL condition is not true are left out.
    pub condition: Option<String>,
    /// A SQL select list in place of `doc`.
    pub select: Option<String>,
    /// Whether it is a materialized view of PostgreSQL's own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub materialized: bool,
}

impl Definition {
    /// Whether both give the same rows and columns, whatever the indexes.
    pub fn has_rows_of(&self, other: &Self) -> bool {
        let columns = |definition: &Self| {
            let mut columns = definition.columns.clone();
            columns.sort_by(|a, b| a.name.cmp(&b.name));
            columns
        };
        (columns(self), &self.condition, &self.select) == (columns(other), &other.condition, &other.select)
    }
}

/// A value of the documents as a column of a type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type, as in SQL.
    pub type_name: String,
    /// Where the value is found, as for `#>>`.
    pub path: Vec<String>,
}

impl std::str::FromStr for Column {
    type Err = Error;

    /// Reads `NAME:TYPE=PATH`; the path as in a key.
    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = |problem: &str| Error::Request {
            problem: format!("\"{text}\" is no column: {problem}"),
            hint: "write it as NAME:TYPE=PATH, as in price:numeric=offer.price".into(),
        };
        let (left, path) = text.split_once('=').ok_or_else(|| wrong("it has no path"))?;
        let (name, type_name) = left.split_once(':').ok_or_else(|| wrong("it has no type"))?;
        let mut requests = KeyRequest::parse_paths(path).map_err(|error| wrong(&error.to_string()))?;
        match (requests.pop(), requests.is_empty()) {
            (Some(KeyRequest { path, key_type: None, .. }), true) if !name.is_empty() && !type_name.is_empty() => {
                Ok(Self { name: name.to_owned(), type_name: type_name.to_owned(), path })
            }
            _ => Err(wrong("name, type and one path are needed")),
        }
    }
}
