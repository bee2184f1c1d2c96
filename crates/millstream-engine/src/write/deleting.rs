//! `deletes`: batches with tombstones, and batches that must be checked against tombstones.
//!
//! All documents are staged with what they do to a stored row. If unchanged documents are skipped, those that equal the
//! stored one are removed from the stage. A batch with tombstones then locks the stored rows of its keys in key order.
//! Then follow the deletes, the upserts of documents that are merged, and the upserts of documents that replace deleted
//! ones.

use super::copy_stream::{Destination, copy_groups};
use super::names::Names;
use super::{Session, Writer, Writing, counts, prepare_if};
use crate::batch::{Batch, Group};
use crate::error::Error;
use crate::merge::Written;
use crate::plan::LoadPlan;
use futures_util::FutureExt;
use millstream_pg::{fill, quote_literal};
use tokio_postgres::{Client, Statement};

pub(super) static WRITER: Writer = Writer { name: "deletes", compares: false, sends_all: false, write };

/// Additional columns of the staging table, each after a comma. Their names must differ from those of the collection's
/// columns.
pub(super) const STAGE_COLUMNS: &str =
    ", millstream_effect smallint not null, millstream_id bytea not null, millstream_version bytea not null";
/// Their names, each after a comma.
pub(super) const STAGE_NAMES: &str = ", millstream_effect, millstream_id, millstream_version";

/// The statements of this writer as text.
#[derive(Debug)]
pub(super) struct Sql {
    /// If unchanged documents are skipped.
    equal: Option<String>,
    lock: String,
    /// If versions of tombstones are remembered.
    bar: Option<String>,
    delete: String,
    /// If a trigger may keep a row from being deleted.
    undeleted: String,
    /// If `bar` is there.
    remember: Option<String>,
    merge: String,
    reset: String,
}

/// The same, prepared on one connection.
pub(crate) struct Statements {
    equal: Option<Statement>,
    lock: Statement,
    bar: Option<Statement>,
    delete: Statement,
    remember: Option<Statement>,
    merge: Statement,
    reset: Statement,
}

impl Sql {
    /// `upsert` makes a statement from a condition on staged rows and an action on stored ones. The first of the two
    /// actions merges with a stored document, the second replaces it. `run` is the condition of the rows of `stage` to
    /// be written. `skips` says that unchanged documents are skipped.
    pub(super) fn new(
        plan: &LoadPlan,
        Names { table, key, join }: &Names,
        upsert: impl Fn(&str, &str) -> String,
        [action, reset]: [&str; 2],
        (stage, run): (&str, &str),
        skips: bool,
    ) -> Self {
        let (mode, schema) = (&plan.mode, plan.schema());
        let (oid, version_of) = (plan.table_oid, quote_literal(&mode.paths_text()));
        let versioned = mode.version().is_some();
        let condition = mode.condition("staged.doc", "stored.doc").unwrap_or_else(|| "true".to_owned());
        Self {
            equal: skips.then(|| fill!(include_str!("deleting_equal.sql"), table, join)),
            lock: fill!(include_str!("deleting_lock.sql"), table, key, join, stage, run),
            bar: versioned.then(|| fill!(include_str!("deleting_bar.sql"), schema, stage, run, oid, version_of)),
            undeleted: match plan.traits.alters_rows {
                true => {
                    let dropped = super::replay::DROPPED;
                    fill!(include_str!("deleting_undeleted.sql"), table, join, stage, run, condition, dropped)
                }
                false => String::new(),
            },
            delete: fill!(include_str!("deleting_delete.sql"), table, key, join, stage, run, condition),
            remember: versioned.then(|| {
                fill!(include_str!("deleting_remember.sql"), schema, stage, run, oid, version_of, table, join)
            }),
            merge: upsert(&format!("where {run} and millstream_effect = 0"), action),
            reset: upsert(&format!("where {run} and millstream_effect = 1"), reset),
        }
    }

    /// The statement that locks the rows of a batch with tombstones.
    pub(super) fn lock(&self) -> &str {
        &self.lock
    }

    /// The writer's statements for rows that are staged and locked, as a part of [`super::replay`]'s function.
    pub(super) fn try_run(&self) -> String {
        let bar = self.bar.as_ref().map_or_else(String::new, |sql| format!("{sql};"));
        let remember = self.remember.as_ref();
        let remember =
            remember.map_or_else(String::new, |sql| format!("{sql};\n    get diagnostics held = row_count;"));
        let [delete, merge, reset] = [&self.delete, &self.merge, &self.reset].map(|sql| sql.trim_end());
        fill!(include_str!("deleting_run.sql"), bar, delete, undeleted = self.undeleted, remember, merge, reset)
    }

    pub(super) async fn prepare(&self, client: &Client) -> Result<Statements, Error> {
        let (equal, lock, bar, delete, remember, merge, reset) = tokio::try_join!(
            prepare_if(client, self.equal.as_ref()),
            client.prepare(&self.lock),
            prepare_if(client, self.bar.as_ref()),
            client.prepare(&self.delete),
            prepare_if(client, self.remember.as_ref()),
            client.prepare(&self.merge),
            client.prepare(&self.reset),
        )?;
        Ok(Statements { equal, lock, bar, delete, remember, merge, reset })
    }
}

fn write<'a>(session: Session<'a>, batch: &'a Batch, groups: &'a [Group]) -> Writing<'a> {
    async move {
        let Session { client, prepared, .. } = session;
        let sql = prepared.deleting.as_ref().expect("it is chosen only where documents delete");
        let tombstones = batch.has_tombstones();
        let then = async {
            tokio::try_join!(
                biased;
                execute(client, sql.equal.as_ref()),
                when(tombstones, execute(client, Some(&sql.lock))),
                execute(client, sql.bar.as_ref()),
                when(tombstones, counts(client, &sql.delete, &[])),
                when(tombstones, execute(client, sql.remember.as_ref())),
                counts(client, &sql.merge, &[]),
                when(tombstones, counts(client, &sql.reset, &[])),
            )
        };
        let (_, done) = Box::pin(copy_groups(session, Destination::Stage, batch, groups, then)).await?;
        let (equal, _, _, (deleted, named), remembered, merged, reset) = done;
        let held = if sql.remember.is_some() { remembered } else { named };
        Ok(Some(Written {
            inserted: merged.0 + reset.0,
            updated: merged.1 + reset.1,
            deleted,
            unchanged: equal + held.saturating_sub(deleted),
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
