//! What a collection's record says of its key.

use super::load::key_json;
use super::schema::Schema;
use crate::error::Error;
use millstream_model::{CollectionName, KeyColumn, KeySpec};
use tokio_postgres::{Client, GenericClient};

/// The key of a table that a load made or adopted, `None` for any other table.
pub(crate) async fn known_collection(
    client: &Client,
    schema: &Schema,
    table_oid: u32,
) -> Result<Option<KeySpec>, Error> {
    if !schema.exists(client).await? {
        return Ok(None);
    }
    let sql = schema.sql("select key::text from {schema}.collection where table_oid = $1");
    let Some(row) = client.query_opt(&sql, &[&table_oid]).await? else { return Ok(None) };
    let columns: Vec<KeyColumn> = serde_json::from_str(row.get(0))
        .map_err(|_| Error::Ledger("a collection's key is not what this program writes"))?;
    Ok(Some(KeySpec { columns }))
}

/// Records a table as a collection; a record that is there stays, but follows a rename.
pub(crate) async fn remember_collection(
    client: &impl GenericClient,
    schema: &Schema,
    table_oid: u32,
    name: &CollectionName,
    key: &KeySpec,
    adopted: bool,
) -> Result<(), Error> {
    let sql = schema.sql(include_str!("collection_remember.sql"));
    client.execute(&sql, &[&table_oid, &name.schema, &name.table, &key_json(key), &adopted]).await?;
    Ok(())
}
