//! Finds the document for which a model's expressions fail.

use crate::definition::Derivation;
use crate::error::Error;
use crate::refresh_way::blocks;
use millstream_pg::{ErrorKind, Explained};
use tokio_postgres::Client;

/// The key of the first document, in the order of the table, for which the rows cannot be derived; `None` if there is
/// none. Reads about twice the table: it halves the range of blocks until one is left, and reads that one row by row.
pub(crate) async fn failing_document(client: &Client, derivation: &Derivation) -> Result<Option<String>, Error> {
    let table = derivation.table();
    let (mut first, mut beyond) = (0, blocks(client, table).await?);
    let among =
        |first: u64, beyond: u64| format!("where stored.ctid >= '({first},0)' and stored.ctid < '({beyond},0)'");
    if !fails(client, derivation, &among(first, beyond)).await? {
        return Ok(None);
    }
    while beyond - first > 1 {
        let middle = first + (beyond - first) / 2;
        if fails(client, derivation, &among(first, middle)).await? {
            beyond = middle;
        } else {
            first = middle;
        }
    }
    let keys: Vec<String> = derivation.key_columns().iter().map(|key| format!("stored.{key}")).collect();
    let sql = format!(
        "select stored.ctid::text, pg_catalog.concat_ws(',', {}) from {table} as stored {}",
        keys.join(", "),
        among(first, beyond)
    );
    for row in client.query(&sql, &[]).await? {
        if fails(client, derivation, &format!("where stored.ctid = '{}'", row.get::<_, String>(0))).await? {
            return Ok(Some(row.get(1)));
        }
    }
    Ok(None)
}

/// Whether deriving the rows that the filter leaves fails. Counting whole rows makes the server compute all columns.
async fn fails(client: &Client, derivation: &Derivation, filter: &str) -> Result<bool, Error> {
    let sql = format!("select pg_catalog.count(derived) from ({}) as derived", derivation.rows(filter));
    match client.query_one(&sql, &[]).await.map_err(Error::from) {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == ErrorKind::DataRefused => Ok(true),
        Err(error) => Err(error),
    }
}
