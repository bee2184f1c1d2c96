//! Finds out what was changed during a load, if that explains why the server refuses its statements.

use crate::error::Error;
use millstream_model::{CollectionName, KeySpec};
use millstream_pg::{ErrorKind, Explained, quote_identifier, quote_name};
use millstream_store::Schema;
use tokio_postgres::Client;

/// The error, or what explains it: our schema is gone, or the table has lost its name or its primary key.
pub(crate) async fn explained(
    client: &Client,
    schema: &Schema,
    (collection, table_oid, key): (&CollectionName, u32, &KeySpec),
    error: Error,
) -> Error {
    // A COPY that is refused before it begins costs the connection, and its own error is then lost.
    let lost = matches!(error, Error::Postgres(_)) && matches!(error.kind(), ErrorKind::Bug | ErrorKind::Transient);
    if !lost && !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Config | ErrorKind::Fenced) {
        return error;
    }
    let sql = include_str!("diagnosis.sql");
    // If the query fails, the error itself is all we have.
    let Ok(row) = client.query_one(sql, &[&schema.name(), &table_oid, &collection.schema, &collection.table]).await
    else {
        return error;
    };
    let [has_schema, has_table, has_key, has_name]: [bool; 4] = std::array::from_fn(|n| row.get(n));
    if !has_schema {
        return Error::refused(
            format!("schema \"{}\" was dropped while the load ran, and with it the load's record", schema.name()),
            "the documents committed so far are in the table; run the same command again: it starts over",
        );
    }
    if !has_name {
        return Error::TableMoved { collection: collection.clone() };
    }
    if has_table && !has_key {
        let columns: Vec<String> = key.columns.iter().map(|column| quote_identifier(&column.name)).collect();
        return Error::Collection {
            collection: collection.clone(),
            problem: "its primary key was dropped while the load ran".into(),
            hint: format!(
                "alter table {} add primary key ({}); then run the same command again: it resumes",
                quote_name(collection),
                columns.join(", ")
            ),
        };
    }
    error
}
