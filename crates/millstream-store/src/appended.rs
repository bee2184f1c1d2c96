//! Refuses writes into a table while newer documents wait in segments, or a run may still append some.

use crate::error::Error;
use crate::lock::at_work;
use crate::runs::{close_lost_run, lost_for_good, runs};
use crate::schema::Schema;
use crate::segments::list;
use tokio_postgres::Client;

/// Closes the runs of the log layout that have lost their sessions, so that they append nothing more. Does nothing if
/// segments wait already, because the table then takes no documents anyway.
pub async fn close_lost_appenders(client: &mut Client, schema: &Schema, table_oid: u32) -> Result<(), Error> {
    if !list(client, schema, table_oid).await?.is_empty() {
        return Ok(());
    }
    for run in lost_for_good(client, schema, table_oid, |run| run.appends).await? {
        close_lost_run(client, schema, run.load_id, "a load into the table began").await?;
    }
    Ok(())
}

/// Refuses to write into a collection's table while newer documents wait in segments, or a run may still append some.
/// The answer stays true only under the lock that every load takes when it begins.
///
/// # Errors
/// [`Error::LoadRunning`] when such a run exists, [`Error::Appended`] when segments wait.
pub async fn refuse_appended(client: &Client, schema: &Schema, table_oid: u32, collection: &str) -> Result<(), Error> {
    // Read the runs first: what a run commits before it ends is then in the list of segments.
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
