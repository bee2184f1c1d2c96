//! `upsert`: binary COPY into the connection's staging table, then one upsert in key order, for when another session
//! inserts the same keys at the same time, or a merge cannot be used.

use super::copy_stream::stage_groups;
use super::names::{Names, STAGED, Staged};
use super::statement::Sql;
use super::{Facts, Session, Writer, Writing, counts, unchanged_rest};
use crate::batch::{Batch, Group};
use crate::merge::Written;
use futures_util::FutureExt;
use millstream_pg::fill;

pub(super) static WRITER: Writer =
    Writer { name: "upsert", facts: Facts { leaves_large: true, ..Facts::NONE }, sql, write };

/// The same, but the server compares each document with the stored one first, and skips it if they are equal.
pub(super) static COMPARING: Writer =
    Writer { name: "upsert", facts: Facts { compares: true, ..Facts::NONE }, sql, write: write_changed };

/// Writes what is staged.
const UPSERT: &str = "upsert";
/// Writes what is staged and differs from what is stored, if such documents may be skipped.
pub(super) const UPSERT_CHANGED: &str = "upsert changed";

fn sql(names: &Names<'_>) -> Option<Sql> {
    let mut statements = vec![(UPSERT, text(names, STAGED, "", &names.action))];
    if names.plan.skips() {
        let changed = format!("as staged {}", changed(names));
        statements.push((UPSERT_CHANGED, text(names, STAGED, &changed, &names.action)));
    }
    Some(Sql::of(statements))
}

/// An upsert of staged rows that a filter selects.
pub(super) fn text(names: &Names<'_>, staged: Staged<'_>, filter: &str, action: &str) -> String {
    let Names { table, key, inserted, .. } = names;
    let (returned, more) = match staged.notes {
        true => {
            (format!(", {}", names.values("stored")), format!(",\n{}", fill!(include_str!("replay_note.sql"), key)))
        }
        false => (String::new(), String::new()),
    };
    fill!(include_str!("upsert.sql"), table, key, stage = staged.table, filter, action, inserted, returned, more)
}

/// The filter that leaves out documents that equal the stored one.
pub(super) fn changed(Names { table, join, .. }: &Names<'_>) -> String {
    fill!(include_str!("changed_filter.sql"), table, join)
}

fn write<'a>(session: Session<'a>, batch: &'a Batch, groups: &'a [Group]) -> Writing<'a> {
    async move {
        let upsert = counts(session.client, session.prepared.statement(UPSERT), &[]);
        let (inserted, updated) = stage_groups(session, batch, groups, upsert).await?;
        Ok(Some(Written { inserted, updated, ..Written::default() }))
    }
    .boxed()
}

fn write_changed<'a>(session: Session<'a>, batch: &'a Batch, groups: &'a [Group]) -> Writing<'a> {
    async move {
        let upsert = counts(session.client, session.prepared.statement(UPSERT_CHANGED), &[]);
        let (inserted, updated) = stage_groups(session, batch, groups, upsert).await?;
        Ok(Some(unchanged_rest(Written { inserted, updated, ..Written::default() }, groups)))
    }
    .boxed()
}
