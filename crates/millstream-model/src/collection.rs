//! The name of a collection: a plain table that holds key columns and `doc`.

use crate::limits::IDENTIFIER_BYTES_MAX;
use serde::{Deserialize, Serialize};

/// A collection's schema and table name, as PostgreSQL stores them (unquoted, case kept).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CollectionName {
    /// The schema; `public` unless named.
    pub schema: String,
    /// The table.
    pub table: String,
}

impl CollectionName {
    /// Whether its schema is one that PostgreSQL keeps for itself. What is made there ends with the session
    /// (`pg_temp`), or is in no dump.
    pub fn is_in_reserved_schema(&self) -> bool {
        self.schema.starts_with("pg_") || self.schema == "information_schema"
    }
}

/// Why a text is not a collection name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// A part is empty or there are more than two parts.
    #[error("\"{0}\" is not a collection name: expected NAME or SCHEMA.NAME")]
    Shape(String),
    /// PostgreSQL would truncate the identifier.
    #[error("\"{0}\" is longer than {IDENTIFIER_BYTES_MAX} bytes, the longest name PostgreSQL keeps")]
    TooLong(String),
    /// PostgreSQL has no identifier with a NUL in it.
    #[error("a name cannot hold a NUL character")]
    Nul,
}

impl std::str::FromStr for CollectionName {
    type Err = NameError;

    /// Parses `NAME` or `SCHEMA.NAME`. Parts are taken as written, without case folding. Double quotes
    /// enclose a part that contains a dot.
    fn from_str(text: &str) -> Result<Self, NameError> {
        let parts = split_parts(text).ok_or_else(|| NameError::Shape(text.to_owned()))?;
        let (schema, table) = match parts.as_slice() {
            [table] => ("public".to_owned(), table.clone()),
            [schema, table] => (schema.clone(), table.clone()),
            _ => return Err(NameError::Shape(text.to_owned())),
        };
        for part in [&schema, &table] {
            if part.is_empty() {
                return Err(NameError::Shape(text.to_owned()));
            }
            if part.len() > IDENTIFIER_BYTES_MAX {
                return Err(NameError::TooLong(part.clone()));
            }
            if part.contains('\0') {
                return Err(NameError::Nul);
            }
        }
        Ok(Self { schema, table })
    }
}

fn split_parts(text: &str) -> Option<Vec<String>> {
    let mut parts = vec![String::new()];
    let mut quoted = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                parts.last_mut()?.push('"');
            }
            '"' => quoted = !quoted,
            '.' if !quoted => parts.push(String::new()),
            c => parts.last_mut()?.push(c),
        }
    }
    (!quoted).then_some(parts)
}

impl std::fmt::Display for CollectionName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (n, part) in [&self.schema, &self.table].into_iter().enumerate() {
            if n == 0 && part == "public" {
                continue;
            }
            let plain = !part.contains(['.', '"']);
            let dot = if n == 0 { "." } else { "" };
            if plain {
                write!(f, "{part}{dot}")?;
            } else {
                write!(f, "\"{}\"{dot}", part.replace('"', "\"\""))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for (text, schema, table) in [
            ("events", "public", "events"),
            ("raw.Events", "raw", "Events"),
            ("\"a.b\".c", "a.b", "c"),
            ("\"q\"\"x\"", "public", "q\"x"),
        ] {
            let name: CollectionName = text.parse().unwrap();
            assert_eq!((name.schema.as_str(), name.table.as_str()), (schema, table), "{text}");
            assert_eq!(name.to_string().parse::<CollectionName>().unwrap(), name);
        }
    }

    #[test]
    fn errors_say_why_a_name_is_bad() {
        for text in ["", ".", "a.b.c", "a.", "\"a"] {
            assert!(matches!(text.parse::<CollectionName>(), Err(NameError::Shape(_))), "{text}");
        }
        assert!(matches!("x".repeat(64).parse::<CollectionName>(), Err(NameError::TooLong(_))));
    }
}
