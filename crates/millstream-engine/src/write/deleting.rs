//! `deletes`: batches with tombstones, and batches that must be checked against tombstones.
//!
//! All documents are staged with what they do to a stored row. If unchanged documents are skipped, those that equal the
//! stored one are removed from the stage. A batch with tombstones then locks the stored rows of its keys in key order.
//! Then follow the deletes, the upserts of documents that are merged, and the upserts of documents that replace deleted
//! ones.

use super::copy_stream::{Destination, copy_groups};
use super::names::{DROPPED, Names, STAGED, Staged};
use super::statement::Sql;
use super::{Facts, Session, Writer, Writing, counts, upsert};
use crate::batch::{Batch, Group};
use crate::error::Error;
use crate::merge::Written;
use futures_util::FutureExt;
use millstream_pg::{fill, quote_literal};
use tokio_postgres::{Client, Statement};

pub(super) static WRITER: Writer = Writer { name: "deletes", facts: Facts::NONE, sql, write };

/// Removes what equals the stored document, if unchanged documents may be skipped.
const EQUAL: &str = "deletes: equal";
const LOCK: &str = "deletes: lock";
/// If versions of tombstones are remembered.
const BAR: &str = "deletes: bar";
const DELETE: &str = "deletes: delete";
/// If versions of tombstones are remembered.
const REMEMBER: &str = "deletes: remember";
const MERGE: &str = "deletes: merge";
const RESET: &str = "deletes: reset";

fn sql(names: &Names<'_>) -> Option<Sql> {
    let Names { plan, table, join, .. } = names;
    if !plan.deletes() {
        return None;
    }
    let equal = plan.skips().then(|| fill!(include_str!("deleting_equal.sql"), table, join));
    let Steps { lock, bar, delete, remember, merge, reset, .. } = Steps::new(names, STAGED);
    let always = [(LOCK, lock), (DELETE, delete), (MERGE, merge), (RESET, reset)].map(|(name, sql)| (name, Some(sql)));
    let sometimes = [(EQUAL, equal), (BAR, bar), (REMEMBER, remember)];
    Some(Sql::of(always.into_iter().chain(sometimes).filter_map(|(name, sql)| Some((name, sql?)))))
}

/// The statements for staged rows as text.
pub(super) struct Steps {
    /// Locks the rows of a batch with tombstones.
    pub(super) lock: String,
    bar: Option<String>,
    delete: String,
    /// If a trigger may keep a row from being deleted.
    undeleted: String,
    remember: Option<String>,
    merge: String,
    reset: String,
}

impl Steps {
    pub(super) fn new(names: &Names<'_>, staged: Staged<'_>) -> Self {
        let (Names { plan, table, key, join, action, .. }, Staged { table: stage, run, .. }) = (names, staged);
        let (mode, schema) = (&plan.mode, plan.schema());
        let (oid, version_of) = (plan.table_oid, quote_literal(&mode.paths_text()));
        let versioned = mode.version().is_some();
        let condition = mode.condition("staged.doc", "stored.doc").unwrap_or_else(|| "true".to_owned());
        let put = |effect: u8, action: &str| {
            upsert::text(names, staged, &format!("where {run} and millstream_effect = {effect}"), action)
        };
        Self {
            lock: fill!(include_str!("deleting_lock.sql"), table, key, join, stage, run),
            bar: versioned.then(|| fill!(include_str!("deleting_bar.sql"), schema, stage, run, oid, version_of)),
            undeleted: match plan.traits.alters_rows {
                true => {
                    let dropped = DROPPED;
                    fill!(include_str!("deleting_undeleted.sql"), table, join, stage, run, condition, dropped)
                }
                false => String::new(),
            },
            delete: fill!(include_str!("deleting_delete.sql"), table, key, join, stage, run, condition),
            remember: versioned.then(|| {
                fill!(include_str!("deleting_remember.sql"), schema, stage, run, oid, version_of, table, join)
            }),
            merge: put(0, action),
            reset: put(1, &names.update("excluded.doc")),
        }
    }

    /// The statements for rows that are locked, as a part of [`super::replay`]'s function.
    pub(super) fn try_run(&self) -> String {
        let bar = self.bar.as_ref().map_or_else(String::new, |sql| format!("{sql};"));
        let remember = self.remember.as_ref();
        let remember =
            remember.map_or_else(String::new, |sql| format!("{sql};\n    get diagnostics held = row_count;"));
        let [delete, merge, reset] = [&self.delete, &self.merge, &self.reset].map(|sql| sql.trim_end());
        fill!(include_str!("deleting_run.sql"), bar, delete, undeleted = self.undeleted, remember, merge, reset)
    }
}

fn write<'a>(session: Session<'a>, batch: &'a Batch, groups: &'a [Group]) -> Writing<'a> {
    async move {
        let Session { client, prepared, .. } = session;
        let [lock, delete, merge, reset] = [LOCK, DELETE, MERGE, RESET].map(|name| prepared.statement(name));
        let [equal, bar, remember] = [EQUAL, BAR, REMEMBER].map(|name| prepared.find(name));
        let tombstones = batch.has_tombstones();
        let then = async {
            tokio::try_join!(
                biased;
                execute(client, equal),
                when(tombstones, execute(client, Some(lock))),
                execute(client, bar),
                when(tombstones, counts(client, delete, &[])),
                when(tombstones, execute(client, remember)),
                counts(client, merge, &[]),
                when(tombstones, counts(client, reset, &[])),
            )
        };
        let (_, done) = Box::pin(copy_groups(session, Destination::Stage, batch, groups, then)).await?;
        let (unchanged, _, _, (deleted, named), remembered, merged, reset) = done;
        let held = if remember.is_some() { remembered } else { named };
        Ok(Some(Written {
            inserted: merged.0 + reset.0,
            updated: merged.1 + reset.1,
            deleted,
            unchanged: unchanged + held.saturating_sub(deleted),
            ..Written::default()
        }))
    }
    .boxed()
}

/// Executes a statement and returns the number of its rows; 0 without a statement.
async fn execute(client: &Client, statement: Option<&Statement>) -> Result<u64, Error> {
    let Some(statement) = statement else { return Ok(0) };
    Ok(client.execute(statement, &[]).await?)
}

/// Does some work if it is wanted, else returns the default.
async fn when<T: Default>(wanted: bool, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    if wanted { work.await } else { Ok(T::default()) }
}
