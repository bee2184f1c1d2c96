//! Conversions of values that a row holds.

use tokio_postgres::Row;

/// A count that PostgreSQL gives as bigint; it is never negative.
pub(crate) fn optional_count(row: &Row, column: &str) -> Option<u64> {
    row.get::<_, Option<i64>>(column).map(|n| u64::try_from(n).unwrap_or(0))
}
