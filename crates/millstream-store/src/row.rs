//! Rows as they are read: as JSON, and by column.

use crate::error::Error;
use serde::de::DeserializeOwned;
use tokio_postgres::Row;

/// Reads a row of [`as_json`](millstream_pg::as_json).
///
/// # Errors
/// [`Error::Ledger`] says that it is `unreadable`.
pub(crate) fn read<T: DeserializeOwned>(row: &Row, unreadable: &'static str) -> Result<T, Error> {
    serde_json::from_str(row.get(0)).map_err(|_| Error::Ledger(unreadable))
}

/// A count that PostgreSQL gives as bigint; it is never negative.
pub(crate) fn count(row: &Row, column: &str) -> u64 {
    u64::try_from(row.get::<_, i64>(column)).unwrap_or(0)
}
