//! Segments whose table is gone: it was dropped by hand, or a restore gave it another OID.

use crate::collection::Collection;
use crate::error::Error;
use crate::limits::{COMPACTION_SEGMENTS_MAX, DROP_LOCK_WAIT};
use crate::schema::Schema;
use crate::segments::{self, Segment};
use millstream_pg::advisory::COMPACTION;
use millstream_pg::{quote_literal, quote_name, quote_qualified};
use tokio_postgres::{Client, Row};

/// Drops segments of tables that were dropped by hand, because nobody can read or merge them any more. It keeps
/// segments that this role may not drop, that somebody else drops or uses, or whose collection's name another table
/// has. Returns warnings to print. A segment that cannot be dropped is a warning, not an error.
///
/// # Errors
/// The server's, when it cannot list the segments.
pub async fn drop_segments(client: &mut Client, schema: &Schema) -> Result<Vec<String>, Error> {
    let rows = client.query(&schema.sql(include_str!("segments_orphaned.sql")), &[&schema.name()]).await?;
    let (mut warnings, mut dropped) = (Vec::new(), 0);
    for rows in rows.chunk_by(|one, next| table_oid(one) == table_oid(next)) {
        if let Some(name) = present_name(&rows[0]) {
            warnings.push(kept(schema, &name, rows));
            continue;
        }
        let gone: Vec<Segment> = rows.iter().map(segments::segment).collect();
        for group in gone.chunks(COMPACTION_SEGMENTS_MAX) {
            match drop_group(client, schema, table_oid(&rows[0]), group).await {
                Ok(true) => dropped += group.len(),
                Ok(false) => break,
                Err(error) => {
                    warnings.push(format!(
                        "segments of a dropped table were not removed; the next load tries again: {error}"
                    ));
                    break;
                }
            }
        }
    }
    if dropped > 0 {
        warnings.push(format!("removed the segments of dropped tables, with the documents in them: {dropped}"));
    }
    Ok(warnings)
}

/// Drops some segments of a table; false while somebody else drops or merges its segments.
async fn drop_group(client: &mut Client, schema: &Schema, table_oid: u32, group: &[Segment]) -> Result<bool, Error> {
    let transaction = client.transaction().await?;
    transaction.batch_execute(&format!("set local lock_timeout = {}", DROP_LOCK_WAIT.as_millis())).await?;
    if !COMPACTION.of_table(table_oid).try_lock_in_transaction(&transaction).await? {
        return Ok(false);
    }
    segments::drop(&transaction, schema, group).await?;
    transaction.commit().await?;
    Ok(true)
}

fn table_oid(row: &Row) -> u32 {
    row.get("table_oid")
}

/// The quoted name of the table that now has the collection's name.
fn present_name(row: &Row) -> Option<String> {
    let (schema, table): (Option<String>, Option<String>) = (row.get("schema_name"), row.get("table_name"));
    Some(quote_qualified(&schema?, &table?))
}

/// The warning about segments that may belong to the present table. Until you decide, a load needs `--adopt`. Documents
/// that it loads take effect after those in the segments, whose runs are older.
fn kept(schema: &Schema, name: &str, rows: &[Row]) -> String {
    let segments = rows.len();
    format!(
        "kept {segments} segments with documents for {name}, which has another OID than the table that they were loaded \
         for. {}",
        ways(schema, name, table_oid(&rows[0]))
    )
}

/// The error for dropping segments while another table has their collection's name.
pub(crate) fn strange(schema: &Schema, collection: &Collection, segments: usize) -> Error {
    let name = &collection.name;
    Error::refused(
        format!(
            "documents wait in {segments} segments for {name}, which has another OID than the table that they were \
             loaded for"
        ),
        ways(schema, &quote_name(name), collection.table_oid),
    )
}

/// What to do with segments of a table whose name another one has now.
fn ways(schema: &Schema, name: &str, oid: u32) -> String {
    let table = quote_literal(name);
    format!(
        "If it was restored: update {schema}.segment set table_oid = {table}::regclass where table_oid = {oid}; then \
         load into it with --adopt, and millstream compact. To discard them: delete from {schema}.collection where \
         table_oid = {oid}; the next load removes them"
    )
}
