//! The collection that a model is derived from.

use crate::error::Error;
use crate::record::ChangeRecord;
use millstream_model::{CollectionName, shell_word};
use millstream_pg::quote_name;
use millstream_store::collections::Collection;
use millstream_store::{Schema, collections};
use tokio_postgres::{Client, GenericClient};

pub(crate) async fn collection(client: &Client, schema: &Schema, name: &CollectionName) -> Result<Collection, Error> {
    let found = collections::find(client, schema, name).await?.filter(|collection| collection.present);
    let missing = || Error::refused(format!("there is no collection {name}"), "see `millstream collections`");
    let collection = found.ok_or_else(missing)?;
    collection.require_whole("a read model")?;
    Ok(collection)
}

pub(crate) fn change_record<'a>(schema: &'a Schema, collection: &'a Collection, unlogged: bool) -> ChangeRecord<'a> {
    let table = quote_name(&collection.name);
    ChangeRecord { schema, table_oid: collection.table_oid, table, key: &collection.key, unlogged }
}

pub(crate) async fn is_unlogged(client: &impl GenericClient, table_oid: u32) -> Result<bool, Error> {
    let sql = "select relpersistence = 'u' from pg_catalog.pg_class where oid = $1";
    Ok(client.query_one(sql, &[&table_oid]).await?.get(0))
}

/// Refuses a table from which no model can be derived: a partition, and a table that inherits or is inherited from,
/// because changes through a parent do not fire the triggers of its children; one whose documents are not `jsonb`; and one
/// whose key has other types than are recorded, because rows are looked up by them.
pub(crate) async fn refuse_unfit(client: &impl GenericClient, collection: &Collection) -> Result<(), Error> {
    let sql = "select exists (select from pg_catalog.pg_inherits where $1 in (inhrelid, inhparent)),
                      (select atttypid::regtype::text from pg_catalog.pg_attribute
                       where attrelid = $1 and attname = 'doc')";
    let row = client.query_one(sql, &[&collection.table_oid]).await?;
    let name = &collection.name;
    let (inherits, doc): (bool, Option<String>) = (row.get(0), row.get(1));
    let (problem, hint) = match doc.as_deref() {
        _ if inherits => (
            format!("{name} is a partition, or inherits: not all of its changes can be recorded"),
            "publish a table that stands alone",
        ),
        Some("jsonb") => return refuse_changed_key(client, collection).await,
        other => (
            match other {
                Some(other) => format!("the column doc of {name} is of type {other}, not jsonb"),
                None => format!("{name} has no column doc"),
            },
            "the documents must be in a column doc of type jsonb",
        ),
    };
    Err(Error::refused(problem, hint))
}

async fn refuse_changed_key(client: &impl GenericClient, collection: &Collection) -> Result<(), Error> {
    let names: Vec<&str> = collection.key.iter().map(|column| column.name.as_str()).collect();
    let kinds: Vec<&str> = collection.key.iter().map(|column| column.key_type.sql_name()).collect();
    let changed = client.query_opt(include_str!("key_changed.sql"), &[&collection.table_oid, &names, &kinds]).await?;
    let Some(row) = changed else { return Ok(()) };
    let (column, recorded, now): (&str, &str, Option<&str>) = (row.get(0), row.get(1), row.get(2));
    let name = &collection.name;
    let Some(now) = now else {
        let problem = format!("{name} does not have the column {column} of its key any more");
        return Err(Error::refused(problem, "give the column its name back"));
    };
    let load = format!("millstream load FILE --into {}", shell_word(name));
    let problem = format!("the column {column} of the key of {name} is of type {now} now, and {recorded} is recorded");
    Err(Error::refused(problem, format!("load a document into it, which records the type: {load}")))
}
