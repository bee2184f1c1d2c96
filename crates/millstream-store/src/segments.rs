//! The segments of collections in the log layout: lists, locks, reads and drops them.

use crate::collection::Collection;
use crate::error::Error;
use crate::limits::SEGMENT_HOLD_TRIES_MAX;
use crate::row::count as counted;
use crate::schema::Schema;
use crate::trust::{POWERS, ROLES};
use millstream_model::{CollectionName, shell_word};
use millstream_pg::{ErrorKind, Explained, fill, quote_identifier, quote_name};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, GenericClient, Row};

/// Draws the number of the next segment, and names the roles that may read the collection's table.
pub const BEGIN: &str = include_str!("segment_begin.sql");

/// Records what a segment holds.
pub const INSERT: &str = include_str!("segment_insert.sql");

/// A recorded segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Its number.
    pub segment_id: i64,
    /// Its run's place among all runs.
    pub run_order: i64,
    /// Documents in it.
    pub documents: u64,
    /// Bytes of its documents.
    pub bytes: u64,
    /// The group that it is being merged with, and the keys that separate the group's ranges.
    pub compaction: Option<(i64, Vec<String>)>,
}

/// What a role can see of the segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// The list of segments.
    Listed,
    /// That there are some, but not of which collections.
    Hidden,
    /// There are none.
    Absent,
}

impl Segment {
    /// Its table, quoted.
    pub fn table(&self, schema: &Schema) -> String {
        table(schema, self.segment_id)
    }
}

/// The table of a segment, quoted.
pub fn table(schema: &Schema, segment_id: i64) -> String {
    format!("{schema}.segment_{segment_id}")
}

/// Segments of a table in the order in which their documents take effect.
pub async fn list(client: &impl GenericClient, schema: &Schema, table_oid: u32) -> Result<Vec<Segment>, Error> {
    let rows = client.query(&schema.sql(include_str!("segments.sql")), &[&table_oid]).await?;
    Ok(rows.iter().map(segment).collect())
}

/// What this role can see of the segments in a schema. The schema need not exist.
pub async fn seen(client: &Client, schema: &Schema) -> Result<Seen, Error> {
    let row = client.query_one(include_str!("segments_seen.sql"), &[&schema.name()]).await?;
    Ok(match (row.get("listed"), row.get("present")) {
        (true, _) => Seen::Listed,
        (false, true) => Seen::Hidden,
        (false, false) => Seen::Absent,
    })
}

/// How many segments of a table wait to be merged.
///
/// # Errors
/// The server's.
pub async fn count(client: &Client, schema: &Schema, collection: &Collection) -> Result<usize, Error> {
    Ok(list(client, schema, collection.table_oid).await?.len())
}

/// Begins a transaction that reads a collection's table and its segments as of one moment, and returns the segments.
/// They are neither dropped nor rewritten before the transaction ends.
///
/// # Errors
/// [`Error::CompactionBusy`] when segments are dropped again and again before we can lock them; `Request` when
/// this role cannot read all of them, or the server cannot lock so many; the server's. After an error, there is no
/// transaction.
pub async fn hold(
    client: &Client,
    schema: &Schema,
    table_oid: u32,
    name: &CollectionName,
) -> Result<Vec<Segment>, Error> {
    let held = hold_in_transaction(client, schema, table_oid, name).await;
    if held.is_err() {
        // If the rollback fails, the connection is lost, and the transaction with it.
        let _ = client.batch_execute("rollback").await;
    }
    held
}

/// Locks come before the snapshot, because a table that is dropped or rewritten after the snapshot is gone or empty for
/// it. So we list the segments, lock them, and list them again in the snapshot. If the second list holds no segment
/// that we did not lock, it is the result.
async fn hold_in_transaction(
    client: &Client,
    schema: &Schema,
    table_oid: u32,
    name: &CollectionName,
) -> Result<Vec<Segment>, Error> {
    let lockable = "select coalesce(relkind in ('r', 'p') and pg_catalog.has_table_privilege(oid, 'select'), false)
                    from pg_catalog.pg_class where oid = $1";
    let lockable = client.query_opt(lockable, &[&table_oid]).await?.is_some_and(|row| row.get(0));
    let locked = if lockable { lock_in_share(&[quote_name(name)]) } else { String::new() };
    client.batch_execute(&format!("begin isolation level repeatable read{locked}")).await?;
    let mut segments = list(client, schema, table_oid).await?;
    if segments.is_empty() {
        // The snapshot does not show what is appended and merged from now on, neither in segments nor in the table.
        return Ok(segments);
    }
    refuse_row_security(client, table_oid, name).await?;
    require_trusted_owners(client, schema, table_oid).await?;
    for _ in 0..SEGMENT_HOLD_TRIES_MAX {
        let mut tables = vec![quote_name(name)];
        tables.extend(segments.iter().map(|segment| segment.table(schema)));
        let locked = format!("rollback; begin isolation level repeatable read{}", lock_in_share(&tables));
        match client.batch_execute(&locked).await {
            Ok(()) => {
                // A segment could have become something else before we locked it.
                schema.require_trusted(client).await?;
                let seen = list(client, schema, table_oid).await?;
                if seen.iter().all(|segment| segments.iter().any(|held| held.segment_id == segment.segment_id)) {
                    return Ok(seen);
                }
                segments = seen;
            }
            Err(gone) if gone.code() == Some(&SqlState::UNDEFINED_TABLE) => {
                client.batch_execute("rollback; begin").await?;
                let left = list(client, schema, table_oid).await?;
                // If the list has changed, segments were merged and dropped since we read it.
                if left == segments {
                    return Err(gone.into());
                }
                segments = left;
            }
            Err(error) => return Err(unreadable(crowded(error.into()), schema, name)),
        }
    }
    Err(Error::CompactionBusy { collection: name.clone() })
}

fn lock_in_share(tables: &[String]) -> String {
    format!("; lock table {} in access share mode", tables.join(", "))
}

/// Policies of the table do not apply to its segments. So a role that they restrict must not read segments.
async fn refuse_row_security(client: &Client, table_oid: u32, name: &CollectionName) -> Result<(), Error> {
    let active = "select coalesce(pg_catalog.row_security_active($1::pg_catalog.oid), false)";
    if !client.query_one(active, &[&table_oid]).await?.get::<_, bool>(0) {
        return Ok(());
    }
    let problem = format!("documents of {name} wait in segments, to which its row-level security does not apply");
    Err(Error::refused(problem, format!("have them merged: millstream compact {}", shell_word(name))))
}

/// What to do if a role may read the list of segments, but not all segments.
fn unreadable(error: Error, schema: &Schema, name: &CollectionName) -> Error {
    if error.kind() != ErrorKind::Rights {
        return error;
    }
    let compact = format!("millstream compact {}", shell_word(name));
    let hint = format!("have them merged: {compact}; or: grant select on all tables in schema {schema} to this role");
    Error::refused(format!("documents of {name} wait in segments, and {error}"), hint)
}

/// What to do if the server has no room for the locks of so many segments. A compaction works all the same: it locks
/// fewer at once.
pub fn crowded(error: Error) -> Error {
    match error {
        Error::Postgres(full) if full.is_out_of_memory() => {
            let hint = "merge them first: millstream compact, which locks only a few at a time; or raise \
                        max_locks_per_transaction on the server";
            Error::refused(format!("the segments of the collection cannot all be locked: {full}"), hint)
        }
        other => other,
    }
}

/// SQL to read instead of the collection's table: for each key the newest row of the segments, else the table's row.
/// Without segments, it is the table itself.
pub fn newest(schema: &Schema, table: &str, keys: &[String], segments: &[Segment]) -> String {
    if segments.is_empty() {
        return table.to_owned();
    }
    let keys = keys.join(", ");
    // As two columns, so that of the waiting documents of a key only the newest is parsed.
    let documents = "null::pg_catalog.jsonb as doc, doc as millstream_text";
    let appended = appended(schema, &keys, documents, segments);
    format!(
        "(select {keys}, coalesce(doc, millstream_text::pg_catalog.jsonb) as doc \
         from (select distinct on ({keys}) {keys}, doc, millstream_text \
               from (select {keys}, doc, null::pg_catalog.text as millstream_text, -1 as millstream_place, \
                            ctid as millstream_at from {table} union all {appended}) as every \
               order by {keys}, millstream_place desc, millstream_at desc) as newest \
         where doc is not null or millstream_text is not null)"
    )
}

/// SQL for every row of some segments, with its place among the rows of its key. Segments keep a document as text;
/// `doc` is what to select of it.
pub fn appended(schema: &Schema, keys: &str, doc: &str, segments: &[Segment]) -> String {
    let rows = segments.iter().enumerate();
    let rows = rows.map(|(place, segment)| {
        format!(
            "select {keys}, {doc}, {place} as millstream_place, ctid as millstream_at from {}",
            segment.table(schema)
        )
    });
    rows.collect::<Vec<_>>().join(" union all ")
}

/// Drops the tables of segments and deletes their records.
pub async fn drop(client: &impl GenericClient, schema: &Schema, segments: &[Segment]) -> Result<(), Error> {
    for segment in segments {
        client.batch_execute(&format!("drop table if exists {}", segment.table(schema))).await?;
    }
    let ids: Vec<i64> = segments.iter().map(|segment| segment.segment_id).collect();
    client.execute(&schema.sql("delete from {schema}.segment where segment_id = any ($1)"), &[&ids]).await?;
    let mut groups: Vec<i64> = segments.iter().filter_map(|segment| Some(segment.compaction.as_ref()?.0)).collect();
    groups.dedup();
    client.execute(&schema.sql(include_str!("merged_range_forget.sql")), &[&groups]).await?;
    Ok(())
}

/// Divides a group that is being merged: the segments of its second half become a group of their own. What is merged of
/// the whole group is merged of each half.
///
/// # Errors
/// The server's.
pub async fn halve(client: &Client, schema: &Schema, group: &[Segment]) -> Result<(), Error> {
    let (first, second) = group.split_at(group.len() / 2);
    let old = first.first().and_then(|segment| segment.compaction.as_ref());
    let (Some((old, _)), Some(new)) = (old, second.first()) else { return Ok(()) };
    let ids: Vec<i64> = second.iter().map(|segment| segment.segment_id).collect();
    client.execute(&schema.sql(include_str!("segments_halve.sql")), &[old, &new.segment_id, &ids]).await?;
    Ok(())
}

/// Refuses to read segments of a role that this session does not trust, if the session has more rights than tables need.
/// The owner of the collection's table is not refused: planning a query of that table runs its code as well.
async fn require_trusted_owners(client: &Client, schema: &Schema, table_oid: u32) -> Result<(), Error> {
    let roles = fill!(ROLES, trusted = "$2");
    let sql = fill!(include_str!("segments_untrusted.sql"), roles, schema, powers = POWERS);
    let Some(row) = client.query_opt(&sql, &[&table_oid, &schema.trusted()]).await? else { return Ok(()) };
    let owner: String = row.get("owner");
    let problem = format!("its segments of a table of another role belong to role {owner}");
    Err(Error::Untrusted { schema: schema.name().to_owned(), problem, owner: Some(owner), role: row.get("role") })
}

/// Refuses to merge segments that this role could not drop afterwards, or whose owner it does not trust.
///
/// # Errors
/// [`Error::Refused`] or [`Error::Untrusted`] names their owner.
pub async fn require_own(client: &Client, schema: &Schema, collection: &Collection) -> Result<(), Error> {
    let sql = schema.sql(include_str!("segments_foreign.sql"));
    let rows = client.query(&sql, &[&collection.table_oid, &schema.name()]).await?;
    let owners: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let name = &collection.name;
    let compact = format!("millstream compact {}", shell_word(name));
    match owners.as_slice() {
        [] => require_trusted_owners(client, schema, collection.table_oid).await,
        [owner] => Err(Error::refused(
            format!("segments of {name} belong to role {owner}, and only that role may drop them"),
            format!("{compact} as {owner}, or: grant {} to this role", quote_identifier(owner)),
        )),
        several => Err(Error::refused(
            format!("segments of {name} belong to several roles: {}", several.join(", ")),
            format!("{compact} as a role that is granted all of them"),
        )),
    }
}

/// Names of key columns, quoted.
pub fn key_names(collection: &Collection) -> Vec<String> {
    collection.key.iter().map(|column| quote_identifier(&column.name)).collect()
}

pub(crate) fn segment(row: &Row) -> Segment {
    let compaction = row.get::<_, Option<i64>>("compaction").zip(row.get("bounds"));
    Segment {
        segment_id: row.get("segment_id"),
        run_order: row.get("run_order"),
        documents: counted(row, "documents"),
        bytes: counted(row, "bytes"),
        compaction,
    }
}
