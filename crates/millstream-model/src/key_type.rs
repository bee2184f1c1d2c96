//! The types a key column can have.

use serde::{Deserialize, Serialize};

/// Type of a key column. If documents may write its values in several forms, it also names the form.
///
/// `real` and `double precision` are not supported: rounding makes keys collide, and NaN has its own order. Keep such
/// a value as `text`, which holds it as jsonb prints it, or as `numeric`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum KeyType {
    /// `text`, collation "C". Accepts strings, numbers (as jsonb prints them) and booleans.
    Text,
    /// `varchar`, collation "C", with its maximum length in characters, if it has one. Accepts the same values as text.
    Varchar(Option<u32>),
    /// `bigint`.
    Bigint,
    /// `integer`.
    Integer,
    /// `smallint`.
    Smallint,
    /// `numeric` without precision. The column holds numbers without trailing zeros in their fraction.
    Numeric,
    /// `uuid`.
    Uuid,
    /// `timestamp with time zone`, RFC 3339 in documents.
    Timestamptz,
    /// The same, seconds since 1970 in documents.
    TimestamptzEpoch,
    /// The same, milliseconds since 1970 in documents.
    TimestamptzEpochMs,
    /// The same; documents may also have offsets such as `+0530` and `+05`, or times without seconds.
    TimestamptzLenient,
    /// `timestamp without time zone`.
    Timestamp,
    /// `date`.
    Date,
    /// `boolean`.
    Boolean,
}

/// Not a type that a key column can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is not a key type: expected one of {names}; put a name that holds ':' in double quotes",
    names = KeyType::names()
)]
pub struct KeyTypeError(String);

/// How the values of a type are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Text,
    Int64,
    Int32,
    Int16,
    Decimal,
    Uuid,
    Boolean,
}

/// Every key type, in the order of the enum; varchar stands for those of any length.
pub const KEY_TYPES: &[KeyType] = &[
    KeyType::Text,
    KeyType::Varchar(None),
    KeyType::Bigint,
    KeyType::Integer,
    KeyType::Smallint,
    KeyType::Numeric,
    KeyType::Uuid,
    KeyType::Timestamptz,
    KeyType::TimestamptzEpoch,
    KeyType::TimestamptzEpochMs,
    KeyType::TimestamptzLenient,
    KeyType::Timestamp,
    KeyType::Date,
    KeyType::Boolean,
];

/// Names by which a type may be requested. The first name of a type is its own. Includes the names of `format_type`.
const TYPE_NAMES: &[(&str, KeyType)] = &[
    ("text", KeyType::Text),
    ("string", KeyType::Text),
    ("varchar", KeyType::Varchar(None)),
    ("character varying", KeyType::Varchar(None)),
    ("bigint", KeyType::Bigint),
    ("int8", KeyType::Bigint),
    ("integer", KeyType::Integer),
    ("int", KeyType::Integer),
    ("int4", KeyType::Integer),
    ("smallint", KeyType::Smallint),
    ("int2", KeyType::Smallint),
    ("numeric", KeyType::Numeric),
    ("decimal", KeyType::Numeric),
    ("uuid", KeyType::Uuid),
    ("timestamptz", KeyType::Timestamptz),
    ("timestamp with time zone", KeyType::Timestamptz),
    ("timestamptz:epoch", KeyType::TimestamptzEpoch),
    ("timestamptz:epoch_ms", KeyType::TimestamptzEpochMs),
    ("timestamptz:lenient", KeyType::TimestamptzLenient),
    ("timestamp", KeyType::Timestamp),
    ("timestamp without time zone", KeyType::Timestamp),
    ("date", KeyType::Date),
    ("boolean", KeyType::Boolean),
    ("bool", KeyType::Boolean),
];

/// Maximum length of a varchar in characters (`MaxAttrSize`).
const VARCHAR_LENGTH_MAX: u32 = 10_485_760;

impl KeyType {
    /// The type's name in SQL, without a length.
    pub fn sql_name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Varchar(_) => "varchar",
            Self::Bigint => "bigint",
            Self::Integer => "integer",
            Self::Smallint => "smallint",
            Self::Numeric => "numeric",
            Self::Uuid => "uuid",
            Self::Timestamptz | Self::TimestamptzEpoch | Self::TimestamptzEpochMs | Self::TimestamptzLenient => {
                "timestamptz"
            }
            Self::Timestamp => "timestamp",
            Self::Date => "date",
            Self::Boolean => "boolean",
        }
    }

    /// The type of the column alone, without the form of its values in documents.
    #[must_use]
    pub fn column(self) -> Self {
        match self {
            Self::TimestamptzEpoch | Self::TimestamptzEpochMs | Self::TimestamptzLenient => Self::Timestamptz,
            other => other,
        }
    }

    /// Whether the type also names the form of its values in documents.
    pub fn is_spelled(self) -> bool {
        self != self.column()
    }

    /// Whether values are texts, which need a collation.
    pub fn is_text(self) -> bool {
        self.shape() == Shape::Text
    }

    /// The names of all types, separated by commas.
    pub fn names() -> String {
        KEY_TYPES.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }

    #[inline]
    pub(crate) fn shape(self) -> Shape {
        match self {
            Self::Text | Self::Varchar(_) => Shape::Text,
            Self::Integer | Self::Date => Shape::Int32,
            Self::Smallint => Shape::Int16,
            Self::Numeric => Shape::Decimal,
            Self::Uuid => Shape::Uuid,
            Self::Boolean => Shape::Boolean,
            _ => Shape::Int64,
        }
    }

    /// The form of a value of this type, as the end of a sentence that begins with `expected`.
    pub fn expectation(self) -> &'static str {
        match self {
            Self::Text | Self::Varchar(_) => "a string, a number or a boolean",
            Self::Bigint => "a whole number from -9223372036854775808 to 9223372036854775807 (bigint)",
            Self::Integer => "a whole number from -2147483648 to 2147483647 (integer)",
            Self::Smallint => "a whole number from -32768 to 32767 (smallint)",
            Self::Numeric => "a number such as 10.5 (numeric)",
            Self::Uuid => "a UUID such as 6f1c0e0a-7d3b-4a52-9f0e-3c1f5f0b9a11",
            Self::Timestamptz => "an RFC 3339 time with zone such as 2024-02-29T12:00:00.5Z (timestamptz)",
            Self::TimestamptzEpoch => "seconds since 1970 such as 1709208000.5 (timestamptz:epoch)",
            Self::TimestamptzEpochMs => "milliseconds since 1970 such as 1709208000500 (timestamptz:epoch_ms)",
            Self::TimestamptzLenient => "a time with zone such as 2024-02-29 12:00+0530 (timestamptz:lenient)",
            Self::Timestamp => "a time without zone such as 2024-02-29T12:00:00.5 (timestamp)",
            Self::Date => "a date such as 2024-02-29",
            Self::Boolean => "true or false",
        }
    }
}

impl std::str::FromStr for KeyType {
    type Err = KeyTypeError;

    /// Accepts SQL's names and common short names, in upper or lower case.
    fn from_str(text: &str) -> Result<Self, KeyTypeError> {
        let wanted = text.trim();
        let named = |name: &str| {
            TYPE_NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|&(_, key_type)| key_type)
        };
        let varchar = |(name, length): (&str, &str)| match (named(name.trim())?, length.trim().parse()) {
            (Self::Varchar(None), Ok(length)) if (1..=VARCHAR_LENGTH_MAX).contains(&length) => {
                Some(Self::Varchar(Some(length)))
            }
            _ => None,
        };
        let of_length = || wanted.strip_suffix(')').and_then(|text| text.split_once('(')).and_then(varchar);
        named(wanted).or_else(of_length).ok_or_else(|| KeyTypeError(wanted.to_owned()))
    }
}

impl TryFrom<String> for KeyType {
    type Error = KeyTypeError;

    fn try_from(text: String) -> Result<Self, KeyTypeError> {
        text.parse()
    }
}

impl From<KeyType> for String {
    fn from(key_type: KeyType) -> Self {
        key_type.to_string()
    }
}

impl std::fmt::Display for KeyType {
    /// The name by which you request the type.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.sql_name())?;
        match self {
            Self::Varchar(Some(length)) => write!(f, "({length})"),
            Self::TimestamptzEpoch => f.write_str(":epoch"),
            Self::TimestamptzEpochMs => f.write_str(":epoch_ms"),
            Self::TimestamptzLenient => f.write_str(":lenient"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_sorted_and_round_trip() {
        assert!(KEY_TYPES.is_sorted());
        for &key_type in KEY_TYPES.iter().chain(&[KeyType::Varchar(Some(20))]) {
            assert_eq!(key_type.to_string().parse(), Ok(key_type));
            assert_eq!(key_type.is_spelled(), key_type.to_string().contains(':'));
            let json = serde_json::to_string(&key_type).unwrap();
            assert_eq!(json, format!("\"{key_type}\""));
            assert_eq!(serde_json::from_str::<KeyType>(&json).unwrap(), key_type);
        }
        assert_eq!("character varying(7)".parse(), Ok(KeyType::Varchar(Some(7))));
        for (name, key_type) in TYPE_NAMES {
            assert_eq!(name.to_uppercase().parse(), Ok(*key_type));
        }
        for name in [
            "numeric(10,2)",
            "float8",
            "",
            "timestamp(3)",
            "jsonb",
            "varchar(0)",
            "varchar()",
            "text(3)",
            "timestamptz:",
            "date:epoch",
        ] {
            assert_eq!(name.parse::<KeyType>(), Err(KeyTypeError(name.to_owned())));
        }
    }
}
