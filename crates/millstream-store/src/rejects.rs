//! Queries that count, list and delete recorded rejects.

use crate::error::Error;
use crate::row::count as counted;
use crate::schema::Schema;
use futures_util::TryStreamExt;
use millstream_pg::fill;
use serde::Serialize;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, GenericClient, Row};

/// Selects rejects of one collection. Every field that is set narrows the selection.
#[derive(Debug, Clone, Default)]
pub struct RejectFilter {
    /// The collection's table.
    pub table_oid: u32,
    /// Only this load's.
    pub load_id: Option<i64>,
    /// Only those with this reason's code.
    pub reason: Option<String>,
    /// Only those rejected more than this many seconds ago.
    pub older_than_seconds: Option<f64>,
}

/// How many rejects a reason has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReasonCount {
    /// The reason's code.
    pub reason: String,
    /// Documents.
    pub count: u64,
    /// Total bytes of the documents, before any were truncated.
    pub bytes: u64,
}

/// A recorded reject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RejectRecord {
    /// The load that rejected the document.
    pub load_id: i64,
    /// Name of the source.
    pub source: String,
    /// Offset of the document in the uncompressed source.
    pub byte_offset: u64,
    /// Line of the source on which the document begins, from 1.
    pub line: u64,
    /// Code of the reason.
    pub reason: String,
    /// What is wrong, for people.
    pub detail: String,
    /// The document's bytes, if they are text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document: Option<String>,
    /// The document's bytes in base64, if they are not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document_base64: Option<String>,
    /// Length of the whole document.
    pub bytes: u64,
    /// Whether the document was too long to keep. Then only its head and tail are here.
    pub truncated: bool,
    /// UTC, RFC 3339.
    pub rejected_at: String,
}

/// Which rejects a [`RejectFilter`] selects.
fn matching(schema: &Schema) -> String {
    schema.sql(include_str!("rejects_matching.sql"))
}

/// Rejects by reason, the most frequent first.
pub async fn count(client: &Client, schema: &Schema, filter: &RejectFilter) -> Result<Vec<ReasonCount>, Error> {
    let sql = format!(
        "select r.reason, pg_catalog.count(*) as count, pg_catalog.sum(r.bytes)::bigint as bytes {} \
         group by r.reason order by count desc, r.reason",
        matching(schema)
    );
    let rows = client.query(&sql, &parameters(filter)).await?;
    Ok(rows
        .iter()
        .map(|row| ReasonCount {
            reason: row.get("reason"),
            count: counted(row, "count"),
            bytes: counted(row, "bytes"),
        })
        .collect())
}

/// Lines that the recorded rejects of a load hold, as far as they hold several each.
pub async fn lines(client: &impl GenericClient, schema: &Schema, load_id: i64) -> Result<u64, Error> {
    let row = client.query_one(&schema.sql(include_str!("reject_lines.sql")), &[&load_id]).await?;
    Ok(counted(&row, "lines"))
}

/// Passes rejects to `take` in the order of load and position, at most `limit` of them. They are streamed, so any
/// number fits in memory. An error of `take` ends the listing.
pub async fn each<E: From<Error>>(
    client: &Client,
    schema: &Schema,
    filter: &RejectFilter,
    limit: Option<u64>,
    mut take: impl FnMut(RejectRecord) -> Result<(), E>,
) -> Result<(), E> {
    let sql = format!(
        "{} {} order by r.load_id, r.source, r.byte_offset limit $5",
        include_str!("rejects_columns.sql"),
        matching(schema)
    );
    let limit = limit.map(|n| i64::try_from(n).unwrap_or(i64::MAX));
    let mut values = parameters(filter);
    values.push(&limit);
    let rows = client.query_raw(&sql, values).await.map_err(Error::from)?;
    let mut rows = std::pin::pin!(rows);
    while let Some(row) = rows.try_next().await.map_err(Error::from)? {
        take(record(&row))?;
    }
    Ok(())
}

/// What [`clear`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cleared {
    /// Rejects that are deleted.
    pub deleted: u64,
    /// Rejects of damaged sources that stay, because a later run of their load takes them back.
    pub kept: u64,
}

/// Deletes rejects. Those for the damage at which loads stopped stay while the loads can be resumed. The loads keep
/// their counts.
pub async fn clear(client: &Client, schema: &Schema, filter: &RejectFilter) -> Result<Cleared, Error> {
    let sql = fill!(include_str!("rejects_clear.sql"), schema, matching = matching(schema));
    let row = client.query_one(&sql, &parameters(filter)).await?;
    Ok(Cleared { deleted: counted(&row, "deleted"), kept: counted(&row, "kept") })
}

/// The parameters of [`matching`].
fn parameters(filter: &RejectFilter) -> Vec<&(dyn ToSql + Sync)> {
    vec![&filter.table_oid, &filter.load_id, &filter.reason, &filter.older_than_seconds]
}

fn record(row: &Row) -> RejectRecord {
    RejectRecord {
        load_id: row.get("load_id"),
        source: row.get("source"),
        byte_offset: counted(row, "byte_offset"),
        line: counted(row, "line"),
        reason: row.get("reason"),
        detail: row.get("detail"),
        document: row.get("document"),
        document_base64: row.get("document_base64"),
        bytes: counted(row, "bytes"),
        truncated: row.get("truncated"),
        rejected_at: row.get("rejected_at"),
    }
}
