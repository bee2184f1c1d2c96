//! The ledger of a lane: its row on the server, which says who owns the lane and what of it is committed.
//!
//! Lanes of both layouts keep one. The ledger opens the connection, commits, and finds out after a lost connection what
//! was committed.

use super::lanes::Lanes;
use crate::error::{EmptiedBy, Error};
use crate::lifecycle::OwnedLoad;
use crate::observe::Event;
use crate::watched::{Harmless, Stake, Watched};
use millstream_failpoint as failpoint;
use millstream_model::{Counters, Position};
use millstream_pg::{Connection, ErrorKind, Explained, Failures, may_pass};
use millstream_store::limits::REJECT_ROWS;
use millstream_store::{Advance, Error as StoreError, RejectedDocument, insert_rejects, lane};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::time::Instant;
use tokio_postgres::{Client, Statement};

/// What a lane needs to know.
pub(crate) struct LaneSetup {
    /// Its number.
    pub(crate) lane: u16,
    /// Its first connection, until it has taken it.
    pub(crate) connection: Option<Connection>,
    /// The table that every batch goes into, as the lane knows it.
    pub(crate) table: Watched,
    pub(crate) lanes: Arc<Lanes>,
}

impl LaneSetup {
    /// Finds out what happened to the table since the run began. `None` if nothing did.
    ///
    /// # Errors
    /// The change, if it matters: see [`Watched::look`]. To the log layout, only the table's name matters: it writes
    /// into other tables.
    async fn look_at_table(&self, client: &Client) -> Result<Option<Harmless>, Error> {
        let Lanes { plan, owned, around, .. } = &*self.lanes;
        let documents = owned.stored() + around.tally.documents();
        let stake = Stake { load_id: owned.load_id, documents, adds_up: plan.mode.adds_up() };
        let seen = self.table.look(client, plan.schema(), stake).await;
        match seen {
            Err(Error::TableChanged { .. } | Error::Emptied { .. }) if !plan.request.layout.fills_table => Ok(None),
            seen => seen,
        }
    }
}

/// What a lane did in this run.
#[derive(Debug, Default)]
pub(crate) struct LaneReport {
    pub(crate) writers: BTreeMap<String, u64>,
    pub(crate) retries: u64,
    pub(crate) deadlocks: u64,
    /// Bytes of WAL of the lane's backend; `None` if the server cannot report them, or the backend was replaced.
    pub(crate) wal_bytes: Option<u64>,
    /// Whether it was cut off: what was in flight is rolled back.
    pub(crate) cut: bool,
}

/// What a lane makes on each of its connections.
pub(super) trait OnConnection: Sized + Send {
    /// Makes it.
    fn make(setup: &LaneSetup, client: &Client) -> impl Future<Output = Result<Self, Error>> + Send;
}

/// A connection that owns the lane.
pub(super) struct Link<M> {
    pub(super) connection: Connection,
    /// What the lane made on it.
    pub(super) made: M,
    opened: Instant,
    advance: Statement,
    reject: Statement,
    /// Every commit checks that the lane's row still has this epoch.
    pub(super) epoch: i32,
}

/// The lane's row and the connection that owns it.
pub(super) struct Ledger<M> {
    pub(super) setup: LaneSetup,
    pub(super) link: Link<M>,
    /// Commits that the lane's row counts.
    commits: i64,
    pub(super) report: LaneReport,
    reconnected: bool,
}

/// What a commit adds to the lane's row.
pub(super) struct Entry<'a> {
    /// Everything of the lane up to here is committed with it.
    pub(super) mark: Position,
    /// Hash of the sources up to there.
    pub(super) prefix_hash: u128,
    pub(super) counters: Counters,
    pub(super) rejects: Vec<&'a RejectedDocument>,
    /// What became of its documents in the transforms of the load.
    pub(super) outcomes: Vec<u64>,
}

/// What the lane's row says after the connection was lost.
pub(super) enum Found {
    /// What we know to be committed, and no more.
    Same,
    /// Also the commit whose answer was lost.
    Committed,
    /// So many commits less, because the server crashed.
    Missing(i64),
}

/// More is committed than was sent.
pub(super) const UNSENT: Error =
    Error::Store(StoreError::Ledger("a lane's row counts commits that the lane did not send"));

impl<M: OnConnection> Ledger<M> {
    /// Takes over the lane's row, on the connection that is there or on others. Waits for what holds a lock on the table.
    pub(super) async fn open(mut setup: LaneSetup) -> Result<Self, Error> {
        let (mut report, mut failures) = (LaneReport::default(), Failures::default());
        loop {
            let attached = Box::pin(attach(&mut setup, false)).await;
            match attached {
                Ok((link, commits)) => return Ok(Self { setup, link, commits, report, reconnected: false }),
                Err(error) => pause(&setup, &mut report, &mut failures, error).await?,
            }
        }
    }

    /// Whether the connection is so old that another should replace it.
    pub(super) fn is_aged(&self) -> bool {
        self.link.opened.elapsed() > self.setup.lanes.plan.request.lane_age_max
    }

    pub(super) fn client(&self) -> &Client {
        &self.link.connection.client
    }

    /// Counts a batch that is committed.
    pub(super) fn wrote(&mut self, writer: &'static str) {
        *self.report.writers.entry(writer.to_owned()).or_default() += 1;
    }

    /// The end of a lane, with its report. `None` if its work was cut off. What the server does for it is then cancelled,
    /// and the load's record says what is committed.
    pub(super) async fn close(mut self, ended: Option<Result<(), Error>>) -> (LaneReport, Result<(), Error>) {
        self.report.cut = ended.is_none();
        if self.report.cut {
            self.link.connection.cancel().await;
        } else if matches!(ended, Some(Ok(()))) && !self.reconnected {
            self.report.wal_bytes = own_wal_bytes(&self.link.connection).await;
        }
        (self.report, ended.unwrap_or(Ok(())))
    }

    /// Stores the rejects, the watermark and the counters in the open transaction, and commits it. All of it goes in
    /// one flight, except that more than `REJECT_ROWS` rejects take several statements first.
    pub(super) async fn commit(&mut self, entry: Entry<'_>) -> Result<(), Error> {
        let Entry { mark, prefix_hash, counters, rejects, outcomes } = entry;
        assert_eq!(counters.read, counters.accounted(), "every document of a batch is in exactly one column");
        let Link { connection, advance, reject, epoch, .. } = &self.link;
        let client = &connection.client;
        let insert = |some| insert_rejects(client, reject, self.setup.lanes.owned.load_id, some);
        let mut chunks = rejects.chunks(REJECT_ROWS);
        let last_rejects = chunks.next_back().unwrap_or_default();
        for some in chunks {
            insert(some).await?;
        }
        let line = Advance {
            load_id: self.setup.lanes.owned.load_id,
            lane: self.setup.lane,
            epoch: *epoch,
            source: mark.source,
            offset: mark.offset,
            prefix_hash,
            counters,
            reject_bytes: kept_bytes(rejects.iter().copied()),
            outcomes: &outcomes,
            table: &self.setup.table.mark,
        };
        failpoint::hit("batch-advancing").await?;
        let commit = async { client.batch_execute("commit").await.map_err(StoreError::from) };
        let sent = async { failpoint::hit("commit-sent").await.map_err(StoreError::from) };
        tokio::try_join!(
            biased;
            insert(last_rejects),
            line.execute(client, advance),
            commit,
            sent,
        )?;
        self.commits += 1;
        Ok(())
    }

    /// As the function [`pause`], for this lane.
    pub(super) async fn pause(&mut self, failures: &mut Failures, error: Error) -> Result<(), Error> {
        pause(&self.setup, &mut self.report, failures, error).await
    }

    /// Whether the connection can still be used. Rolls back.
    pub(super) async fn rolls_back(&self) -> bool {
        !self.client().is_closed() && self.client().batch_execute("rollback").await.is_ok()
    }

    /// Reconnects until it succeeds, and finds out what is committed. `sent` says whether a commit was on its way.
    pub(super) async fn recover(&mut self, failures: &mut Failures, sent: bool) -> Result<Found, Error> {
        loop {
            match self.reconnect(sent).await {
                Ok(found) => return Ok(found),
                Err(error) => self.pause(failures, error).await?,
            }
        }
    }

    /// The same, with one try.
    pub(super) async fn reconnect(&mut self, sent: bool) -> Result<Found, Error> {
        // A pool, or the limit of a role, may have no second connection for the lane.
        self.link.connection.abandon();
        let (link, commits) = Box::pin(attach(&mut self.setup, true)).await?;
        (self.link, self.reconnected) = (link, true);
        let before = std::mem::replace(&mut self.commits, commits);
        match commits - before {
            0 => Ok(Found::Same),
            1 if sent => Ok(Found::Committed),
            more if more > 0 => Err(UNSENT),
            less => Ok(Found::Missing(-less)),
        }
    }

    /// Whether a commit failed because the table changed in a way that does not matter. Reconnect, and try it again.
    ///
    /// # Errors
    /// The change, if it matters: see [`Watched::look`].
    pub(super) async fn finds_another_table(&self, error: &Error) -> Result<bool, Error> {
        if matches!(error, Error::TableDiffers) {
            return Ok(true);
        }
        if may_pass(error.kind()) || !self.rolls_back().await {
            return Ok(false);
        }
        match self.setup.look_at_table(self.client()).await {
            Ok(found) => Ok(found.is_some()),
            // A COPY that is refused before it begins costs the connection. What refused it says more.
            Err(lost) if matches!(lost.kind(), ErrorKind::Transient | ErrorKind::Bug) => Ok(false),
            Err(differs) => Err(differs),
        }
    }
}

/// Reports an error that may pass and waits before the next try. Returns the error if it will not pass, or has not passed
/// for too long.
async fn pause(setup: &LaneSetup, report: &mut LaneReport, failures: &mut Failures, error: Error) -> Result<(), Error> {
    let kind = error.kind();
    let Some(after) = failures.next(kind) else { return Err(error) };
    report.retries += 1;
    report.deadlocks += u64::from(kind == ErrorKind::Deadlock);
    let retry = Event::Retry { lane: setup.lane, attempt: failures.count(), after, error: error.to_string() };
    setup.lanes.around.observer.event(retry);
    tokio::time::sleep(after).await;
    Ok(())
}

/// Bytes that are kept of rejects.
pub(super) fn kept_bytes<'a>(rejects: impl IntoIterator<Item = &'a RejectedDocument>) -> u64 {
    rejects.into_iter().map(|reject| reject.bytes.len() as u64).sum()
}

/// Gives a connection of the lane all that it needs, and reads how many commits its row counts. After a
/// reconnect (`again`), it first terminates the recorded backend and raises the epoch, which waits for a commit in
/// flight, and looks at the table.
async fn attach<M: OnConnection>(setup: &mut LaneSetup, again: bool) -> Result<(Link<M>, i64), Error> {
    let connection = match setup.connection.take() {
        Some(connection) => connection,
        None => millstream_pg::connect(&setup.lanes.around.db, &setup.lanes.plan.session(setup.lane)).await?,
    };
    let client = &connection.client;
    setup.lanes.plan.request.durability.begin(client).await?;
    let (&OwnedLoad { load_id, run, .. }, lane) =
        (&setup.lanes.owned, i16::try_from(setup.lane).expect("lanes are few"));
    let sql = |template| setup.lanes.plan.schema().sql(template);
    if again {
        client.execute(&sql(lane::TERMINATE), &[&load_id, &lane, &run]).await?;
    }
    let row = client
        .query_opt(&sql(lane::ATTACH), &[&load_id, &lane, &run, &i32::from(again)])
        .await?
        .ok_or_else(|| Error::fenced(load_id))?;
    if row.get("emptied") {
        return Err(Error::Emptied { documents: setup.lanes.around.tally.documents(), by: EmptiedBy::Crash });
    }
    failpoint::hit(if again { "lane-reattached" } else { "lane-attached" }).await?;
    let (epoch, commits) = (row.get(0), row.get(1));
    if again && let Some(Harmless { mark, doubtful, .. }) = setup.look_at_table(client).await? {
        // At the end, the server may have counted the rows, and nobody would know any more.
        if doubtful && setup.lanes.plan.request.layout.fills_table {
            return Err(Error::PerhapsTruncated { collection: mark.name, load_id });
        }
        setup.table.mark = mark;
    }
    let (advance, reject) = (Advance::sql(setup.lanes.plan.schema()), sql(lane::INSERT_REJECTS));
    let prepared = async { Ok(tokio::try_join!(client.prepare(&advance), client.prepare(&reject))?) };
    let made = tokio::try_join!(M::make(setup, client), prepared);
    if made.as_ref().is_err_and(|error: &Error| !may_pass(error.kind())) {
        setup.look_at_table(client).await?;
    }
    let (made, (advance, reject)) = made?;
    Ok((Link { connection, made, opened: Instant::now(), advance, reject, epoch }, commits))
}

/// Bytes of WAL written by this backend so far (PostgreSQL 18 and later).
pub(crate) async fn own_wal_bytes(connection: &Connection) -> Option<u64> {
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
