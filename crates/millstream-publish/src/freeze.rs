//! Makes an unlogged collection logged, with all that is recorded of it.

use crate::derived::{derived_tables, hold_models};
use crate::error::Error;
use crate::in_place::{gone, lock_own, require_freezable};
use crate::limits::{FREEZE_BYTES_PER_SECOND, FREEZE_LOCK_WAIT};
use crate::waiting::in_use;
use millstream_model::shell_word;
use millstream_pg::advisory::{COMPACTION, FREEZE};
use millstream_pg::quote_name;
use millstream_store::collections::Collection;
use millstream_store::{
    Schema, TableMark, await_openings, close_locked_run, lock_unfinished, lost_for_good, refuse_writes, segments,
    truncation, unlogged,
};
use serde::Serialize;
use tokio_postgres::{Client, GenericClient};

/// What a freeze rewrites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// All unlogged tables of a collection. It takes writes afterwards.
    Everything,
    /// The collection's table alone, which refuses writes afterwards. So its models can be derived again from the same
    /// documents whenever a crash has emptied them.
    Table,
}

/// What freezing has to write.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FreezeEstimate {
    /// Tables to rewrite: the collection's, its segments, and what its read models keep.
    pub tables: u64,
    /// Their bytes on disk with indexes and TOAST. Until the end, the same space is needed once more.
    pub bytes: u64,
    /// How long that takes at [`FREEZE_BYTES_PER_SECOND`].
    pub seconds: f64,
    /// Bytes of WAL, roughly: those of the tables, or none if `wal_level` is `minimal`.
    pub wal_bytes: u64,
    /// The server's `wal_level`.
    pub wal_level: String,
}

/// What freezing in place has to write, and what it leaves.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InPlaceEstimate {
    /// What is rewritten.
    #[serde(flatten)]
    pub rewritten: FreezeEstimate,
    /// Unlogged tables of the read models that stay as they are. A crash of the server empties them, and the next refresh
    /// builds the models again.
    pub left: u64,
    /// Their bytes on disk with indexes and TOAST.
    pub left_bytes: u64,
    /// Whether the collection refuses writes already.
    pub read_only: bool,
}

/// What freezing did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Frozen {
    /// Tables rewritten; none if the collection was logged before.
    pub tables: u64,
    /// Recorded loads whose documents survive crashes now.
    pub loads: u64,
    /// Loads among them that start over when they run again, because a crash had emptied the collection after them.
    pub lost: u64,
}

/// What [`freeze`] would write.
///
/// # Errors
/// [`Error::Refused`] when the table is gone.
pub async fn freeze_estimate(
    client: &Client,
    schema: &Schema,
    collection: &Collection,
) -> Result<FreezeEstimate, Error> {
    let tables = unlogged_tables(client, schema, collection, Extent::Everything).await?;
    estimated(client, &tables).await
}

/// What [`freeze_in_place`] would write.
///
/// # Errors
/// [`Error::Refused`] when the table is gone, or cannot be frozen in place.
pub async fn freeze_in_place_estimate(
    client: &Client,
    schema: &Schema,
    collection: &Collection,
) -> Result<InPlaceEstimate, Error> {
    let own = unlogged_tables(client, schema, collection, Extent::Table).await?;
    let read_only = require_freezable(client, schema, collection).await?;
    let all = unlogged_tables(client, schema, collection, Extent::Everything).await?;
    let left = all.iter().filter(|(name, _)| own.iter().all(|(rewritten, _)| rewritten != name));
    let left_bytes = left.clone().map(|(_, bytes)| bytes).sum();
    let left = left.count() as u64;
    Ok(InPlaceEstimate { rewritten: estimated(client, &own).await?, left, left_bytes, read_only })
}

/// What rewriting these tables writes.
async fn estimated(client: &Client, tables: &[(String, u64)]) -> Result<FreezeEstimate, Error> {
    let bytes = tables.iter().map(|(_, bytes)| bytes).sum();
    let row = client.query_one("select pg_catalog.current_setting('wal_level')", &[]).await?;
    let wal_level: String = row.get(0);
    let wal_bytes = if wal_level == "minimal" { 0 } else { bytes };
    let seconds = bytes as f64 / FREEZE_BYTES_PER_SECOND as f64;
    Ok(FreezeEstimate { tables: tables.len() as u64, bytes, seconds, wal_bytes, wal_level })
}

/// Makes a collection logged, with its segments, change record and read models, in one transaction. From then on its
/// loads count as durable. Its table is locked while it is rewritten. Otherwise, only loads into it and commands that
/// publish or unpublish models wait.
///
/// # Errors
/// `LoadRunning` while a load into it runs, `CompactionBusy` while its segments are merged, [`Error::ModelBusy`] while
/// a model of it is refreshed, [`Error::InUse`] when others do not release its tables within [`FREEZE_LOCK_WAIT`].
pub async fn freeze(client: &mut Client, schema: &Schema, collection: &Collection) -> Result<Frozen, Error> {
    freeze_to(client, schema, collection, Extent::Everything).await
}

/// Makes a collection's table logged and lets it refuse every write, in one transaction. Its change record and read models
/// stay as they are: if they are unlogged, a crash empties them, and the next refresh builds them again. The table is
/// locked while it is rewritten. [`unfreeze`](crate::unfreeze) lets it take writes again.
///
/// # Errors
/// As [`freeze`]; [`Error::Refused`] when the role does not own the table, when a trigger could not keep every write from
/// it, when documents wait in segments, or when a crash has emptied the collection.
pub async fn freeze_in_place(client: &mut Client, schema: &Schema, collection: &Collection) -> Result<Frozen, Error> {
    // Before anybody is locked out.
    require_freezable(&*client, schema, collection).await?;
    freeze_to(client, schema, collection, Extent::Table).await
}

async fn freeze_to(
    client: &mut Client,
    schema: &Schema,
    collection: &Collection,
    extent: Extent,
) -> Result<Frozen, Error> {
    schema.require_trusted_writers(&*client).await?;
    let error = match freeze_at_once(client, schema, collection, extent).await {
        Ok(frozen) => return Ok(frozen),
        Err(error) => error,
    };
    let mut tables = vec![quote_name(&collection.name)];
    let unlogged = unlogged_tables(&*client, schema, collection, extent).await.unwrap_or_default();
    tables.extend(unlogged.into_iter().map(|(name, _)| name));
    Err(match in_use(&*client, &tables, &collection.name, error).await {
        // For example a foreign key to an unlogged table, which a logged table must not have.
        Error::Postgres(refused) if refused.sqlstate() == Some("42P16") => Error::refused(
            format!("{} cannot survive crashes yet: {refused}", collection.name),
            "make the other table logged first: alter table .. set logged",
        ),
        Error::Postgres(other) => segments::crowded(other.into()).into(),
        other => other,
    })
}

async fn freeze_at_once(
    client: &mut Client,
    schema: &Schema,
    collection: &Collection,
    extent: Extent,
) -> Result<Frozen, Error> {
    let table_oid = collection.table_oid;
    // Runs that reconnect meanwhile are found running below.
    lost_for_good(client, schema, table_oid, |_| true).await?;
    let transaction = client.transaction().await?;
    let wait_ms = FREEZE_LOCK_WAIT.as_millis();
    transaction.batch_execute(&format!("set local lock_timeout = {wait_ms}")).await?;
    FREEZE.of_table(table_oid).lock_in_transaction(&transaction).await?;
    await_openings(&transaction).await?;
    for load_id in lock_unfinished(&transaction, schema, table_oid).await? {
        // Its run creates unlogged segments, and may reconnect.
        close_locked_run(&transaction, schema, load_id, "the collection was frozen").await?;
    }
    // A compaction drops segments that are to be rewritten.
    if !COMPACTION.of_table(table_oid).try_lock_in_transaction(&transaction).await? {
        return Err(millstream_store::Error::CompactionBusy { collection: collection.name.clone() }.into());
    }
    hold_models(&transaction, schema, table_oid).await?;
    lock_tables(&transaction, schema, collection, extent).await?;
    if extent == Extent::Table {
        // Again, because nobody can change it any more.
        require_freezable(&transaction, schema, collection).await?;
    }
    let tables = unlogged_tables(&transaction, schema, collection, extent).await?;
    let mortal = tables.iter().any(|(name, _)| *name == quote_name(&collection.name));
    let lost = if mortal { unlogged::lost(&transaction, schema, table_oid).await? } else { Vec::new() };
    // First, while the marker rows of the other loads exist.
    for load_id in &lost {
        unlogged::void(&transaction, schema, *load_id, unlogged::CRASHED).await?;
    }
    let passed = unlogged::pass_over(&transaction, schema, &lost).await?;
    if extent == Extent::Table && lost.len() as u64 > passed {
        // Its loads could not bring the documents back.
        let ids: Vec<String> = lost.iter().map(i64::to_string).collect();
        let problem = format!(
            "{} cannot be frozen in place: a crash of the server emptied it after load {}",
            collection.name,
            ids.join(", ")
        );
        let out = format!(
            "run the load again first; or leave out --in-place: millstream freeze {}",
            shell_word(&collection.name)
        );
        return Err(Error::refused(problem, out));
    }
    for (name, _) in &tables {
        transaction.batch_execute(&format!("alter table {name} set logged")).await?;
    }
    if let Some(mark) = TableMark::read(&transaction, table_oid, []).await? {
        truncation::record_files(&transaction, schema, &mark, false).await?;
    }
    let loads = unlogged::keep(&transaction, schema, table_oid, &lost).await?;
    if extent == Extent::Table {
        refuse_writes(&transaction, schema, table_oid, &quote_name(&collection.name)).await?;
    }
    transaction.commit().await?;
    Ok(Frozen { tables: tables.len() as u64, loads: loads - passed, lost: lost.len() as u64 - passed })
}

/// Locks all tables that may be rewritten, in the order in which writers lock them, so that no rewrite has to wait.
async fn lock_tables(
    client: &impl GenericClient,
    schema: &Schema,
    collection: &Collection,
    extent: Extent,
) -> Result<(), Error> {
    lock_own(client, collection).await?;
    for (name, _) in unlogged_tables(client, schema, collection, extent).await? {
        client.batch_execute(&format!("lock table {name} in access exclusive mode")).await?;
    }
    Ok(())
}

/// Names, quoted, and bytes of the unlogged tables of a collection that a freeze rewrites, its own first.
async fn unlogged_tables(
    client: &impl GenericClient,
    schema: &Schema,
    collection: &Collection,
    extent: Extent,
) -> Result<Vec<(String, u64)>, Error> {
    if !collection.present {
        return Err(gone(collection));
    }
    let mut names = vec![quote_name(&collection.name)];
    if extent == Extent::Everything {
        names.extend(segments::list(client, schema, collection.table_oid).await?.iter().map(|s| s.table(schema)));
        names.extend(derived_tables(client, schema, collection.table_oid).await?);
    }
    let rows = client.query(include_str!("freeze_tables.sql"), &[&names]).await?;
    Ok(rows.iter().map(|row| (row.get(0), u64::try_from(row.get::<_, i64>(1)).unwrap_or(0))).collect())
}
