//! What the files of loads held, so that files that have not changed can be left out of the next load.

use crate::error::Error;
use crate::schema::Schema;
use std::collections::HashMap;
use tokio_postgres::{Client, GenericClient, Transaction};

/// What a file held when a load had read all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceContent {
    /// Its size, in bytes on disk.
    pub bytes: u64,
    /// The hash of these bytes.
    pub hash: u128,
}

/// Records what the sources of a finished load held, in their order; `None` for what is no file.
///
/// # Errors
/// The server's.
pub async fn record_contents(
    transaction: &Transaction<'_>,
    schema: &Schema,
    load_id: i64,
    contents: &[Option<SourceContent>],
) -> Result<(), Error> {
    let bytes = |content: &SourceContent| i64::try_from(content.bytes).ok();
    let bytes: Vec<Option<i64>> = contents.iter().map(|content| content.as_ref().and_then(bytes)).collect();
    let hash = |content: &SourceContent| content.hash.to_be_bytes().to_vec();
    let hashes: Vec<Option<Vec<u8>>> = contents.iter().map(|content| content.as_ref().map(hash)).collect();
    let sql = "update {schema}.load set source_bytes = $2, source_hashes = $3 where load_id = $1";
    transaction.execute(&schema.sql(sql), &[&load_id, &bytes, &hashes]).await?;
    Ok(())
}

/// What these sources held when a load into a table had last read all of them, by their names. Those that a load has not
/// finished since are left out, and those of which nothing is recorded.
///
/// # Errors
/// The server's.
pub async fn read_before(
    client: &Client,
    schema: &Schema,
    table_oid: u32,
    names: &[String],
) -> Result<HashMap<String, SourceContent>, Error> {
    let rows = client.query(&schema.sql(include_str!("load_read.sql")), &[&table_oid, &names]).await?;
    let known = rows.iter().filter(|row| row.get("finished")).filter_map(|row| {
        let bytes = u64::try_from(row.get::<_, Option<i64>>("bytes")?).ok()?;
        let hash = row.get::<_, Option<Vec<u8>>>("hash")?.try_into().ok()?;
        Some((row.get("name"), SourceContent { bytes, hash: u128::from_be_bytes(hash) }))
    });
    Ok(known.collect())
}

/// The sources, in order, of the newest unfinished load into a table that reads some of these and can be resumed; empty if
/// there is none.
///
/// # Errors
/// The server's.
pub async fn unfinished_sources(
    client: &Client,
    schema: &Schema,
    table_oid: u32,
    names: &[String],
) -> Result<Vec<String>, Error> {
    // Comparing the names takes long, so it comes last.
    let sql = "select sources from {schema}.load where table_oid = $1 and resumable and state <> 'finished' \
               and sources operator(pg_catalog.&&) $2::text[] order by load_id desc limit 1";
    let row = client.query_opt(&schema.sql(sql), &[&table_oid, &names]).await?;
    Ok(row.map(|row| row.get(0)).unwrap_or_default())
}

/// Forgets what the files of all loads into a table held, because what they stored is gone.
pub(crate) async fn forget_contents(client: &impl GenericClient, schema: &Schema, table_oid: u32) -> Result<(), Error> {
    let sql = "update {schema}.load set source_bytes = null, source_hashes = null \
               where table_oid = $1 and source_hashes is not null";
    client.execute(&schema.sql(sql), &[&table_oid]).await?;
    Ok(())
}
