//! Definitions of indexes and keys, as the server spells them.

use tokio_postgres::Row;

/// The column `definition`. `None` if the index or key was dropped after the question had begun: the server's functions
/// then return null, because they see more than the snapshot of the statement.
pub(super) fn definition(row: &Row) -> Option<String> {
    row.get("definition")
}
