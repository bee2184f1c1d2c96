//! The type of a version: any type of a key, or `numeric`, which compares fractions and no key can have.

use millstream_model::{KEY_TYPES, KeyType};

/// By which type versions are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionType {
    /// A type that keys have too.
    Key(KeyType),
    /// `numeric`: a version is compared, never stored as a column, so that the many spellings of a
    /// number do no harm.
    Numeric,
}

/// Names of `numeric`, the first its own.
const NUMERIC_NAMES: [&str; 2] = ["numeric", "decimal"];

/// Not a type of versions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a type of versions: expected {expected}", expected = VersionType::names())]
pub struct VersionTypeError(String);

impl VersionType {
    /// Every type of versions.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        KEY_TYPES.iter().copied().map(Self::Key).chain([Self::Numeric])
    }

    /// All names with commas.
    pub(crate) fn names() -> String {
        Self::all().map(|one| one.to_string()).collect::<Vec<_>>().join(", ")
    }

    /// The type of versions of both, where there is one that compares each as its own does.
    pub(crate) fn common(self, other: Self) -> Option<Self> {
        let whole = |one| one == Self::Key(KeyType::Bigint);
        match (self, other) {
            (one, other) if one == other => Some(one),
            (Self::Numeric, other) if whole(other) => Some(Self::Numeric),
            (one, Self::Numeric) if whole(one) => Some(Self::Numeric),
            _ => None,
        }
    }

    /// What a version is written like, as the end of a sentence that begins with `expected`.
    pub(crate) fn expectation(self) -> &'static str {
        match self {
            Self::Key(key_type) => key_type.expectation(),
            Self::Numeric => "a number such as 10.5 (numeric)",
        }
    }

    /// The type by its name in `pg_catalog`, which a type of the user's own cannot hide.
    pub(super) fn sql_type(self) -> &'static str {
        match self {
            Self::Key(KeyType::Text) => "pg_catalog.text",
            Self::Key(KeyType::Bigint) => "pg_catalog.int8",
            Self::Key(KeyType::Integer) => "pg_catalog.int4",
            Self::Key(KeyType::Uuid) => "pg_catalog.uuid",
            Self::Key(KeyType::Timestamptz) => "pg_catalog.timestamptz",
            Self::Key(KeyType::Date) => "pg_catalog.date",
            Self::Key(KeyType::Boolean) => "pg_catalog.bool",
            Self::Numeric => "pg_catalog.numeric",
        }
    }
}

impl Default for VersionType {
    fn default() -> Self {
        Self::Key(KeyType::Text)
    }
}

impl std::str::FromStr for VersionType {
    type Err = VersionTypeError;

    /// Takes SQL's names and common short ones, in any case.
    fn from_str(text: &str) -> Result<Self, VersionTypeError> {
        let wanted = text.trim();
        if NUMERIC_NAMES.iter().any(|name| name.eq_ignore_ascii_case(wanted)) {
            return Ok(Self::Numeric);
        }
        wanted.parse().map(Self::Key).map_err(|_| VersionTypeError(wanted.to_owned()))
    }
}

impl std::fmt::Display for VersionType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Key(key_type) => key_type.fmt(f),
            Self::Numeric => f.write_str(NUMERIC_NAMES[0]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_and_written() {
        for one in VersionType::all() {
            assert_eq!(one.to_string().to_uppercase().parse(), Ok(one));
        }
        assert_eq!(" Decimal".parse(), Ok(VersionType::Numeric));
        let error = "float".parse::<VersionType>().unwrap_err().to_string();
        assert!(error.contains("expected text, bigint") && error.ends_with(", numeric"), "{error}");
    }
}
