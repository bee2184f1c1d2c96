//! Reads, writes and deletes the record of a collection.

use crate::binding::FIRST_TABLE_OID;
use crate::error::Error;
use crate::load::key_json;
use crate::schema::Schema;
use crate::segments;
use millstream_model::{CollectionName, DocumentForm, KeyColumn, KeySpec, shell_word};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, GenericClient, Transaction};

/// What is recorded of a table that a load made or adopted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Its key.
    pub key: KeySpec,
    /// What it stores of its documents.
    pub doc: DocumentForm,
}

/// What is recorded of a table; `None` if no load has made or adopted it.
///
/// # Errors
/// The server's, also if the role may not read our tables.
pub async fn known_collection(client: &Client, schema: &Schema, table_oid: u32) -> Result<Option<Known>, Error> {
    if !schema.exists(client).await? {
        return Ok(None);
    }
    let sql = schema.sql("select key::text, doc from {schema}.collection where table_oid = $1");
    let Some(row) = client.query_opt(&sql, &[&table_oid]).await? else { return Ok(None) };
    let columns: Vec<KeyColumn> = serde_json::from_str(row.get(0))
        .map_err(|_| Error::Ledger("a collection's key is not what this program writes"))?;
    Ok(Some(Known { key: KeySpec { columns }, doc: form(row.get(1))? }))
}

/// Records a table as a collection. If it is recorded already, its name and the types of its key are updated. Returns what
/// it stores of its documents: what was recorded first.
///
/// # Errors
/// The server's.
pub async fn remember_collection(
    client: &impl GenericClient,
    schema: &Schema,
    table_oid: u32,
    name: &CollectionName,
    known: &Known,
    adopted: bool,
) -> Result<DocumentForm, Error> {
    let Known { key, doc } = known;
    let sql = schema.sql(include_str!("collection_remember.sql"));
    let values: [&(dyn ToSql + Sync); 6] =
        [&table_oid, &name.schema, &name.table, &key_json(key), &adopted, &doc.name()];
    form(client.query_one(&sql, &values).await?.get(0))
}

fn form(name: &str) -> Result<DocumentForm, Error> {
    DocumentForm::by_name(name).ok_or(Error::Ledger("what a collection stores of its documents cannot be read"))
}

/// Deletes the record of a collection of this name that waits for a restore of its table, because a load has created
/// the table anew.
///
/// # Errors
/// [`Error::Refused`] when documents wait in its segments.
pub async fn forget_waiting(
    transaction: &Transaction<'_>,
    schema: &Schema,
    name: &CollectionName,
) -> Result<(), Error> {
    let waiting =
        "select table_oid from {schema}.collection where schema_name = $1 and table_name = $2 and table_oid < $3";
    let waiting = schema.sql(waiting);
    for row in transaction.query(&waiting, &[&name.schema, &name.table, &FIRST_TABLE_OID]).await? {
        let table_oid: u32 = row.get(0);
        let segments = segments::list(transaction, schema, table_oid).await?.len();
        if segments > 0 {
            let drop = format!("millstream drop {} --yes", shell_word(name));
            let problem = format!("{segments} segments hold documents of {name}, whose table was not restored yet");
            let hint = format!("restore the table first, or discard these documents: {drop}");
            return Err(Error::refused(problem, hint));
        }
        for table in ["load", "tombstone", "collection"] {
            let sql = format!("delete from {schema}.{table} where table_oid = $1");
            transaction.execute(&sql, &[&table_oid]).await?;
        }
    }
    Ok(())
}
