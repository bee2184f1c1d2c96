//! Lists, locks and deletes the records of loads.

use crate::error::Error;
use crate::limits::DROP_LOCK_WAIT;
use crate::load::await_openings;
use crate::lock::{at_work, load_lock};
use crate::schema::Schema;
use millstream_pg::advisory::OPEN;
use millstream_pg::{fill, json_rows};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio_postgres::{Client, Transaction};

/// A load as it is listed.
#[derive(Debug, Serialize, Deserialize)]
pub struct LoadSummary {
    /// The load's number.
    pub load_id: i64,
    /// The collection, as it was named when the load began.
    pub collection: String,
    /// Merge mode.
    pub mode: String,
    /// What its last run promised: `durable`, `async` or `unlogged`.
    pub durability: String,
    /// `running`; `crashed` if recorded as running without a session; `stopped`; `finished`.
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

/// An unfinished load of a stream that has a name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct StreamLoad {
    /// The load's number.
    pub load_id: i64,
    /// The collection, as it was named when the load began.
    pub collection: String,
    /// The stream's name.
    pub name: String,
    /// `running`; `crashed` if recorded as running without a session; `stopped`.
    pub state: String,
    /// The position before which all is committed; `None` if nothing is.
    pub committed: Option<u64>,
}

/// The newest loads, at most `limit` of them, newest first.
///
/// # Errors
/// The server's.
pub async fn list(client: &Client, schema: &Schema, limit: u64) -> Result<Vec<LoadSummary>, Error> {
    read(client, schema, None, limit, None).await
}

/// The newest loads whose only source has this name, as that of a stream.
///
/// # Errors
/// The server's.
pub async fn list_of(client: &Client, schema: &Schema, limit: u64, source: &str) -> Result<Vec<LoadSummary>, Error> {
    read(client, schema, None, limit, Some(source)).await
}

/// One load; `None` if it is not recorded.
pub async fn find(client: &Client, schema: &Schema, load_id: i64) -> Result<Option<LoadSummary>, Error> {
    Ok(read(client, schema, Some(load_id), 1, None).await?.pop())
}

/// The unfinished loads of the streams of these names.
///
/// # Errors
/// The server's.
pub async fn of_streams(client: &Client, schema: &Schema, names: &[String]) -> Result<Vec<StreamLoad>, Error> {
    let sql = fill!(include_str!("loads_streams.sql"), schema, state = schema.load_state());
    Ok(json_rows(client, "a load's record", &sql, &[&names]).await?)
}

/// Deletes a load's record with its lanes and rejects. The documents it loaded stay. Returns false if there was no such
/// record.
///
/// # Errors
/// [`Error::LoadRunning`] while a session works for the load.
pub async fn forget(client: &mut Client, schema: &Schema, load_id: i64) -> Result<bool, Error> {
    let transaction = client.transaction().await?;
    transaction.batch_execute(&format!("set local lock_timeout = {}", DROP_LOCK_WAIT.as_millis())).await?;
    lock_idle(&transaction, schema, load_id).await?;
    // A session may have found the load before we locked it.
    await_openings(&transaction).await?;
    let removed = transaction.execute(&schema.sql("delete from {schema}.load where load_id = $1"), &[&load_id]).await?;
    transaction.commit().await?;
    Ok(removed > 0)
}

/// Deletes the records of loads that finished more than `seconds` ago and returns their numbers. Unfinished loads stay,
/// because they can be resumed. Loads in mode `sum` stay, because running one again would count its documents twice.
pub async fn prune(client: &Client, schema: &Schema, seconds: u64) -> Result<Vec<i64>, Error> {
    let rows = client.query(&schema.sql(include_str!("loads_prune.sql")), &[&(seconds as f64)]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Deletes the records of loads that stopped more than `seconds` ago, and returns their numbers. Nobody can resume them
/// afterwards. Loads in mode `sum` stay, and those for which a session works.
///
/// # Errors
/// The server's.
pub async fn prune_stopped(client: &mut Client, schema: &Schema, seconds: u64) -> Result<Vec<i64>, Error> {
    let transaction = client.transaction().await?;
    transaction.batch_execute(&format!("set local lock_timeout = {}", DROP_LOCK_WAIT.as_millis())).await?;
    // While we hold this lock, no load is resumed. It takes longer to delete them with their rejects, so nobody waits for that.
    OPEN.lock_in_transaction(&transaction).await?;
    let abandon = fill!(include_str!("loads_abandon.sql"), schema, sessions = schema.sessions());
    let rows = transaction.query(&abandon, &[&(seconds as f64)]).await?;
    transaction.commit().await?;
    let stopped: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    client.execute(&schema.sql("delete from {schema}.load where load_id = any ($1)"), &[&stopped]).await?;
    Ok(stopped)
}

/// Locks every unfinished load into a table until the transaction ends, so that none of them runs or is resumed
/// meanwhile. Returns their numbers.
///
/// # Errors
/// `LoadRunning` when one of them has a session.
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
/// [`Error::LoadRunning`] when the load has a session.
pub(crate) async fn lock_idle(transaction: &Transaction<'_>, schema: &Schema, load_id: i64) -> Result<(), Error> {
    let locked = load_lock(schema, load_id).try_lock_in_transaction(transaction).await?;
    let backend = at_work(transaction, schema, load_id).await?;
    if locked && backend.is_none() { Ok(()) } else { Err(Error::LoadRunning { load_id, backend }) }
}

async fn read(
    client: &Client,
    schema: &Schema,
    load_id: Option<i64>,
    limit: u64,
    source: Option<&str>,
) -> Result<Vec<LoadSummary>, Error> {
    let sql = fill!(include_str!("loads.sql"), schema, state = schema.load_state());
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    Ok(json_rows(client, "a load's record", &sql, &[&load_id, &limit, &source]).await?)
}
