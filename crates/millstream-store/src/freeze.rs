//! The lock under which an unlogged collection becomes logged, and the trigger that keeps a frozen table from being
//! written.

use crate::error::Error;
use crate::schema::Schema;
use millstream_model::shell_word;
use millstream_pg::advisory::FREEZE;
use millstream_pg::fill;
use std::fmt::Display;
use tokio_postgres::{Client, GenericClient};

/// The trigger that refuses writes into a table that was frozen in place. A table has one, whichever schema of ours its
/// collection is in.
pub const FROZEN_TRIGGER: &str = "millstream_frozen";

/// What lets a collection that was frozen in place take writes again.
pub fn unfreeze_hint(collection: &(impl Display + ?Sized)) -> String {
    format!("let it take writes again: millstream freeze {} --undo", shell_word(collection))
}

/// Refuses to begin a load while its table is being frozen, if the table takes no writes, or if an `unlogged` load was
/// planned for a table that has become logged since. Call it under the lock that
/// [`await_openings`](crate::await_openings) waits for.
///
/// # Errors
/// [`Error::Frozen`], or [`Error::Refused`] for a table that takes no writes; the server's.
pub async fn refuse_frozen(client: &Client, table_oid: u32, collection: &str, unlogged: bool) -> Result<(), Error> {
    let lock = FREEZE.of_table(table_oid).sql("pg_try_advisory_xact_lock_shared");
    let sql = fill!(include_str!("freeze_state.sql"), lock);
    let Some(row) = client.query_opt(&sql, &[&table_oid, &FROZEN_TRIGGER]).await? else { return Ok(()) };
    if row.get("refuses_writes") {
        return Err(Error::refused(format!("{collection} is frozen: it takes no writes"), unfreeze_hint(collection)));
    }
    match row.get("free") && (!unlogged || row.get("is_unlogged")) {
        true => Ok(()),
        false => Err(Error::Frozen { collection: collection.to_owned() }),
    }
}

/// Makes a table, given qualified and quoted, refuse every write. Its owner calls this, in a transaction.
///
/// # Errors
/// The server's.
pub async fn refuse_writes(
    client: &impl GenericClient,
    schema: &Schema,
    table_oid: u32,
    table: &str,
) -> Result<(), Error> {
    let function = format!("{schema}.millstream_frozen_{table_oid}");
    let sql = fill!(include_str!("freeze_writes.sql"), function, trigger = FROZEN_TRIGGER, table);
    Ok(client.batch_execute(&sql).await?)
}

/// Lets a table take writes again. Returns false if nothing kept it from that. Call it in a transaction.
///
/// # Errors
/// The server's.
pub async fn allow_writes(client: &impl GenericClient, schema: &Schema, table_oid: u32) -> Result<bool, Error> {
    let sql = include_str!("freeze_trigger.sql");
    let Some(row) = client.query_opt(sql, &[&table_oid, &FROZEN_TRIGGER, &schema.name()]).await? else {
        return Ok(false);
    };
    let (table, function): (String, Option<String>) = (row.get("table"), row.get("function"));
    client.batch_execute(&format!("drop trigger {FROZEN_TRIGGER} on {table}")).await?;
    if let Some(function) = function {
        client.batch_execute(&format!("drop function {function}()")).await?;
    }
    Ok(true)
}
