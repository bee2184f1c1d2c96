//! Reads documents of a collection by key, from its segments and its table.

use crate::collection::Collection;
use crate::error::Error;
use crate::schema::Schema;
use crate::segments;
use millstream_model::key_bytes::key_texts;
use millstream_model::{KeyColumn, put_literal};
use millstream_pg::quote_qualified;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};

/// The document of a key as jsonb text, `None` when there is none. `parts` holds one value for each column of the key.
/// It is written as for a cast to the column's type, or as in documents if the key type says how documents write it.
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
    let row = first(client, schema, collection, parts, "select doc::text from {rows} limit 1").await?;
    Ok(row.map(|row| row.get(0)))
}

/// Counts the documents whose key begins with these parts. It reads all of them along the key's index.
///
/// # Errors
/// The server's, also when a part does not fit its type.
pub async fn count(
    client: &mut Client,
    schema: &Schema,
    collection: &Collection,
    parts: &[String],
) -> Result<u64, Error> {
    let row = first(client, schema, collection, parts, "select count(*) from {rows}").await?;
    Ok(row.map_or(0, |row| u64::try_from(row.get::<_, i64>(0)).unwrap_or(0)))
}

/// Runs a query and returns its first row. In the query, `{rows}` stands for the newest row of each key that begins
/// with these parts.
async fn first(
    client: &mut Client,
    schema: &Schema,
    collection: &Collection,
    parts: &[String],
    query: &str,
) -> Result<Option<Row>, Error> {
    assert!(parts.len() <= collection.key.len(), "no part without a column");
    let keys = segments::key_names(collection);
    let conditions: Vec<String> = (1..)
        .zip(keys.iter().zip(&collection.key).take(parts.len()))
        .map(|(n, (name, column))| format!("{name} = (${n}::text)::{}", column.key_type.sql_name()))
        .collect();
    let table = quote_qualified(&collection.name.schema, &collection.name.table);
    let segments = segments::hold(client, schema, collection.table_oid, &collection.name).await?;
    let newest = segments::newest(schema, &table, &keys, &segments);
    let rows = format!("{newest} as newest where {}", conditions.join(" and "));
    let parts: Vec<String> = parts.iter().zip(&collection.key).map(|(part, column)| as_sql(part, column)).collect();
    let parameters: Vec<&(dyn ToSql + Sync)> = parts.iter().map(|part| part as _).collect();
    let row = client.query_opt(&query.replace("{rows}", &rows), &parameters).await;
    let ended = client.batch_execute("rollback").await;
    let row = row?;
    ended?;
    Ok(row)
}

/// A part in SQL's spelling, if the key type says how documents write it; else as it is.
fn as_sql(part: &str, column: &KeyColumn) -> String {
    let mut key = Vec::new();
    match column.key_type.is_spelled().then(|| put_literal(column.key_type, part.as_bytes(), &mut key)) {
        Some(Ok(())) => key_texts(&[column.key_type], &key).concat(),
        _ => part.to_owned(),
    }
}
