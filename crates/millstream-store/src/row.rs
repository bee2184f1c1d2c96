//! Rows read by column.

use tokio_postgres::Row;

/// A count that PostgreSQL gives as bigint; it is never negative.
pub(crate) fn count(row: &Row, column: &str) -> u64 {
    u64::try_from(row.get::<_, i64>(column)).unwrap_or(0)
}
