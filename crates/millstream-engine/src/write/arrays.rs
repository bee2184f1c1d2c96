//! `arrays`: sends the documents of a small batch as arrays, together with the statement that upserts them. That takes
//! one round trip less than COPY into the staging table, and the commit has no staging table to empty.
//!
//! If unchanged documents may be skipped, they are: the documents are on the server anyway, and comparing them with the
//! stored ones costs less than a tenth of writing them.

use super::elements::{Array, Keys};
use super::names::Names;
use super::statement::Sql;
use super::upsert::changed;
use super::{Facts, Session, Writer, Writing, count};
use crate::batch::{Batch, Group};
use crate::error::Error;
use crate::limits::ARRAYS_BYTES_MAX;
use crate::merge::Written;
use bytes::BufMut;
use futures_util::{FutureExt, TryFutureExt};
use millstream_pg::{copy, fill};
use tokio_postgres::types::ToSql;

pub(super) static WRITER: Writer =
    Writer { name: "arrays", facts: Facts { compares: true, ..Facts::NONE }, sql, write };

/// Writes documents that come with it.
const ARRAYS: &str = "arrays";

fn sql(names: &Names<'_>) -> Option<Sql> {
    let Names { plan, table, key, action, inserted, .. } = names;
    let filter = if plan.skips() { changed(names) } else { String::new() };
    let arrays = names.arrays(true);
    Some(Sql::of([(ARRAYS, fill!(include_str!("arrays.sql"), table, key, inserted, action, arrays, filter))]))
}

/// Whether groups of a batch are few and small enough for this writer.
pub(super) fn fit(session: Session<'_>, batch: &Batch, groups: &[Group]) -> bool {
    (1..=session.plan.request.arrays_rows_max).contains(&groups.len())
        && batch.bytes_sent_max(groups, &session.plan.mode) <= ARRAYS_BYTES_MAX
}

fn write<'a>(session: Session<'a>, batch: &'a Batch, groups: &'a [Group]) -> Writing<'a> {
    upsert(session, batch, groups).map_ok(Some).boxed()
}

/// Writes groups that [`fit`].
pub(super) async fn upsert(session: Session<'_>, batch: &Batch, groups: &[Group]) -> Result<Written, Error> {
    let (mut keys, mut documents) = (Keys::new(&session.plan.key_types), Vec::new());
    for (key, folded) in session.winners(batch, groups) {
        keys.push(key);
        documents.put_i32(i32::try_from(folded.document.len() + 1).expect("a document is below 2 GiB"));
        documents.put_u8(copy::JSONB_VERSION);
        documents.put_slice(&folded.document);
    }
    let columns = keys.columns.iter().chain([&documents]);
    let arrays: Vec<Array<'_>> = columns.map(|elements| Array { count: groups.len(), elements }).collect();
    let values: Vec<&(dyn ToSql + Sync)> = arrays.iter().map(|array| array as &(dyn ToSql + Sync)).collect();
    let row = session.first(session.client.query_one(session.prepared.statement(ARRAYS), &values)).await?;
    let unchanged = groups.len() as u64 - count(&row, 2);
    Ok(Written { inserted: count(&row, 0), updated: count(&row, 1), unchanged, ..Written::default() })
}
