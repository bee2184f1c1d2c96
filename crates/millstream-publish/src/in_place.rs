//! What a freeze in place needs of a table, and its undoing.

use crate::error::Error;
use crate::limits::FREEZE_LOCK_WAIT;
use crate::waiting::in_use;
use millstream_model::shell_word;
use millstream_pg::{quote_identifier, quote_name};
use millstream_store::collections::Collection;
use millstream_store::{FROZEN_TRIGGER, Schema, allow_writes, segments};
use tokio_postgres::{Client, GenericClient, Row};

/// Requires that a trigger can keep every write from the table of a collection, and that its documents are all in the
/// table. Returns whether it refuses writes already.
///
/// # Errors
/// [`Error::Refused`] says what is otherwise, and the way out; the server's.
pub(crate) async fn require_freezable(
    client: &impl GenericClient,
    schema: &Schema,
    collection: &Collection,
) -> Result<bool, Error> {
    let facts = facts(client, schema, collection).await?;
    require_owner(&facts, collection)?;
    require_maker(&facts, collection)?;
    let name = &collection.name;
    let refuse =
        |why: String, out: String| Err(Error::refused(format!("{name} cannot be frozen in place: {why}"), out));
    if !facts.get::<_, bool>("creates") {
        let role: String = facts.get("role");
        let why = format!("role {role} may not create the trigger's function in the schema {}", schema.name());
        return refuse(why, format!("grant create on schema {schema} to {}", quote_identifier(&role)));
    }
    let without = || format!("leave out --in-place: millstream freeze {}", shell_word(name));
    if facts.get("inherits") {
        let why = "it has partitions or child tables, or is one, and what is written by another table's name does not fire \
                   its triggers";
        return refuse(why.into(), without());
    }
    if facts.get("subscribed") {
        let why = "a subscription writes it, and the server's worker fires no triggers of statements";
        return refuse(why.into(), format!("end the subscription; or {}", without()));
    }
    let waiting = segments::list(client, schema, collection.table_oid).await?.len();
    if waiting > 0 {
        let why = format!("documents wait in {waiting} segments to be merged into its table");
        return refuse(why, format!("merge them first: millstream compact {}", shell_word(name)));
    }
    Ok(facts.get("refuses_writes"))
}

/// Lets a collection that was frozen in place take writes again. It stays logged. Returns false if it was not frozen.
///
/// # Errors
/// [`Error::Refused`] when another role owns its table, or when the table is gone; [`Error::InUse`] when others do not
/// release the table within [`FREEZE_LOCK_WAIT`]; the server's.
pub async fn unfreeze(client: &mut Client, schema: &Schema, collection: &Collection) -> Result<bool, Error> {
    schema.require_trusted_writers(&*client).await?;
    let facts = facts(&*client, schema, collection).await?;
    if facts.get("has_trigger") {
        require_owner(&facts, collection)?;
        require_maker(&facts, collection)?;
    }
    match undo(client, schema, collection).await {
        Ok(undone) => Ok(undone),
        Err(error) => Err(in_use(&*client, &[quote_name(&collection.name)], &collection.name, error).await),
    }
}

async fn undo(client: &mut Client, schema: &Schema, collection: &Collection) -> Result<bool, Error> {
    let transaction = client.transaction().await?;
    transaction.batch_execute(&format!("set local lock_timeout = {}", FREEZE_LOCK_WAIT.as_millis())).await?;
    let undone = allow_writes(&transaction, schema, collection.table_oid).await?;
    transaction.commit().await?;
    Ok(undone)
}

async fn facts(client: &impl GenericClient, schema: &Schema, collection: &Collection) -> Result<Row, Error> {
    let sql = include_str!("in_place.sql");
    let row = client.query_opt(sql, &[&collection.table_oid, &schema.name(), &FROZEN_TRIGGER]).await?;
    row.ok_or_else(|| gone(collection))
}

fn require_owner(facts: &Row, collection: &Collection) -> Result<(), Error> {
    if facts.get("owns") {
        return Ok(());
    }
    let owner: String = facts.get("owner");
    let problem =
        format!("only {owner}, who owns the table of {}, can freeze it in place, or undo that", collection.name);
    Err(Error::refused(problem, format!("connect as {owner}")))
}

/// Only who made the trigger's function can replace or drop it.
fn require_maker(facts: &Row, collection: &Collection) -> Result<(), Error> {
    if facts.get("is_maker") {
        return Ok(());
    }
    let maker: String = facts.get("maker");
    let problem = format!("role {maker} froze {} in place, and only that role can change that", collection.name);
    Err(Error::refused(problem, format!("connect as {maker}")))
}

/// Locks the table of a collection for this transaction alone.
///
/// # Errors
/// [`Error::Refused`] when another table has its name; the server's.
pub(crate) async fn lock_own(client: &impl GenericClient, collection: &Collection) -> Result<(), Error> {
    let table = quote_name(&collection.name);
    client.batch_execute(&format!("lock table {table} in access exclusive mode")).await?;
    let oid = "select $1::text::pg_catalog.regclass::pg_catalog.oid";
    let is_own = client.query_one(oid, &[&table]).await?.get::<_, u32>(0) == collection.table_oid;
    if is_own { Ok(()) } else { Err(gone(collection)) }
}

/// The error for a collection whose table is not there.
pub(crate) fn gone(collection: &Collection) -> Error {
    let problem = format!("the table of {} is gone, or has another name now", collection.name);
    Error::refused(problem, "see `millstream collections`")
}
