//! What one load of a process has found out about its table, for those into the same one that it opens soon after.

use super::{PreparedCollection, checks_tombstones};
use crate::error::Error;
use crate::limits::TABLE_KNOWN_FOR;
use crate::plan::LoadPlan;
use crate::request::LoadRequest;
use millstream_pg::{Connection, quote_name};
use std::sync::{Mutex, PoisonError};
use tokio::time::Instant;

/// A table that was prepared, and when. Looking at it takes most of the time in which a load is opened, and a process may
/// open many at once.
#[derive(Default)]
pub(crate) struct KnownTable(Mutex<Option<(Instant, PreparedCollection)>>);

impl KnownTable {
    /// Notes a table that was just prepared.
    pub(crate) fn keep(&self, prepared: &PreparedCollection) {
        let known = Some((Instant::now(), prepared.clone()));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = known;
    }

    /// The table for another load, which asks for the same under another name. `None` if it must be prepared anew: it is not
    /// known, or not for sure, because it has changed, or because that was long ago.
    ///
    /// # Errors
    /// The server's.
    pub(crate) async fn again(
        &self,
        control: &Connection,
        request: &LoadRequest,
    ) -> Result<Option<PreparedCollection>, Error> {
        let Some(PreparedCollection { plan, watched, turns }) = self.recent(request) else { return Ok(None) };
        let client = &control.client;
        if watched.mark.again(client).await?.as_ref() != Some(&watched.mark) {
            return Ok(None);
        }
        let LoadPlan { mode, table_oid, .. } = &plan;
        let checked = checks_tombstones(control, &request.schema, *table_oid, mode, request.forget_deletes).await?;
        if checked != plan.checks_tombstones {
            return Ok(None);
        }
        let table_empty = !millstream_store::any_row(client, &quote_name(&request.collection)).await?;
        let plan = LoadPlan { request: request.clone(), table_empty, ..plan };
        Ok(Some(PreparedCollection { plan, watched: watched.of_another(), turns }))
    }

    /// The table that was prepared last, if that was not long ago and this load is into the same one.
    fn recent(&self, request: &LoadRequest) -> Option<PreparedCollection> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, prepared) = known.as_ref()?;
        let is_same = prepared.plan.request.collection == request.collection;
        (is_same && since.elapsed() < TABLE_KNOWN_FOR).then(|| prepared.clone())
    }
}
