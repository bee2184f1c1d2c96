//! Documents that wait in segments, or are coming, keep others from the table.

use crate::error::Error;
use crate::lock::at_work;
use crate::runs::{lost_for_good, runs, settle_lost};
use crate::schema::Schema;
use crate::segments::list;
use tokio_postgres::Client;

/// Sees to it that runs into a table that have lost their sessions append nothing any more, unless their documents
/// wait already, so that the table takes none in any case.
pub async fn settle_appending(client: &mut Client, schema: &Schema, table_oid: u32) -> Result<(), Error> {
    if !list(client, schema, table_oid).await?.is_empty() {
        return Ok(());
    }
    for run in lost_for_good(client, schema, table_oid, |run| run.appends).await? {
        settle_lost(client, schema, run.load_id, "a load into the table began").await?;
    }
    Ok(())
}

/// Refuses to write into the table of a collection whose newest documents are, or are coming, in segments. Only
/// under the lock that every load takes when it begins does that stay so.
///
/// # Errors
/// [`Error::LoadRunning`], [`Error::Appended`].
pub async fn refuse_appended(client: &Client, schema: &Schema, table_oid: u32, collection: &str) -> Result<(), Error> {
    // First, because what they commit until they end is in the list then.
    let runs = runs(client, schema, table_oid).await?;
    let segments = list(client, schema, table_oid).await?.len();
    let running = runs.iter().filter(|run| run.appends).find(|run| run.at_work || (run.lost && segments == 0));
    if let Some(run) = running {
        let backend = at_work(client, schema, run.load_id).await?;
        return Err(Error::LoadRunning { load_id: run.load_id, backend });
    }
    match segments {
        0 => Ok(()),
        segments => Err(Error::Appended { collection: collection.to_owned(), segments }),
    }
}
