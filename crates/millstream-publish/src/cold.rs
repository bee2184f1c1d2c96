//! Rewrites a collection that hardly changes any more as small as it gets: in the order of its key, with full pages.

use crate::error::Error;
use crate::in_place::{gone, lock_own};
use crate::limits::{COLD_BYTES_PER_SECOND, FREEZE_LOCK_WAIT};
use crate::waiting::in_use;
use millstream_engine::{COLD_FILLFACTOR, COMPRESSION, FILLFACTOR};
use millstream_failpoint as failpoint;
use millstream_model::shell_word;
use millstream_pg::advisory::{COMPACTION, FREEZE};
use millstream_pg::{quote_identifier, quote_name};
use millstream_store::collections::Collection;
use millstream_store::models::TRIGGER_PREFIX;
use millstream_store::{Judged, Schema, TableMark, await_openings, lock_unfinished, segments, truncation};
use serde::Serialize;
use tokio_postgres::{Client, GenericClient, Row};

/// What rewriting a collection takes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ColdEstimate {
    /// Bytes of the table on disk with its indexes and TOAST. The new files take no more.
    pub bytes: u64,
    /// The rows among them.
    pub heap_bytes: u64,
    /// The long values.
    pub toast_bytes: u64,
    /// The indexes.
    pub index_bytes: u64,
    /// Bytes for sorting at most, in temporary files.
    pub sort_bytes: u64,
    /// Free disk that is needed until the end at most: for the new files beside the old ones, and for sorting.
    pub needs_bytes: u64,
    /// Bytes of WAL at most: those of the new files, or none if the table is unlogged or `wal_level` is `minimal`.
    pub wal_bytes: u64,
    /// The server's `wal_level`.
    pub wal_level: String,
    /// How long it takes at [`COLD_BYTES_PER_SECOND`], roughly. Nobody can use the table meanwhile.
    pub seconds: f64,
    /// The index in whose order the rows are written.
    pub index: String,
    /// The statements that let the table leave room for updates again.
    pub undo: String,
}

/// What rewriting did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cold {
    /// Bytes of the table on disk before, with its indexes and TOAST.
    pub bytes_before: u64,
    /// The same afterwards.
    pub bytes_after: u64,
    /// The statements that let the table leave room for updates again.
    pub undo: String,
}

/// What [`freeze_cold`] would take.
///
/// # Errors
/// [`Error::Refused`] when the table is gone, or cannot be rewritten.
pub async fn cold_estimate(client: &Client, schema: &Schema, collection: &Collection) -> Result<ColdEstimate, Error> {
    let facts = require_rewritable(client, schema, collection).await?;
    let bytes = |name: &str| u64::try_from(facts.get::<_, i64>(name)).unwrap_or(0);
    let (all, heap_bytes, index_bytes) = (bytes("bytes"), bytes("heap_bytes"), bytes("index_bytes"));
    // The rows are sorted before the indexes are made.
    let sort_bytes = heap_bytes.max(index_bytes);
    let wal_level: String = facts.get("wal_level");
    let is_logged = wal_level != "minimal" && !facts.get::<_, bool>("unlogged");
    Ok(ColdEstimate {
        bytes: all,
        heap_bytes,
        toast_bytes: bytes("toast_bytes"),
        index_bytes,
        sort_bytes,
        needs_bytes: all + sort_bytes,
        wal_bytes: if is_logged { all } else { 0 },
        wal_level,
        seconds: all as f64 / COLD_BYTES_PER_SECOND as f64,
        index: facts.get("key_index"),
        undo: undo(&facts, collection),
    })
}

/// Rewrites the table of a collection in the order of its key, with full pages, in one transaction: if it does not end, the
/// table stays as it was. Long documents that come later are compressed by lz4 if the server has it (`lz4`), unless the table
/// has read models. Nobody can use the table meanwhile. It takes writes afterwards. `warn` hears what is odd about the table.
///
/// # Errors
/// [`Error::Refused`] as [`cold_estimate`], and when the table is truncated or rewritten meanwhile; `LoadRunning` while a
/// load into it runs, `CompactionBusy` while its segments are merged, [`Error::InUse`] when others do not release the table
/// within [`FREEZE_LOCK_WAIT`].
pub async fn freeze_cold(
    client: &mut Client,
    schema: &Schema,
    collection: &Collection,
    lz4: bool,
    warn: &(dyn Fn(&str) + Sync),
) -> Result<Cold, Error> {
    schema.require_trusted_writers(&*client).await?;
    // Before anybody is locked out.
    require_rewritable(&*client, schema, collection).await?;
    // A table that was truncated looks like one that was rewritten, once it has another file.
    let found = truncation::start_over(client, schema, collection.table_oid, [], Judged::Nothing, None).await?;
    let found = found.ok_or_else(|| gone(collection))?;
    if let Some(warning) = &found.warning {
        warn(warning);
    }
    match rewrite(client, schema, collection, &found.mark, lz4).await {
        Ok(done) => Ok(done),
        Err(error) => Err(in_use(&*client, &[quote_name(&collection.name)], &collection.name, error).await),
    }
}

/// Lets the server mark the pages of a rewritten table as visible to everybody, and count its rows.
///
/// # Errors
/// The server's. The table is rewritten nevertheless.
pub async fn vacuum_cold(client: &Client, collection: &Collection) -> Result<(), Error> {
    Ok(client.batch_execute(&format!("vacuum (analyze) {}", quote_name(&collection.name))).await?)
}

async fn rewrite(
    client: &mut Client,
    schema: &Schema,
    collection: &Collection,
    found: &TableMark,
    lz4: bool,
) -> Result<Cold, Error> {
    let table_oid = collection.table_oid;
    let transaction = client.transaction().await?;
    transaction.batch_execute(&format!("set local lock_timeout = {}", FREEZE_LOCK_WAIT.as_millis())).await?;
    FREEZE.of_table(table_oid).lock_in_transaction(&transaction).await?;
    await_openings(&transaction).await?;
    // A load that stopped resumes afterwards.
    lock_unfinished(&transaction, schema, table_oid).await?;
    if !COMPACTION.of_table(table_oid).try_lock_in_transaction(&transaction).await? {
        return Err(millstream_store::Error::CompactionBusy { collection: collection.name.clone() }.into());
    }
    lock_own(&transaction, collection).await?;
    failpoint::hit("cold-locked").await?;
    // Again, because nobody can change it any more.
    let facts = require_rewritable(&transaction, schema, collection).await?;
    let mark = TableMark::read(&transaction, table_oid, []).await?.ok_or_else(|| gone(collection))?;
    if mark.files != found.files {
        let problem = format!("{} was truncated or rewritten at this moment", collection.name);
        return Err(Error::refused(problem, "run the same command again"));
    }
    transaction.batch_execute(&statements(&facts, collection, lz4)).await?;
    failpoint::hit("cold-rewritten").await?;
    if let Some(mark) = TableMark::read(&transaction, table_oid, []).await? {
        truncation::record_files(&transaction, schema, &mark, false).await?;
    }
    let size = "select pg_catalog.pg_total_relation_size($1::oid)";
    let after: i64 = transaction.query_one(size, &[&table_oid]).await?.get(0);
    transaction.commit().await?;
    failpoint::hit("cold-committed").await?;
    Ok(Cold {
        bytes_before: u64::try_from(facts.get::<_, i64>("bytes")).unwrap_or(0),
        bytes_after: u64::try_from(after).unwrap_or(0),
        undo: undo(&facts, collection),
    })
}

/// The statements that rewrite the table. It stays clustered by the index by which it was before, if by any.
fn statements(facts: &Row, collection: &Collection, lz4: bool) -> String {
    let table = quote_name(&collection.name);
    let (index, quoted): (&str, &str) = (facts.get("key_index"), facts.get("quoted_index"));
    let full = format!("set (fillfactor = {COLD_FILLFACTOR})");
    let mut all = vec![format!("alter table {table} {full}"), format!("alter index {quoted} {full}")];
    // Altering the column would make its models count everything as changed.
    if lz4 && !facts.get::<_, bool>("has_models") && facts.get::<_, Option<bool>>("has_lz4") == Some(false) {
        all.push(format!("alter table {table} alter column doc set {COMPRESSION}"));
    }
    all.push(format!("cluster {table} using {}", quote_identifier(index)));
    all.push(match facts.get::<_, Option<&str>>("clustered") {
        Some(other) => format!("alter table {table} cluster on {}", quote_identifier(other)),
        None => format!("alter table {table} set without cluster"),
    });
    all.join("; ")
}

/// The statements that give the table and its index back what they had. Nothing has to be rewritten for that.
fn undo(facts: &Row, collection: &Collection) -> String {
    let table = quote_name(&collection.name);
    let full = COLD_FILLFACTOR.to_string();
    // As it was, unless it is cold already. Then it is as new.
    let before = |name: &str| facts.get::<_, Option<String>>(name).filter(|percent| *percent != full);
    let new = if collection.adopted { None } else { Some(FILLFACTOR.to_string()) };
    let change = |percent: Option<String>| match percent {
        Some(percent) => format!("set (fillfactor = {percent})"),
        None => "reset (fillfactor)".to_owned(),
    };
    let index: &str = facts.get("quoted_index");
    let (table_change, index_change) = (change(before("fillfactor").or(new)), change(before("index_fillfactor")));
    format!("alter table {table} {table_change}; alter index {index} {index_change}")
}

/// Requires that the table of a collection can be rewritten in the order of its key, and that its documents are all in it.
async fn require_rewritable(
    client: &impl GenericClient,
    schema: &Schema,
    collection: &Collection,
) -> Result<Row, Error> {
    let mut key: Vec<&str> = collection.key.iter().map(|column| column.name.as_str()).collect();
    key.sort_unstable();
    let facts = client.query_opt(include_str!("cold.sql"), &[&collection.table_oid, &key, &TRIGGER_PREFIX]).await?;
    let facts = facts.ok_or_else(|| gone(collection))?;
    let name = &collection.name;
    let refuse = |why: &str, out: String| Err(Error::refused(format!("{name} cannot be rewritten: {why}"), out));
    if !facts.get::<_, bool>("owns") {
        let owner: &str = facts.get("owner");
        return refuse(&format!("only {owner}, who owns its table, may do that"), format!("connect as {owner}"));
    }
    if facts.get("has_children") {
        let why = "it has partitions or child tables, which the server does not rewrite in one transaction";
        return refuse(why, "rewrite them by hand, one after the other: cluster PARTITION using INDEX".to_owned());
    }
    if !facts.get::<_, bool>("plain") {
        return refuse("it is not a plain table", "see `millstream collections`".to_owned());
    }
    if facts.get::<_, Option<&str>>("key_index").is_none() {
        let why = "its table has no unique index of the key's columns";
        let columns: Vec<String> = collection.key.iter().map(|column| quote_identifier(&column.name)).collect();
        let out = format!("create unique index on {} ({})", quote_name(name), columns.join(", "));
        return refuse(why, out);
    }
    let waiting = segments::list(client, schema, collection.table_oid).await?.len();
    if waiting > 0 {
        let why = format!("documents wait in {waiting} segments to be merged into its table");
        return refuse(&why, format!("merge them first: millstream compact {}", shell_word(name)));
    }
    Ok(facts)
}
