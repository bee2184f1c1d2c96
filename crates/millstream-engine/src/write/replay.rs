//! A refused batch again, halved until only refused documents are left over.

use super::{Session, staged};
use crate::batch::{Batch, Group, RejectedDocument, kept_bytes};
use crate::error::Error;
use crate::limits::REFUSAL_BYTES_MAX;
use crate::merge::Written;
use millstream_model::{Counters, Fault, Reason};

/// What became of a refused batch.
#[derive(Debug, Default)]
pub(super) struct Refused {
    /// The account of its documents, server-made rejects included, decoder-made ones not.
    pub(super) counters: Counters,
    pub(super) rejects: Vec<RejectedDocument>,
}

/// Writes the batch's keys inside the open transaction, each part under a savepoint. A refused
/// part is halved; the documents of a single refused key are written one at a time, in order.
pub(super) async fn replay(session: Session<'_>, batch: &Batch) -> Result<Refused, Error> {
    let mut outcome = Refused::default();
    let mut todo: Vec<&[Group]> = vec![batch.groups()];
    while let Some(groups) = todo.pop() {
        match write_part(session, batch, groups).await? {
            Ok(written) => outcome.counters += session.target.mode.count(written),
            Err(_) if groups.len() > 1 => {
                let (left, right) = groups.split_at(groups.len() / 2);
                todo.push(right);
                todo.push(left);
            }
            Err(refusal) => replay_key(session, batch, &groups[0], &refusal, &mut outcome).await?,
        }
    }
    Ok(outcome)
}

async fn replay_key(
    session: Session<'_>,
    batch: &Batch,
    group: &Group,
    refusal: &Error,
    outcome: &mut Refused,
) -> Result<(), Error> {
    let documents = batch.singles(group);
    let alone = documents.len() == 1;
    for single in &documents {
        let result = if alone {
            Err(None)
        } else {
            write_part(session, batch, std::slice::from_ref(single)).await?.map_err(Some)
        };
        match result {
            Ok(written) => outcome.counters += session.target.mode.count(written),
            Err(error) => {
                outcome.counters.rejected += 1;
                let mut detail = error.as_ref().unwrap_or(refusal).to_string();
                detail.truncate(detail.floor_char_boundary(REFUSAL_BYTES_MAX));
                let fault = Fault::new(Reason::RefusedByServer, detail);
                let (part, row) = batch.members(single).next().expect("it holds one document");
                let start = row.doc_start as usize;
                outcome.rejects.push(RejectedDocument {
                    position: part.position(row),
                    line: row.line,
                    fault,
                    bytes: kept_bytes(part.bytes.slice(start..start + row.doc_len as usize)),
                    whole_bytes: u64::from(row.doc_len),
                });
            }
        }
    }
    Ok(())
}

/// The inner error is a refusal of the data, after which the savepoint is rolled back.
async fn write_part(session: Session<'_>, batch: &Batch, groups: &[Group]) -> Result<Result<Written, Error>, Error> {
    let opening = "savepoint part; delete from pg_temp.millstream_stage";
    let result = Session { opening, ..session }.write(&staged::WRITER, batch, groups).await;
    match result {
        Ok(written) => {
            let written = written.expect("the staged writer writes any key");
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
