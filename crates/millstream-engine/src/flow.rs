//! A load from its first byte to its receipt.

use crate::batch::Splitter;
use crate::chunk::Chunk;
use crate::collection::{self, Collection};
use crate::decode::{DecodeLimits, Decoder};
use crate::engine::{Ended, Engine, RejectLimits};
use crate::error::Error;
use crate::failpoint;
use crate::feed::Feed;
use crate::limits::{
    EMPTIED_MAX, FLUSH_AFTER, FREE_CONNECTIONS_SHARE, LANES_DEFAULT_MAX, MEMORY_BATCHES, SETTLE_FAILED_TRIES_MAX,
};
use crate::observe::{Event, Observer, Tally};
use crate::request::LoadRequest;
use crate::source;
use crate::stop::{Stop, StopReason};
use crate::store::{self, Identity, OwnedLoad, Schema};
use crate::write::{LaneReport, LaneSetup, Target};
use millstream_model::limits::SLOTS;
use millstream_model::{Counters, Receipt, WalScope};
use millstream_pg::{ConnInfo, Connection, SessionSettings, retry_delay};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// How a load ended. The receipt is right in every case.
#[derive(Debug)]
pub struct Outcome {
    /// The account of the load.
    pub receipt: Receipt,
    /// Why it ended before the end of its sources, if it did.
    pub stopped: Option<StopReason>,
    /// The error behind [`StopReason::Failed`].
    pub error: Option<Error>,
}

/// What a load works with besides its request.
#[derive(Clone)]
pub struct Surroundings {
    /// The database.
    pub db: ConnInfo,
    /// Ends the load early.
    pub stop: Stop,
    /// Hears what happens.
    pub observer: Arc<dyn Observer>,
    /// Counts for a progress bar.
    pub tally: Arc<Tally>,
}

/// Loads the sources of a request, again from their start when a crash of the server has emptied an
/// unlogged collection and they are files.
///
/// # Errors
/// While nothing has been written by this run, when the server is gone for good, so that no receipt
/// can be had, and with [`Error::Emptied`] when a stream cannot be read again; every other failure
/// is part of the [`Outcome`].
pub async fn load(request: &LoadRequest, around: &Surroundings) -> Result<Outcome, Error> {
    let (mut request, mut tries) = (request.clone(), 0);
    loop {
        tries += 1;
        let error = match load_once(&request, around).await {
            Err(Error::Emptied { documents }) => Error::Emptied { documents: documents.max(around.tally.documents()) },
            ended => return ended,
        };
        around.tally.clear();
        if tries > EMPTIED_MAX || !request.sources.iter().all(|source| Path::new(source).is_file()) {
            return Err(error);
        }
        around.observer.event(Event::Warning(error.to_string()));
        // Also where this load was not to go on with an earlier one: it is its own earlier one now.
        request.resume = true;
    }
}

/// This is the whole path: feed, decode, slots, lanes, receipt.
async fn load_once(request: &LoadRequest, around: &Surroundings) -> Result<Outcome, Error> {
    request.check()?;
    let started = Instant::now();
    let mut control = connect_control(&around.db).await?;
    millstream_pg::ensure_session_pooling(&control, &connect_control(&around.db).await?).await?;
    require_staging(&control).await?;
    for warning in request.durability.check(&control).await? {
        around.observer.event(Event::Warning(warning));
    }
    let schema = Schema::new(&request.schema);
    schema.ensure(&mut control.client).await?;

    let mut feed = Feed::open(request, Arc::clone(&around.tally))?;
    let collection = tokio::select! {
        biased;
        // A silent standard input may keep the key's types open for ever.
        reason = around.stop.wait() => return Err(Error::Stopped(reason)),
        collection = collection::prepare(&mut control, &schema, request, &mut feed, &*around.observer) => collection?,
    };
    let lanes = lane_count(&control, around, request.lanes).await?;
    let identity = identity(request, &collection, &feed);
    if request.resume
        && feed.resumable()
        && collection.mode.adds_up()
        && let Some(receipt) = store::finished(&control.client, &schema, &identity).await?
    {
        around.observer.event(Event::Warning(format!(
            "load {} has added these sources up; nothing is added again, --resume off would",
            receipt.load_id
        )));
        return Ok(Outcome { receipt, stopped: None, error: None });
    }
    let owned = store::open(&mut control.client, &schema, &identity, lanes, request.resume).await?;
    feed.verify(&owned)?;
    announce(&owned, lanes, &*around.observer);

    let wal_before = wal_position(&control).await;
    let (reports, stopped, error) = match start_engine(request, around, &schema, &collection, &owned, lanes).await {
        Err(error) => (Vec::new(), Some(StopReason::Failed), Some(error)),
        Ok(engine) => {
            let fed = feed_all(&mut feed, &engine, around).await;
            let (reports, ended, lane_error) = engine.finish().await;
            let (stopped, error) = match (lane_error, ended, fed) {
                (Some(error), _, _) | (None, Ended::Drained | Ended::LaneGone, Err(error)) => {
                    (Some(StopReason::Failed), Some(error))
                }
                (None, Ended::Rejects, _) => (Some(StopReason::Rejects), None),
                (None, _, Ok(reason)) => (reason, None),
            };
            (reports, stopped, error)
        }
    };
    failpoint::hit("lanes-ended").await?;
    let run = Run { started, lanes, reports, stopped: stopped.clone(), wal_before };
    let receipt = close(control, around, &schema, &identity, &owned, run).await?;
    Ok(Outcome { receipt, stopped, error })
}

/// Hands every chunk to the engine until the sources end, somebody stops the load, or the engine
/// takes no more.
async fn feed_all(feed: &mut Feed, engine: &Engine, around: &Surroundings) -> Result<Option<StopReason>, Error> {
    let mut last: Option<(u32, u64, u128)> = None;
    loop {
        let chunk = tokio::select! {
            biased;
            reason = around.stop.wait() => return Ok(Some(reason)),
            () = engine.lane_ended() => return Ok(None),
            chunk = feed.next() => chunk?,
        };
        let Some(mut chunk) = chunk else { return Ok(None) };
        let damage = damage(&chunk);
        if damage.is_some() {
            // The watermark stays behind the last document, so that the file can be mended from there.
            (chunk.end, chunk.prefix_hash) = match last {
                Some((source, end, hash)) if source == chunk.source => (end, hash),
                before => (0, source::beginning(before.map(|(_, _, hash)| hash)).digest128()),
            };
        }
        last = Some((chunk.source, chunk.end, chunk.prefix_hash));
        failpoint::hit("chunk-submitted").await?;
        let submitted = tokio::select! {
            biased;
            reason = around.stop.wait() => return Ok(Some(reason)),
            submitted = engine.producer().submit(chunk) => submitted,
        };
        // The commit is awaited by `finish`, for all chunks together.
        drop(submitted?);
        if let Some(reason) = damage {
            return Ok(Some(reason));
        }
    }
}

fn damage(chunk: &Chunk) -> Option<StopReason> {
    let frame = chunk.frames.last()?;
    let broken = frame.broken.as_ref().filter(|b| b.ends_source)?;
    Some(StopReason::Damage {
        source: chunk.source,
        offset: frame.offset,
        line: frame.line,
        detail: broken.fault.detail.to_string(),
    })
}

async fn connect_control(db: &ConnInfo) -> Result<Connection, Error> {
    let control = millstream_pg::connect(db, &SessionSettings::control()).await?;
    control.client.batch_execute(include_str!("write/durable.sql")).await?;
    Ok(control)
}

/// Every lane stages its batches in a temporary table.
async fn require_staging(control: &Connection) -> Result<(), Error> {
    let sql = "select pg_catalog.has_database_privilege(pg_catalog.current_database(), 'temporary')";
    if control.client.query_one(sql, &[]).await?.get(0) {
        return Ok(());
    }
    let (role, database) = (&control.server.role, &control.server.database);
    Err(Error::Request {
        problem: format!("role {role} may not make temporary tables in database {database}"),
        hint: format!("grant temporary on database {database} to {role}"),
    })
}

fn identity(request: &LoadRequest, collection: &Collection, feed: &Feed) -> Identity {
    Identity {
        table_oid: collection.table_oid,
        collection: request.collection.to_string(),
        mode: collection.mode.to_string(),
        key: collection.key.clone(),
        format: request.format.clone(),
        durability: request.durability,
        sources: feed.source_names(),
        resumable: feed.resumable(),
    }
}

/// As many lanes as the server has cores, where we know them, and few connections in any case.
async fn lane_count(control: &Connection, around: &Surroundings, asked: Option<u16>) -> Result<u16, Error> {
    let free = millstream_pg::catalog::connections(&control.client).await?.free.max(0);
    let share = u16::try_from(free / FREE_CONNECTIONS_SHARE).unwrap_or(u16::MAX);
    if let Some(lanes) = asked {
        if i32::from(lanes) > free {
            around.observer.event(Event::Warning(format!("{lanes} lanes asked for, {free} connections free")));
        }
        return Ok(lanes);
    }
    let cores =
        if around.db.is_local() { std::thread::available_parallelism().map_or(1, usize::from) } else { usize::MAX };
    let cores = u16::try_from(cores).unwrap_or(u16::MAX);
    Ok(cores.min(LANES_DEFAULT_MAX).min(share).max(1))
}

fn announce(owned: &OwnedLoad, lanes: u16, observer: &dyn Observer) {
    if let Some(documents) = owned.emptied.filter(|documents| *documents > 0) {
        let emptied = Error::Emptied { documents };
        observer.event(Event::Warning(format!("{emptied}; it begins at the start of its sources")));
    }
    if owned.resumed {
        observer.event(Event::Resumed { load_id: owned.load_id, documents: owned.before.read });
    }
    if let Some(load_id) = owned.orphan {
        observer.event(Event::Warning(format!(
            "the table was made anew since load {load_id} stopped: this load begins at the start of its sources"
        )));
    }
    observer.event(Event::Started { load_id: owned.load_id, lanes });
}

fn reject_limits(request: &LoadRequest, owned: &OwnedLoad) -> RejectLimits {
    RejectLimits {
        documents_max: request.rejects_max.max(1),
        bytes_max: request.reject_bytes_max.max(1),
        documents_before: owned.before.rejected,
        bytes_before: owned.reject_bytes_before,
    }
}

async fn start_engine(
    request: &LoadRequest,
    around: &Surroundings,
    schema: &Schema,
    collection: &Collection,
    owned: &OwnedLoad,
    lanes: u16,
) -> Result<Engine, Error> {
    let target = Arc::new(Target::new(request, collection, schema.clone()));
    let setups = (0..lanes)
        .map(|lane| LaneSetup {
            db: around.db.clone(),
            target: Arc::clone(&target),
            load_id: owned.load_id,
            lane,
            run: owned.run,
            batch_rows: request.batch_rows,
            batch_bytes_max: request.batch_bytes_max.min(request.memory_bytes / (MEMORY_BATCHES * usize::from(lanes))),
            flush_after: FLUSH_AFTER,
            age_max: request.lane_age_max,
            rejects: reject_limits(request, owned),
            table_empty: collection.empty,
            observer: Arc::clone(&around.observer),
            tally: Arc::clone(&around.tally),
        })
        .collect();
    let mut lane_of_slot = [0u16; SLOTS];
    for lane in 0..lanes {
        lane_of_slot[store::slots_of_lane(lane, lanes)].fill(lane);
    }
    let limits = DecodeLimits { document_bytes_max: request.document_bytes_max };
    let decoder = Decoder::for_mode(&collection.key, &collection.mode, limits);
    let splitter = Splitter::new(decoder, lane_of_slot, owned.floors.clone());
    let rejects = reject_limits(request, owned);
    Engine::start(splitter, setups, rejects, request.memory_bytes, Arc::clone(&around.tally)).await
}

/// Facts of a run that go into the receipt.
struct Run {
    started: Instant,
    lanes: u16,
    reports: Vec<LaneReport>,
    stopped: Option<StopReason>,
    wal_before: Option<i64>,
}

/// Settles the load, on a new connection if the server was restarted meanwhile.
async fn close(
    mut control: Connection,
    around: &Surroundings,
    schema: &Schema,
    identity: &Identity,
    owned: &OwnedLoad,
    run: Run,
) -> Result<Receipt, Error> {
    let mut attempt = 1;
    loop {
        let wal = wal_bytes(&run, wal_position(&control).await);
        let receipt = |counters| receipt(identity, owned, &run, wal, counters);
        let reason = run.stopped.as_ref().map(ToString::to_string);
        let error = match store::close(&mut control.client, schema, owned, reason.as_deref(), receipt).await {
            Ok(receipt) => return Ok(receipt),
            Err(error) => error,
        };
        let given_up = run.stopped == Some(StopReason::Failed) && attempt >= SETTLE_FAILED_TRIES_MAX;
        let Some(delay) = retry_delay(attempt, error.kind()).filter(|_| !given_up) else { return Err(error) };
        attempt += 1;
        tokio::time::sleep(delay).await;
        if let Ok(again) = connect_control(&around.db).await {
            control = again;
        }
    }
}

fn receipt(identity: &Identity, owned: &OwnedLoad, run: &Run, wal: (u64, WalScope), counters: Counters) -> Receipt {
    let seconds = run.started.elapsed().as_secs_f64();
    let mut writers: BTreeMap<String, u64> = BTreeMap::new();
    for (name, batches) in run.reports.iter().flat_map(|r| &r.writers) {
        *writers.entry(name.clone()).or_default() += batches;
    }
    let this_run = counters.read.saturating_sub(owned.before.read);
    #[expect(clippy::cast_precision_loss, reason = "a rate needs no 53 bits")]
    let rows_per_second = if seconds > 0.0 { this_run as f64 / seconds } else { 0.0 };
    Receipt {
        collection: identity.collection.clone(),
        load_id: owned.load_id,
        counters,
        wal_bytes: wal.0,
        wal_scope: wal.1,
        seconds,
        rows_per_second,
        lanes: run.lanes,
        durability: identity.durability.name.into(),
        layout: "table".into(),
        writers,
        retries: run.reports.iter().map(|r| r.retries).sum(),
        deadlocks: run.reports.iter().map(|r| r.deadlocks).sum(),
        resumed_from: owned.resumed.then_some(owned.before.read),
        finished: run.stopped.is_none(),
    }
}

/// The lanes' own WAL where all of them know it, else the server's since the run began.
fn wal_bytes(run: &Run, wal_now: Option<i64>) -> (u64, WalScope) {
    let own: Option<u64> = run.reports.iter().map(|r| r.wal_bytes).sum();
    let complete = run.reports.len() == usize::from(run.lanes);
    match (own, run.wal_before, wal_now) {
        (Some(bytes), _, _) if complete => (bytes, WalScope::Backend),
        (_, Some(before), Some(now)) => (u64::try_from(now - before).unwrap_or(0), WalScope::Server),
        _ => (0, WalScope::Unknown),
    }
}

async fn wal_position(control: &Connection) -> Option<i64> {
    let sql = "select (pg_catalog.pg_current_wal_insert_lsn() - '0/0'::pg_catalog.pg_lsn)::bigint";
    control.client.query_one(sql, &[]).await.ok()?.try_get(0).ok()
}
