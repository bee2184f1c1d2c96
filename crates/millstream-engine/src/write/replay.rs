//! A batch document by document where need be, so that only what the server refuses in it is rejected.

use super::refused::Refused;
use super::walk::{self, Walker};
use super::{Session, halving};
use crate::batch::Batch;
use crate::error::Error;
use crate::limits::WALK_REFUSED_MAX;

/// The name in the receipt of a batch that was written in this way.
pub(super) const NAME: &str = "replay";

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
