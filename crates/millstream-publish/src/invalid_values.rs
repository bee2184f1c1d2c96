//! Values that a model's typed columns cannot hold.

use crate::column_type::text;
use crate::definition::Derivation;
use crate::error::Error;
use crate::limits::INVALID_VALUE_KEYS;
use millstream_pg::{fill, quote_identifier};
use serde::Serialize;
use tokio_postgres::GenericClient;

/// Documents whose value is not valid for a column's type. The column is null there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InvalidValues {
    /// The column.
    pub column: String,
    /// Its type.
    pub type_name: String,
    /// How many documents.
    pub documents: u64,
    /// Keys of some of them.
    pub keys: Vec<String>,
}

/// Looks for them in one generation: in all of its rows, or in those of the keys that the table `changed` holds. Those
/// are looked up by key, with [`plans_by_key`](millstream_pg::plans_by_key).
pub(crate) async fn invalid_values(
    client: &impl GenericClient,
    derivation: &Derivation,
    part: &str,
    changed: Option<&str>,
) -> Result<Vec<InvalidValues>, Error> {
    let (table, join) = (derivation.table(), derivation.join("stored", "shown"));
    let (rows, fence) = match changed {
        None => (format!("{part} as shown join {table} as stored on {join}"), ""),
        Some(changed) => {
            let [shown, stored] = ["shown", "stored"].map(|name| derivation.look_up(name, "changed"));
            let rows =
                format!("{changed} as changed join {part} as shown on {shown} join {table} as stored on {stored}");
            // Without it, the planner could read the column's index before it looks at the changed keys.
            (rows, "offset 0")
        }
    };
    let mut found = Vec::new();
    for (column, value) in derivation.columns() {
        let keys: Vec<String> = derivation.key_columns().iter().map(|key| format!("stored.{key}")).collect();
        let sql = fill!(
            include_str!("invalid_values.sql"),
            rows,
            fence,
            value,
            document = derivation.document(),
            key = keys.join(", "),
            column = quote_identifier(&column.name),
            text = text(column),
            keys_max = INVALID_VALUE_KEYS,
        );
        let row = client.query_one(&sql, &[]).await?;
        let documents = u64::try_from(row.get::<_, i64>(0)).unwrap_or(0);
        if documents > 0 {
            let (column, type_name) = (column.name.clone(), column.type_name.clone());
            found.push(InvalidValues { column, type_name, documents, keys: row.get(1) });
        }
    }
    Ok(found)
}
