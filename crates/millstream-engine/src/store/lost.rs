//! Runs that have lost their sessions: what was killed, and what will be back when the server or the network is. Which
//! of the two it is cannot be told.

use super::load::settle;
use super::loads::lock_idle;
use super::schema::Schema;
use super::segments::{Run, list, runs};
use crate::error::Error;
use crate::limits::{LOAD_LOCK_POLL, LOST_RUN_WAIT};
use tokio::time::Instant;
use tokio_postgres::{Client, Transaction};

/// Settles a run that has lost its sessions, so that nothing of it is committed when it comes back: what is written
/// now takes effect after all of its documents. False when it is back already.
pub(crate) async fn settle_lost(client: &mut Client, schema: &Schema, load_id: i64, why: &str) -> Result<bool, Error> {
    let transaction = client.transaction().await?;
    match lock_idle(&transaction, schema, load_id).await {
        Err(Error::LoadRunning { .. }) => return Ok(false),
        locked => locked?,
    }
    settle_locked(&transaction, schema, load_id, why).await?;
    transaction.commit().await?;
    Ok(true)
}

/// The same in a transaction that has the load's lock.
pub(super) async fn settle_locked(
    transaction: &Transaction<'_>,
    schema: &Schema,
    load_id: i64,
    why: &str,
) -> Result<(), Error> {
    let running = schema.sql("select from {schema}.load where load_id = $1 and state = 'running' for update");
    if transaction.query_opt(&running, &[&load_id]).await?.is_some() {
        settle(transaction, schema, load_id).await?;
        let (close, receipt) = (schema.sql(include_str!("load_close.sql")), None::<String>);
        transaction
            .execute(&close, &[&load_id, &"stopped", &format!("its sessions were lost, and {why}"), &receipt])
            .await?;
    }
    Ok(())
}

/// Sees to it that runs into a table that have lost their sessions append nothing any more, unless their documents
/// wait already, so that the table takes none in any case.
pub(crate) async fn settle_appending(client: &mut Client, schema: &Schema, table_oid: u32) -> Result<(), Error> {
    if !list(client, schema, table_oid).await?.is_empty() {
        return Ok(());
    }
    for run in lost_for_good(client, schema, table_oid, |run| run.appends).await? {
        settle_lost(client, schema, run.load_id, "a load into the table began").await?;
    }
    Ok(())
}

/// Runs into a table that have lost their sessions and do not come back in the time that they have.
pub(super) async fn lost_for_good(
    client: &Client,
    schema: &Schema,
    table_oid: u32,
    which: fn(&Run) -> bool,
) -> Result<Vec<Run>, Error> {
    let deadline = Instant::now() + LOST_RUN_WAIT;
    loop {
        let lost = runs(client, schema, table_oid).await?.into_iter().filter(|run| run.lost && which(run));
        let lost: Vec<Run> = lost.collect();
        if lost.is_empty() || Instant::now() > deadline {
            return Ok(lost);
        }
        tokio::time::sleep(LOAD_LOCK_POLL).await;
    }
}
