//! Reads documents of a collection by key, from its segments and its table.

use crate::collection::Collection;
use crate::error::Error;
use crate::schema::Schema;
use crate::segments;
use crate::whole_document::whole_document;
use millstream_model::key_bytes::key_texts;
use millstream_model::{KeyColumn, put_literal, shell_word};
use millstream_pg::{quote_identifier, quote_name};
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
    let whole = whole_document(collection.doc, &collection.key, "newest");
    let query = |rows: &str| format!("select {whole}::pg_catalog.text from {rows} limit 1");
    let row = first(client, schema, collection, parts, query).await?;
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
    let row =
        first(client, schema, collection, parts, |rows| format!("select pg_catalog.count(*) from {rows}")).await?;
    Ok(row.map_or(0, |row| u64::try_from(row.get::<_, i64>(0)).unwrap_or(0)))
}

/// Runs a query over the newest row of each key that begins with these parts, and returns its first row.
async fn first(
    client: &mut Client,
    schema: &Schema,
    collection: &Collection,
    parts: &[String],
    query: impl Fn(&str) -> String,
) -> Result<Option<Row>, Error> {
    assert!(parts.len() <= collection.key.len(), "no part without a column");
    let keys = segments::key_names(collection);
    let segments = segments::hold(client, schema, collection.table_oid, &collection.name).await?;
    let row = async {
        let types = altered_types(client, collection).await?;
        if let Some(Altered { name, type_name, .. }) = types.iter().flatten().next().filter(|_| !segments.is_empty()) {
            return Err(unlike_segments(collection, name, type_name));
        }
        let columns = || keys.iter().zip(&collection.key).zip(&types);
        let conditions: Vec<String> = (1..=parts.len())
            .zip(columns())
            .map(|(n, ((name, column), altered))| {
                let own = || (column.key_type.sql_name(), EQUAL);
                let (type_name, equal) = altered.as_ref().map_or_else(own, |now| (&now.type_name, &now.equal));
                format!("{name} {equal} (${n}::text)::{type_name}")
            })
            .collect();
        let table = quote_name(&collection.name);
        let newest = segments::newest(schema, &table, &keys, &segments);
        let rows = format!("{newest} as newest where {}", conditions.join(" and "));
        let as_sql = |(part, ((_, column), altered)): (&String, ((&String, &KeyColumn), &Option<Altered>))| {
            if altered.is_some() { part.clone() } else { as_sql(part, column) }
        };
        let parts: Vec<String> = parts.iter().zip(columns()).map(as_sql).collect();
        let parameters: Vec<&(dyn ToSql + Sync)> = parts.iter().map(|part| part as _).collect();
        Ok(client.query_opt(&query(&rows), &parameters).await?)
    }
    .await;
    let ended = client.batch_execute("rollback").await;
    let row = row?;
    ended?;
    Ok(row)
}

/// The operator by which keys are equal. The search path would find others for some types.
const EQUAL: &str = "operator(pg_catalog.=)";

/// A key column that has another type than recorded.
struct Altered {
    name: String,
    /// The type that it has now, as SQL writes it, without a length.
    type_name: String,
    /// The operator by which values of that type are equal.
    equal: String,
}

/// The columns of the key whose type `alter column` has changed since it was recorded, each in its place.
async fn altered_types(client: &Client, collection: &Collection) -> Result<Vec<Option<Altered>>, Error> {
    let names: Vec<&str> = collection.key.iter().map(|column| column.name.as_str()).collect();
    let types: Vec<&str> = collection.key.iter().map(|column| column.key_type.sql_name()).collect();
    let sql = include_str!("documents_altered.sql");
    let rows = client.query(sql, &[&collection.table_oid, &names, &types]).await?;
    let altered = |row: &Row| {
        let type_name = row.get::<_, Option<String>>("type_name")?;
        let equal = row.get::<_, Option<String>>("equal").unwrap_or_else(|| EQUAL.to_owned());
        Some(Altered { name: row.get("name"), type_name, equal })
    };
    Ok(rows.iter().map(altered).collect())
}

fn unlike_segments(collection: &Collection, column: &str, type_name: &str) -> Error {
    let name = &collection.name;
    let recorded = collection.key.iter().find(|known| known.name == column);
    let recorded = recorded.map_or("another type", |column| column.key_type.sql_name());
    Error::refused(
        format!(
            "column {column} of {name} is now of type {type_name}, and documents with keys of type {recorded} wait in \
             segments"
        ),
        format!(
            "give it its type back: alter table {} alter column {} type {recorded}; then: millstream compact {}",
            quote_name(name),
            quote_identifier(column),
            shell_word(name)
        ),
    )
}

/// A part in SQL's spelling, if the key type says how documents write it; else as it is.
fn as_sql(part: &str, column: &KeyColumn) -> String {
    let mut key = Vec::new();
    match column.key_type.is_spelled().then(|| put_literal(column.key_type, part.as_bytes(), &mut key)) {
        Some(Ok(())) => key_texts(&[column.key_type], &key).concat(),
        _ => part.to_owned(),
    }
}
