//! What lanes of both layouts share: their setup, their report, and how they take over their row.

use super::segment_plan::SegmentPlan;
use super::statement::Target;
use crate::error::{CRASHED, Error, TRUNCATED};
use crate::observe::{Event, Observer, Tally};
use crate::reject_limits::RejectLimits;
use millstream_failpoint as failpoint;
use millstream_pg::{ConnInfo, Connection, ErrorKind, Failures, quote_qualified};
use millstream_store::{TableMark, any_row, lane};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::Client;

/// What a lane needs to know.
#[derive(Clone)]
pub(crate) struct LaneSetup {
    pub(crate) db: ConnInfo,
    pub(crate) target: Arc<Target>,
    pub(crate) load_id: i64,
    pub(crate) lane: u16,
    /// The number of the run that owns the lane.
    pub(crate) run: i32,
    pub(crate) batch_rows: usize,
    pub(crate) batch_bytes_max: usize,
    pub(crate) flush_after: Duration,
    /// Age at which the connection is replaced.
    pub(crate) age_max: Duration,
    /// How documents are appended, in the log layout.
    pub(crate) segments: Option<Arc<SegmentPlan>>,
    /// The rejects at which it stops.
    pub(crate) rejects: RejectLimits,
    /// Whether the table was empty when the run began.
    pub(crate) table_empty: bool,
    /// The table that every batch goes into.
    pub(crate) table: TableMark,
    /// Whether earlier runs of the load stored documents.
    pub(crate) stored_before: bool,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) tally: Arc<Tally>,
}

/// What a lane did in this run.
#[derive(Debug, Default)]
pub(crate) struct LaneReport {
    pub(crate) writers: BTreeMap<String, u64>,
    pub(crate) retries: u64,
    pub(crate) deadlocks: u64,
    /// Bytes of WAL of the lane's backend; `None` if the server cannot report them, or the backend was replaced.
    pub(crate) wal_bytes: Option<u64>,
}

impl LaneReport {
    /// Reports an error that may pass and waits before the next try. Returns the error if it will not pass, or has not
    /// passed for too long.
    pub(super) async fn pause(
        &mut self,
        setup: &LaneSetup,
        failures: &mut Failures,
        error: Error,
    ) -> Result<(), Error> {
        let kind = error.kind();
        let Some(after) = failures.next(kind) else { return Err(error) };
        self.retries += 1;
        self.deadlocks += u64::from(kind == ErrorKind::Deadlock);
        let retry = Event::Retry { lane: setup.lane, attempt: failures.count(), after, error: error.to_string() };
        setup.observer.event(retry);
        tokio::time::sleep(after).await;
        Ok(())
    }
}

/// Opens a connection for the lane and reads how many batches are committed. After a reconnect (`again`), it first
/// terminates the recorded backend and raises the epoch, which waits for a commit in flight.
pub(super) async fn take_over(setup: &LaneSetup, again: bool) -> Result<(Connection, i32, i64), Error> {
    let connection = millstream_pg::connect(&setup.db, &setup.target.session(setup.lane)).await?;
    let client = &connection.client;
    setup.target.durability.begin(client).await?;
    let (load_id, lane) = (setup.load_id, i16::try_from(setup.lane).expect("lanes are few"));
    let sql = |template| setup.target.schema.sql(template);
    if again {
        client.execute(&sql(lane::TERMINATE_OWN), &[&load_id, &lane, &setup.run]).await?;
    }
    let row = client
        .query_opt(&sql(lane::ATTACH), &[&load_id, &lane, &setup.run, &i32::from(again)])
        .await?
        .ok_or_else(|| Error::fenced(load_id))?;
    if row.get("emptied") {
        return Err(Error::Emptied { documents: setup.tally.documents(), by: CRASHED });
    }
    failpoint::hit(if again { "lane-reattached" } else { "lane-attached" }).await?;
    let (epoch, batches) = (row.get(0), row.get(1));
    Ok((connection, epoch, batches))
}

/// Finds out what happened to the table when a batch failed. `Some` with its new file if it was rewritten and still has
/// its rows.
///
/// # Errors
/// [`Error::TableMoved`] if it was renamed, replaced or dropped; [`Error::Emptied`] if the load's documents were
/// removed from it.
pub(super) async fn look_at_table(client: &Client, setup: &LaneSetup) -> Result<Option<u32>, Error> {
    let TableMark { oid, name, file } = &setup.table;
    let sql = "select pg_catalog.pg_relation_filenode(c.oid) from pg_catalog.pg_class c \
               join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
               where c.oid = $1 and c.relname = $2 and n.nspname = $3";
    let Some(row) = client.query_opt(sql, &[oid, &name.table, &name.schema]).await? else {
        return Err(Error::TableMoved { collection: name.clone() });
    };
    let file_now: Option<u32> = row.get(0);
    if file.is_none() || file_now == *file {
        return Ok(None);
    }
    let stored = setup.stored_before || setup.tally.documents() > 0;
    if stored && !any_row(client, &quote_qualified(&name.schema, &name.table)).await? {
        return Err(Error::Emptied { documents: setup.tally.documents(), by: TRUNCATED });
    }
    Ok(file_now)
}

/// Bytes of WAL written by this backend so far (PostgreSQL 18 and later).
pub(super) async fn own_wal_bytes(connection: &Connection) -> Option<u64> {
    if connection.server.version_num < 180_000 {
        return None;
    }
    connection.client.batch_execute("select pg_catalog.pg_stat_force_next_flush()").await.ok()?;
    let row = connection
        .client
        .query_one("select wal_bytes::bigint from pg_catalog.pg_stat_get_backend_wal(pg_catalog.pg_backend_pid())", &[])
        .await
        .ok()?;
    u64::try_from(row.try_get::<_, i64>(0).ok()?).ok()
}
