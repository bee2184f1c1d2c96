//! Deletes the rows of keys in batches. Each batch also records how far all of them are done.

use super::comparison::MissingKeys;
use super::session::Session;
use crate::error::Error;
use crate::write::{MissingRowsSql, differing};
use millstream_failpoint as failpoint;
use millstream_store::{GUARD, MissingRows, load};

/// How many of the keys are those of rows that were written before the load began. Afterwards, the keys begin again.
///
/// # Errors
/// [`Error::Runs`]; the server's.
pub(super) async fn count(
    session: &mut Session<'_>,
    sql: &MissingRowsSql<'_>,
    keys: &MissingKeys,
) -> Result<u64, Error> {
    let mut counted = 0;
    loop {
        let batch = keys.next().await?;
        if batch.is_empty() {
            break;
        }
        counted += loop {
            match count_batch(session, sql, &batch).await {
                Ok(rows) => break rows,
                Err(error) => session.recover(error).await?,
            }
        };
        session.advanced();
        session.lanes.around.tally.compared(batch.len() as u64);
    }
    keys.rewind().await?;
    Ok(counted)
}

async fn count_batch(session: &mut Session<'_>, sql: &MissingRowsSql<'_>, batch: &[Vec<u8>]) -> Result<u64, Error> {
    let transaction = session.reading().await?;
    let rows = sql.count(&transaction, batch).await?;
    transaction.commit().await?;
    Ok(rows)
}

/// Deletes the rows of the keys, unless somebody has written them since the load began.
///
/// # Errors
/// `Fenced` when another run owns the load; [`Error::Runs`]; the server's.
pub(super) async fn delete(
    session: &mut Session<'_>,
    sql: &MissingRowsSql<'_>,
    keys: &MissingKeys,
) -> Result<(), Error> {
    loop {
        let batch = keys.next().await?;
        let Some(last) = batch.last() else { return Ok(()) };
        let deleted = loop {
            match delete_batch(session, sql, &batch, last).await {
                Ok(rows) => break rows,
                Err(error) => session.recover(error).await?,
            }
            // The answer to the commit may have been lost.
            if let Some(rows) = deleted_before(session, last).await? {
                break rows;
            }
        };
        session.advanced();
        session.lanes.around.tally.deleted(deleted);
        failpoint::hit("missing-committed").await?;
    }
}

/// Deletes one batch, whose greatest key is `last`, and commits.
async fn delete_batch(
    session: &mut Session<'_>,
    sql: &MissingRowsSql<'_>,
    batch: &[Vec<u8>],
    last: &[u8],
) -> Result<u64, Error> {
    session.connection().works_on(batch.len() as u64);
    let (schema, load_id, run) = (session.plan().schema(), session.load_id(), session.lanes.owned.run);
    let transaction = session.transaction().await?;
    // A run that takes the load over waits for this row, so it sees what is committed here. Afterwards we do not own it.
    load::lock_row(&transaction, schema, load_id, run).await?;
    let rows = sql.delete(&transaction, batch).await?;
    failpoint::hit("missing-deleted").await?;
    MissingRows::advance(&transaction, schema, load_id, rows, last).await?;
    // Partitions were locked only by the deletes.
    transaction.batch_execute(GUARD).await.map_err(differing)?;
    failpoint::hit("missing-advanced").await?;
    transaction.commit().await?;
    Ok(rows)
}

/// Zero if a batch is committed whose answer was lost, because its rows are in the load's record; `None` if it is not.
async fn deleted_before(session: &mut Session<'_>, last: &[u8]) -> Result<Option<u64>, Error> {
    loop {
        match MissingRows::read(session.client(), session.plan().schema(), session.load_id()).await {
            Ok(done) => return Ok(done.mark.is_some_and(|mark| mark.as_slice() >= last).then_some(0)),
            Err(error) => session.recover(error.into()).await?,
        }
    }
}
