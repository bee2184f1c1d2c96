//! `copy`: binary COPY straight into the table, for batches whose keys are all new.

use super::copy_stream::{Destination, copy_groups};
use super::statement::Sql;
use super::{Facts, Session, Writer, Writing};
use crate::batch::{Batch, Group};
use crate::merge::Written;
use futures_util::FutureExt;
use std::future::ready;

/// It needs nothing but the COPY that other writers use too.
pub(super) static WRITER: Writer =
    Writer { name: "copy", facts: Facts { only_new: true, ..Facts::NONE }, sql: |_| Some(Sql::default()), write };

fn write<'a>(session: Session<'a>, batch: &'a Batch, groups: &'a [Group]) -> Writing<'a> {
    async move {
        let (inserted, ()) = match copy_groups(session, Destination::Table, batch, groups, ready(Ok(()))).await {
            Err(error) if error.is_duplicate() => return Ok(None),
            copied => copied?,
        };
        Ok(Some(Written { inserted, ..Written::default() }))
    }
    .boxed()
}
