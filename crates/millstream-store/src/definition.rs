//! The definition of a read model.

use crate::error::Error;
use millstream_model::{CollectionName, KeyRequest};
use serde::{Deserialize, Serialize};

/// The parts of a read model, besides the key that every model has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// Typed columns for values in the documents.
    pub columns: Vec<Column>,
    /// What follows `create index on TABLE`, one entry per index.
    pub indexes: Vec<String>,
    /// SQL condition. Rows of the collection for which it is not true are left out.
    pub condition: Option<String>,
    /// A SQL select list in place of `doc`.
    pub select: Option<String>,
    /// Whether it is a materialized view of PostgreSQL.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub materialized: bool,
    /// A query over the collection, whose rows a materialized view keeps in place of the key, columns and `doc`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// The columns that tell the rows of that query apart. None in a request: they are to be found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unique: Vec<String>,
}

impl Definition {
    /// Whether both define the same rows and columns. Indexes are not compared, nor the columns of a unique one.
    pub fn has_rows_of(&self, other: &Self) -> bool {
        let columns = |definition: &Self| {
            let mut columns = definition.columns.clone();
            columns.sort_by(|a, b| a.name.cmp(&b.name));
            columns
        };
        (columns(self), &self.condition, &self.select, &self.query)
            == (columns(other), &other.condition, &other.select, &other.query)
    }

    /// Whether the changes of the collection are recorded for the model. They say how far it is behind, also where it
    /// cannot be refreshed by them.
    pub fn is_recorded(&self) -> bool {
        !self.materialized || self.query.is_some()
    }
}

/// A definition with every name in it resolved, as its owner published it. It is the comment of the model's table, which
/// nobody but the table's owner can write. A refresh runs no other SQL of the model: others may have rights on our
/// tables, and may create functions, operators and types that a name would find by now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolved {
    /// What was asked for.
    pub definition: Definition,
    /// The collection's table.
    pub table_oid: u32,
    /// Its name when the comment was written. It tells the table after a restore, which gives it another OID.
    pub table: CollectionName,
    /// The types of the columns, as in SQL, in their order.
    pub types: Vec<String>,
    /// The query for the model's rows, up to the name of the collection's table, and what follows it.
    pub rows: [String; 2],
    /// What follows `create index on TABLE`, for the indexes in their order.
    pub indexes: Vec<String>,
    /// Schemas of the functions and operators that it calls, but `pg_catalog`.
    pub schemas: Vec<String>,
}

/// A typed column for a value in the documents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type, as in SQL.
    pub type_name: String,
    /// Path of the value in the document, as for `#>>`.
    pub path: Vec<String>,
}

impl std::str::FromStr for Column {
    type Err = Error;

    /// Reads `NAME:TYPE=PATH`. The path is written as in a key, and a name with a `:` or a `=` in quotes, as there.
    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = |problem: &str| {
            let problem = format!("\"{text}\" is not a column: {problem}");
            Error::refused(problem, "write it as NAME:TYPE=PATH, as in price:numeric=offer.price")
        };
        let (name, rest) = match text.strip_prefix('"') {
            Some(quoted) => {
                let (name, rest) = quoted_name(quoted).ok_or_else(|| wrong("a double quote is not closed"))?;
                (name, rest.strip_prefix(':').ok_or_else(|| wrong("it has no type"))?)
            }
            None => {
                let at = text.find([':', '=']).ok_or_else(|| wrong("it has no path"))?;
                let rest = text[at..].strip_prefix(':').ok_or_else(|| wrong("it has no type"))?;
                (text[..at].to_owned(), rest)
            }
        };
        let (type_name, path) = rest.split_once('=').ok_or_else(|| wrong("it has no path"))?;
        // The column has its name already, so another '=' is a part of the path, and the path may be an empty name.
        let paths = format!("column={path}");
        let mut requests = KeyRequest::parse_paths(&paths).map_err(|error| wrong(&error.to_string()))?;
        match (requests.pop(), requests.is_empty()) {
            (Some(KeyRequest { path, key_type: None, .. }), true) if !name.is_empty() && !type_name.is_empty() => {
                Ok(Self { name, type_name: type_name.to_owned(), path })
            }
            _ => Err(wrong("name, type and one path are needed")),
        }
    }
}

/// The name up to the closing quote, and what follows it. Two quotes stand for one.
fn quoted_name(text: &str) -> Option<(String, &str)> {
    let (mut name, mut rest) = (String::new(), text);
    loop {
        let (part, after) = rest.split_once('"')?;
        name.push_str(part);
        match after.strip_prefix('"') {
            Some(next) => {
                name.push('"');
                rest = next;
            }
            None => return Some((name, after)),
        }
    }
}

/// The name of a column as [`Column`] reads it.
pub(crate) fn column_name_text(name: &str) -> String {
    if name.contains([':', '=', '"']) { format!("\"{}\"", name.replace('"', "\"\"")) } else { name.to_owned() }
}
