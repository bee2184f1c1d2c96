//! Removes the record of a load that read nothing, and the table that it created.

use crate::error::Error;
use crate::limits::DROP_LOCK_WAIT;
use crate::load::{consolidate_lanes, terminate_backends};
use crate::schema::Schema;
use crate::unlogged::any_row;
use millstream_pg::advisory::OPEN;
use tokio_postgres::{Client, Transaction};

/// Removes the record of a load that ended before it read a document, and the table `made` by this run if nobody else
/// uses it: it is empty, and no other load, model or segment refers to it.
///
/// # Errors
/// The server's. Then nothing is removed, which does no harm.
pub async fn withdraw(
    client: &mut Client,
    schema: &Schema,
    load_id: Option<i64>,
    made: Option<u32>,
) -> Result<(), Error> {
    let transaction = client.transaction().await?;
    transaction.batch_execute(&format!("set local lock_timeout = {}", DROP_LOCK_WAIT.as_millis())).await?;
    // While we hold this lock, no load is recorded. A load that found the table checks under this lock that it exists.
    OPEN.lock_in_transaction(&transaction).await?;
    if let Some(load_id) = load_id {
        delete_unread(&transaction, schema, load_id).await?;
    }
    if let Some(table_oid) = made {
        drop_unused(&transaction, schema, table_oid).await?;
    }
    Ok(transaction.commit().await?)
}

/// Removes the record of a load that read nothing and whose lock we hold; `false` if it has read something.
pub async fn discard_unread(client: &mut Client, schema: &Schema, load_id: i64) -> Result<bool, Error> {
    let transaction = client.transaction().await?;
    // An orphaned backend of the load commits before this, or never.
    terminate_backends(&transaction, schema, load_id).await?;
    consolidate_lanes(&transaction, schema, load_id).await?;
    let discarded = delete_unread(&transaction, schema, load_id).await?;
    if discarded {
        transaction.commit().await?;
    }
    Ok(discarded)
}

async fn delete_unread(transaction: &Transaction<'_>, schema: &Schema, load_id: i64) -> Result<bool, Error> {
    let sql = schema.sql("delete from {schema}.load where load_id = $1 and state <> 'finished' and read = 0");
    Ok(transaction.execute(&sql, &[&load_id]).await? > 0)
}

async fn drop_unused(transaction: &Transaction<'_>, schema: &Schema, table_oid: u32) -> Result<(), Error> {
    let name = "select pg_catalog.format('%I.%I', n.nspname, c.relname)
                from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
                where c.oid = $1 and c.relkind = 'r'";
    let Some(row) = transaction.query_opt(name, &[&table_oid]).await? else { return Ok(()) };
    let table: String = row.get(0);
    transaction.batch_execute(&format!("lock table {table} in access exclusive mode")).await?;
    let unused = transaction.query_one(&schema.sql(include_str!("table_unused.sql")), &[&table_oid, &table]).await?;
    if !unused.get::<_, bool>(0) || any_row(transaction, &table).await? {
        return Ok(());
    }
    for sql in
        ["delete from {schema}.collection where table_oid = $1", "delete from {schema}.tombstone where table_oid = $1"]
    {
        transaction.execute(&schema.sql(sql), &[&table_oid]).await?;
    }
    transaction.batch_execute(&format!("drop table {table}")).await?;
    Ok(())
}
