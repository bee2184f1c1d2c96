//! Emptying a generation that is not shown any more, as soon as nobody can see it.

use super::lock::{BUILD_LOCK_CLASS, MODEL_LOCK_CLASS};
use super::storage::Storage;
use crate::error::Error;
use crate::failpoint;
use crate::limits::{CLEAR_BACKOFF_MAX, CLEAR_LOCK_BUDGET, CLEAR_POLL};
use std::time::Duration;
use tokio::time::Instant;
use tokio_postgres::Client;

/// Empties generations and drops their indexes, so that they can be built. All are locked at once, for
/// at most [`CLEAR_LOCK_BUDGET`] behind running readers, again and again until `patience` is over.
/// Returns false when readers never let it.
///
/// The client must not be in a transaction.
pub(super) async fn clear(client: &Client, stale: &[(&Storage<'_>, i16)], patience: Duration) -> Result<bool, Error> {
    let parts: Vec<String> = stale.iter().map(|(storage, generation)| storage.part(*generation)).collect();
    let deadline = Instant::now() + patience;
    let (mut filled, mut indexes) = (false, Vec::new());
    for part in &parts {
        let row = client.query_one(include_str!("stale.sql"), &[part]).await?;
        filled |= row.get::<_, bool>(0);
        indexes.extend(row.get::<_, Vec<String>>(1));
    }
    if !filled && indexes.is_empty() {
        return Ok(true);
    }
    if filled && !older_are_gone(client, deadline).await? {
        return Ok(false);
    }
    failpoint::hit("stale-unseen").await?;
    let mut backoff = CLEAR_POLL;
    loop {
        match empty(client, &parts, &indexes).await {
            Ok(()) => {
                failpoint::hit("stale-cleared").await?;
                return Ok(true);
            }
            // Query canceled, by the statement timeout.
            Err(Error::Postgres(error)) if error.sqlstate() == Some("57014") => {
                client.batch_execute("rollback").await?;
            }
            Err(error) => return Err(error),
        }
        if Instant::now() + backoff > deadline {
            return Ok(false);
        }
        tokio::time::sleep(backoff).await;
        backoff = (backoff * 2).min(CLEAR_BACKOFF_MAX);
    }
}

/// Waits until every transaction that has a snapshot now has ended: a later snapshot does not show the
/// generation. Source: `WaitForOlderSnapshots` in PostgreSQL's `indexcmds.c`, which waits for virtual
/// transactions as well.
async fn older_are_gone(client: &Client, deadline: Instant) -> Result<bool, Error> {
    let sql = include_str!("open_transactions.sql")
        .replace("{model_class}", &MODEL_LOCK_CLASS.to_string())
        .replace("{build_class}", &BUILD_LOCK_CLASS.to_string());
    let open: Vec<String> = client.query_one(&sql, &[]).await?.get(0);
    let sql = "select not exists (select from pg_catalog.pg_locks \
               where locktype = 'virtualxid' and virtualtransaction = any ($1))";
    while !client.query_one(sql, &[&open]).await?.get::<_, bool>(0) {
        if Instant::now() > deadline {
            return Ok(false);
        }
        tokio::time::sleep(CLEAR_POLL).await;
    }
    Ok(true)
}

/// All that the lock is held for is one flight, whose commit does not wait for the disk: the rows are not shown,
/// and a crash that brings them back does no harm.
async fn empty(client: &Client, parts: &[String], indexes: &[String]) -> Result<(), Error> {
    let all = parts.join(", ");
    let budget_ms = CLEAR_LOCK_BUDGET.as_millis();
    let drops: String = indexes.iter().map(|index| format!("drop index {index}; ")).collect();
    client
        .batch_execute(&format!("begin; set local lock_timeout = 0; set local statement_timeout = {budget_ms}"))
        .await?;
    client.batch_execute(&format!("lock table {all} in access exclusive mode")).await?;
    failpoint::hit("stale-locked").await?;
    let truncate =
        format!("set local statement_timeout = 0; set local synchronous_commit = off; truncate {all}; {drops}commit");
    Ok(client.batch_execute(&truncate).await?)
}
