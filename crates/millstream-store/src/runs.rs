//! Runs of loads into a table: which are running, and which have lost their sessions.
//!
//! A run without a session was killed, or it will reconnect when the server or the network is back. We cannot know
//! which.

use crate::error::Error;
use crate::limits::{LOAD_LOCK_POLL, LOST_RUN_WAIT};
use crate::load::{Identity, consolidate_lanes, record_end};
use crate::loads::lock_idle;
use crate::recorded_mode::compares_versions;
use crate::schema::Schema;
use millstream_pg::Poll;
use millstream_pg::fill;
use tokio_postgres::{Client, GenericClient, Row, Transaction};

/// The latest run of an unfinished load.
#[derive(Debug)]
pub struct UnfinishedRun {
    /// The load's number.
    pub load_id: i64,
    /// Its place among all runs.
    pub run_order: i64,
    /// Its merge mode.
    pub mode: String,
    /// Whether its documents go into segments.
    pub appends: bool,
    /// Whether it has a session, so that it may still commit.
    pub at_work: bool,
    /// Whether it is recorded as running but has no session: it was killed, or it lost its connections and may
    /// reconnect.
    pub lost: bool,
    /// Whether documents of a later run wait in segments.
    pub followed: bool,
}

/// The latest runs of unfinished loads into a table, the oldest first.
pub async fn runs(client: &impl GenericClient, schema: &Schema, table_oid: u32) -> Result<Vec<UnfinishedRun>, Error> {
    let rows =
        client.query(&fill!(include_str!("runs.sql"), schema, sessions = schema.sessions()), &[&table_oid]).await?;
    let run = |row: &Row| UnfinishedRun {
        load_id: row.get("load_id"),
        run_order: row.get("run_order"),
        mode: row.get("mode"),
        appends: row.get::<_, &str>("layout") == "log",
        at_work: row.get("at_work"),
        lost: row.get("running") && !row.get::<_, bool>("at_work"),
        followed: row.get("followed"),
    };
    Ok(rows.iter().map(run).collect())
}

/// Whether a running load compares versions and deletes. Other loads must then check for tombstones from their start.
pub async fn is_deleting(client: &Client, schema: &Schema, table_oid: u32) -> Result<bool, Error> {
    let runs = runs(client, schema, table_oid).await?;
    Ok(runs.iter().any(|run| run.at_work && compares_versions(&run.mode) == (true, true)))
}

/// Refuses the first load that deletes by version while a running load compares versions without checking for
/// tombstones, and the other way round. Call it under the lock that every load takes when it begins. `own` is the load
/// that this run resumes.
///
/// # Errors
/// [`Error::Refused`] names the running load.
pub async fn refuse_unchecked_deletes(
    client: &Client,
    schema: &Schema,
    identity: &Identity,
    own: Option<i64>,
) -> Result<(), Error> {
    let (newest, deletes) = compares_versions(&identity.mode);
    if !newest || (identity.checks_tombstones && !deletes) {
        return Ok(());
    }
    let any = schema.sql("select exists (select from {schema}.tombstone where table_oid = $1)");
    if deletes && client.query_one(&any, &[&identity.table_oid]).await?.get(0) {
        return Ok(());
    }
    let others = runs(client, schema, identity.table_oid).await?;
    let mut others = others.iter().filter(|run| run.at_work && Some(run.load_id) != own);
    let found = others.find(|run| compares_versions(&run.mode) == (true, !deletes));
    let Some(UnfinishedRun { load_id, .. }) = found else { return Ok(()) };
    Err(if deletes {
        let problem = format!(
            "load {load_id} runs in mode newest without --delete-when, and does not check for what this load deletes"
        );
        Error::refused(problem, "wait until it has ended; only the first load that deletes must wait")
    } else {
        let problem = format!("load {load_id} began at the same time, and deletes documents");
        Error::refused(problem, "run the same command again")
    })
}

/// Closes a run that has lost its sessions, so that it commits nothing if it reconnects. What is written from now on
/// takes effect after all of its documents. False if the run has reconnected already.
pub async fn close_lost_run(client: &mut Client, schema: &Schema, load_id: i64, why: &str) -> Result<bool, Error> {
    let transaction = client.transaction().await?;
    match lock_idle(&transaction, schema, load_id).await {
        Err(Error::LoadRunning { .. }) => return Ok(false),
        locked => locked?,
    }
    close_locked_run(&transaction, schema, load_id, why).await?;
    transaction.commit().await?;
    Ok(true)
}

/// The same, in a transaction that already holds the load's lock.
pub async fn close_locked_run(
    transaction: &Transaction<'_>,
    schema: &Schema,
    load_id: i64,
    why: &str,
) -> Result<(), Error> {
    close_run(transaction, schema, load_id, &format!("its sessions were lost, and {why}")).await
}

/// Closes a run, so that it commits nothing more.
pub(crate) async fn close_run(
    transaction: &Transaction<'_>,
    schema: &Schema,
    load_id: i64,
    reason: &str,
) -> Result<(), Error> {
    let running = schema.sql("select from {schema}.load where load_id = $1 and state = 'running' for update");
    if transaction.query_opt(&running, &[&load_id]).await?.is_some() {
        consolidate_lanes(transaction, schema, load_id).await?;
        record_end(transaction, schema, load_id, "stopped", Some(reason), None).await?;
    }
    Ok(())
}

/// Runs into a table that have lost their sessions and do not reconnect within `LOST_RUN_WAIT`.
pub async fn lost_for_good(
    client: &Client,
    schema: &Schema,
    table_oid: u32,
    which: fn(&UnfinishedRun) -> bool,
) -> Result<Vec<UnfinishedRun>, Error> {
    let poll = Poll::new(LOAD_LOCK_POLL, LOST_RUN_WAIT);
    loop {
        let lost = runs(client, schema, table_oid).await?.into_iter().filter(|run| run.lost && which(run));
        let lost: Vec<UnfinishedRun> = lost.collect();
        if lost.is_empty() || !poll.again().await {
            return Ok(lost);
        }
    }
}
