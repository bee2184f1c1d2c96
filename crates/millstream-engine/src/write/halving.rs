//! Retries a refused batch in halves until only refused documents are left, if the server cannot retry it row by row.

use super::refused::{Refused, reject};
use super::{Session, upsert};
use crate::batch::{Batch, Group};
use crate::error::Error;
use crate::merge::Written;

/// Writes the batch's keys inside the open transaction, each part under a savepoint. A refused part is halved. The
/// documents of a single refused key are written one at a time, in order.
pub(super) async fn halve(session: Session<'_>, batch: &Batch) -> Result<Refused, Error> {
    let mut outcome = Refused::default();
    let mut todo: Vec<&[Group]> = vec![batch.groups()];
    while let Some(groups) = todo.pop() {
        match write_part(session, batch, groups).await? {
            Ok(written) => outcome.written += written,
            Err(_) if groups.len() > 1 => {
                let (left, right) = groups.split_at(groups.len() / 2);
                todo.push(right);
                todo.push(left);
            }
            Err(refusal) => write_singles(session, batch, &groups[0], &refusal, &mut outcome).await?,
        }
    }
    Ok(outcome)
}

async fn write_singles(
    session: Session<'_>,
    batch: &Batch,
    group: &Group,
    refusal: &Error,
    outcome: &mut Refused,
) -> Result<(), Error> {
    let documents = batch.singles(group);
    if let [single] = documents.as_slice() {
        outcome.rejects.push(reject(session.target, batch, single, refusal));
        return Ok(());
    }
    for single in &documents {
        match write_part(session, batch, std::slice::from_ref(single)).await? {
            Ok(written) => outcome.written += written,
            Err(refusal) => outcome.rejects.push(reject(session.target, batch, single, &refusal)),
        }
    }
    Ok(())
}

/// The inner error is a refusal of the data. The savepoint is then rolled back.
async fn write_part(session: Session<'_>, batch: &Batch, groups: &[Group]) -> Result<Result<Written, Error>, Error> {
    let opening = "savepoint part; delete from pg_temp.millstream_stage";
    let result = Session { opening, ..session }.write(&upsert::WRITER, batch, groups).await;
    match result {
        Ok(written) => {
            let written = written.expect("the upsert writes any key");
            session.client.batch_execute("release part").await?;
            Ok(Ok(written))
        }
        Err(error) if error.refuses_data() => {
            session.client.batch_execute("rollback to part; release part").await?;
            Ok(Err(error))
        }
        Err(error) => Err(error),
    }
}
