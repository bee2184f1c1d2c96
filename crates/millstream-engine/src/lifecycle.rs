//! The life of a load: opened or resumed under locks, and closed with its receipt.

use crate::error::{EmptiedBy, Error};
use crate::plan::LoadPlan;
use crate::request::LoadRequest;
use crate::watched::{Harmless, Stake, Watched};
use millstream_failpoint as failpoint;
use millstream_model::{Counters, Receipt};
use millstream_pg::Poll;
use millstream_pg::advisory::OPEN;
use millstream_store::limits::LOAD_LOCK_POLL;
use millstream_store::load::{self, Identity, Progress, Unfinished};
use millstream_store::recorded_mode::adds_up;
use millstream_store::{
    Added, MissingRows, Schema, SourceContent, added, discard_unread, load_lock, record_contents, refuse_appended,
    refuse_frozen, refuse_unchecked_deletes, rejects, truncation, unlogged,
};
use tokio_postgres::Client;

/// A load that this run owns.
pub(crate) struct OwnedLoad {
    /// The load's number.
    pub(crate) load_id: i64,
    /// The number of this run.
    pub(crate) run: i32,
    /// What earlier runs have done.
    pub(crate) before: Progress,
    /// Whether earlier runs exist whose documents still count.
    pub(crate) resumed: bool,
    /// Documents of earlier runs that were lost when a crash of the server emptied the collection.
    pub(crate) emptied: Option<u64>,
    /// An unfinished load of these sources whose table was dropped and created again since.
    pub(crate) orphan: Option<i64>,
}

impl OwnedLoad {
    /// Documents that earlier runs have stored.
    pub(crate) fn stored(&self) -> u64 {
        self.before.counters.read.saturating_sub(self.before.counters.rejected)
    }
}

/// The result of opening a load, and of all that comes before.
pub(crate) enum Opened<T> {
    /// This run owns the load.
    Owned(Box<T>),
    /// The load is finished and must not run again by mistake.
    Finished(Box<Added>),
}

/// Opens a load: resumes an unfinished one with the same identity if that is asked for and there is one, else begins a
/// new one. The connection then holds the load's advisory lock. `lanes` are the connections that write. `interrupted` is
/// the load that an interrupted run of this command leaves; no other load is opened then.
///
/// # Errors
/// `LoadRunning` when another process runs a load of one of the sources; [`Error::LoadChanged`] when an unfinished load
/// of one of them differs; `AddedUp` when a finished load has added up documents that would count twice; `Fenced` when
/// another process owns the load to resume.
pub(crate) async fn open(
    client: &mut Client,
    plan: &LoadPlan,
    identity: &Identity,
    lanes: u16,
    interrupted: Option<i64>,
) -> Result<Opened<OwnedLoad>, Error> {
    let (schema, LoadRequest { forget_deletes, resume, layout, lock_wait, .. }) = (plan.schema(), &plan.request);
    let poll = Poll::new(LOAD_LOCK_POLL, *lock_wait);
    let unfinished = loop {
        // One session at a time, so that a command that is started twice in one moment opens one load. Any other error
        // than that the load runs ends the session, and with it the lock.
        OPEN.lock(client).await?;
        match claim(client, plan, identity, interrupted).await {
            Err(error @ Error::Store(millstream_store::Error::LoadRunning { .. })) => {
                OPEN.unlock(client).await?;
                // Perhaps its client was just killed, and the server has not noticed yet.
                if !poll.again().await {
                    return Err(error);
                }
            }
            unfinished => break unfinished?,
        }
    };
    load::require_table(client, identity).await?;
    let resumed = unfinished.as_ref().map(|unfinished| unfinished.load_id);
    refuse_unchecked_deletes(client, schema, identity, resumed).await?;
    refuse_frozen(client, identity.table_oid, &identity.collection, identity.unlogged).await?;
    let orphan = load::find_orphaned(client, schema, identity).await?;
    // Not earlier: we may have waited for another run, which has now finished the load.
    let known = unfinished.as_ref().map(|unfinished| (unfinished.load_id, unfinished.sources.len()));
    let added = if *resume { added(client, schema, identity, known).await? } else { None };
    if let Some(added) = added {
        OPEN.unlock(client).await?;
        return Ok(Opened::Finished(Box::new(added)));
    }
    if let Some(version) = plan.named_version() {
        version.apply(client, schema, identity.table_oid, *forget_deletes).await?;
    }
    let resumed = unfinished.is_some();
    let truncated = unfinished.as_ref().is_some_and(|unfinished| unfinished.emptied.is_some());
    let load_id = match unfinished {
        Some(unfinished) => unfinished.load_id,
        None => load::insert(client, schema, identity, lanes).await?,
    };
    let order = load::next_order(client, schema).await?;
    OPEN.unlock(client).await?;
    // Nothing refuses the load from here on. It may take long, so nobody else waits for it.
    if let Some(age) = *forget_deletes {
        millstream_store::forget_tombstones(client, schema, identity.table_oid, age).await?;
    }
    failpoint::hit("load-recorded").await?;
    let transaction = client.transaction().await?;
    load::terminate_backends(&transaction, schema, load_id).await?;
    let unlogged = identity.unlogged;
    let crashed = if resumed { unlogged::emptied(&transaction, schema, load_id, unlogged).await? } else { None };
    if crashed.is_some() {
        unlogged::void(&transaction, schema, load_id, unlogged::CRASHED).await?;
    } else if truncated {
        unlogged::void(&transaction, schema, load_id, truncation::EMPTIED).await?;
    }
    if unlogged {
        unlogged::remember(&transaction, schema, load_id).await?;
    }
    load::consolidate_lanes(&transaction, schema, load_id).await?;
    let run = load::begin_run(&transaction, schema, load_id, identity, order, lanes, resumed).await?;
    let before = load::progress(&transaction, schema, load_id).await?;
    if layout.fills_table {
        truncation::await_record(&transaction, schema, plan.table_oid).await?;
    }
    failpoint::hit("run-begun").await?;
    transaction.commit().await?;
    let resumed = resumed && crashed.is_none() && before.counters.read > 0;
    Ok(Opened::Owned(Box::new(OwnedLoad { load_id, run, before, resumed, emptied: crashed, orphan })))
}

/// Locks the unfinished load that this run resumes, if there is one, and checks that this run may begin.
async fn claim(
    client: &mut Client,
    plan: &LoadPlan,
    identity: &Identity,
    interrupted: Option<i64>,
) -> Result<Option<Unfinished>, Error> {
    let (schema, request) = (plan.schema(), &plan.request);
    let unfinished = lock_unfinished(client, schema, identity, request.resume).await?;
    let claimed = unfinished.as_ref().map(|unfinished| unfinished.load_id);
    if let Some(load_id) = interrupted
        && claimed != Some(load_id)
    {
        return Err(Error::fenced(load_id));
    }
    // Documents that wait elsewhere would be merged later, over those of this load.
    if request.layout.fills_table
        && let Err(error) = refuse_appended(client, schema, identity.table_oid, &identity.collection).await
    {
        if let Some(load_id) = claimed {
            load_lock(schema, load_id).unlock(client).await?;
        }
        return Err(error.into());
    }
    Ok(unfinished)
}

/// Locks the unfinished load that this run resumes, if there is one.
async fn lock_unfinished(
    client: &mut Client,
    schema: &Schema,
    identity: &Identity,
    resume: bool,
) -> Result<Option<Unfinished>, Error> {
    while let Some(unfinished) = load::find_unfinished(client, schema, identity).await? {
        let load_id = unfinished.load_id;
        load::lock(&*client, schema, load_id).await?;
        if !resume {
            load_lock(schema, load_id).unlock(client).await?;
            return Ok(None);
        }
        let Some(difference) = unfinished.difference.clone() else {
            return match &unfinished.emptied {
                Some(partition) if adds_up(&unfinished.mode) && !partition.is_empty() => {
                    Err(Error::PartitionEmptied { load_id, partition: partition.clone() })
                }
                _ => Ok(Some(unfinished)),
            };
        };
        // A load that was killed before it read anything does not matter.
        if !discard_unread(client, schema, load_id).await? {
            let adds_up = adds_up(&unfinished.mode) && adds_up(&identity.mode);
            return Err(Error::LoadChanged { load_id, difference, adds_up, transforms: unfinished.other_transforms });
        }
        load_lock(schema, load_id).unlock(client).await?;
    }
    Ok(None)
}

/// How a run ends.
pub(crate) struct Closing<'a> {
    /// The table, if the documents of the load are in it.
    pub(crate) watched: Option<&'a Watched>,
    /// Why an unfinished load stopped.
    pub(crate) reason: Option<&'a str>,
    /// What a lane has found truncated.
    pub(crate) truncated: Option<Truncated>,
    /// What the sources hold that are files, in their order.
    pub(crate) contents: &'a [Option<SourceContent>],
}

/// A run that has ended.
pub(crate) struct Closed {
    pub(crate) receipt: Receipt,
    /// A sentence to print about the table.
    pub(crate) warning: Option<String>,
}

/// What a TRUNCATE took from a load.
#[derive(Debug, Clone)]
pub(crate) enum Truncated {
    /// Its documents, this many: it starts over.
    All { documents: u64, by: EmptiedBy },
    /// What it had added up in this partition.
    Partition(String),
}

impl Truncated {
    /// What an error says about that, if anything.
    pub(crate) fn of(error: &Error) -> Option<Self> {
        match error {
            Error::Emptied { by: EmptiedBy::Crash, .. } => None,
            Error::Emptied { documents, by } => Some(Self::All { documents: *documents, by: by.clone() }),
            Error::PartitionEmptied { partition, .. } => Some(Self::Partition(partition.clone())),
            _ => None,
        }
    }
}

/// Ends a run: looks at the table once more, moves the lanes' watermarks and counters into the load's row, and writes
/// the state and the receipt.
///
/// # Errors
/// `Fenced` when another run owns the load, [`Error::Emptied`] and [`Error::PartitionEmptied`] when its documents are
/// gone, [`Error::PerhapsTruncated`] when they may be.
pub(crate) async fn close(
    client: &mut Client,
    plan: &LoadPlan,
    owned: &OwnedLoad,
    closing: &Closing<'_>,
    receipt: impl FnOnce(Counters, &[u64]) -> Receipt,
) -> Result<Closed, Error> {
    let (load_id, schema) = (owned.load_id, plan.schema());
    let transaction = client.transaction().await?;
    let counters = load::counters(&transaction, schema, load_id).await?;
    let (mut truncated, mut warning) = (closing.truncated.clone(), None);
    let (mut changed, mut moved) = (None, false);
    if let Some(watched) = closing.watched.filter(|_| truncated.is_none()) {
        let documents = counters.read.saturating_sub(counters.rejected);
        let stake = Stake { load_id, documents, adds_up: plan.mode.adds_up() };
        match watched.look(&transaction, schema, stake).await {
            Ok(Some(Harmless { mark, rewritten, doubtful })) => {
                if doubtful {
                    let reason = "the table may have been truncated";
                    load::lock_row(&transaction, schema, load_id, owned.run).await?;
                    load::consolidate_lanes(&transaction, schema, load_id).await?;
                    load::record_end(&transaction, schema, load_id, "stopped", Some(reason), None).await?;
                    truncation::record_left(&transaction, schema, &mark, Some(load_id)).await?;
                    transaction.commit().await?;
                    return Err(Error::PerhapsTruncated { collection: mark.name, load_id });
                }
                warning = rewritten.then(|| truncation::rewritten(&mark));
                changed = Some(mark);
            }
            // What is committed was written as it should.
            Ok(None) | Err(Error::TableChanged { .. }) => {}
            Err(Error::TableMoved { .. }) => moved = true,
            Err(error) => truncated = Some(Truncated::of(&error).ok_or(error)?),
        }
    }
    if truncated.is_some() {
        // Before the load's row, as whoever begins a load does.
        OPEN.lock_in_transaction(&transaction).await?;
    }
    load::lock_row(&transaction, schema, load_id, owned.run).await?;
    if let Some(documents) = unlogged::emptied(&transaction, schema, load_id, false).await? {
        unlogged::void(&transaction, schema, load_id, unlogged::CRASHED).await?;
        transaction.commit().await?;
        return Err(Error::Emptied { documents, by: EmptiedBy::Crash });
    }
    load::consolidate_lanes(&transaction, schema, load_id).await?;
    if let Some(truncated) = truncated {
        let now = match closing.watched {
            Some(watched) => watched.mark.again(&transaction).await?,
            None => None,
        };
        let (error, partition) = match truncated {
            Truncated::All { documents, by } => {
                unlogged::void(&transaction, schema, load_id, truncation::EMPTIED).await?;
                let partition = by.partition().map(str::to_owned);
                (Error::Emptied { documents, by }, partition)
            }
            Truncated::Partition(partition) => {
                load::record_end(&transaction, schema, load_id, "stopped", closing.reason, None).await?;
                truncation::mark_emptied(&transaction, schema, load_id, Some(&partition)).await?;
                (Error::PartitionEmptied { load_id, partition: partition.clone() }, Some(partition))
            }
        };
        if let Some(now) = now {
            let knows = closing.watched.map(|watched| watched.times_emptied);
            truncation::reset_all(&transaction, schema, &now, partition.as_deref(), knows).await?;
        }
        transaction.commit().await?;
        return Err(error);
    }
    let outcomes = load::outcomes(&transaction, schema, load_id).await?;
    let mut receipt = receipt(counters, &outcomes);
    receipt.deleted_missing = MissingRows::read(&transaction, schema, load_id).await?.deleted;
    receipt.counters.deleted += receipt.deleted_missing;
    if counters.rejected > 0 {
        receipt.rejected_lines = rejects::lines(&transaction, schema, load_id).await?;
    }
    let state = if receipt.finished { "finished" } else { "stopped" };
    let json = serde_json::to_string(&receipt)
        .map_err(|_| millstream_store::Error::Ledger("a receipt cannot be written as JSON"))?;
    load::record_end(&transaction, schema, load_id, state, closing.reason, Some(&json)).await?;
    if receipt.finished && closing.contents.iter().any(Option::is_some) {
        record_contents(&transaction, schema, load_id, closing.contents).await?;
    }
    if let Some(watched) = closing.watched {
        // It has looked for itself.
        truncation::mark_emptied(&transaction, schema, load_id, None).await?;
        if changed.is_some() || receipt.counters.deleted > 0 && !moved {
            let mark = changed.as_ref().unwrap_or(&watched.mark);
            truncation::record_left(&transaction, schema, mark, Some(load_id)).await?;
        }
    }
    failpoint::hit("run-settled").await?;
    transaction.commit().await?;
    failpoint::hit("run-closed").await?;
    Ok(Closed { receipt, warning })
}
