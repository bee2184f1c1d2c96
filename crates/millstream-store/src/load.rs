//! The row of a load and the rows of its current run's lanes.

use crate::counters::each_counter;
use crate::error::Error;
use crate::lane::TERMINATE;
use crate::lock::{at_work, load_lock};
use crate::schema::Schema;
use millstream_model::limits::SLOTS;
use millstream_model::{Counters, KeySpec, Position, Prefix, SLOT_HASH_VERSION};
use millstream_pg::advisory::OPEN;
use millstream_pg::fill;
use tokio_postgres::{Client, GenericClient, Transaction};

/// What a run is asked to load. A run resumes an unfinished load only if this is the same, except that sources may be
/// appended and the durability may differ.
#[derive(Debug, Clone)]
pub struct Identity {
    /// OID of the table. A table that was dropped and created again has another one.
    pub table_oid: u32,
    /// `SCHEMA.NAME`, for people.
    pub collection: String,
    /// Merge mode.
    pub mode: String,
    /// Columns, paths and types of the key.
    pub key: KeySpec,
    /// Source format.
    pub format: String,
    /// Names of the transforms that change documents before they are decoded, in order.
    pub transforms: Vec<String>,
    /// The durability that this run promises. Another run of the load may promise another one.
    pub durability: &'static str,
    /// Whether that is `unlogged`.
    pub unlogged: bool,
    /// Where the documents go: `table` or `log`.
    pub layout: &'static str,
    /// Names of the sources in order.
    pub sources: Vec<String>,
    /// Whether a later run can be given the same sources.
    pub resumable: bool,
    /// Whether documents would count twice if a finished load ran again.
    pub once: bool,
    /// Whether its batches are checked against tombstones.
    pub checks_tombstones: bool,
}

/// Slots `[first, end)` of a lane, when `lanes` share them evenly.
pub fn slots_of_lane(lane: u16, lanes: u16) -> std::ops::Range<usize> {
    let bound = |n: usize| n * SLOTS / usize::from(lanes);
    bound(usize::from(lane))..bound(usize::from(lane) + 1)
}

/// Requires that the table still exists. Another load that created it and read nothing may have dropped it again.
///
/// # Errors
/// [`Error::Refused`].
pub async fn require_table(client: &Client, identity: &Identity) -> Result<(), Error> {
    let sql = "select exists (select from pg_catalog.pg_class where oid = $1)";
    if client.query_one(sql, &[&identity.table_oid]).await?.get(0) {
        return Ok(());
    }
    let problem = format!("the table {} was dropped while the load began", identity.collection);
    Err(Error::refused(problem, "run the same command again"))
}

/// Waits for every session that is opening a load. A session that opens one later sees what this transaction has locked
/// before.
///
/// # Errors
/// The server's.
pub async fn await_openings(transaction: &Transaction<'_>) -> Result<(), Error> {
    // Released at once, because loads into other collections wait for this lock too.
    let lock = OPEN.sql("pg_advisory_xact_lock");
    let sql = format!("savepoint opened; select {lock}; rollback to opened; release opened");
    Ok(transaction.batch_execute(&sql).await?)
}

/// Takes a load's advisory lock, which the session then holds until its end.
///
/// # Errors
/// [`Error::LoadRunning`] while another session holds it.
pub async fn lock(client: &impl GenericClient, schema: &Schema, load_id: i64) -> Result<(), Error> {
    match load_lock(schema, load_id).try_lock(client).await? {
        true => Ok(()),
        false => Err(Error::LoadRunning { load_id, backend: at_work(client, schema, load_id).await? }),
    }
}

/// Whether this run still owns a load. While nobody held the lock, another run may have taken the load over, or the run
/// may have been closed.
///
/// # Errors
/// The server's.
pub async fn is_ours(client: &Client, schema: &Schema, load_id: i64, run: i32) -> Result<bool, Error> {
    let sql = "select exists (select from {schema}.load where load_id = $1 and runs = $2 and state = 'running')";
    Ok(client.query_one(&schema.sql(sql), &[&load_id, &run]).await?.get(0))
}

/// An unfinished load that reads some of the same sources.
#[derive(Debug)]
pub struct Unfinished {
    /// The load's number.
    pub load_id: i64,
    /// Names of its sources in order.
    pub sources: Vec<String>,
    /// Its merge mode.
    pub mode: String,
    /// Names of its transforms in order, if it differs from the one asked for in nothing else.
    pub other_transforms: Option<Vec<String>>,
    /// What makes it another load than the one asked for, as the end of a clause; `None` if it is the same.
    pub difference: Option<String>,
    /// The partition that was truncated while it had documents in the table; empty if all of the table was.
    pub emptied: Option<String>,
}

/// The newest unfinished load into the table of an identity that reads some of its sources.
///
/// # Errors
/// The server's.
pub async fn find_unfinished(
    client: &Client,
    schema: &Schema,
    identity: &Identity,
) -> Result<Option<Unfinished>, Error> {
    let sql = schema.sql(include_str!("load_sharing.sql"));
    let key = key_json(&identity.key);
    let Some(row) = client.query_opt(&sql, &[&identity.table_oid, &identity.sources, &key]).await? else {
        return Ok(None);
    };
    let (sources, mode): (Vec<String>, String) = (row.get("sources"), row.get("mode"));
    let transforms: Vec<String> = row.get("transforms");
    let differences = [
        (mode != identity.mode, "in another mode".to_owned()),
        (!row.get::<_, bool>("same_key"), "by a key of another name, place or type".to_owned()),
        (row.get::<_, &str>("format") != identity.format, "in another format".to_owned()),
        (row.get::<_, &str>("layout") != identity.layout, "in another layout".to_owned()),
        (transforms != identity.transforms, "with other enrichments".to_owned()),
        (!identity.sources.starts_with(&sources), "together with other sources or in another order".to_owned()),
        (!identity.resumable, "together with a stream that has no --source-name".to_owned()),
        (row.get::<_, i16>("slot_hash_version") != SLOT_HASH_VERSION, "with another version of millstream".to_owned()),
    ];
    let mut found = differences.into_iter().filter(|(differs, _)| *differs).map(|(_, difference)| difference);
    let difference = found.next();
    let is_only = found.next().is_none() && transforms != identity.transforms;
    let other_transforms = is_only.then_some(transforms);
    let (load_id, emptied) = (row.get("load_id"), row.get("emptied"));
    Ok(Some(Unfinished { load_id, sources, mode, other_transforms, difference, emptied }))
}

/// The number of an unfinished load of these sources whose table was dropped and created again since.
///
/// # Errors
/// The server's.
pub async fn find_orphaned(client: &Client, schema: &Schema, identity: &Identity) -> Result<Option<i64>, Error> {
    let sql = schema.sql(include_str!("load_orphaned.sql"));
    let row = client.query_opt(&sql, &[&identity.collection, &identity.sources, &identity.table_oid]).await?;
    Ok(row.map(|row| row.get(0)))
}

/// Draws the next run's place among all runs.
///
/// # Errors
/// The server's.
pub async fn next_order(client: &Client, schema: &Schema) -> Result<i64, Error> {
    let sql = "select pg_catalog.nextval(pg_catalog.format('%I.run_number', {schema_literal})::pg_catalog.regclass)";
    let sql = schema.sql(sql);
    Ok(client.query_one(&sql, &[]).await?.get(0))
}

/// Records a new load and locks it.
///
/// # Errors
/// The server's.
pub async fn insert(client: &mut Client, schema: &Schema, identity: &Identity, lanes: u16) -> Result<i64, Error> {
    // In one transaction: nobody may see the load before it is locked, and take it for one that was killed.
    let transaction = client.transaction().await?;
    let insert = fill!(include_str!("load_insert.sql"), schema, began = include_str!("load_began.sql"));
    let row = transaction
        .query_one(
            &insert,
            &[
                &identity.table_oid,
                &identity.collection,
                &identity.mode,
                &key_json(&identity.key),
                &identity.format,
                &identity.sources,
                &SLOT_HASH_VERSION,
                &i16::try_from(lanes).expect("lanes are few"),
                &identity.durability,
                &identity.resumable,
                &identity.layout,
                &identity.transforms,
            ],
        )
        .await?;
    let load_id = row.get(0);
    lock(&transaction, schema, load_id).await?;
    transaction.commit().await?;
    Ok(load_id)
}

/// Terminates backends of earlier runs that may still hold a transaction of this load.
///
/// # Errors
/// The server's.
pub async fn terminate_backends(transaction: &Transaction<'_>, schema: &Schema, load_id: i64) -> Result<(), Error> {
    transaction.execute(&schema.sql(TERMINATE), &[&load_id, &None::<i16>, &None::<i32>]).await?;
    Ok(())
}

/// Moves the lanes' watermarks and counters into the load's own row and deletes the lanes' rows. This waits for a
/// commit in flight, and makes every later commit of these lanes fail.
///
/// # Errors
/// [`Error::Ledger`] when the rows are damaged; the server's.
pub async fn consolidate_lanes(transaction: &Transaction<'_>, schema: &Schema, load_id: i64) -> Result<(), Error> {
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
    let added = each_counter(|_, counter| format!("{counter} = l.{counter} + s.{counter}"));
    let sums = each_counter(|_, counter| format!("coalesce(pg_catalog.sum({counter}), 0)::bigint as {counter}"));
    let settle = fill!(include_str!("load_settle.sql"), schema, added, sums);
    transaction.execute(&settle, &[&load_id, &sources, &offsets, &prefix_source, &prefix_length, &hash]).await?;
    transaction.execute(&schema.sql("delete from {schema}.lane where load_id = $1"), &[&load_id]).await?;
    Ok(())
}

/// Begins a run whose place among all runs is `order`: abandons every other unfinished load of its sources, and creates
/// the rows of the lanes. Returns the number of the run.
///
/// # Errors
/// The server's.
pub async fn begin_run(
    transaction: &Transaction<'_>,
    schema: &Schema,
    load_id: i64,
    identity: &Identity,
    order: i64,
    lanes: u16,
    resumed: bool,
) -> Result<i32, Error> {
    let abandon = schema.sql(include_str!("load_give_up.sql"));
    transaction.execute(&abandon, &[&identity.table_oid, &identity.sources, &load_id]).await?;
    transaction.execute(&schema.sql(include_str!("damage_forget.sql")), &[&load_id]).await?;
    let lane_count = i16::try_from(lanes).expect("lanes are few");
    let runs_more = i32::from(resumed);
    let row = transaction
        .query_one(
            &schema.sql(include_str!("load_begin.sql")),
            &[&load_id, &identity.sources, &lane_count, &runs_more, &identity.durability, &order],
        )
        .await?;
    let (epoch, run): (i32, i32) = (row.get(0), row.get(1));
    let bound = |n: usize| i16::try_from(n).expect("slots are few");
    let slots = (0..lanes).map(|lane| slots_of_lane(lane, lanes));
    let (first, end): (Vec<i16>, Vec<i16>) = slots.map(|slots| (bound(slots.start), bound(slots.end))).unzip();
    let insert = "insert into {schema}.lane (load_id, lane, run, epoch, slot_first, slot_end) \
                 select $1::bigint, nth - 1, $2::integer, $3::integer, lane.first, lane.end \
                 from rows from (pg_catalog.unnest($4::smallint[]), pg_catalog.unnest($5::smallint[])) \
                 with ordinality as lane (first, \"end\", nth)";
    transaction.execute(&schema.sql(insert), &[&load_id, &run, &epoch, &first, &end]).await?;
    Ok(run)
}

/// Counters of the load so far: those in its own row and those of its current lanes.
///
/// # Errors
/// [`Error::Ledger`] when a count is negative; the server's.
pub async fn counters(client: &impl GenericClient, schema: &Schema, load_id: i64) -> Result<Counters, Error> {
    let sums = each_counter(|_, c| {
        format!("l.{c} + coalesce((select pg_catalog.sum(n.{c})::bigint from {schema}.lane n where n.load_id = $1), 0)")
    });
    let row =
        client.query_one(&format!("select {sums} from {schema}.load l where l.load_id = $1"), &[&load_id]).await?;
    let mut values = [0u64; 11];
    for (n, value) in values.iter_mut().enumerate() {
        *value = u64::try_from(row.get::<_, i64>(n)).map_err(|_| Error::Ledger("a counter is negative"))?;
    }
    Ok(Counters::from_array(values))
}

/// What became of a load's documents in its transforms, after its lanes' rows were moved into its own row; empty if it has
/// no transforms.
///
/// # Errors
/// [`Error::Ledger`] when a count is negative; the server's.
pub async fn outcomes(client: &impl GenericClient, schema: &Schema, load_id: i64) -> Result<Vec<u64>, Error> {
    let sql = schema.sql("select coalesce(outcomes, '{}') from {schema}.load where load_id = $1");
    let counts: Vec<i64> = client.query_one(&sql, &[&load_id]).await?.get(0);
    let counts: Result<Vec<u64>, _> = counts.into_iter().map(u64::try_from).collect();
    counts.map_err(|_| Error::Ledger("a counter is negative"))
}

/// How far a load is.
#[derive(Debug)]
pub struct Progress {
    /// Position per slot below which everything is committed.
    pub floors: Box<[Position; SLOTS]>,
    /// The last source that was read, with the length and the hash of what was read.
    pub prefix: Option<(u32, Prefix)>,
    /// Its counters.
    pub counters: Counters,
    /// Bytes of its rejects.
    pub reject_bytes: u64,
}

impl Progress {
    /// The position below which everything is committed, whatever the slot.
    pub fn committed(&self) -> Position {
        self.floors.iter().copied().min().unwrap_or_default()
    }
}

/// Reads how far a load is, after its lanes' rows were moved into its own row.
///
/// # Errors
/// [`Error::Ledger`] when the row is gone or damaged; the server's.
pub async fn progress(client: &impl GenericClient, schema: &Schema, load_id: i64) -> Result<Progress, Error> {
    let Marks { floors, prefix } = read_marks(client, schema, load_id).await?;
    let sql = schema.sql("select reject_bytes from {schema}.load where load_id = $1");
    let reject_bytes: i64 = client.query_one(&sql, &[&load_id]).await?.get(0);
    Ok(Progress {
        floors,
        prefix: prefix.and_then(|(mark, hash)| prefix_of(mark, hash)),
        counters: counters(client, schema, load_id).await?,
        reject_bytes: u64::try_from(reject_bytes).unwrap_or(0),
    })
}

/// Locks the row of a load that this run owns.
///
/// # Errors
/// [`Error::Fenced`] when another run owns the load, or its record was deleted.
pub async fn lock_row(transaction: &Transaction<'_>, schema: &Schema, load_id: i64, run: i32) -> Result<(), Error> {
    let sql = schema.sql("select runs from {schema}.load where load_id = $1 for update");
    match transaction.query_opt(&sql, &[&load_id]).await? {
        Some(row) if row.get::<_, i32>(0) == run => Ok(()),
        _ => Err(Error::Fenced { load_id }),
    }
}

/// Records how a run ended: `state` is `finished` or `stopped`, `receipt` is JSON.
///
/// # Errors
/// The server's.
pub async fn record_end(
    transaction: &Transaction<'_>,
    schema: &Schema,
    load_id: i64,
    state: &str,
    reason: Option<&str>,
    receipt: Option<&str>,
) -> Result<(), Error> {
    transaction.execute(&schema.sql(include_str!("load_close.sql")), &[&load_id, &state, &reason, &receipt]).await?;
    Ok(())
}

/// Watermarks of a load's slots, and the highest position with the hash of all sources up to there.
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

/// What a load has read of its sources, from the three columns that record it.
pub(crate) fn stored_prefix(source: i32, length: i64, hash: Option<Vec<u8>>) -> Result<Option<(u32, Prefix)>, Error> {
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
pub fn key_json(key: &KeySpec) -> String {
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
