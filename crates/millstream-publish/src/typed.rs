//! The typed columns of a collection in its read models.

use crate::error::Error;
use millstream_store::models::Model;
use millstream_store::{Column, Definition, names_in_sql, typed_columns};
use tokio_postgres::GenericClient;

/// The definition with the typed columns of the collection that its indexes name, as if they had been named with `--column`.
/// A model cannot lose a column, so it keeps those that it has. `model` is the one that is published again.
///
/// # Errors
/// The server's.
pub(crate) async fn with_typed(
    client: &impl GenericClient,
    table_oid: u32,
    definition: &Definition,
    model: Option<&Model>,
) -> Result<Definition, Error> {
    let asks_nothing = Definition { materialized: false, ..definition.clone() } == Definition::default();
    if asks_nothing || definition.query.is_some() {
        return Ok(definition.clone());
    }
    let texts: Vec<&str> = definition.indexes.iter().map(String::as_str).collect();
    let named = names_in_sql(&texts).unwrap_or_default();
    let selected = definition.select.as_deref().map(str::to_lowercase).unwrap_or_default();
    let kept = model.map(|model| model.definition.columns.as_slice()).unwrap_or_default();
    let mut columns = definition.columns.clone();
    for typed in typed_columns(client, table_oid).await? {
        let column: Column = typed.column();
        // The select list may show the column by itself.
        let is_selected = selected.contains('*') || selected.contains(&column.name.to_lowercase());
        let is_wanted = named.contains(&column.name) && !is_selected || kept.contains(&column);
        if is_wanted && columns.iter().all(|other| other.name != column.name) {
            columns.push(column);
        }
    }
    Ok(Definition { columns, ..definition.clone() })
}
