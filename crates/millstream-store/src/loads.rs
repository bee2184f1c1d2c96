//! Loads on record: listed, forgotten, pruned.

use crate::error::Error;
use crate::limits::DROP_LOCK_WAIT;
use crate::load::await_openings;
use crate::lock::{at_work, load_lock};
use crate::row::optional_count;
use crate::schema::Schema;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio_postgres::{Client, Row, Transaction};

/// A load as it is listed.
#[derive(Debug, Serialize)]
pub struct LoadSummary {
    /// The load's number.
    pub load_id: i64,
    /// The collection, as it was named when the load began.
    pub collection: String,
    /// Merge mode.
    pub mode: String,
    /// What its last run promised: `durable`, `async` or `unlogged`.
    pub durability: String,
    /// `running`; `crashed` when recorded as running, but no process holds it; `stopped`;
    /// `finished`.
    pub state: String,
    /// Why the last run stopped early.
    pub stop_reason: Option<String>,
    /// Documents accounted for, over all runs.
    pub read: u64,
    /// Documents rejected, over all runs.
    pub rejected: u64,
    /// How often the load was begun or resumed.
    pub runs: i32,
    /// UTC, RFC 3339.
    pub started_at: String,
    /// UTC, RFC 3339.
    pub ended_at: Option<String>,
    /// Names of the sources, in order.
    pub sources: Vec<String>,
    /// The receipt of the last run that ended in good order.
    pub receipt: Option<Box<RawValue>>,
}

impl LoadSummary {
    /// Whether every source was read to its end and committed.
    pub fn is_finished(&self) -> bool {
        self.state == "finished"
    }
}

/// All loads, newest first.
pub async fn list(client: &Client, schema: &Schema) -> Result<Vec<LoadSummary>, Error> {
    read(client, schema, None).await
}

/// One load, `None` when it is not on record.
pub async fn find(client: &Client, schema: &Schema, load_id: i64) -> Result<Option<LoadSummary>, Error> {
    Ok(read(client, schema, Some(load_id)).await?.pop())
}

/// Removes a load's record with its lanes and rejects; the documents it loaded stay. Returns
/// false when there was none.
///
/// # Errors
/// [`Error::LoadRunning`] while a process runs it.
pub async fn forget(client: &mut Client, schema: &Schema, load_id: i64) -> Result<bool, Error> {
    let transaction = client.transaction().await?;
    transaction.batch_execute(&format!("set local lock_timeout = {}", DROP_LOCK_WAIT.as_millis())).await?;
    lock_idle(&transaction, schema, load_id).await?;
    // One may have found the load before it was locked.
    await_openings(&transaction).await?;
    let removed = transaction.execute(&schema.sql("delete from {schema}.load where load_id = $1"), &[&load_id]).await?;
    transaction.commit().await?;
    Ok(removed > 0)
}

/// Forgets the loads that finished more than `seconds` ago and returns their numbers. Unfinished
/// loads stay, for they can be resumed; so do loads that sum, for running one again would count
/// its documents twice.
pub async fn prune(client: &Client, schema: &Schema, seconds: u64) -> Result<Vec<i64>, Error> {
    let rows = client.query(&schema.sql(include_str!("loads_prune.sql")), &[&(seconds as f64)]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Takes the lock of every unfinished load into a table until the transaction ends, so that none
/// runs and none is resumed meanwhile. Returns their numbers.
pub async fn lock_unfinished(
    transaction: &Transaction<'_>,
    schema: &Schema,
    table_oid: u32,
) -> Result<Vec<i64>, Error> {
    let unfinished = transaction
        .query(
            &schema.sql("select load_id from {schema}.load where table_oid = $1 and state <> 'finished'"),
            &[&table_oid],
        )
        .await?;
    let unfinished: Vec<i64> = unfinished.iter().map(|row| row.get(0)).collect();
    for load_id in &unfinished {
        lock_idle(transaction, schema, *load_id).await?;
    }
    Ok(unfinished)
}

/// Takes the lock of a load until the transaction ends.
///
/// # Errors
/// [`Error::LoadRunning`] when a session of it lives.
pub(crate) async fn lock_idle(transaction: &Transaction<'_>, schema: &Schema, load_id: i64) -> Result<(), Error> {
    let locked = load_lock(schema, load_id).try_lock_in_transaction(transaction).await?;
    let backend = at_work(transaction, schema, load_id).await?;
    if locked && backend.is_none() { Ok(()) } else { Err(Error::LoadRunning { load_id, backend }) }
}

async fn read(client: &Client, schema: &Schema, load_id: Option<i64>) -> Result<Vec<LoadSummary>, Error> {
    let rows = client.query(&schema.sql_of_sessions(include_str!("loads.sql")), &[&load_id]).await?;
    rows.iter().map(summary).collect()
}

fn summary(row: &Row) -> Result<LoadSummary, Error> {
    let receipt: Option<String> = row.get("receipt");
    Ok(LoadSummary {
        load_id: row.get("load_id"),
        collection: row.get("collection"),
        mode: row.get("mode"),
        durability: row.get("durability"),
        state: row.get("state"),
        stop_reason: row.get("stop_reason"),
        read: optional_count(row, "read").unwrap_or(0),
        rejected: optional_count(row, "rejected").unwrap_or(0),
        runs: row.get("runs"),
        started_at: row.get("started_at"),
        ended_at: row.get("ended_at"),
        sources: row.get("sources"),
        receipt: receipt
            .map(RawValue::from_string)
            .transpose()
            .map_err(|_| Error::Ledger("a load's record holds a receipt that cannot be read"))?,
    })
}
