//! Removes generations that are no longer shown, as soon as nobody can see them.

use crate::error::Error;
use crate::limits::{LOCK_PAUSE_MIN, VACUUM_HELD_WAIT};
use crate::lock::lock_exclusively;
use crate::storage::Storage;
use millstream_failpoint as failpoint;
use millstream_pg::advisory::{BUILD, MODEL};
use millstream_pg::{Poll, fill};
use std::time::{Duration, Instant};
use tokio_postgres::Client;

/// Removes generations, so that they can be built again. Tries to lock all that readers know of at once, until
/// `patience` is over. Returns false if readers did not release them in time.
///
/// The client must not be in a transaction.
pub(crate) async fn clear(client: &Client, stale: &[(&Storage<'_>, i16)], patience: Duration) -> Result<bool, Error> {
    let deadline = Instant::now() + patience;
    let (mut there, mut attached, mut filled) = (Vec::new(), Vec::new(), false);
    for (storage, generation) in stale {
        let part = storage.part(*generation);
        let row = client.query_one(include_str!("stale.sql"), &[&part]).await?;
        if row.get(1) {
            filled |= row.get::<_, bool>(2);
            attached.push((storage.parts(), part.clone()));
        }
        if row.get(0) {
            there.push(part);
        }
    }
    if there.is_empty() {
        return Ok(true);
    }
    if filled && !older_are_gone(client, deadline).await? {
        return Ok(false);
    }
    failpoint::hit("stale-unseen").await?;
    if !attached.is_empty() && !detach(client, &attached, deadline).await? {
        return Ok(false);
    }
    // They are detached, so nobody uses them.
    client.batch_execute(&format!("drop table {}", there.join(", "))).await?;
    failpoint::hit("stale-cleared").await?;
    Ok(true)
}

/// The transactions that have a snapshot, and the session with the oldest one, in words.
async fn open_transactions(client: &Client) -> Result<(Vec<String>, Option<String>), Error> {
    let sql = fill!(include_str!("open_transactions.sql"), model_class = MODEL.0, build_class = BUILD.0);
    let row = client.query_one(&sql, &[]).await?;
    Ok((row.get(0), row.get(1)))
}

/// The session with the oldest snapshot, in words.
pub(crate) async fn oldest_reader(client: &Client) -> Result<Option<String>, Error> {
    Ok(open_transactions(client).await?.1)
}

/// Waits until every transaction that has a snapshot now has ended: a later snapshot does not show the
/// generation. Source: `WaitForOlderSnapshots` in PostgreSQL's `indexcmds.c`, which waits for virtual
/// transactions as well.
async fn older_are_gone(client: &Client, deadline: Instant) -> Result<bool, Error> {
    let (open, _) = open_transactions(client).await?;
    let sql = "select not exists (select from pg_catalog.pg_locks \
               where locktype = 'virtualxid' and virtualtransaction = any ($1))";
    let poll = Poll::until(LOCK_PAUSE_MIN, deadline.into());
    while !client.query_one(sql, &[&open]).await?.get::<_, bool>(0) {
        if !poll.again().await {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Detaches tables from those that readers open. The locks are held for one round trip, whose commit does not wait for
/// the disk. If a crash attaches the tables again, they are not shown.
async fn detach(client: &Client, attached: &[(String, String)], deadline: Instant) -> Result<bool, Error> {
    let locked: Vec<String> = attached.iter().map(|(parts, part)| format!("only {parts}, only {part}")).collect();
    let lock = format!("lock table {} in access exclusive mode", locked.join(", "));
    let parts: Vec<String> = attached.iter().map(|(_, part)| format!("only {part}")).collect();
    client.batch_execute("begin").await?;
    if !lock_from_vacuum(client, &parts.join(", "), deadline).await?
        || !lock_exclusively(client, &lock, deadline).await?
    {
        client.batch_execute("rollback").await?;
        return Ok(false);
    }
    failpoint::hit("stale-locked").await?;
    let detach: String =
        attached.iter().map(|(parts, part)| format!("alter table {parts} detach partition {part}; ")).collect();
    client.batch_execute(&format!("set local synchronous_commit = off; {detach}commit")).await?;
    Ok(true)
}

/// Takes a lock that keeps out vacuum and analyze, but not readers, in an open transaction. Otherwise a vacuum would
/// make the short tries to lock out readers fail for as long as it runs: an autovacuum yields only to a session that
/// waits.
async fn lock_from_vacuum(client: &Client, parts: &str, deadline: Instant) -> Result<bool, Error> {
    let wait_ms = deadline.saturating_duration_since(Instant::now()).max(VACUUM_HELD_WAIT).as_millis();
    let lock = format!("set local lock_timeout = {wait_ms}; lock table {parts} in share update exclusive mode");
    match client.batch_execute(&lock).await.map_err(Error::from) {
        Ok(()) => Ok(true),
        // Lock not available.
        Err(Error::Postgres(error)) if error.sqlstate() == Some("55P03") => Ok(false),
        Err(error) => Err(error),
    }
}
