//! The documents of a collection, by key: those that wait in segments of the log layout, and the table's.

use super::collections::Collection;
use super::schema::Schema;
use super::segments;
use crate::error::Error;
use millstream_pg::quote_qualified;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Transaction};

/// The document of a key as jsonb text, `None` when there is none. One part for each column of
/// the key, spelled as for a cast to the column's type.
///
/// # Errors
/// The server's, also when a part does not fit its type.
pub async fn document(
    client: &mut Client,
    schema: &Schema,
    collection: &Collection,
    parts: &[String],
) -> Result<Option<String>, Error> {
    assert_eq!(parts.len(), collection.key.len(), "a part for each column");
    let transaction = client.transaction().await?;
    let sql = format!("select doc::text from {} limit 1", rows(&transaction, schema, collection, parts).await?);
    let row = transaction.query_opt(&sql, &parameters(parts)).await?;
    transaction.commit().await?;
    Ok(row.map(|row| row.get(0)))
}

/// How many documents there are whose key begins with these parts. All of them are counted along the key's index.
///
/// # Errors
/// The server's, also when a part does not fit its type.
pub async fn count(
    client: &mut Client,
    schema: &Schema,
    collection: &Collection,
    parts: &[String],
) -> Result<u64, Error> {
    let transaction = client.transaction().await?;
    let sql = format!("select count(*) from {}", rows(&transaction, schema, collection, parts).await?);
    let count: i64 = transaction.query_one(&sql, &parameters(parts)).await?.get(0);
    transaction.commit().await?;
    Ok(u64::try_from(count).unwrap_or(0))
}

/// The rows whose key begins with these parts, the newest of each key.
async fn rows(
    transaction: &Transaction<'_>,
    schema: &Schema,
    collection: &Collection,
    parts: &[String],
) -> Result<String, Error> {
    assert!(parts.len() <= collection.key.len(), "no part without a column");
    let keys = segments::key_names(collection);
    let conditions: Vec<String> = (1..)
        .zip(keys.iter().zip(&collection.key).take(parts.len()))
        .map(|(n, (name, column))| format!("{name} = (${n}::text)::{}", column.key_type.sql_name()))
        .collect();
    let table = quote_qualified(&collection.name.schema, &collection.name.table);
    let segments = segments::hold(transaction.client(), schema, collection.table_oid).await?;
    let newest = segments::newest(schema, &table, &keys, &segments);
    Ok(format!("{newest} as newest where {}", conditions.join(" and ")))
}

fn parameters(parts: &[String]) -> Vec<&(dyn ToSql + Sync)> {
    parts.iter().map(|part| part as _).collect()
}
