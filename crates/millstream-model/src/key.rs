//! The key of a collection: typed values found in a document by path.

use crate::limits::{IDENTIFIER_BYTES_MAX, KEY_COLUMNS_MAX, KEY_PATH_SEGMENTS_MAX};
use crate::{KeyRequest, KeyType};
use serde::{Deserialize, Serialize};

/// Names PostgreSQL keeps for itself in every table.
const SYSTEM_COLUMNS: &[&str] = &["ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"];

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

impl KeySpec {
    /// The key that was asked for, when every type is known.
    ///
    /// # Errors
    /// Names the first column whose type is still open.
    pub fn from_requests(requests: &[KeyRequest]) -> Result<Self, KeyError> {
        let columns = requests
            .iter()
            .map(|request| {
                Ok(KeyColumn {
                    name: request.column.clone(),
                    path: request.path.clone(),
                    key_type: request.key_type.ok_or_else(|| KeyError::Open(request.column.clone()))?,
                })
            })
            .collect::<Result<Vec<_>, KeyError>>()?;
        check_columns(columns.iter().map(|c| c.name.as_str()))?;
        Ok(Self { columns })
    }

    /// The types of the columns, in order.
    pub fn types(&self) -> Vec<KeyType> {
        self.columns.iter().map(|c| c.key_type).collect()
    }
}

impl KeyColumn {
    /// The path as it would be typed: dotted, or a JSON Pointer where a name is odd.
    pub fn path_text(&self) -> String {
        path_text(&self.path)
    }
}

/// Why a text is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// A piece does not parse.
    #[error("\"{0}\" is not a key column: {1} (expected [COLUMN=]PATH[:TYPE][,..])")]
    Shape(String, &'static str),
    /// A double quote is not closed.
    #[error("\"{0}\" is not a key: a double quote is not closed")]
    Quote(String),
    /// A path and a type as SQL casts.
    #[error("\"{0}::{1}\" is SQL's spelling of a cast: write {0}:{1}")]
    Cast(String, String),
    /// Not a type a key column can have.
    #[error(
        "\"{0}\" is not a key type: expected one of {names}; put a name that holds ':' in double quotes",
        names = KeyType::names()
    )]
    Type(String),
    /// Two columns of one name.
    #[error("two key columns are named \"{0}\": name one with COLUMN=PATH")]
    Clash(String),
    /// A name that the table needs for something else.
    #[error("a key column cannot be named \"{0}\", which is taken: name it with COLUMN=PATH")]
    Reserved(String),
    /// PostgreSQL would cut the name short.
    #[error("the column name \"{0}\" is longer than {IDENTIFIER_BYTES_MAX} bytes: name it with COLUMN=PATH")]
    LongName(String),
    /// PostgreSQL has no identifier with a NUL in it.
    #[error("a column name cannot hold a NUL character: name it with COLUMN=PATH")]
    Nul,
    /// Too many columns.
    #[error("the key has {0} columns: at most {KEY_COLUMNS_MAX} are possible")]
    Columns(usize),
    /// Too many segments.
    #[error("the path of \"{0}\" has more than {KEY_PATH_SEGMENTS_MAX} segments")]
    Deep(String),
    /// A type is needed.
    #[error("the type of key column \"{0}\" is not known: write PATH:TYPE")]
    Open(String),
}

pub(crate) fn check_columns<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), KeyError> {
    let names: Vec<&str> = names.collect();
    if names.is_empty() || names.len() > KEY_COLUMNS_MAX {
        return Err(KeyError::Columns(names.len()));
    }
    for (n, &name) in names.iter().enumerate() {
        if name == "doc" || SYSTEM_COLUMNS.contains(&name) || name.starts_with("millstream_") {
            return Err(KeyError::Reserved(name.to_owned()));
        }
        if name.len() > IDENTIFIER_BYTES_MAX {
            return Err(KeyError::LongName(name.to_owned()));
        }
        if name.contains('\0') {
            return Err(KeyError::Nul);
        }
        if names[..n].contains(&name) {
            return Err(KeyError::Clash(name.to_owned()));
        }
    }
    Ok(())
}

pub(crate) fn path_text(path: &[String]) -> String {
    let separating = |s: &str| s.contains(['"', ',', ':', '=']);
    let odd = |s: &String| s.is_empty() || s.contains(['.', '/', '~']) || separating(s);
    if !path.iter().any(odd) {
        return path.join(".");
    }
    path.iter()
        .map(|segment| {
            let name = segment.replace('~', "~0").replace('/', "~1");
            match separating(&name) {
                true => format!("/\"{}\"", name.replace('"', "\"\"")),
                false => format!("/{name}"),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_needs_every_type() {
        let open = KeyRequest::parse_list("a:text,b").unwrap();
        assert_eq!(KeySpec::from_requests(&open), Err(KeyError::Open("b".to_owned())));
        let spec = KeySpec::from_requests(&KeyRequest::parse_list("a:text,b:date").unwrap());
        let spec = spec.unwrap();
        assert_eq!(spec.types(), [KeyType::Text, KeyType::Date]);
        let json = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<KeySpec>(&json).unwrap(), spec);
        assert_eq!(KeySpec::from_requests(&[]), Err(KeyError::Columns(0)));
    }
}
