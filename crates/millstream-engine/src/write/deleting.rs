//! `deletes`: batches with tombstones, and those whose documents may be older than a tombstone.
//!
//! Everything is staged with what it does to a stored row. Rows are locked in key order first; then come
//! the deletes, the upserts of documents that are merged, and of those that take the place of deleted ones.

use super::copy_stream::{Destination, copy_groups};
use super::{Session, Writer, Writing};
use crate::batch::{Batch, Group};
use crate::collection::Collection;
use crate::error::Error;
use crate::merge::Effect;
use crate::store::Schema;
use futures_util::FutureExt;
use millstream_pg::quote_literal;
use tokio_postgres::{Client, Statement};

pub(super) static WRITER: Writer = Writer { name: "deletes", write };

/// Columns of the staging table beside those of the collection, whose names they must not have.
pub(super) const STAGE_COLUMNS: &str =
    "millstream_effect smallint not null, millstream_id bytea not null, millstream_version bytea not null";
/// Their names.
pub(super) const STAGE_NAMES: &str = "millstream_effect, millstream_id, millstream_version";

/// What an effect is in the staging table.
pub(super) fn staged(effect: Effect) -> i16 {
    match effect {
        Effect::Merge => 0,
        Effect::Reset => 1,
        Effect::Delete => 2,
    }
}

/// The statements of this writer as text.
#[derive(Debug)]
pub(super) struct Sql {
    lock: String,
    /// Where versions of tombstones are remembered.
    versions: Option<Versions>,
    delete: String,
    merge: String,
    reset: String,
}

#[derive(Debug)]
struct Versions {
    bar: String,
    remember: String,
}

/// The same on one connection.
pub(crate) struct Statements {
    lock: Statement,
    versions: Option<(Statement, Statement)>,
    delete: Statement,
    merge: Statement,
    reset: Statement,
}

impl Sql {
    /// `fill` puts the collection's names into a statement, `upsert` makes one of staged rows under a
    /// condition and of an action on stored ones.
    pub(super) fn new(
        collection: &Collection,
        schema: &Schema,
        fill: impl Fn(&str) -> String,
        upsert: impl Fn(&str, &str) -> String,
        action: &str,
    ) -> Self {
        let mode = &collection.mode;
        let versions = mode.version().map(|_| {
            let of = |sql: &str| {
                schema
                    .sql(&fill(sql))
                    .replace("{oid}", &collection.table_oid.to_string())
                    .replace("{version_of}", &quote_literal(&mode.paths_text()))
            };
            Versions { bar: of(include_str!("deleting_bar.sql")), remember: of(include_str!("deleting_remember.sql")) }
        });
        let condition = mode.condition("staged.doc", "stored.doc").unwrap_or_else(|| "true".to_owned());
        Self {
            lock: fill(include_str!("deleting_lock.sql")),
            versions,
            delete: fill(include_str!("deleting_delete.sql")).replace("{condition}", &condition),
            merge: upsert("where millstream_effect = 0", action),
            reset: upsert("where millstream_effect = 1", "update set doc = excluded.doc"),
        }
    }

    pub(super) async fn prepare(&self, client: &Client) -> Result<Statements, Error> {
        let versions = match &self.versions {
            Some(Versions { bar, remember }) => Some((client.prepare(bar).await?, client.prepare(remember).await?)),
            None => None,
        };
        Ok(Statements {
            lock: client.prepare(&self.lock).await?,
            versions,
            delete: client.prepare(&self.delete).await?,
            merge: client.prepare(&self.merge).await?,
            reset: client.prepare(&self.reset).await?,
        })
    }
}

fn write<'a>(session: Session<'a>, batch: &'a Batch, groups: &'a [Group]) -> Writing<'a> {
    async move {
        let Session { client, prepared, .. } = session;
        let sql = prepared.deleting.as_ref().expect("it is chosen only where documents delete");
        copy_groups(session, Destination::Stage, batch, groups).await?;
        let mut written = batch.written(groups, &session.target.mode);
        if batch.has_tombstones() {
            client.query_one(&sql.lock, &[]).await?;
        }
        if let Some((bar, _)) = &sql.versions {
            client.execute(bar, &[]).await?;
        }
        if batch.has_tombstones() {
            let (deleted, mut held) = counts(client, &sql.delete).await?;
            if let Some((_, remember)) = &sql.versions {
                held = client.execute(remember, &[]).await?;
            }
            written.deleted = deleted;
            written.unchanged = held.saturating_sub(deleted);
        }
        let merged = counts(client, &sql.merge).await?;
        let reset = if batch.has_tombstones() { counts(client, &sql.reset).await? } else { (0, 0) };
        written.inserted = merged.0 + reset.0;
        written.updated = merged.1 + reset.1;
        Ok(Some(written))
    }
    .boxed()
}

async fn counts(client: &Client, statement: &Statement) -> Result<(u64, u64), Error> {
    let row = client.query_one(statement, &[]).await?;
    let count = |n: usize| u64::try_from(row.get::<_, i64>(n)).expect("a count is not negative");
    Ok((count(0), count(1)))
}
