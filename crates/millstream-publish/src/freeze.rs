//! Makes an unlogged collection survive crashes, with all that is on record of it.

use super::collections::Collection;
use super::load::await_openings;
use super::loads::lock_unfinished;
use super::runs::{lost_for_good, settle_locked};
use super::schema::Schema;
use super::segments;
use super::unlogged;
use crate::error::Error;
use crate::limits::{FREEZE_BYTES_PER_SECOND, FREEZE_LOCK_WAIT};
use crate::publish::{derived_tables, hold_models};
use millstream_pg::quote_qualified;
use serde::Serialize;
use tokio_postgres::{Client, GenericClient};

/// First key of the advisory lock that is held while a collection is frozen: `mslf`. The second is its table's OID.
const FREEZE_LOCK_CLASS: i32 = 0x6d73_6c66;

/// What freezing has to write.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FreezeEstimate {
    /// Tables to be written anew: the collection's, and what its read models keep.
    pub tables: u64,
    /// Their bytes on disk with indexes and TOAST. As much room is needed once more until the end.
    pub bytes: u64,
    /// How long that takes where [`FREEZE_BYTES_PER_SECOND`] are written.
    pub seconds: f64,
    /// Bytes of WAL, roughly: those of the tables, or none where the server writes none for a new file.
    pub wal_bytes: u64,
    /// The server's `wal_level`.
    pub wal_level: String,
}

/// What freezing did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Frozen {
    /// Tables written anew; none where the collection survived crashes before.
    pub tables: u64,
    /// Loads on record whose documents survive crashes now.
    pub loads: u64,
    /// Loads among them that begin anew when they are run again: a crash had emptied the collection after them.
    pub lost: u64,
}

/// What [`freeze`] would write.
///
/// # Errors
/// [`Error::Request`] when the table is gone.
pub async fn freeze_estimate(
    client: &Client,
    schema: &Schema,
    collection: &Collection,
) -> Result<FreezeEstimate, Error> {
    let tables = unlogged_tables(client, schema, collection).await?;
    let bytes = tables.iter().map(|(_, bytes)| bytes).sum();
    let row = client.query_one("select pg_catalog.current_setting('wal_level')", &[]).await?;
    let wal_level: String = row.get(0);
    let wal_bytes = if wal_level == "minimal" { 0 } else { bytes };
    #[expect(clippy::cast_precision_loss, reason = "an estimate needs no 53 bits")]
    let seconds = bytes as f64 / FREEZE_BYTES_PER_SECOND as f64;
    Ok(FreezeEstimate { tables: tables.len() as u64, bytes, seconds, wal_bytes, wal_level })
}

/// Makes a collection's table survive crashes, with its watermarks, change record and read models, in one
/// transaction. Its table is locked for as long as writing it anew takes; nothing else than loads into it and
/// the making and removing of read models waits.
///
/// # Errors
/// [`Error::LoadRunning`] while a load into it runs, [`Error::CompactionBusy`] while its segments are merged,
/// [`Error::ModelBusy`] while a model of it is refreshed, [`Error::InUse`] when others do not let go of its tables for [`FREEZE_LOCK_WAIT`].
pub async fn freeze(client: &mut Client, schema: &Schema, collection: &Collection) -> Result<Frozen, Error> {
    let frozen = freeze_at_once(client, schema, collection).await;
    frozen.map_err(|error| match error {
        Error::Postgres(busy) if busy.sqlstate() == Some("55P03") => {
            Error::InUse { collection: collection.name.clone(), seconds: FREEZE_LOCK_WAIT.as_secs() }
        }
        // A foreign key, or what else the table must not have when it becomes another.
        Error::Postgres(refused) if refused.sqlstate() == Some("42P16") => Error::Request {
            problem: format!("{} cannot survive crashes yet: {refused}", collection.name),
            hint: "alter table .. set logged, of the other table, comes first".into(),
        },
        other => segments::crowded(other),
    })
}

async fn freeze_at_once(client: &mut Client, schema: &Schema, collection: &Collection) -> Result<Frozen, Error> {
    let table_oid = collection.table_oid;
    // Those that will be back are found at work.
    lost_for_good(client, schema, table_oid, |_| true).await?;
    let transaction = client.transaction().await?;
    let wait_ms = FREEZE_LOCK_WAIT.as_millis();
    // So that the server gives up soon after a client that was killed.
    let settings = format!("set local lock_timeout = {wait_ms}; set local client_connection_check_interval = '1s'");
    transaction.batch_execute(&settings).await?;
    let (class, id) = freeze_lock_keys(table_oid);
    transaction.execute("select pg_catalog.pg_advisory_xact_lock($1, $2)", &[&class, &id]).await?;
    await_openings(&transaction).await?;
    for load_id in lock_unfinished(&transaction, schema, table_oid).await? {
        // It makes unlogged segments, and may come back.
        settle_locked(&transaction, schema, load_id, "the collection was frozen").await?;
    }
    // A compaction drops segments that are to be written anew.
    if !segments::try_lock(&transaction, table_oid, true).await? {
        return Err(Error::CompactionBusy { collection: collection.name.clone() });
    }
    hold_models(&transaction, schema, table_oid).await?;
    lock_tables(&transaction, schema, collection).await?;
    let tables = unlogged_tables(&transaction, schema, collection).await?;
    let mortal = tables.iter().any(|(name, _)| *name == table(collection));
    let lost = if mortal { unlogged::lost(&transaction, schema, table_oid).await? } else { Vec::new() };
    // First, while the lines of the others are there.
    for load_id in &lost {
        unlogged::void(&transaction, schema, *load_id, unlogged::CRASHED).await?;
    }
    let passed = transaction.execute(&schema.sql(include_str!("load_passed.sql")), &[&lost]).await?;
    for (name, _) in &tables {
        transaction.batch_execute(&format!("alter table {name} set logged")).await?;
    }
    let keep = schema.sql(include_str!("unlogged_keep.sql"));
    let loads = transaction.execute(&keep, &[&table_oid, &lost]).await?;
    transaction.commit().await?;
    Ok(Frozen { tables: tables.len() as u64, loads: loads - passed, lost: lost.len() as u64 - passed })
}

/// Refuses to begin a load that promises no more than an unlogged table can while the table becomes another, or
/// is one since the load was planned. To be asked under the lock that [`await_openings`] waits for.
///
/// # Errors
/// [`Error::Frozen`].
pub(super) async fn refuse_frozen(client: &Client, table_oid: u32, collection: &str) -> Result<(), Error> {
    let (class, id) = freeze_lock_keys(table_oid);
    let sql = "select relpersistence = 'u' and pg_catalog.pg_try_advisory_xact_lock_shared($2, $3) \
               from pg_catalog.pg_class where oid = $1";
    match client.query_opt(sql, &[&table_oid, &class, &id]).await? {
        Some(row) if !row.get::<_, bool>(0) => Err(Error::Frozen { collection: collection.to_owned() }),
        _ => Ok(()),
    }
}

/// Locks all that may be rewritten, in the order in which writers do, so that nothing is waited for in the midst.
async fn lock_tables(client: &impl GenericClient, schema: &Schema, collection: &Collection) -> Result<(), Error> {
    let table = table(collection);
    client.batch_execute(&format!("lock table {table} in access exclusive mode")).await?;
    let oid = "select $1::text::pg_catalog.regclass::pg_catalog.oid";
    if client.query_one(oid, &[&table]).await?.get::<_, u32>(0) != collection.table_oid {
        return Err(gone(collection));
    }
    for (name, _) in unlogged_tables(client, schema, collection).await? {
        client.batch_execute(&format!("lock table {name} in access exclusive mode")).await?;
    }
    Ok(())
}

/// Names, quoted, and bytes of the unlogged tables of a collection, its own first.
async fn unlogged_tables(
    client: &impl GenericClient,
    schema: &Schema,
    collection: &Collection,
) -> Result<Vec<(String, u64)>, Error> {
    if !collection.present {
        return Err(gone(collection));
    }
    let mut names = vec![table(collection)];
    names.extend(segments::list(client, schema, collection.table_oid).await?.iter().map(|s| s.table(schema)));
    names.extend(derived_tables(client, schema, collection.table_oid).await?);
    let rows = client.query(include_str!("freeze_tables.sql"), &[&names]).await?;
    Ok(rows.iter().map(|row| (row.get(0), u64::try_from(row.get::<_, i64>(1)).unwrap_or(0))).collect())
}

fn table(collection: &Collection) -> String {
    quote_qualified(&collection.name.schema, &collection.name.table)
}

fn gone(collection: &Collection) -> Error {
    Error::Request {
        problem: format!("the table of {} is gone, or has another name now", collection.name),
        hint: "see `millstream collections`".into(),
    }
}

fn freeze_lock_keys(table_oid: u32) -> (i32, i32) {
    (FREEZE_LOCK_CLASS, table_oid.cast_signed())
}
