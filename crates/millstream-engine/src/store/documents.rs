//! The documents of a collection, by key.

use super::collections::Collection;
use crate::error::Error;
use millstream_pg::{quote_identifier, quote_qualified};
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

/// The document of a key as jsonb text, `None` when there is none. One part for each column of
/// the key, spelled as for a cast to the column's type.
///
/// # Errors
/// The server's, also when a part does not fit its type.
pub async fn document(client: &Client, collection: &Collection, parts: &[String]) -> Result<Option<String>, Error> {
    assert_eq!(parts.len(), collection.key.len(), "a part for each column");
    let sql = format!("select doc::text from {} limit 1", rows(collection, parts));
    let row = client.query_opt(&sql, &parameters(parts)).await?;
    Ok(row.map(|row| row.get(0)))
}

/// How many documents there are whose key begins with these parts. All of them are counted along the key's index.
///
/// # Errors
/// The server's, also when a part does not fit its type.
pub async fn count(client: &Client, collection: &Collection, parts: &[String]) -> Result<u64, Error> {
    let sql = format!("select count(*) from {}", rows(collection, parts));
    let count: i64 = client.query_one(&sql, &parameters(parts)).await?.get(0);
    Ok(u64::try_from(count).unwrap_or(0))
}

/// The rows whose key begins with these parts.
fn rows(collection: &Collection, parts: &[String]) -> String {
    assert!(parts.len() <= collection.key.len(), "no part without a column");
    let columns = collection.key.iter().take(parts.len()).zip(1..);
    let conditions: Vec<String> = columns
        .map(|(column, n)| format!("{} = (${n}::text)::{}", quote_identifier(&column.name), column.key_type.sql_name()))
        .collect();
    let table = quote_qualified(&collection.name.schema, &collection.name.table);
    format!("{table} where {}", conditions.join(" and "))
}

fn parameters(parts: &[String]) -> Vec<&(dyn ToSql + Sync)> {
    parts.iter().map(|part| part as _).collect()
}
