//! A batch document by document where need be, so that only what the server refuses in it is rejected.

use super::walk::{self, Walker};
use super::{Session, Target, halving};
use crate::batch::{Batch, Group, RejectedDocument, kept_bytes};
use crate::error::Error;
use crate::limits::{REFUSAL_BYTES_MAX, WALK_REFUSED_MAX};
use crate::merge::Written;
use millstream_model::{Fault, Reason};

/// The name in the receipt of a batch that was written in this way.
pub(super) const NAME: &str = "replay";

/// What became of a refused batch.
#[derive(Debug, Default)]
pub(super) struct Refused {
    /// The account of what is stored.
    pub(super) written: Written,
    /// What is not.
    pub(super) rejects: Vec<RejectedDocument>,
}

/// Writes the batch in a transaction that is left open; `None` when more documents than `rejects_max`
/// are refused, or finding those takes so long that the batch is to be halved first, unless it is as
/// small as it can be. Then nothing is written, and no transaction open. `fresh` says that its keys are
/// believed to be new.
pub(super) async fn replay(
    session: Session<'_>,
    walker: &mut Walker,
    batch: &Batch,
    fresh: bool,
    rejects_max: u64,
) -> Result<Option<Refused>, Error> {
    let divisible = batch.parts() > 1;
    let rejects_max = if divisible { rejects_max.min(WALK_REFUSED_MAX) } else { u64::MAX };
    let mut walks = walker.usable();
    loop {
        let result = if walks {
            walk::walk(session, walker, batch, fresh, rejects_max).await
        } else if divisible {
            return Ok(None);
        } else {
            session.client.batch_execute(session.opening).await?;
            halving::halve(session, batch).await.map(Some)
        };
        match result {
            Ok(Some(refused)) => return Ok(Some(refused)),
            Ok(None) => {
                session.client.batch_execute("rollback").await?;
                return Ok(None);
            }
            Err(error) if walks && error.refuses_data() => {
                session.client.batch_execute("rollback").await?;
                walks = walker.learns(&error);
            }
            Err(error) => return Err(error),
        }
    }
}

/// A document that the server refuses on its own.
pub(super) fn reject(target: &Target, batch: &Batch, single: &Group, refusal: &Error) -> RejectedDocument {
    let check = refusal.broken_check().and_then(|name| target.checks.iter().find(|check| check.name == name));
    let (reason, mut detail) = match check {
        Some(check) => (Reason::BreaksCheck, check.to_string()),
        None => (Reason::RefusedByServer, refusal.to_string()),
    };
    detail.truncate(detail.floor_char_boundary(REFUSAL_BYTES_MAX));
    detail.shrink_to_fit();
    let (part, row) = batch.members(single).next().expect("it holds one document");
    let start = row.doc_start as usize;
    RejectedDocument {
        position: part.position(row),
        line: row.line,
        fault: Fault::new(reason, detail),
        bytes: kept_bytes(part.bytes.slice(start..start + row.doc_len as usize)),
        whole_bytes: u64::from(row.doc_len),
    }
}
