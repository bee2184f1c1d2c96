//! Lists, finds and drops collections.

use crate::check::Check;
pub use crate::collection::{Collection, by_oid, find};
use crate::error::Error;
use crate::freeze::allow_writes;
use crate::limits::{COMPACTION_SEGMENTS_MAX, DROP_LOCK_WAIT};
use crate::load::await_openings;
use crate::loads::lock_unfinished;
use crate::prepared_holder::prepared_holder;
use crate::schema::Schema;
pub use crate::sizes::{CollectionSizes, IndexSize, sizes};
use crate::typed::GeneratedColumn;
use crate::{models, orphaned_segments, segments};
use millstream_model::{CollectionName, DocumentForm, KeyColumn, shell_word};
use millstream_pg::advisory::COMPACTION;
use millstream_pg::{fill, json_rows, quote_name};
use serde::{Deserialize, Serialize};
use tokio_postgres::Client;

/// A collection as it is listed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CollectionSummary {
    /// Schema and table; if the table was renamed, its current name.
    #[serde(flatten)]
    pub name: CollectionName,
    /// Columns of the key, in index order.
    pub key: Vec<KeyColumn>,
    /// What it stores of its documents.
    pub doc: DocumentForm,
    /// `log` while documents wait in segments, else `table`.
    pub layout: String,
    /// Whether the table was there before Millstream.
    pub adopted: bool,
    /// Whether the table is still there.
    pub present: bool,
    /// Whether a crash of the server would empty the table; `null` if the table is gone.
    pub unlogged: Option<bool>,
    /// Whether it was frozen in place, and takes no writes.
    pub read_only: bool,
    /// Whether Citus distributes the table: its rows lie at other servers.
    pub distributed: bool,
    /// Rows by the table's statistics; `null` until it was first analysed, and if it is distributed.
    pub rows_estimate: Option<u64>,
    /// Bytes on disk with indexes and TOAST; `null` if the table is gone or distributed.
    pub bytes: Option<u64>,
    /// CHECK constraints of its table.
    pub checks: Vec<Check>,
    /// The generated columns of its table.
    pub columns: Vec<GeneratedColumn>,
    /// Segments of the log layout that wait to be merged into the table.
    pub segments: u64,
    /// Bytes of their documents.
    pub segment_bytes: u64,
    /// When the oldest of them was committed: UTC, RFC 3339.
    pub waiting_since: Option<String>,
    /// Recorded loads.
    pub loads: u64,
    /// When the last load ended, or began if it has not ended: UTC, RFC 3339.
    pub last_load_at: Option<String>,
}

/// What dropping a collection removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Dropped {
    /// Whether the table itself was dropped.
    pub table: bool,
    /// Loads whose records were deleted, with their rejects.
    pub loads: u64,
}

/// Every collection, by name.
pub async fn list(client: &Client, schema: &Schema) -> Result<Vec<CollectionSummary>, Error> {
    let distributed = fill!(include_str!("distributed.sql"), table = "k.table_oid");
    let sql = fill!(include_str!("collections.sql"), schema, distributed, rows = include_str!("table_rows.sql"));
    let mut all: Vec<CollectionSummary> = json_rows(client, "a collection's record", &sql, &[]).await?;
    for collection in &mut all {
        let columns = std::mem::take(&mut collection.columns);
        collection.columns = columns.into_iter().map(GeneratedColumn::with_path).collect();
    }
    Ok(all)
}

/// Deletes the records of a collection, its loads and its rejects, in one transaction. If `with_table` is set, drops
/// the table too. If the server has no room for the locks of all segments, drops some of them in transactions before.
///
/// # Errors
/// [`Error::LoadRunning`] while a load into it runs; `CompactionBusy` while its segments are merged; [`Error::Model`]
/// when a read model is derived from it; [`Error::Refused`] when documents wait in segments and the table stays, or
/// when the segments may belong to a restored table; the server's when something else depends on the table or uses it
/// for longer than [`DROP_LOCK_WAIT`].
pub async fn drop(
    client: &mut Client,
    schema: &Schema,
    collection: &Collection,
    with_table: bool,
) -> Result<Dropped, Error> {
    schema.require_trusted_writers(&*client).await?;
    let mut most = usize::MAX;
    loop {
        match drop_some(client, schema, collection, with_table, most).await {
            Ok(Some(dropped)) => return Ok(dropped),
            Ok(None) => {}
            Err(Error::Postgres(full)) if full.is_out_of_memory() && most > 1 => {
                most = (most / 2).min(COMPACTION_SEGMENTS_MAX);
            }
            Err(Error::Postgres(busy)) => {
                let table = [quote_name(&collection.name)];
                return Err(match prepared_holder(&*client, &table, &busy).await {
                    Some(refusal) => Error::Refused(refusal),
                    None => segments::crowded(Error::Postgres(busy)),
                });
            }
            Err(error) => return Err(segments::crowded(error)),
        }
    }
}

/// Drops the collection, or only the newest of its segments if it has more than `most`. Then it returns `None`.
async fn drop_some(
    client: &mut Client,
    schema: &Schema,
    collection: &Collection,
    with_table: bool,
    most: usize,
) -> Result<Option<Dropped>, Error> {
    let transaction = client.transaction().await?;
    transaction.batch_execute(&format!("set local lock_timeout = {}", DROP_LOCK_WAIT.as_millis())).await?;
    // A session that was opening a load has locked that load by now, so the next check sees it.
    await_openings(&transaction).await?;
    lock_unfinished(&transaction, schema, collection.table_oid).await?;
    let oid = collection.table_oid;
    if let Some(model) = models::list(&transaction, schema).await?.into_iter().find(|model| model.table_oid == oid) {
        let hint = format!("remove it first: millstream unpublish {}", shell_word(&model.name));
        return Err(Error::Model { model: model.name, problem: "is derived from it".into(), hint });
    }
    if !COMPACTION.of_table(oid).try_lock_in_transaction(&transaction).await? {
        return Err(Error::CompactionBusy { collection: collection.name.clone() });
    }
    let segments = segments::list(&transaction, schema, oid).await?;
    if !segments.is_empty() && collection.replaced {
        return Err(orphaned_segments::strange(schema, collection, segments.len()));
    }
    if !segments.is_empty() && collection.present && !with_table {
        return Err(waiting(&collection.name, segments.len()));
    }
    let table_dropped = with_table && collection.present;
    let table = quote_name(&collection.name);
    if table_dropped {
        // Before its segments: readers lock them in the same order.
        transaction.batch_execute(&format!("lock table {table} in access exclusive mode")).await?;
    }
    if segments.len() > most {
        if table_dropped {
            // Before documents are lost: nothing else may depend on the table.
            transaction.batch_execute(&format!("savepoint trial; drop table {table}; rollback to trial")).await?;
        }
        segments::drop(&transaction, schema, &segments[segments.len() - most..]).await?;
        transaction.commit().await?;
        return Ok(None);
    }
    if collection.present {
        // A table that stays takes writes again: nothing of ours would know why it refuses them.
        allow_writes(&transaction, schema, oid).await?;
    }
    segments::drop(&transaction, schema, &segments).await?;
    let loads = transaction.execute(&schema.sql("delete from {schema}.load where table_oid = $1"), &[&oid]).await?;
    transaction.execute(&schema.sql("delete from {schema}.collection where table_oid = $1"), &[&oid]).await?;
    transaction.execute(&schema.sql("delete from {schema}.tombstone where table_oid = $1"), &[&oid]).await?;
    if table_dropped {
        transaction.batch_execute(&format!("drop table {table}")).await?;
    }
    transaction.commit().await?;
    Ok(Some(Dropped { table: table_dropped, loads }))
}

fn waiting(name: &CollectionName, segments: usize) -> Error {
    let compact = format!("millstream compact {}", shell_word(name));
    let problem =
        format!("documents of {name} wait in {segments} segments and would be lost, although its table stays");
    Error::refused(problem, format!("merge them first: {compact}; or drop the table with them: --table"))
}
