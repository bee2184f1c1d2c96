//! `upsert`: binary COPY into the connection's staging table, then one upsert in key order, for when another session
//! inserts the same keys at the same time, or a merge cannot be used.

use super::copy_stream::stage_groups;
use super::{Session, Writer, Writing, counts, unchanged_rest};
use crate::batch::{Batch, Group};
use crate::merge::Written;
use futures_util::FutureExt;

pub(super) static WRITER: Writer = Writer { name: "upsert", compares: false, sends_all: true, write };

/// The same, but the server compares each document with the stored one first, and skips it if they are equal.
pub(super) static COMPARING: Writer = Writer { name: "upsert", compares: true, sends_all: false, write: write_changed };

fn write<'a>(session: Session<'a>, batch: &'a Batch, groups: &'a [Group]) -> Writing<'a> {
    async move {
        let upsert = counts(session.client, &session.prepared.upsert, &[]);
        let (inserted, updated) = stage_groups(session, batch, groups, upsert).await?;
        Ok(Some(Written { inserted, updated, ..Written::default() }))
    }
    .boxed()
}

fn write_changed<'a>(session: Session<'a>, batch: &'a Batch, groups: &'a [Group]) -> Writing<'a> {
    async move {
        let compared = session.prepared.compared.as_ref().expect("it is chosen only where documents are compared");
        let upsert = counts(session.client, &compared.upsert, &[]);
        let (inserted, updated) = stage_groups(session, batch, groups, upsert).await?;
        Ok(Some(unchanged_rest(Written { inserted, updated, ..Written::default() }, groups)))
    }
    .boxed()
}
