//! The name of a collection: what else may have it, and where a table has gone that had it.

use crate::error::Error;
use crate::request::LoadRequest;
use millstream_model::{CollectionName, shell_word};
use tokio_postgres::Client;

/// Requires that a table of this name may be created.
///
/// # Errors
/// [`Error::Collection`] when a type has the name, or when the table was to be adopted.
pub(super) async fn require_free(client: &Client, request: &LoadRequest) -> Result<(), Error> {
    let name = &request.collection;
    let refuse = |problem: String, hint: String| Error::Collection { collection: name.clone(), problem, hint };
    let found = client.query_opt(include_str!("type_named.sql"), &[&name.schema, &name.table]).await?;
    if let Some(found) = found {
        let problem = format!("it is {}, and a table may not have the same name", found.get::<_, &str>("kind"));
        return Err(refuse(problem, "choose another name with --into".to_owned()));
    }
    if request.adopt {
        let hint = "check the name in --into, or leave out --adopt to create the table".to_owned();
        return Err(refuse("there is no such table to adopt".into(), hint));
    }
    Ok(())
}

/// The result of what was done with a table of this name. If the server did not find it, because whoever had locked it has
/// renamed or dropped it, the error says so.
///
/// # Errors
/// Those of the result, and the server's.
pub(super) async fn explained<T>(
    client: &Client,
    name: &CollectionName,
    table: u32,
    result: Result<T, Error>,
) -> Result<T, Error> {
    match result {
        Err(error) if error.is_unknown_table() => Err(lost(client, name, table).await?.unwrap_or(error)),
        other => other,
    }
}

/// Why a table has lost this name while a load began; `None` if it has it still.
///
/// # Errors
/// The server's.
pub(super) async fn lost(client: &Client, name: &CollectionName, table: u32) -> Result<Option<Error>, Error> {
    let sql = "select n.nspname::text, c.relname::text from pg_catalog.pg_class c \
               join pg_catalog.pg_namespace n on n.oid = c.relnamespace where c.oid = $1";
    let Some(row) = client.query_opt(sql, &[&table]).await? else { return Ok(Some(dropped(name))) };
    let now = CollectionName { schema: row.get(0), table: row.get(1) };
    Ok((now != *name).then(|| Error::Collection {
        collection: name.clone(),
        problem: format!("the table was renamed to {now} while the load began"),
        hint: format!("load into it under that name with --into {}; nothing was loaded", shell_word(&now)),
    }))
}

/// The table was dropped.
pub(super) fn dropped(name: &CollectionName) -> Error {
    Error::Collection {
        collection: name.clone(),
        problem: "the table was dropped while the load began".into(),
        hint: "run the same command again".into(),
    }
}
