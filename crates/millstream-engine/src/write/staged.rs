//! `staged`: binary COPY into the connection's staging table, then one upsert in key order.

use super::copy_stream::{Destination, copy_groups};
use super::{Session, Writer, Writing};
use crate::batch::{Batch, Group};
use crate::merge::Written;
use futures_util::FutureExt;

pub(super) static WRITER: Writer = Writer { name: "staged", write };

fn write<'a>(session: Session<'a>, batch: &'a Batch, groups: &'a [Group]) -> Writing<'a> {
    async move {
        let staged = copy_groups(session, Destination::Stage, batch, groups).await?;
        assert_eq!(staged, groups.len() as u64, "the staging table takes every row");
        let row = session.client.query_one(&session.prepared.upsert, &[]).await?;
        let count = |n: usize| u64::try_from(row.get::<_, i64>(n)).expect("a count is not negative");
        Ok(Some(Written { inserted: count(0), updated: count(1), ..batch.written(groups, &session.target.mode) }))
    }
    .boxed()
}
