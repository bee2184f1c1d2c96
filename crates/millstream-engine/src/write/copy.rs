//! `copy`: binary COPY straight into the table, for batches whose keys are all new.

use super::copy_stream::copy_groups;
use super::{Session, Writer};
use crate::batch::{Batch, Group};
use crate::error::Error;
use crate::merge::Written;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

pub(super) static WRITER: Writer = Writer { name: "copy", write };

/// Fails with a unique violation when a key exists; the caller then writes the batch another way.
fn write<'a>(session: Session<'a>, batch: &'a Batch, groups: &'a [Group]) -> BoxFuture<'a, Result<Written, Error>> {
    async move {
        let inserted = copy_groups(session, &session.prepared.copy_table, batch, groups).await?;
        let documents = groups.iter().map(|g| g.len() as u64).sum();
        Ok(Written { documents, keys: groups.len() as u64, inserted, updated: 0 })
    }
    .boxed()
}
