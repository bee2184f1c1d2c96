//! Numbers of a server's answers as a person reads them.

use millstream_model::quantity;
use tokio_postgres::Row;

/// A column that counts.
pub(super) fn number(row: &Row, column: &str) -> u64 {
    u64::try_from(row.get::<_, i64>(column)).unwrap_or(0)
}

/// A column that counts, with its thousands set apart.
pub(super) fn count(row: &Row, column: &str) -> String {
    quantity::count(number(row, column))
}

/// A column of bytes.
pub(super) fn bytes(row: &Row, column: &str) -> String {
    quantity::bytes(number(row, column))
}

/// A share of a whole in percent; 0 of nothing.
pub(super) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}
