//! `staged`: binary COPY into the connection's staging table, then one upsert in key order.

use super::copy_stream::copy_groups;
use super::{Session, Writer, Writing};
use crate::batch::{Batch, Group};
use crate::merge::Written;
use futures_util::FutureExt;

pub(super) static WRITER: Writer = Writer { name: "staged", write };

fn write<'a>(session: Session<'a>, batch: &'a Batch, groups: &'a [Group]) -> Writing<'a> {
    async move {
        let staged = copy_groups(session, &session.prepared.copy_stage, batch, groups).await?;
        assert_eq!(staged, groups.len() as u64, "the staging table takes every row");
        let row = session.client.query_one(&session.prepared.upsert, &[]).await?;
        let count = |n: usize| u64::try_from(row.get::<_, i64>(n)).expect("a count is not negative");
        let documents = groups.iter().map(|g| g.len() as u64).sum();
        Ok(Some(Written { documents, keys: groups.len() as u64, inserted: count(0), updated: count(1) }))
    }
    .boxed()
}
