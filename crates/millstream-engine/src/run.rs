//! A run of a load: everything around its engine, from the first connection to the receipt.

use crate::batch::{Classes, Keys, Splitter};
use crate::budget::Budget;
use crate::collection::{self, KnownTable, PreparedCollection};
use crate::control::{Control, Session, Shared, alone};
use crate::diagnosis;
use crate::drain::Drain;
use crate::engine::{Engine, Finish};
use crate::error::{EmptiedBy, Error};
use crate::feed::Feed;
use crate::lifecycle::{self, Closed, Closing, Opened, OwnedLoad, Truncated};
use crate::limits::{
    FREE_CONNECTIONS_SHARE, LANES_DEFAULT_MAX, LOAD_LOCK_RETRY, SETTLE_FAILED_TRIES_MAX, UNFOLDED_CHUNK_BYTES,
};
use crate::merge::Folding;
use crate::observe::{Event, Observer};
use crate::outcome::{Next, Outcome, Surroundings};
use crate::plan::LoadPlan;
use crate::request::LoadRequest;
use crate::stop::StopReason;
use crate::watched::Watched;
use crate::write::{LaneReport, LaneSetup, Lanes, SegmentPlan, Texts};
use millstream_document::decode::{DecodeLimits, Decoder};
use millstream_document::transform;
use millstream_failpoint as failpoint;
use millstream_model::limits::SLOTS;
use millstream_model::{Counters, Position, Receipt, TransformCounts, WalScope};
use millstream_pg::{Connection, ErrorKind, Explained, Failures, Poll, SessionSettings, Several, may_pass};
use millstream_store::limits::LOAD_LOCK_POLL;
use millstream_store::load::Progress;
use millstream_store::{Added, Error as StoreError, SourceContent, load_lock};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// A run that is recorded as ours.
pub(crate) struct Run {
    control: Control,
    /// The number of its session that holds the load's lock.
    session: u64,
    /// Whether other loads use the session too.
    shares: bool,
    /// The table, if this run created it.
    made: Option<u32>,
    started: Instant,
    ready: Ready,
}

/// What a run has found out and opened before its lanes begin.
struct Ready {
    lanes: Arc<Lanes>,
    /// Connections for the lanes, until those have taken them.
    connections: Vec<Connection>,
    /// The table as it was found.
    watched: Watched,
    wal_before: Option<i64>,
}

/// What a run is opened with.
struct Terms<'a> {
    request: &'a LoadRequest,
    around: &'a Surroundings,
    drain: &'a Drain,
    /// The load that an interrupted run has left.
    interrupted: Option<i64>,
    budget: Budget,
    /// What other loads of the process have found out about the table.
    table: Arc<KnownTable>,
}

/// The result of beginning a run.
pub(crate) enum Begun {
    Run(Box<Run>),
    /// There is nothing to do. This is the receipt of the load that did it.
    Finished(Box<Receipt>),
}

/// How far earlier runs of a load have come in its only source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watermark {
    /// Every document before this place is committed.
    pub offset: u64,
    /// What its producer had said about the documents before it; `None` if the lanes of an earlier run have come to
    /// different places.
    pub hash: Option<u128>,
}

impl Run {
    /// Connects, creates or checks the table, and records the run. A load of several in one process passes what they
    /// share.
    ///
    /// # Errors
    /// Whatever prevents the load from beginning. No document is written then.
    pub(crate) async fn begin(
        request: &LoadRequest,
        around: &Surroundings,
        feed: &mut Feed,
        interrupted: Option<i64>,
        shared: Option<&Shared>,
    ) -> Result<Begun, Error> {
        let drain = shared.and_then(|shared| shared.drain.clone());
        let drain = drain.unwrap_or_else(|| Drain::new(&around.stop, request.stop_wait));
        let (control, budget, table) = match shared {
            Some(shared) => (shared.control.clone(), shared.budget.of_another(), Arc::clone(&shared.table)),
            None => {
                let control = drain.bounds(Box::pin(Control::open(request, around, None))).await;
                let control = control.ok_or_else(|| drain.ended())??;
                (control, Budget::of_one(request.memory_bytes), Arc::default())
            }
        };
        let session = drain.bounds(Box::pin(control.session())).await;
        let mut session = session.ok_or_else(|| drain.ended())??;
        let started = Instant::now();
        let terms = Terms { request, around, drain: &drain, interrupted, budget, table };
        let begun = Box::pin(Self::open(&mut session, &terms, feed)).await;
        let number = session.number;
        if begun.as_ref().is_err_and(|error| !leaves_nothing_open(error)) {
            session.abandon();
        }
        drop(session);
        match begun? {
            (made, Opened::Owned(ready)) => {
                let (ready, shares) = (*ready, shared.is_some());
                Ok(Begun::Run(Box::new(Self { control, session: number, shares, made, started, ready })))
            }
            // Somebody has loaded a stream of this name to its end.
            (_, Opened::Finished(added)) if shared.is_some() => Err(Error::from(StoreError::AddedUp {
                load_id: added.receipt.load_id,
                problem: "a stream of this name, and has finished".into(),
            })),
            (_, Opened::Finished(added)) => finished(*added, around, feed).await,
        }
    }

    /// Opens the load in a session. Returns the table too, if it was made for it.
    async fn open(
        session: &mut Session,
        terms: &Terms<'_>,
        feed: &mut Feed,
    ) -> Result<(Option<u32>, Opened<Ready>), Error> {
        let (control, Terms { request, around, drain, table, .. }) = (&mut session.connection, terms);
        let known = drain.bounds(Box::pin(table.again(control, request))).await;
        if let Some(known) = or_cancelled(known, control, drain).await? {
            let decision = drain.bounds(Box::pin(Self::decide(control, known, terms, feed))).await;
            return Ok((None, or_cancelled(decision, control, drain).await?));
        }
        let provided = unless_stopped(around, collection::provide(control, request, feed));
        let provided = drain.bounds(Box::pin(provided)).await;
        let provided = or_cancelled(provided, control, drain).await?;
        let made = provided.made;
        let decision = async {
            let prepared = Box::pin(collection::prepare(control, request, provided, &*around.observer));
            let prepared = unless_stopped(around, prepared).await?;
            table.keep(&prepared);
            Box::pin(Self::decide(control, prepared, terms, feed)).await
        };
        let decision = drain.bounds(Box::pin(decision)).await;
        match or_cancelled(decision, control, drain).await {
            Ok(opened) => Ok((made, opened)),
            Err(error) => {
                if made.is_some() {
                    // If this fails, an empty table stays, which does no harm. The error to report is the first one.
                    let withdrawn = millstream_store::withdraw(&mut control.client, &request.schema, None, made);
                    let _ = drain.settles(withdrawn).await;
                }
                Err(error)
            }
        }
    }

    /// How far earlier runs of the load have come, if any.
    pub(crate) fn watermark(&self) -> Option<Watermark> {
        let before = self.before();
        let (source, prefix) = before.prefix?;
        let floor = before.committed();
        let agree = floor == Position { source, offset: prefix.length };
        Some(Watermark { offset: floor.offset, hash: agree.then_some(prefix.hash) })
    }

    /// What earlier runs of the load have done.
    pub(crate) fn before(&self) -> &Progress {
        &self.ready.lanes.owned.before
    }

    /// The load's number.
    pub(crate) fn load_id(&self) -> i64 {
        self.ready.lanes.owned.load_id
    }

    /// Decides what is loaded into what, and records the load.
    async fn decide(
        control: &mut Connection,
        prepared: PreparedCollection,
        terms: &Terms<'_>,
        feed: &mut Feed,
    ) -> Result<Opened<Ready>, Error> {
        let Terms { request, around, drain, interrupted, budget, .. } = terms;
        let PreparedCollection { plan, watched, turns } = prepared;
        // A single lane commits documents in their order, so that nothing after a bad one is committed before it is
        // found.
        let count = if request.rejects_max == 0 { 1 } else { lane_count(control, around, request.lanes).await? };
        let connections = connect_lanes(around, &plan, count).await?;
        let count = u16::try_from(connections.len()).unwrap_or(count);
        let identity = plan.identity(&feed.names, &feed.made, feed.resumable);
        if plan.mode.adds_up() && !request.sources.is_empty() && !identity.resumable {
            let warning = "repeating this command adds the same values again; pass --source-name to prevent that";
            around.observer.event(Event::Warning(warning.to_owned()));
        }
        let owned = match lifecycle::open(&mut control.client, &plan, &identity, count, *interrupted).await? {
            Opened::Owned(owned) => *owned,
            Opened::Finished(added) => return Ok(Opened::Finished(added)),
        };
        if plan.folding.of_replay() == Folding::Never {
            feed.cut_at(UNFOLDED_CHUNK_BYTES);
        }
        if request.shard.is_none() {
            feed.verify(owned.before.committed(), owned.before.prefix)?;
        }
        announce(&owned, count, &*around.observer);
        let wal_before = wal_position(control).await;
        let lanes = Lanes {
            texts: Texts::new(&plan),
            segments: SegmentPlan::new(&plan, count, control.server.lz4),
            plan,
            owned,
            count,
            budget: budget.clone(),
            around: Surroundings::clone(around),
            turns,
            drain: Drain::clone(drain),
        };
        Ok(Opened::Owned(Box::new(Ready { lanes: Arc::new(lanes), connections, watched, wal_before })))
    }

    /// What the lanes of the run share, and the table as the run found it.
    pub(crate) fn lanes(&self) -> (Arc<Lanes>, Watched) {
        (Arc::clone(&self.ready.lanes), self.ready.watched.clone())
    }

    /// Opens the lanes and starts decoding. `keys` gets the keys of all documents.
    pub(crate) async fn start_engine(&mut self, keys: Option<Arc<Keys>>) -> Result<Engine, Error> {
        let setups = self.setups();
        let lanes = &self.ready.lanes;
        let mut lane_of_slot = [0u16; SLOTS];
        for lane in 0..lanes.count {
            lane_of_slot[millstream_store::slots_of_lane(lane, lanes.count)].fill(lane);
        }
        let classes = Classes::slots(lane_of_slot, &lanes.owned.before.floors);
        start_engine(lanes, setups, classes, keys).await
    }

    /// What opens its lanes, in their order.
    pub(crate) fn setups(&mut self) -> Vec<LaneSetup> {
        let Ready { lanes, connections, watched, .. } = &mut self.ready;
        let setup = |(lane, connection)| LaneSetup {
            lane,
            connection: Some(connection),
            table: watched.clone(),
            lanes: Arc::clone(lanes),
        };
        (0..lanes.count).zip(std::mem::take(connections)).map(setup).collect()
    }

    /// Keeps the load's lock. The lock ends with the control session; after a restart of the server, the lanes continue
    /// in new sessions, and we must take the lock again. Returns `Fenced` when another run owns the load. Lanes without
    /// documents would not notice that.
    pub(crate) async fn hold(&mut self) -> Error {
        loop {
            self.control.ended(self.session).await;
            let mut failures = Failures::default();
            while let Err(error) = self.lock_again().await {
                if error.kind() == ErrorKind::Fenced {
                    return error;
                }
                // If this error does not pass, the lanes find out. If they can continue, the lock is still needed.
                tokio::time::sleep(failures.next(error.kind()).unwrap_or(LOAD_LOCK_RETRY)).await;
            }
        }
    }

    /// Takes the lock of our load in a new session, as soon as the server has noticed that the old one is gone.
    async fn lock_again(&mut self) -> Result<(), Error> {
        let Lanes { plan, owned, .. } = &*self.ready.lanes;
        let lock = load_lock(plan.schema(), owned.load_id);
        let poll = Poll::forever(LOAD_LOCK_POLL);
        loop {
            let session = self.control.session().await?;
            let (number, client) = (session.number, &session.connection.client);
            let locked = lock.try_lock(client).await?;
            if !millstream_store::load::is_ours(client, plan.schema(), owned.load_id, owned.run).await? {
                if locked {
                    // It would block others for nothing.
                    lock.unlock(client).await?;
                }
                return Err(Error::fenced(owned.load_id));
            }
            drop(session);
            if locked {
                self.session = number;
                return Ok(());
            }
            poll.again().await;
        }
    }

    /// Closes the load, on a new connection if the server was restarted meanwhile. `contents` is what its sources hold that
    /// are files.
    ///
    /// # Errors
    /// When there is no receipt: the engine's error if there is one, else the error of closing the load.
    /// [`Error::Emptied`], [`Error::PartitionEmptied`] and [`Error::PerhapsTruncated`] take precedence. [`Error::Stopped`] if closing a stopped load takes too long.
    pub(crate) async fn end(self, finish: Finish, contents: Vec<Option<SourceContent>>) -> Result<Outcome, Error> {
        let drain = self.ready.lanes.drain.clone();
        drain.settles(Box::pin(self.close(finish, contents))).await.unwrap_or_else(|reason| Err(Error::Stopped(reason)))
    }

    async fn close(self, mut finish: Finish, contents: Vec<Option<SourceContent>>) -> Result<Outcome, Error> {
        let Self { control, shares, made, started, ready, .. } = self;
        let Lanes { plan, owned, around, .. } = &*ready.lanes;
        let (request, schema) = (&plan.request, plan.schema());
        failpoint::hit("lanes-ended").await?;
        let table = (&request.collection, plan.table_oid, &plan.key);
        if let Some(error) = finish.error.take() {
            let session = control.last().await;
            let explained = diagnosis::explained(&session.connection.client, schema, table, error).await;
            finish.error = Some(explained);
        }
        let reason = finish.stopped.as_ref().map(ToString::to_string);
        let closing = Closing {
            watched: request.layout.fills_table.then_some(&ready.watched),
            reason: reason.as_deref(),
            truncated: finish.error.as_ref().and_then(Truncated::of),
            contents: &contents,
        };
        let mut failures = Failures::default();
        loop {
            let mut session = match control.session().await {
                Ok(session) => session,
                // The server, or the connection, fails below too.
                Err(_) => control.last().await,
            };
            let wal = ready.wal_bytes(&finish.reports, wal_position(&session.connection).await);
            let receipt = |counters, outcomes: &[u64]| {
                let mut stages = transform::counts(&request.transforms, outcomes);
                stages.extend(around.tally.not_finite());
                ready.receipt(started, &finish, wal, counters, stages)
            };
            let client = &mut session.connection.client;
            let closed = lifecycle::close(client, plan, owned, &closing, receipt).await;
            let failure = match closed {
                Ok(Closed { receipt, warning }) => {
                    around.observer.warn(warning);
                    let Finish { stopped, error, .. } = finish;
                    let unread = stopped.is_some() && receipt.counters.read == 0;
                    let ended = Ok(Outcome { receipt, stopped, error, recalled: false });
                    if shares {
                        // If this fails, the session has ended, and with it the lock.
                        let _ = load_lock(schema, owned.load_id).unlock(client).await;
                    } else if unread && matches!(Next::after(request, &ended), Next::Done) {
                        // If this fails, an empty record stays, which does no harm. The outcome says more.
                        let load_id = Some(owned.load_id);
                        let _ = millstream_store::withdraw(client, schema, load_id, made).await;
                    }
                    return ended;
                }
                Err(failure) => failure,
            };
            drop(session);
            // If another run follows, the lanes have not waited for the server.
            let waited = !request.reads_again();
            let tried = failures.count() + 1;
            let given_up = waited && finish.stopped == Some(StopReason::Failed) && tried >= SETTLE_FAILED_TRIES_MAX;
            if given_up || !failures.wait(failure.kind()).await {
                let session = control.last().await;
                let failure = diagnosis::explained(&session.connection.client, schema, table, failure).await;
                if shares {
                    // The session goes on, and nobody else closes this load. If this fails, the session has ended after all.
                    let _ = load_lock(schema, owned.load_id).unlock(&session.connection.client).await;
                }
                return Err(decisive(failure, finish.error));
            }
            control.last().await.abandon();
        }
    }
}

/// Opens lanes and starts decoding. `lanes` are those whose key, mode and limits are those of all. `classes` says which
/// documents each lane gets, and `keys` gets the keys of all documents.
pub(crate) async fn start_engine(
    lanes: &Arc<Lanes>,
    setups: Vec<LaneSetup>,
    classes: Classes,
    keys: Option<Arc<Keys>>,
) -> Result<Engine, Error> {
    let Lanes { plan, drain, .. } = &**lanes;
    let limits = DecodeLimits { document_bytes_max: plan.request.document_bytes_max };
    let decoder = Decoder::wanting(&plan.key, plan.mode.wanted(), limits);
    let splitter = Splitter::new(decoder, classes, plan.request.transforms.len(), keys);
    let engine = Engine::start(splitter, setups, Arc::clone(lanes));
    drain.bounds(engine).await.unwrap_or_else(|| Err(drain.ended()))
}

/// Does `work`, unless somebody stops the load meanwhile: while standard input is silent, it may take for ever.
async fn unless_stopped<T>(around: &Surroundings, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    tokio::select! {
        biased;
        reason = around.stop.wait() => Err(Error::Stopped(reason)),
        done = work => done,
    }
}

/// Whether a load that could not be opened because of this error leaves a session as it found it.
fn leaves_nothing_open(error: &Error) -> bool {
    matches!(error, Error::Store(StoreError::LoadRunning { .. }))
}

/// What was done on the control connection. `None` if it took too long: what the server still does of it is cancelled.
async fn or_cancelled<T>(done: Option<Result<T, Error>>, control: &Connection, drain: &Drain) -> Result<T, Error> {
    match done {
        Some(done) => done,
        None => {
            control.cancel().await;
            Err(drain.ended())
        }
    }
}

/// Returns the receipt of a finished load, if its sources are unchanged. Nothing is added again.
async fn finished(added: Added, around: &Surroundings, feed: &mut Feed) -> Result<Begun, Error> {
    let Added { receipt, prefix } = added;
    unless_stopped(around, feed.require_unchanged(receipt.load_id, prefix)).await?;
    around.observer.event(Event::Warning(format!(
        "load {} has already added these sources, so nothing is added; --resume off adds them again",
        receipt.load_id
    )));
    Ok(Begun::Finished(Box::new(receipt)))
}

impl Ready {
    fn receipt(
        &self,
        started: Instant,
        finish: &Finish,
        wal: (u64, WalScope),
        counters: Counters,
        transforms: Vec<TransformCounts>,
    ) -> Receipt {
        let Lanes { plan: LoadPlan { request, .. }, owned, count, .. } = &*self.lanes;
        let seconds = started.elapsed().as_secs_f64();
        let mut writers: BTreeMap<String, u64> = BTreeMap::new();
        for (name, batches) in finish.reports.iter().flat_map(|r| &r.writers) {
            *writers.entry(name.clone()).or_default() += batches;
        }
        let this_run = counters.read.saturating_sub(owned.before.counters.read);
        let rows_per_second = if seconds > 0.0 { this_run as f64 / seconds } else { 0.0 };
        Receipt {
            collection: request.collection.to_string(),
            load_id: owned.load_id,
            counters,
            rejected_lines: 0,
            deleted_missing: 0,
            skipped_files: 0,
            wal_bytes: wal.0,
            wal_scope: wal.1,
            seconds,
            rows_per_second,
            lanes: *count,
            durability: request.durability.name.into(),
            layout: request.layout.name.into(),
            writers,
            transforms,
            retries: finish.reports.iter().map(|r| r.retries).sum(),
            deadlocks: finish.reports.iter().map(|r| r.deadlocks).sum(),
            resumed_from: owned.resumed.then_some(owned.before.counters.read),
            finished: finish.stopped.is_none(),
        }
    }

    /// Bytes of WAL: the lanes' own if all of them know theirs, else the server's since the run began.
    fn wal_bytes(&self, reports: &[LaneReport], wal_now: Option<i64>) -> (u64, WalScope) {
        let own: Option<u64> = reports.iter().map(|r| r.wal_bytes).sum();
        let complete = reports.len() == usize::from(self.lanes.count);
        match (own, self.wal_before, wal_now) {
            (Some(bytes), _, _) if complete => (bytes, WalScope::Backend),
            (_, Some(before), Some(now)) => (u64::try_from(now - before).unwrap_or(0), WalScope::Server),
            _ => (0, WalScope::Unknown),
        }
    }
}

/// Which of two errors to report: why there is no receipt, or why the engine failed. If another run owns the load now,
/// an error that may pass must not be reported. It would be retried, and what the other run has finished would be
/// loaded again as a new load.
pub(crate) fn decisive(failure: Error, of_engine: Option<Error>) -> Error {
    let passes = |error: &Error| may_pass(error.kind());
    match (failure, of_engine) {
        (failure @ (Error::Emptied { .. } | Error::PartitionEmptied { .. } | Error::PerhapsTruncated { .. }), _)
        | (failure, None) => failure,
        (failure, Some(error)) if failure.kind() == ErrorKind::Fenced && passes(&error) => failure,
        (_, Some(error)) => error,
    }
}

/// As many lanes as the server has cores, if we know them, but few connections in any case.
async fn lane_count(control: &Connection, around: &Surroundings, asked: Option<u16>) -> Result<u16, Error> {
    if let Some(lanes) = asked {
        return Ok(lanes);
    }
    let free = millstream_pg::catalog::free_connections(&control.client).await?;
    let share = u16::try_from(free / FREE_CONNECTIONS_SHARE).unwrap_or(u16::MAX);
    let cores =
        if around.db.is_local() { std::thread::available_parallelism().map_or(1, usize::from) } else { usize::MAX };
    let cores = u16::try_from(cores).unwrap_or(u16::MAX);
    Ok(cores.min(LANES_DEFAULT_MAX).min(share).max(1))
}

/// Connections for so many lanes, or for as many as the server, the role or a pool has.
async fn connect_lanes(around: &Surroundings, plan: &LoadPlan, lanes: u16) -> Result<Vec<Connection>, Error> {
    let sessions: Vec<SessionSettings> = (0..lanes).map(|lane| plan.session(lane)).collect();
    let connected = millstream_pg::connect_several(&around.db, &sessions).await;
    let Several { open, lacking } = connected.map_err(|error| alone(error.into()))?;
    if let Some(reason) = lacking {
        let few = open.len();
        let warning = format!(
            "the load continues with {few} of {lanes} lanes: no more connections are free: {reason}. If a pool is in \
             front of the server, enlarge it (PgBouncer: default_pool_size), or ask for fewer lanes: --lanes {few}"
        );
        around.observer.event(Event::Warning(warning));
    }
    Ok(open)
}

fn announce(owned: &OwnedLoad, lanes: u16, observer: &dyn Observer) {
    if let Some(documents) = owned.emptied.filter(|documents| *documents > 0) {
        let emptied = Error::Emptied { documents, by: EmptiedBy::Crash };
        observer.event(Event::Warning(format!("{emptied}; it begins at the start of its sources")));
    }
    if owned.resumed {
        observer.event(Event::Resumed { load_id: owned.load_id, documents: owned.before.counters.read });
    }
    if let Some(load_id) = owned.orphan {
        observer.event(Event::Warning(format!(
            "the table was created anew since load {load_id} stopped: this load begins at the start of its sources"
        )));
    }
    observer.event(Event::Started { load_id: owned.load_id, lanes });
}

async fn wal_position(control: &Connection) -> Option<i64> {
    let sql = "select (pg_catalog.pg_current_wal_insert_lsn() - '0/0'::pg_catalog.pg_lsn)::bigint";
    control.client.query_one(sql, &[]).await.ok()?.try_get(0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_decisive_of_two_errors_is_returned() {
        let fenced = || Error::fenced(1);
        let lost = || Error::Postgres(millstream_pg::Error::Lost { message: "cut".into() });
        let final_one = || Error::CommitsLost { lane: 0, batches: 1 };
        let emptied = || Error::Emptied { documents: 1, by: EmptiedBy::Crash };
        for (failure, of_engine, expected) in [
            (fenced(), Some(lost()), fenced()),
            (fenced(), Some(final_one()), final_one()),
            (fenced(), None, fenced()),
            (lost(), Some(final_one()), final_one()),
            (final_one(), Some(lost()), lost()),
            (emptied(), Some(lost()), emptied()),
        ] {
            assert_eq!(decisive(failure, of_engine).to_string(), expected.to_string());
        }
    }
}
