//! Writes a batch document by document where necessary, so that only what the server refuses is rejected.

use super::refused::Refused;
use super::walk::{self, Walker};
use super::{Session, halving};
use crate::batch::Batch;
use crate::error::Error;
use crate::limits::WALK_REFUSED_MAX;

/// The name of this way of writing in the receipt.
pub(super) const NAME: &str = "replay";

/// Writes the batch in a transaction that is left open. `None` if the batch should be halved first, because more than
/// `rejects_max` documents are refused or finding them takes too long. Then nothing is written, and no transaction is
/// open. A batch of one part is never halved. `fresh` says that we expect only new keys.
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
