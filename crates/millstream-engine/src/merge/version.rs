//! The SQL type of a version.

use millstream_model::{KeyType, VersionType};

/// The type by its name in `pg_catalog`, which a type of the user's own cannot hide.
pub(super) fn sql_type(version_type: VersionType) -> &'static str {
    match version_type.0.column() {
        KeyType::Text | KeyType::Varchar(_) => "pg_catalog.text",
        KeyType::Bigint => "pg_catalog.int8",
        KeyType::Integer => "pg_catalog.int4",
        KeyType::Smallint => "pg_catalog.int2",
        KeyType::Numeric => "pg_catalog.numeric",
        KeyType::Uuid => "pg_catalog.uuid",
        KeyType::Timestamp => "pg_catalog.timestamp",
        KeyType::Date => "pg_catalog.date",
        KeyType::Boolean => "pg_catalog.bool",
        _ => "pg_catalog.timestamptz",
    }
}
