//! A load's own record: opened or resumed, settled, finished.

use super::added::{Added, added};
use super::freeze::refuse_frozen;
use super::lock::{at_work, load_lock_keys};
use super::runs::refuse_unguarded;
use super::schema::Schema;
use super::segments::refuse_appended;
use super::unlogged;
use super::versions::NamedVersion;
use super::withdrawal::discard_unread;
use crate::durability::Durability;
use crate::error::{CRASHED, Error, TRUNCATED};
use crate::failpoint;
use crate::layout::Layout;
use crate::limits::{LOAD_LOCK_POLL, LOAD_LOCK_WAIT};
use crate::merge::adds_up;
use crate::source::Prefix;
use millstream_model::limits::SLOTS;
use millstream_model::{COUNTERS, Counters, KeySpec, Position, Receipt, SLOT_HASH_VERSION};
use tokio::time::Instant;
use tokio_postgres::{Client, GenericClient, Row, Transaction};

/// Advisory lock under which a load is looked up or recorded, and its own lock taken: `msldopen`.
pub(super) const OPEN_LOCK: i64 = 0x6d73_6c64_6f70_656e;

/// What makes a load the same load: only sources may be appended while it is unfinished.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    /// The table, which is another one after drop and create.
    pub table_oid: u32,
    /// `SCHEMA.NAME`, for people.
    pub collection: String,
    /// Merge mode.
    pub mode: String,
    /// Columns, paths and types of the key.
    pub key: KeySpec,
    /// Source format.
    pub format: String,
    /// What this run promises; another run may promise otherwise.
    pub durability: &'static Durability,
    /// Where the documents go.
    pub layout: &'static Layout,
    /// Names of the sources in order.
    pub sources: Vec<String>,
    /// Whether a later run can be given the same sources.
    pub resumable: bool,
    /// Whether documents count twice when a finished load runs again.
    pub once: bool,
    /// The type by which versions are to be compared, where it was asked for.
    pub version: Option<NamedVersion>,
    /// Whether its batches heed the versions of what was deleted.
    pub guarded: bool,
}

/// A load that this run owns.
#[derive(Debug, Clone)]
pub(crate) struct OwnedLoad {
    /// The load's number.
    pub load_id: i64,
    /// The number of this run.
    pub run: i32,
    /// Position per slot below which earlier runs have committed everything.
    pub floors: Box<[Position; SLOTS]>,
    /// Source and beginning of it that earlier runs have read.
    pub prefix: Option<(u32, Prefix)>,
    /// Counts of earlier runs.
    pub before: Counters,
    /// Bytes of rejects that earlier runs stored.
    pub reject_bytes_before: u64,
    /// Whether earlier runs exist and what they did still counts.
    pub resumed: bool,
    /// Documents of earlier runs that went when a crash of the server emptied the collection.
    pub emptied: Option<u64>,
    /// An unfinished load of these sources whose table was dropped and made anew since.
    pub orphan: Option<i64>,
}

/// What opening a load comes to.
#[derive(Debug)]
pub(crate) enum Opened {
    /// The load is this run's.
    Owned(Box<OwnedLoad>),
    /// It is finished and must not run again by mistake.
    Finished(Box<Added>),
}

/// Slots `[first, end)` of a lane, when `lanes` share them evenly.
pub fn slots_of_lane(lane: u16, lanes: u16) -> std::ops::Range<usize> {
    let bound = |n: usize| n * SLOTS / usize::from(lanes);
    bound(usize::from(lane))..bound(usize::from(lane) + 1)
}

/// Opens a load: goes on with an unfinished one of the same identity when `resume` is set, else
/// begins a new one. A run that follows one that broke off names its load in `goes_on`, and no other
/// is begun for it. The connection then holds the load's advisory lock.
///
/// # Errors
/// [`Error::LoadRunning`] when another process runs a load of one of the sources,
/// [`Error::LoadChanged`] when an unfinished load of one of them is another, [`Error::AddedUp`] when a finished one is
/// whose documents would count twice, [`Error::Fenced`] when the load that this is to go on with is another process's.
pub(crate) async fn open(
    client: &mut Client,
    schema: &Schema,
    identity: &Identity,
    lanes: u16,
    resume: bool,
    goes_on: Option<i64>,
) -> Result<Opened, Error> {
    let deadline = Instant::now() + LOAD_LOCK_WAIT;
    let unfinished = loop {
        // One at a time, so that the same load started twice in one moment is one load. An error ends
        // the session and with it the lock.
        client.execute("select pg_advisory_lock($1)", &[&OPEN_LOCK]).await?;
        match claim(client, schema, identity, resume, goes_on).await {
            // Perhaps its client was just killed, and the server has yet to notice.
            Err(Error::LoadRunning { .. }) if Instant::now() < deadline => {
                client.execute("select pg_advisory_unlock($1)", &[&OPEN_LOCK]).await?;
                tokio::time::sleep(LOAD_LOCK_POLL).await;
            }
            unfinished => break unfinished?,
        }
    };
    require_table(client, identity).await?;
    let resumed = unfinished.as_ref().map(|unfinished| unfinished.load_id);
    refuse_unguarded(client, schema, identity, resumed).await?;
    if identity.durability.unlogged {
        refuse_frozen(client, identity.table_oid, &identity.collection).await?;
    }
    let orphan = find_orphaned(client, schema, identity).await?;
    // Not sooner: an earlier run may have come to its end while it was waited for.
    let known = unfinished.as_ref().map(|unfinished| (unfinished.load_id, unfinished.sources));
    let added = if resume { added(client, schema, identity, known).await? } else { None };
    if let Some(added) = added {
        client.execute("select pg_advisory_unlock($1)", &[&OPEN_LOCK]).await?;
        return Ok(Opened::Finished(Box::new(added)));
    }
    if let Some(version) = &identity.version {
        version.settle(client, schema, identity.table_oid).await?;
    }
    let resumed = unfinished.is_some();
    let load_id = match unfinished {
        Some(unfinished) => unfinished.load_id,
        None => insert(client, schema, identity, lanes).await?,
    };
    let order = schema.sql("select pg_catalog.nextval('{schema}.run_number')");
    let order: i64 = client.query_one(&order, &[]).await?.get(0);
    client.execute("select pg_advisory_unlock($1)", &[&OPEN_LOCK]).await?;
    failpoint::hit("load-recorded").await?;
    let transaction = client.transaction().await?;
    terminate_backends(&transaction, schema, load_id).await?;
    let unlogged = identity.durability.unlogged;
    let emptied = if resumed { unlogged::emptied(&transaction, schema, load_id, unlogged).await? } else { None };
    if emptied.is_some() {
        unlogged::void(&transaction, schema, load_id, unlogged::CRASHED).await?;
    }
    if unlogged {
        unlogged::remember(&transaction, schema, load_id).await?;
    }
    settle(&transaction, schema, load_id).await?;
    let give_up = schema.sql(include_str!("load_give_up.sql"));
    transaction.execute(&give_up, &[&identity.table_oid, &identity.sources, &load_id]).await?;
    transaction.execute(&schema.sql(include_str!("load_order.sql")), &[&load_id, &order]).await?;
    transaction.execute(&schema.sql(include_str!("damage_forget.sql")), &[&load_id]).await?;
    let run = begin_run(&transaction, schema, load_id, identity, lanes, resumed).await?;
    let Marks { floors, prefix } = read_marks(&transaction, schema, load_id).await?;
    let before = counters(&transaction, schema, load_id).await?;
    let reject_bytes: i64 = transaction
        .query_one(&schema.sql("select reject_bytes from {schema}.load where load_id = $1"), &[&load_id])
        .await?
        .get(0);
    failpoint::hit("run-begun").await?;
    transaction.commit().await?;
    let prefix = prefix.and_then(|(mark, hash)| prefix_of(mark, hash));
    let reject_bytes_before = u64::try_from(reject_bytes).unwrap_or(0);
    let resumed = resumed && emptied.is_none() && before.read > 0;
    let owned = OwnedLoad { load_id, run, floors, prefix, before, reject_bytes_before, resumed, emptied, orphan };
    Ok(Opened::Owned(Box::new(owned)))
}

/// Keeps every [`open`] away until the transaction ends, and waits for the one at work.
pub(super) async fn lock_openings(transaction: &Transaction<'_>) -> Result<(), Error> {
    transaction.execute("select pg_advisory_xact_lock($1)", &[&OPEN_LOCK]).await?;
    Ok(())
}

/// Another load that made the table and read nothing may have dropped it again.
async fn require_table(client: &Client, identity: &Identity) -> Result<(), Error> {
    let sql = "select exists (select from pg_catalog.pg_class where oid = $1)";
    if client.query_one(sql, &[&identity.table_oid]).await?.get(0) {
        return Ok(());
    }
    Err(Error::Request {
        problem: format!("the table {} was dropped while the load began", identity.collection),
        hint: "run the same command again".into(),
    })
}

/// Waits for every [`open`] at work. A later one sees what the transaction has locked before.
pub(super) async fn await_openings(transaction: &Transaction<'_>) -> Result<(), Error> {
    // Given back at once, for loads into other collections wait for it too.
    let sql =
        format!("savepoint opened; select pg_advisory_xact_lock({OPEN_LOCK}); rollback to opened; release opened");
    Ok(transaction.batch_execute(&sql).await?)
}

/// Locks the unfinished load that is to be gone on with, if there is one, where this run may begin.
async fn claim(
    client: &mut Client,
    schema: &Schema,
    identity: &Identity,
    resume: bool,
    goes_on: Option<i64>,
) -> Result<Option<Unfinished>, Error> {
    let unfinished = lock_unfinished(client, schema, identity, resume).await?;
    let claimed = unfinished.as_ref().map(|unfinished| unfinished.load_id);
    if let Some(load_id) = goes_on
        && claimed != Some(load_id)
    {
        return Err(Error::Fenced { load_id });
    }
    if !identity.layout.appends
        && let Err(error) = refuse_appended(client, schema, identity.table_oid, &identity.collection).await
    {
        if let Some(load_id) = claimed {
            unlock(client, schema, load_id).await?;
        }
        return Err(error);
    }
    Ok(unfinished)
}

/// Locks the unfinished load that is to be gone on with, if there is one.
async fn lock_unfinished(
    client: &mut Client,
    schema: &Schema,
    identity: &Identity,
    resume: bool,
) -> Result<Option<Unfinished>, Error> {
    while let Some(unfinished) = find_unfinished(client, schema, identity).await? {
        let load_id = unfinished.load_id;
        lock(&*client, schema, load_id).await?;
        if !resume {
            unlock(client, schema, load_id).await?;
            return Ok(None);
        }
        let Some(difference) = unfinished.difference else { return Ok(Some(unfinished)) };
        // One that was killed before it had read anything is in nobody's way.
        if !discard_unread(client, schema, load_id).await? {
            return Err(Error::LoadChanged { load_id, difference, adds_up: unfinished.adds_up });
        }
        unlock(client, schema, load_id).await?;
    }
    Ok(None)
}

async fn unlock(client: &Client, schema: &Schema, load_id: i64) -> Result<(), Error> {
    let (class, id) = load_lock_keys(schema, load_id);
    client.execute("select pg_advisory_unlock($1, $2)", &[&class, &id]).await?;
    Ok(())
}

/// Takes a load's advisory lock, which the session then holds until its end.
async fn lock(client: &impl GenericClient, schema: &Schema, load_id: i64) -> Result<(), Error> {
    match lock_again(client, schema, load_id).await? {
        true => Ok(()),
        false => Err(Error::LoadRunning { load_id, backend: at_work(client, schema, load_id).await? }),
    }
}

/// Takes the advisory lock of a load of ours whose session is lost; false while another session holds it.
pub(crate) async fn lock_again(client: &impl GenericClient, schema: &Schema, load_id: i64) -> Result<bool, Error> {
    let (class, id) = load_lock_keys(schema, load_id);
    Ok(client.query_one("select pg_try_advisory_lock($1, $2)", &[&class, &id]).await?.get(0))
}

/// Whether a load is still this run's: another may have taken it over, or it was settled, while nobody held its lock.
pub(crate) async fn is_ours(client: &Client, schema: &Schema, owned: &OwnedLoad) -> Result<bool, Error> {
    let sql = "select exists (select from {schema}.load where load_id = $1 and runs = $2 and state = 'running')";
    Ok(client.query_one(&schema.sql(sql), &[&owned.load_id, &owned.run]).await?.get(0))
}

/// An unfinished load that reads some of the same sources.
struct Unfinished {
    load_id: i64,
    /// How many sources it has.
    sources: usize,
    /// What makes it another load, if anything does.
    difference: Option<&'static str>,
    /// Whether both add up.
    adds_up: bool,
}

async fn find_unfinished(client: &Client, schema: &Schema, identity: &Identity) -> Result<Option<Unfinished>, Error> {
    let sql = schema.sql(include_str!("load_sharing.sql"));
    let key = key_json(&identity.key);
    let Some(row) = client.query_opt(&sql, &[&identity.table_oid, &identity.sources, &key]).await? else {
        return Ok(None);
    };
    let sources: Vec<String> = row.get("sources");
    let differences = [
        (row.get::<_, &str>("mode") != identity.mode, "in another mode"),
        (!row.get::<_, bool>("same_key"), "by another key"),
        (row.get::<_, &str>("format") != identity.format, "in another format"),
        (row.get::<_, &str>("layout") != identity.layout.name, "in another layout"),
        (!identity.sources.starts_with(&sources), "together with other sources or in another order"),
        (!identity.resumable, "together with a stream that has no --source-name"),
        (row.get::<_, i16>("slot_hash_version") != SLOT_HASH_VERSION, "with another version of millstream"),
    ];
    let difference = differences.into_iter().find(|(differs, _)| *differs).map(|(_, difference)| difference);
    let adds_up = [row.get("mode"), identity.mode.as_str()].into_iter().all(adds_up);
    Ok(Some(Unfinished { load_id: row.get("load_id"), sources: sources.len(), difference, adds_up }))
}

async fn find_orphaned(client: &Client, schema: &Schema, identity: &Identity) -> Result<Option<i64>, Error> {
    let sql = schema.sql(include_str!("load_orphaned.sql"));
    let row = client.query_opt(&sql, &[&identity.collection, &identity.sources, &identity.table_oid]).await?;
    Ok(row.map(|row| row.get(0)))
}

/// Records a new load and locks it.
async fn insert(client: &mut Client, schema: &Schema, identity: &Identity, lanes: u16) -> Result<i64, Error> {
    // Nobody is to see it before it is locked, and take it for one that was killed.
    let transaction = client.transaction().await?;
    let row = transaction
        .query_one(
            &schema.sql(include_str!("load_insert.sql")),
            &[
                &identity.table_oid,
                &identity.collection,
                &identity.mode,
                &key_json(&identity.key),
                &identity.format,
                &identity.sources,
                &SLOT_HASH_VERSION,
                &i16::try_from(lanes).expect("lanes are few"),
                &identity.durability.name,
                &identity.resumable,
                &identity.layout.name,
            ],
        )
        .await?;
    let load_id = row.get(0);
    lock(&transaction, schema, load_id).await?;
    transaction.commit().await?;
    Ok(load_id)
}

/// Ends backends of earlier runs that may still hold a transaction of this load.
pub(super) async fn terminate_backends(
    transaction: &Transaction<'_>,
    schema: &Schema,
    load_id: i64,
) -> Result<(), Error> {
    transaction.execute(&schema.sql(include_str!("lane_terminate.sql")), &[&load_id]).await?;
    Ok(())
}

/// Moves the lanes' watermarks and counters into the load's own row and removes the lanes, which
/// waits for a commit in flight and makes every later one of theirs fail.
pub(super) async fn settle(transaction: &Transaction<'_>, schema: &Schema, load_id: i64) -> Result<(), Error> {
    let Marks { mut floors, mut prefix } = read_marks(transaction, schema, load_id).await?;
    let lanes = transaction.query(&schema.sql(include_str!("lane_lock.sql")), &[&load_id]).await?;
    for lane in &lanes {
        let (first, end): (i16, i16) = (lane.get(0), lane.get(1));
        let mark = position(lane.get(2), lane.get(3))?;
        let slots = usize::try_from(first).unwrap_or(0)..usize::try_from(end).unwrap_or(0);
        for floor in floors.get_mut(slots).ok_or(Error::Ledger("a lane owns slots that do not exist"))? {
            *floor = (*floor).max(mark);
        }
        let hash: Option<Vec<u8>> = lane.get(4);
        if let Some(hash) = hash.filter(|_| prefix.as_ref().is_none_or(|p| p.0 < mark)) {
            prefix = Some((mark, hash));
        }
    }
    let (sources, offsets): (Vec<i32>, Vec<i64>) = floors.iter().map(|p| columns(*p)).unzip();
    let (mark, hash) = prefix.map_or((Position::default(), None), |(mark, hash)| (mark, Some(hash)));
    let (prefix_source, prefix_length) = columns(mark);
    transaction
        .execute(
            &schema.sql(include_str!("load_settle.sql")),
            &[&load_id, &sources, &offsets, &prefix_source, &prefix_length, &hash],
        )
        .await?;
    transaction.execute(&schema.sql("delete from {schema}.lane where load_id = $1"), &[&load_id]).await?;
    Ok(())
}

async fn begin_run(
    transaction: &Transaction<'_>,
    schema: &Schema,
    load_id: i64,
    identity: &Identity,
    lanes: u16,
    resumed: bool,
) -> Result<i32, Error> {
    let lane_count = i16::try_from(lanes).expect("lanes are few");
    let runs_more = i32::from(resumed);
    let row = transaction
        .query_one(
            &schema.sql(include_str!("load_begin.sql")),
            &[&load_id, &identity.sources, &lane_count, &runs_more, &identity.durability.name],
        )
        .await?;
    let (epoch, run): (i32, i32) = (row.get(0), row.get(1));
    for lane in 0..lanes {
        let slots = slots_of_lane(lane, lanes);
        let bound = |n: usize| i16::try_from(n).expect("slots are few");
        transaction
            .execute(
                &schema.sql(
                    "insert into {schema}.lane (load_id, lane, run, epoch, slot_first, slot_end) values ($1, $2, $3, $4, $5, $6)",
                ),
                &[&load_id, &i16::try_from(lane).expect("few"), &run, &epoch, &bound(slots.start), &bound(slots.end)],
            )
            .await?;
    }
    Ok(run)
}

/// Counts of the load so far: settled ones and those of its present lanes.
async fn counters(client: &impl GenericClient, schema: &Schema, load_id: i64) -> Result<Counters, Error> {
    let row = client.query_one(&schema.sql(&counters_sql()), &[&load_id]).await?;
    counters_of(&row)
}

fn counters_sql() -> String {
    let sums: Vec<String> = COUNTERS
        .iter()
        .map(|c| {
            format!("(l.{c} + coalesce((select sum(n.{c}) from {{schema}}.lane n where n.load_id = $1), 0))::bigint")
        })
        .collect();
    format!("select {} from {{schema}}.load l where l.load_id = $1", sums.join(", "))
}

/// Reads the eleven counters from the first columns of a row.
fn counters_of(row: &Row) -> Result<Counters, Error> {
    let mut values = [0u64; 11];
    for (n, value) in values.iter_mut().enumerate() {
        *value = u64::try_from(row.get::<_, i64>(n)).map_err(|_| Error::Ledger("a counter is negative"))?;
    }
    Ok(Counters::from_array(values))
}

/// Watermarks of a load's slots, and the highest one with the hash of its source up to there.
struct Marks {
    floors: Box<[Position; SLOTS]>,
    prefix: Option<(Position, Vec<u8>)>,
}

async fn read_marks(client: &impl GenericClient, schema: &Schema, load_id: i64) -> Result<Marks, Error> {
    let row = client
        .query_opt(&schema.sql(include_str!("load_marks.sql")), &[&load_id])
        .await?
        .ok_or(Error::Ledger("the load's record is gone; was it forgotten meanwhile"))?;
    let (sources, offsets): (Vec<i32>, Vec<i64>) = (row.get(0), row.get(1));
    if sources.len() != SLOTS || offsets.len() != SLOTS {
        return Err(Error::Ledger("a load's watermarks do not cover all slots"));
    }
    let mut floors = Box::new([Position::default(); SLOTS]);
    for (floor, (source, offset)) in floors.iter_mut().zip(sources.into_iter().zip(offsets)) {
        *floor = position(source, offset)?;
    }
    let mark = position(row.get(2), row.get(3))?;
    let prefix = row.get::<_, Option<Vec<u8>>>(4).map(|hash| (mark, hash));
    Ok(Marks { floors, prefix })
}

/// Ends a run: settles the lanes and writes the state and the receipt. `reason` says why an
/// unfinished load stopped, `truncated` how many documents a TRUNCATE has taken from it.
///
/// # Errors
/// [`Error::Fenced`] when another run has the load, [`Error::Emptied`] when its documents are gone.
pub(crate) async fn close(
    client: &mut Client,
    schema: &Schema,
    owned: &OwnedLoad,
    reason: Option<&str>,
    truncated: Option<u64>,
    receipt: impl FnOnce(Counters) -> Receipt,
) -> Result<Receipt, Error> {
    let load_id = owned.load_id;
    let transaction = client.transaction().await?;
    let run = transaction
        .query_opt(&schema.sql("select runs from {schema}.load where load_id = $1 for update"), &[&load_id])
        .await?;
    if run.is_none_or(|r| r.get::<_, i32>(0) != owned.run) {
        return Err(Error::Fenced { load_id });
    }
    if let Some(documents) = truncated {
        unlogged::void(&transaction, schema, load_id, "the table was emptied").await?;
        transaction.commit().await?;
        return Err(Error::Emptied { documents, by: TRUNCATED });
    }
    if let Some(documents) = unlogged::emptied(&transaction, schema, load_id, false).await? {
        unlogged::void(&transaction, schema, load_id, unlogged::CRASHED).await?;
        transaction.commit().await?;
        return Err(Error::Emptied { documents, by: CRASHED });
    }
    settle(&transaction, schema, load_id).await?;
    let receipt = receipt(counters(&transaction, schema, load_id).await?);
    let state = if receipt.finished { "finished" } else { "stopped" };
    let json = serde_json::to_string(&receipt).map_err(|_| Error::Ledger("a receipt cannot be written as JSON"))?;
    transaction.execute(&schema.sql(include_str!("load_close.sql")), &[&load_id, &state, &reason, &json]).await?;
    failpoint::hit("run-settled").await?;
    transaction.commit().await?;
    failpoint::hit("run-closed").await?;
    Ok(receipt)
}

/// The beginning of the sources that a load has read, from its three columns.
pub(super) fn stored_prefix(source: i32, length: i64, hash: Option<Vec<u8>>) -> Result<Option<(u32, Prefix)>, Error> {
    let mark = position(source, length)?;
    Ok(hash.and_then(|hash| prefix_of(mark, hash)))
}

fn prefix_of(mark: Position, hash: Vec<u8>) -> Option<(u32, Prefix)> {
    let hash = u128::from_be_bytes(hash.try_into().ok()?);
    Some((mark.source, Prefix { length: mark.offset, hash }))
}

/// The two columns of a position.
fn columns(position: Position) -> (i32, i64) {
    (i32::try_from(position.source).unwrap_or(i32::MAX), i64::try_from(position.offset).unwrap_or(i64::MAX))
}

/// A position from its two columns.
fn position(source: i32, offset: i64) -> Result<Position, Error> {
    match (u32::try_from(source), u64::try_from(offset)) {
        (Ok(source), Ok(offset)) => Ok(Position { source, offset }),
        _ => Err(Error::Ledger("a stored position is negative")),
    }
}

/// The key as JSON with members in a fixed order.
pub(crate) fn key_json(key: &KeySpec) -> String {
    serde_json::to_string(&key.columns).expect("names and paths are plain strings")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_share_all_slots_without_gap_or_overlap() {
        for lanes in 1..=64u16 {
            let mut next = 0;
            for lane in 0..lanes {
                let slots = slots_of_lane(lane, lanes);
                assert_eq!(slots.start, next);
                assert!(!slots.is_empty());
                next = slots.end;
            }
            assert_eq!(next, SLOTS);
        }
    }
}
