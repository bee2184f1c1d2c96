//! Values that a model's typed columns cannot hold.

use crate::definition::Derivation;
use crate::definition::text;
use crate::error::Error;
use crate::limits::UNCAST_KEYS;
use millstream_pg::quote_identifier;
use serde::Serialize;
use tokio_postgres::GenericClient;

/// Documents whose value is not valid for a column's type. The column is null there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Uncast {
    /// The column.
    pub column: String,
    /// Its type.
    pub type_name: String,
    /// How many documents.
    pub documents: u64,
    /// Keys of some of them.
    pub keys: Vec<String>,
}

/// Looks for them in one generation. `among` is a SQL condition on its rows, which are named `shown`.
pub(crate) async fn uncast(
    client: &impl GenericClient,
    derivation: &Derivation,
    part: &str,
    among: &str,
) -> Result<Vec<Uncast>, Error> {
    let mut found = Vec::new();
    for (column, value) in derivation.columns() {
        let keys: Vec<String> = derivation.key_columns().iter().map(|key| format!("shown.{key}")).collect();
        let sql = include_str!("uncast.sql")
            .replace("{key}", &keys.join(", "))
            .replace("{part}", part)
            .replace("{table}", derivation.table())
            .replace("{join}", &derivation.join("stored", "shown"))
            .replace("{column}", &quote_identifier(&column.name))
            .replace("{keys_max}", &UNCAST_KEYS.to_string())
            .replace("{among}", among)
            .replace("{text}", &text(column))
            .replace("{value}", value);
        let row = client.query_one(&sql, &[]).await?;
        let documents = u64::try_from(row.get::<_, i64>(0)).unwrap_or(0);
        if documents > 0 {
            let (column, type_name) = (column.name.clone(), column.type_name.clone());
            found.push(Uncast { column, type_name, documents, keys: row.get(1) });
        }
    }
    Ok(found)
}
