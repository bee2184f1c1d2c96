//! `copy`: binary COPY straight into the table, for batches whose keys are all new.

use super::copy_stream::copy_groups;
use super::{Session, Writer, Writing};
use crate::batch::{Batch, Group};
use crate::merge::Written;
use futures_util::FutureExt;

pub(super) static WRITER: Writer = Writer { name: "copy", write };

fn write<'a>(session: Session<'a>, batch: &'a Batch, groups: &'a [Group]) -> Writing<'a> {
    async move {
        let inserted = match copy_groups(session, &session.prepared.copy_table, batch, groups).await {
            Err(error) if error.is_duplicate() => return Ok(None),
            inserted => inserted?,
        };
        let documents = groups.iter().map(|g| g.len() as u64).sum();
        Ok(Some(Written { documents, keys: groups.len() as u64, inserted, updated: 0 }))
    }
    .boxed()
}
