//! Why a text is not a key, or why the name of a key column is refused.

use crate::key_type::KeyTypeError;
use crate::limits::{IDENTIFIER_BYTES_MAX, KEY_COLUMNS_MAX, KEY_PATH_SEGMENTS_MAX};

/// Names of the system columns, which PostgreSQL reserves in every table.
const SYSTEM_COLUMNS: &[&str] = &["ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"];

/// Why a text is not a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// A piece does not parse.
    #[error("\"{0}\" is not a key column: {1} (expected [COLUMN=]PATH[:TYPE][,..])")]
    Shape(String, &'static str),
    /// A double quote is not closed.
    #[error("\"{0}\" is not a key: a double quote is not closed")]
    Quote(String),
    /// A path and a type written as an SQL cast.
    #[error("\"{0}::{1}\" is SQL's spelling of a cast: write {0}:{1}")]
    Cast(String, String),
    /// Not a type a key column can have.
    #[error(transparent)]
    Type(#[from] KeyTypeError),
    /// Two columns have the same name.
    #[error("two key columns are named \"{0}\": name one with COLUMN=PATH")]
    Clash(String),
    /// A name that the table needs for something else.
    #[error("a key column cannot be named \"{0}\", which is taken: name it with COLUMN=PATH")]
    Reserved(String),
    /// PostgreSQL would truncate the name.
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
    /// The type of a column is not known.
    #[error("the type of key column \"{0}\" is not known: write PATH:TYPE")]
    Open(String),
}

/// Whether a table needs the name of a column for something else.
pub fn is_reserved_column(name: &str) -> bool {
    name == "doc" || SYSTEM_COLUMNS.contains(&name) || name.starts_with("millstream_")
}

pub(crate) fn check_columns<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), KeyError> {
    let names: Vec<&str> = names.collect();
    if names.is_empty() || names.len() > KEY_COLUMNS_MAX {
        return Err(KeyError::Columns(names.len()));
    }
    for (n, &name) in names.iter().enumerate() {
        if is_reserved_column(name) {
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
