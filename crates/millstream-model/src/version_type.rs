//! The type of versions: any key type except those that only name a form or a length of the values.

use crate::{KEY_TYPES, KeyType};

/// The type by which versions are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionType(pub KeyType);

/// Not a type of versions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a type of versions: expected {expected}", expected = VersionType::names())]
pub struct VersionTypeError(String);

impl VersionType {
    /// Every type of versions.
    pub fn all() -> impl Iterator<Item = Self> {
        let fits = |key_type: &KeyType| !key_type.is_spelled() && !matches!(key_type, KeyType::Varchar(_));
        KEY_TYPES.iter().copied().filter(fits).map(Self)
    }

    /// All names, separated by commas.
    pub fn names() -> String {
        Self::all().map(|one| one.to_string()).collect::<Vec<_>>().join(", ")
    }

    /// The type that compares versions of both types as their own type does, if there is one.
    pub fn common(self, other: Self) -> Option<Self> {
        match (self.0, other.0) {
            (one, other) if one == other => Some(self),
            (KeyType::Numeric, KeyType::Bigint) | (KeyType::Bigint, KeyType::Numeric) => Some(Self(KeyType::Numeric)),
            _ => None,
        }
    }

    /// The form of a version, as the end of a sentence that begins with `expected`.
    pub fn expectation(self) -> &'static str {
        self.0.expectation()
    }
}

impl Default for VersionType {
    fn default() -> Self {
        Self(KeyType::Text)
    }
}

impl std::str::FromStr for VersionType {
    type Err = VersionTypeError;

    /// Accepts SQL's names and common short names, in upper or lower case.
    fn from_str(text: &str) -> Result<Self, VersionTypeError> {
        let wanted = text.trim().parse().ok().map(Self);
        wanted.filter(|wanted| Self::all().any(|one| one == *wanted)).ok_or_else(|| VersionTypeError(text.to_owned()))
    }
}

impl std::fmt::Display for VersionType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_types_round_trip() {
        for one in VersionType::all() {
            assert_eq!(one.to_string().to_uppercase().parse(), Ok(one));
        }
        assert_eq!(" Decimal".parse(), Ok(VersionType(KeyType::Numeric)));
        for name in ["float", "varchar", "varchar(3)", "timestamptz:epoch"] {
            let error = name.parse::<VersionType>().unwrap_err().to_string();
            assert!(error.contains("expected text, bigint") && error.contains(", numeric"), "{error}");
        }
    }
}
