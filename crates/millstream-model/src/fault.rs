//! Why a document cannot be stored.

use std::borrow::Cow;

/// What is wrong with one document. The code is stable: it is stored, and scripts match on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// The text is not JSON.
    NotJson,
    /// JSON, but not an object.
    NotObject,
    /// Not UTF-8.
    InvalidUtf8,
    /// Holds `\u0000`, which jsonb cannot store.
    NulCharacter,
    /// Holds half of a surrogate pair.
    LoneSurrogate,
    /// A number that jsonb refuses, or that has too many digits when written without exponent.
    NumberOutOfRange,
    /// Nested deeper than the limit.
    TooDeep,
    /// A key path leads to nothing.
    KeyMissing,
    /// A key path leads to JSON null.
    KeyNull,
    /// A key value does not fit the column's type.
    KeyType,
    /// The key does not fit an index entry.
    KeyTooLong,
    /// The path of the version leads to nothing, or to JSON null.
    VersionMissing,
    /// A version does not fit its type.
    VersionType,
    /// A value that mode `sum` must add is not a number.
    NotNumber,
    /// A value does not fit the type of a typed column.
    ColumnType,
    /// Longer than the document limit.
    TooLarge,
    /// A transform of the load knows nothing about it, or must not change it.
    NotEnriched,
    /// Its BSON, or a value of its Extended JSON, is malformed.
    NotBson,
    /// A CSV line whose number of fields differs from the header's.
    CsvFields,
    /// A CSV record with text behind the closing quote of a field, or with the byte order mark of a joined file.
    CsvSyntax,
    /// The source is damaged here; where the next document begins is unknown.
    DamagedSource,
    /// A CHECK constraint of the collection is false for it.
    BreaksCheck,
    /// PostgreSQL refused the document (a constraint, a trigger, a limit only it knows).
    RefusedByServer,
}

/// Every reason, in the order of the enum.
pub const REASONS: &[Reason] = &[
    Reason::NotJson,
    Reason::NotObject,
    Reason::InvalidUtf8,
    Reason::NulCharacter,
    Reason::LoneSurrogate,
    Reason::NumberOutOfRange,
    Reason::TooDeep,
    Reason::KeyMissing,
    Reason::KeyNull,
    Reason::KeyType,
    Reason::KeyTooLong,
    Reason::VersionMissing,
    Reason::VersionType,
    Reason::NotNumber,
    Reason::ColumnType,
    Reason::TooLarge,
    Reason::NotEnriched,
    Reason::NotBson,
    Reason::CsvFields,
    Reason::CsvSyntax,
    Reason::DamagedSource,
    Reason::BreaksCheck,
    Reason::RefusedByServer,
];

impl Reason {
    /// The stable code that is stored and printed.
    pub fn code(self) -> &'static str {
        self.words().0
    }

    /// What it means, as a sentence without a period.
    pub fn about(self) -> &'static str {
        self.words().1
    }

    /// Its code, and what it means.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::NotJson => ("not_json", "it is not JSON"),
            Self::NotObject => ("not_object", "it is JSON, but no object"),
            Self::InvalidUtf8 => ("invalid_utf8", "it is not UTF-8"),
            Self::NulCharacter => ("nul_character", "it holds \\u0000, which jsonb cannot"),
            Self::LoneSurrogate => ("lone_surrogate", "it holds half of a surrogate pair"),
            Self::NumberOutOfRange => (
                "number_out_of_range",
                "it holds a number that jsonb cannot, or one with too many digits behind its exponent",
            ),
            Self::TooDeep => ("too_deep", "it is nested deeper than 512 levels"),
            Self::KeyMissing => ("key_missing", "it has no key"),
            Self::KeyNull => ("key_null", "its key is null"),
            Self::KeyType => ("key_type", "its key does not fit the key's type"),
            Self::KeyTooLong => ("key_too_long", "its key is too long for an index"),
            Self::VersionMissing => ("version_missing", "it has no version (mode newest)"),
            Self::VersionType => ("version_type", "its version does not fit the version's type"),
            Self::NotNumber => ("not_number", "a member that is added up is not a number (mode sum)"),
            Self::ColumnType => ("column_type", "a value does not fit the type of its column (load --column)"),
            Self::TooLarge => ("too_large", "it is larger than 16 MiB"),
            Self::NotEnriched => ("not_enriched", "nothing is known about its address (load --enrich)"),
            Self::NotBson => ("not_bson", "its BSON, or a value of its Extended JSON, is malformed"),
            Self::CsvFields => ("csv_fields", "the line has another number of fields than the header"),
            Self::CsvSyntax => ("csv_syntax", "the line breaks the rules of CSV"),
            Self::DamagedSource => ("damaged_source", "the file is damaged here"),
            Self::BreaksCheck => ("breaks_check", "it breaks a CHECK of the collection"),
            Self::RefusedByServer => ("refused_by_server", "PostgreSQL refused it, for instance by a trigger"),
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.code())
    }
}

/// A reason, with what you need to repair the document. Never shows more of the document's values
/// than its position does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The stable reason.
    pub reason: Reason,
    /// A lower-case sentence without final period, such as `expected ',' or '}' at byte 17`.
    pub detail: Cow<'static, str>,
}

impl Fault {
    /// A fault with a detail.
    pub fn new(reason: Reason, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { reason, detail: detail.into() }
    }

    /// Says how many lines of its source the document holds, if it holds several. Receipts add up these numbers, so
    /// `reject_lines.sql` of the store knows the words.
    #[must_use]
    pub fn over_lines(mut self, lines: u64) -> Self {
        if lines > 1 {
            self.detail = format!("{}; it holds {lines} lines", self.detail).into();
        }
        self
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.reason, self.detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_the_list_is_in_order() {
        let mut codes: Vec<_> = REASONS.iter().map(|r| r.code()).collect();
        assert!(REASONS.is_sorted());
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), REASONS.len());
        assert_eq!(*REASONS.last().unwrap() as usize + 1, REASONS.len());
    }
}
