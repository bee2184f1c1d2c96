//! The types a key column can have.

use crate::KeyError;
use serde::{Deserialize, Serialize};

/// Type of a key column.
///
/// `numeric`, `real` and `double precision` are not here: their equal values have many spellings
/// (1, 1.0, 1.00), rounding makes keys collide, and NaN has its own order. Keep such a value as
/// `text`, which is jsonb's spelling of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyType {
    /// `text`, collation "C". Takes strings, numbers (in jsonb's spelling) and booleans.
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

/// Every key type, in the order of the enum.
pub const KEY_TYPES: &[KeyType] = &[
    KeyType::Text,
    KeyType::Bigint,
    KeyType::Integer,
    KeyType::Uuid,
    KeyType::Timestamptz,
    KeyType::Date,
    KeyType::Boolean,
];

/// Names under which a type may be asked for; the first of a type is its own.
const TYPE_NAMES: &[(&str, KeyType)] = &[
    ("text", KeyType::Text),
    ("string", KeyType::Text),
    ("bigint", KeyType::Bigint),
    ("int8", KeyType::Bigint),
    ("integer", KeyType::Integer),
    ("int", KeyType::Integer),
    ("int4", KeyType::Integer),
    ("uuid", KeyType::Uuid),
    ("timestamptz", KeyType::Timestamptz),
    ("timestamp with time zone", KeyType::Timestamptz),
    ("date", KeyType::Date),
    ("boolean", KeyType::Boolean),
    ("bool", KeyType::Boolean),
];

impl KeyType {
    /// The type's name in SQL.
    pub fn sql_name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Bigint => "bigint",
            Self::Integer => "integer",
            Self::Uuid => "uuid",
            Self::Timestamptz => "timestamptz",
            Self::Date => "date",
            Self::Boolean => "boolean",
        }
    }

    /// What a value of this type is written like, as the end of a sentence that begins with
    /// `expected`.
    pub fn expectation(self) -> &'static str {
        match self {
            Self::Text => "a string, a number or a boolean",
            Self::Bigint => "a whole number from -9223372036854775808 to 9223372036854775807 (bigint)",
            Self::Integer => "a whole number from -2147483648 to 2147483647 (integer)",
            Self::Uuid => "a UUID such as 6f1c0e0a-7d3b-4a52-9f0e-3c1f5f0b9a11",
            Self::Timestamptz => "an RFC 3339 time with zone such as 2024-02-29T12:00:00.5Z (timestamptz)",
            Self::Date => "a date such as 2024-02-29",
            Self::Boolean => "true or false",
        }
    }
}

impl std::str::FromStr for KeyType {
    type Err = KeyError;

    /// Takes SQL's names and common short ones, in any case.
    fn from_str(text: &str) -> Result<Self, KeyError> {
        let wanted = text.trim();
        TYPE_NAMES
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(wanted))
            .map(|&(_, key_type)| key_type)
            .ok_or_else(|| KeyError::Type(wanted.to_owned()))
    }
}

impl std::fmt::Display for KeyType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.sql_name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_listed_in_order_and_read_back() {
        assert!(KEY_TYPES.is_sorted());
        assert_eq!(KEY_TYPES.len(), *KEY_TYPES.last().unwrap() as usize + 1);
        for &key_type in KEY_TYPES {
            assert_eq!(key_type.sql_name().parse(), Ok(key_type));
            let json = serde_json::to_string(&key_type).unwrap();
            assert_eq!(json, format!("\"{}\"", key_type.sql_name()));
        }
        for (name, key_type) in TYPE_NAMES {
            assert_eq!(name.to_uppercase().parse(), Ok(*key_type));
        }
        for name in ["numeric", "float8", "", "timestamp", "jsonb"] {
            assert_eq!(name.parse::<KeyType>(), Err(KeyError::Type(name.to_owned())));
        }
    }
}
