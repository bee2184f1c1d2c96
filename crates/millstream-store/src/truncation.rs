//! Notices that a table, or a partition of it, was truncated, and resets the records of its loads.
//!
//! TRUNCATE gives a table another file, and so do VACUUM FULL and the like, which keep the rows. A collection records the
//! files that its table had when a run last looked, and which tables of it had no row then: the unfilled ones. A batch
//! that writes into one ends that (`lane_advance.sql`), and a load that deletes the last row of one begins it again. A table
//! with another file and no row was truncated, unless it is unfilled: then nothing of a load can be gone from it. A table
//! with the same file was not, whatever rows it has: they were deleted, and a load that resumes does not bring them back.

pub use crate::unfilled::{await_record, record_emptied, record_files, record_filling, record_left};

use crate::contents::forget_contents;
use crate::error::Error;
use crate::loads::lock_idle;
use crate::mark::{Judged, TableMark};
use crate::schema::Schema;
use crate::unfilled::{recorded, tables};
use crate::unlogged::{any_row, void};
use millstream_model::shell_word;
use millstream_pg::advisory::OPEN;
use millstream_pg::quote_name;
use tokio_postgres::{Client, GenericClient, Row, Transaction};

/// What happened to the rows of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rows {
    /// They are in the same files.
    Same,
    /// A file was replaced, and there are rows. If it was a TRUNCATE, somebody has inserted since.
    Rewritten {
        /// Whether the server has never counted the rows of the file, as after TRUNCATE and inserts in one transaction, or
        /// after some forms of ALTER TABLE. VACUUM FULL and CLUSTER count them.
        uncounted: bool,
    },
    /// A partition was truncated: this one.
    PartitionEmptied(String),
    /// The table was truncated.
    Emptied,
}

/// The recorded reason why a load starts over whose table was truncated.
pub const EMPTIED: &str = "the table was emptied";

/// What happened to a table since it had some files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Since {
    /// What happened to its rows.
    pub rows: Rows,
    /// `OID:FILE` of each unfilled table that got this file.
    pub unfilled: Vec<String>,
}

/// What happened to the rows of a table since it had these files. They may name several of a table: it had them in turn,
/// and kept its rows.
///
/// # Errors
/// The server's.
pub async fn rows_since(
    client: &impl GenericClient,
    schema: &Schema,
    files: &str,
    now: &TableMark,
) -> Result<Since, Error> {
    let before: Vec<(u32, &str)> = tables(recorded(files).0).collect();
    let is_replaced = |now: &(u32, &str)| before.iter().any(|(known, _)| *known == now.0) && !before.contains(now);
    let mut replaced: Vec<(u32, &str)> = tables(&now.files).filter(is_replaced).collect();
    let mut unfilled = Vec::new();
    if !replaced.is_empty() {
        // Read after the mark: what was unfilled then is unfilled still.
        let sql = schema.sql("select files from {schema}.collection where table_oid = $1");
        let known = client.query_opt(&sql, &[&now.oid]).await?.and_then(|row| row.get::<_, Option<String>>(0));
        let (_, known) = recorded(known.as_deref().unwrap_or_default());
        let (without, with) = replaced.into_iter().partition(|(table, _)| known.contains(table));
        replaced = with;
        unfilled = without;
    }
    let replaced: Vec<u32> = replaced.into_iter().map(|(table, _)| table).collect();
    let rows = rows_replaced(client, &replaced, now).await?;
    Ok(Since { rows, unfilled: unfilled.into_iter().map(|(table, file)| format!("{table}:{file}")).collect() })
}

/// What happened to the rows of a table of which these tables have another file.
async fn rows_replaced(client: &impl GenericClient, replaced: &[u32], now: &TableMark) -> Result<Rows, Error> {
    if replaced.is_empty() {
        return Ok(Rows::Same);
    }
    if !any_row(client, &quote_name(&now.name)).await? {
        return Ok(Rows::Emptied);
    }
    for row in client.query(include_str!("truncation_partitions.sql"), &[&replaced, &now.oid]).await? {
        let partition: String = row.get("name");
        if row.get("no_pages") || row.get::<_, bool>("readable") && !any_row(client, &partition).await? {
            return Ok(Rows::PartitionEmptied(partition));
        }
    }
    let uncounted =
        "select exists (select from pg_catalog.pg_class where oid = any ($1::oid[]) and reltuples < 0::float4)";
    Ok(Rows::Rewritten { uncounted: client.query_one(uncounted, &[&replaced]).await?.get(0) })
}

/// How often the table of a collection was found truncated so far.
///
/// # Errors
/// The server's.
pub async fn times_emptied(client: &impl GenericClient, schema: &Schema, table_oid: u32) -> Result<i32, Error> {
    let sql = schema.sql("select coalesce(pg_catalog.max(emptied), 0) from {schema}.collection where table_oid = $1");
    Ok(client.query_one(&sql, &[&table_oid]).await?.get(0))
}

/// The partition that another run has found truncated while this load was at work. `None` if it was the table, or if no
/// run has found any.
///
/// # Errors
/// The server's.
pub async fn emptied_of(client: &impl GenericClient, schema: &Schema, load_id: i64) -> Result<Option<String>, Error> {
    let sql = schema.sql("select nullif(emptied, '') from {schema}.load where load_id = $1");
    Ok(client.query_opt(&sql, &[&load_id]).await?.and_then(|row| row.get(0)))
}

/// The table as [`start_over`] found it.
#[derive(Debug)]
pub struct Found {
    /// Its state.
    pub mark: TableMark,
    /// How often it was found truncated so far.
    pub times_emptied: i32,
    /// A sentence to print.
    pub warning: Option<String>,
}

/// Looks at the files of a table before a run or a compaction begins. If the table was truncated, its loads read their
/// sources from the start, `sum` adds again what it had added, and tombstones are deleted. If a partition was truncated,
/// unfinished loads read from the start too, except those in mode `sum`, which cannot be resumed any more. A running
/// load looks for itself; if it is killed before, a mark remains. `None` if the table is gone. `judged`: what the load
/// relies on. `shard`: the number of the shard that the table is, if Citus distributes it.
///
/// # Errors
/// The server's.
pub async fn start_over<'a>(
    client: &mut Client,
    schema: &Schema,
    table_oid: u32,
    key: impl IntoIterator<Item = &'a str>,
    judged: Judged,
    shard: Option<i64>,
) -> Result<Option<Found>, Error> {
    let transaction = client.transaction().await?;
    // Whoever holds a lock on the table holds up this load only, and not all that open one.
    transaction.execute("select pg_catalog.pg_relation_size($1::oid)", &[&table_oid]).await?;
    OPEN.lock_in_transaction(&transaction).await?;
    let Some(mark) = TableMark::read_judging(&transaction, table_oid, key, judged, shard).await? else {
        return Ok(None);
    };
    let recorded = schema.sql("select files from {schema}.collection where table_oid = $1");
    let recorded = transaction.query_opt(&recorded, &[&mark.oid]).await?;
    let recorded: Option<String> = recorded.and_then(|row| row.get(0));
    let rows = match &recorded {
        Some(files) => rows_since(&transaction, schema, files, &mark).await?.rows,
        None => Rows::Same,
    };
    let warning = match &rows {
        Rows::Same => deleted(&transaction, schema, &mark).await?,
        Rows::Rewritten { .. } => Some(rewritten(&mark)),
        Rows::Emptied => reset_all(&transaction, schema, &mark, None, None).await?,
        Rows::PartitionEmptied(partition) => reset_all(&transaction, schema, &mark, Some(partition), None).await?,
    };
    record_files(&transaction, schema, &mark, false).await?;
    let times_emptied = times_emptied(&transaction, schema, table_oid).await?;
    transaction.commit().await?;
    Ok(Some(Found { mark, times_emptied, warning }))
}

/// Resets what is recorded of documents that were truncated: of all of the table, or of a partition. Returns a sentence to
/// print. Does nothing if another run has found the table truncated since it was found so as many times as a run `knows`,
/// and nothing was truncated after that: then that run has reset all. Call it under the lock [`OPEN`]. If a running load
/// has found the TRUNCATE, take that lock before the one of the load's own row.
///
/// # Errors
/// The server's.
pub async fn reset_all(
    transaction: &Transaction<'_>,
    schema: &Schema,
    mark: &TableMark,
    partition: Option<&str>,
    knows: Option<i32>,
) -> Result<Option<String>, Error> {
    let found = schema.sql("select files from {schema}.collection where table_oid = $1 and emptied > $2");
    if let Some(row) = transaction.query_opt(&found, &[&mark.oid, &knows]).await? {
        let files: String = row.get::<_, Option<String>>(0).unwrap_or_default();
        let since = rows_since(transaction, schema, &files, mark).await?.rows;
        if matches!(since, Rows::Same | Rows::Rewritten { .. }) {
            return Ok(None);
        }
    }
    let (mut over, mut lacking) = (Vec::new(), Vec::new());
    for load in loads(transaction, schema, mark).await? {
        match reset(transaction, schema, &load, partition).await? {
            Reset::Over => over.push(load.get::<_, i64>("load_id").to_string()),
            Reset::Lacks => lacking.push(load.get::<_, i64>("load_id").to_string()),
            Reset::Marked => {}
        }
    }
    forget_contents(transaction, schema, mark.oid).await?;
    let forget = schema.sql("delete from {schema}.tombstone where table_oid = $1");
    let forgotten = match partition {
        Some(_) => 0,
        None => transaction.execute(&forget, &[&mark.oid]).await?,
    };
    record_files(transaction, schema, mark, true).await?;
    let anything = !over.is_empty() || !lacking.is_empty() || forgotten > 0;
    Ok(anything.then(|| emptied(partition, &over, &lacking, forgotten)))
}

/// What becomes of a load whose documents were truncated.
enum Reset {
    /// It reads its sources from the start.
    Over,
    /// It notices for itself, or its next run is refused.
    Marked,
    /// It is finished, and a part of what it had added up is missing.
    Lacks,
}

/// Unfinished loads that have documents in the table, and finished ones in mode `sum`.
async fn loads(client: &impl GenericClient, schema: &Schema, mark: &TableMark) -> Result<Vec<Row>, Error> {
    Ok(client.query(&schema.sql(include_str!("truncation.sql")), &[&mark.oid]).await?)
}

/// Resets one load. If it is at work, or a partition took a part of what it had added up, it is marked instead.
async fn reset(
    transaction: &Transaction<'_>,
    schema: &Schema,
    load: &Row,
    partition: Option<&str>,
) -> Result<Reset, Error> {
    let (load_id, finished, adds_up): (i64, bool, bool) =
        (load.get("load_id"), load.get("finished"), load.get("adds_up"));
    if partition.is_some() && finished {
        return Ok(Reset::Lacks);
    }
    let idle = match lock_idle(transaction, schema, load_id).await {
        Err(Error::LoadRunning { .. }) => false,
        locked => locked.map(|()| true)?,
    };
    if !idle || partition.is_some() && adds_up {
        mark_emptied(transaction, schema, load_id, Some(partition.unwrap_or_default())).await?;
        return Ok(Reset::Marked);
    }
    void(transaction, schema, load_id, EMPTIED).await?;
    if finished {
        // The same command begins a new load, and so does any other with its sources.
        let give_up = schema.sql("update {schema}.load set resumable = false where load_id = $1");
        transaction.execute(&give_up, &[&load_id]).await?;
    }
    Ok(Reset::Over)
}

/// Records what was truncated of a load's documents: a partition, or the whole table (an empty name), or nothing.
///
/// # Errors
/// The server's.
pub async fn mark_emptied(
    client: &impl GenericClient,
    schema: &Schema,
    load_id: i64,
    partition: Option<&str>,
) -> Result<(), Error> {
    let sql = schema.sql("update {schema}.load set emptied = $2 where load_id = $1");
    client.execute(&sql, &[&load_id, &partition]).await?;
    Ok(())
}

fn emptied(partition: Option<&str>, over: &[String], lacking: &[String], forgotten: u64) -> String {
    let what = partition.map_or_else(|| "the table".to_owned(), |partition| format!("partition {partition}"));
    let mut effects = Vec::new();
    match over {
        [] => {}
        [load] => effects.push(format!("load {load} starts over")),
        loads => effects.push(format!("loads {} start over", loads.join(", "))),
    }
    if !lacking.is_empty() {
        let loads = if lacking.len() == 1 { "load" } else { "loads" };
        effects.push(format!("what {loads} {} added up there is missing", lacking.join(", ")));
    }
    if forgotten > 0 {
        effects.push(format!("{forgotten} remembered deletes are forgotten"));
    }
    format!("{what} was truncated: {}", effects.join(", "))
}

/// What to print about rewritten tables.
pub fn rewritten(mark: &TableMark) -> String {
    let name = &mark.name;
    format!(
        "{name} has another file than before, as after VACUUM FULL, CLUSTER or ALTER TABLE. If somebody truncated it \
         and inserted rows since, documents are missing: millstream verify {} finds them, --resume off loads them \
         again",
        shell_word(name)
    )
}

/// A hint if the rows that an unfinished load stored were deleted.
async fn deleted(client: &impl GenericClient, schema: &Schema, mark: &TableMark) -> Result<Option<String>, Error> {
    if any_row(client, &quote_name(&mark.name)).await? {
        return Ok(None);
    }
    let loads = loads(client, schema, mark).await?;
    let Some(load) = loads.iter().find(|load| !load.get::<_, bool>("finished")) else { return Ok(None) };
    let (load_id, documents): (i64, i64) = (load.get("load_id"), load.get("documents"));
    Ok(Some(format!(
        "the table is empty, although load {load_id} read {documents} documents into it: its rows were deleted. A load \
         that resumes does not bring them back; --resume off reads everything again"
    )))
}
