//! Counts the kinds of values that were seen at a path, and chooses a type from them.

use super::path_scan::Found;
use super::value;
use millstream_model::key_bytes::key_texts;
use millstream_model::{KeyType, LiteralError, VersionType, is_decimal, put_literal};

/// What a value could be as a key or a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueKind {
    Whole,
    Number,
    Time,
    FinerTime,
    LeapSecond,
    Uuid,
    String,
    Boolean,
    Null,
    Container,
    Missing,
}

/// Every kind with its name for one and for many, in the order of the enum.
const KINDS: &[(ValueKind, &str, &str)] = &[
    (ValueKind::Whole, "whole number", "whole numbers"),
    (ValueKind::Number, "other number", "other numbers"),
    (ValueKind::Time, "RFC 3339 time", "RFC 3339 times"),
    (ValueKind::FinerTime, "time finer than microseconds", "times finer than microseconds"),
    (ValueKind::LeapSecond, "leap second", "leap seconds"),
    (ValueKind::Uuid, "UUID", "UUIDs"),
    (ValueKind::String, "string", "strings"),
    (ValueKind::Boolean, "boolean", "booleans"),
    (ValueKind::Null, "null", "nulls"),
    (ValueKind::Container, "array or object", "arrays or objects"),
    (ValueKind::Missing, "document without it", "documents without it"),
];

impl ValueKind {
    pub(super) fn of(document: &[u8], found: &Found) -> Self {
        let mut scratch = Vec::new();
        let text = value::spelled(document, found, &mut scratch).unwrap_or_default();
        match found {
            Found::Missing => Self::Missing,
            Found::Null(_) => Self::Null,
            Found::Boolean(..) => Self::Boolean,
            Found::Container(_) => Self::Container,
            Found::Number(_) => Self::of_number(value::whole(text).unwrap_or(text)),
            Found::String { .. } => match put_literal(KeyType::Timestamptz, text, &mut Vec::new()) {
                Ok(()) => Self::Time,
                Err(LiteralError::Finer) => Self::FinerTime,
                Err(LiteralError::LeapSecond) => Self::LeapSecond,
                Err(_) if is_usual_uuid(text) => Self::Uuid,
                Err(_) => Self::String,
            },
        }
    }

    /// The same for a version. Its number may be in a string, as in CSV.
    pub(super) fn of_version(document: &[u8], found: &Found) -> Self {
        let mut scratch = Vec::new();
        match (Self::of(document, found), value::spelled(document, found, &mut scratch)) {
            (Self::String | Self::Whole | Self::Number, Some(text)) if is_decimal(text) => Self::of_number(text),
            (kind, _) => kind,
        }
    }

    /// The same for a typed column, for which the server casts the text of a number: 1.0 is not whole.
    pub(super) fn of_column(document: &[u8], found: &Found) -> Self {
        let mut scratch = Vec::new();
        match (found, value::spelled(document, found, &mut scratch)) {
            (Found::Number(_), Some(text)) => Self::of_number(text),
            _ => Self::of(document, found),
        }
    }

    /// The kind of a number, as jsonb spells it or as a string holds it.
    fn of_number(spelling: &[u8]) -> Self {
        match put_literal(KeyType::Bigint, spelling, &mut Vec::new()) {
            Ok(()) => Self::Whole,
            Err(_) => Self::Number,
        }
    }

    /// The type of a typed column when every value is of this kind. PostgreSQL rounds finer times.
    fn column_type(self) -> Option<&'static str> {
        match self {
            Self::Whole => Some("bigint"),
            Self::Number => Some("numeric"),
            Self::Time | Self::FinerTime | Self::LeapSecond => Some("timestamptz"),
            Self::Uuid => Some("uuid"),
            Self::String => Some("text"),
            Self::Boolean => Some("boolean"),
            Self::Container => Some("jsonb"),
            Self::Null | Self::Missing => None,
        }
    }

    /// The type when every value is of this kind.
    fn key_type(self) -> Option<KeyType> {
        match self {
            Self::Whole => Some(KeyType::Bigint),
            Self::Time => Some(KeyType::Timestamptz),
            Self::Uuid => Some(KeyType::Uuid),
            Self::Boolean => Some(KeyType::Boolean),
            // PostgreSQL would store different ones of these as the same time.
            Self::FinerTime | Self::LeapSecond => Some(KeyType::Text),
            Self::Number | Self::String => Some(KeyType::Text),
            Self::Null | Self::Container | Self::Missing => None,
        }
    }
}

/// Whether the text is a UUID in its usual form. Without hyphens it may be any hash of 128 bits.
fn is_usual_uuid(text: &[u8]) -> bool {
    let mut key = Vec::new();
    put_literal(KeyType::Uuid, text, &mut key).is_ok()
        && key_texts(&[KeyType::Uuid], &key)[0].as_bytes().eq_ignore_ascii_case(text)
}

/// How often each kind was seen at a path.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally([usize; KINDS.len()]);

impl Tally {
    pub(super) fn count_of(&self, kind: ValueKind) -> usize {
        self.0[kind as usize]
    }

    pub(super) fn count(&mut self, kind: ValueKind) {
        self.0[kind as usize] += 1;
    }

    fn seen(&self) -> impl Iterator<Item = (&(ValueKind, &'static str, &'static str), usize)> + Clone {
        KINDS.iter().zip(self.0).filter(|&(_, count)| count > 0)
    }

    /// Whether every value is a time, and PostgreSQL cannot store some of them exactly.
    pub(super) fn has_times_beyond_timestamptz(&self) -> bool {
        let beyond = |kind| matches!(kind, ValueKind::FinerTime | ValueKind::LeapSecond);
        let mut kinds = self.seen().map(|((kind, ..), _)| *kind).filter(|kind| kind.key_type().is_some());
        kinds.clone().any(beyond) && kinds.all(|kind| kind == ValueKind::Time || beyond(kind))
    }

    /// The type of a version of each kind that was seen. A version is not stored, so finer times are compared as times.
    pub(super) fn version_types(&self) -> impl Iterator<Item = VersionType> {
        self.seen().filter_map(|((kind, ..), _)| match kind {
            ValueKind::Number => Some(VersionType(KeyType::Numeric)),
            ValueKind::FinerTime | ValueKind::LeapSecond => Some(VersionType(KeyType::Timestamptz)),
            kind => kind.key_type().map(VersionType),
        })
    }

    /// The type of a typed column: the type that all values have, `numeric` for numbers, else text. `None` if there are
    /// no values.
    pub(super) fn column_type(&self) -> Option<&'static str> {
        let types = self.seen().filter_map(|((kind, ..), _)| kind.column_type());
        types.reduce(|one, other| match (one, other) {
            _ if one == other => one,
            ("bigint" | "numeric", "bigint" | "numeric") => "numeric",
            _ => "text",
        })
    }

    /// The type of a key: the type that all values have, else text. `None` if there are no values.
    pub(super) fn key_type(&self) -> Option<KeyType> {
        let mut types = self.seen().filter_map(|((kind, ..), _)| kind.key_type());
        let first = types.next()?;
        Some(match types.all(|other| other == first) {
            true => first,
            false => KeyType::Text,
        })
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (n, ((_, one, many), count)) in self.seen().enumerate() {
            let comma = if n == 0 { "" } else { ", " };
            let name = if count == 1 { one } else { many };
            write!(f, "{comma}{count} {name}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_listed_in_order() {
        for (n, (kind, ..)) in KINDS.iter().enumerate() {
            assert_eq!(*kind as usize, n);
        }
    }
}
