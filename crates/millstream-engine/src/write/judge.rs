//! Tries what folding leaves out, where the table may refuse it: each document as it arrives, and each row between the
//! stored one and the one that the batch stores.
//!
//! A temporary table with the constraints and generated columns of the collection judges them. That takes no index, no
//! WAL, and no version of a row for each document. If it refuses anything, the batch is written [row by
//! row](super::replay), which finds out what. Nothing is sent to it where only typed columns could refuse a document, and
//! the values of each surely fit them.

use super::Session;
use super::copy_stream::{Destination, copy_groups};
use super::names::Names;
use super::statement::Sql;
use crate::batch::{Batch, Group};
use crate::error::Error;
use crate::merge::Folding;
use millstream_document::decode::Fitting;
use millstream_pg::fill;

/// Fills the table.
const COPY: &str = "judge: copy";
const BETWEEN: &str = "judge: between";

/// The table, and the statements for trying documents. `None` if nothing is to be tried.
pub(super) fn sql(names: &Names<'_>) -> Option<Sql> {
    let Names { plan, table, key, join, .. } = names;
    let between = plan.mode.between(plan.schema()).filter(|_| plan.folding == Folding::Tried)?;
    let statements = vec![
        (
            COPY,
            format!(
                "copy pg_temp.millstream_judge ({key}, doc, millstream_place, millstream_turn) from stdin (format binary)"
            ),
        ),
        (
            BETWEEN,
            fill!(
                include_str!("between.sql"),
                table,
                key,
                join,
                staged_key = names.values("staged"),
                told_key = names.values("told"),
                first = between.first,
                so_far = between.so_far,
                document = between.document,
            ),
        ),
    ];
    Some(Sql { create: fill!(include_str!("judge_create.sql"), table, create = between.create), statements })
}

/// Tries what is folded into these groups. Returns the session for what follows in the transaction.
///
/// # Errors
/// The server's, if it refuses a document or a row. The caller then rolls back.
pub(super) async fn judge<'a>(session: Session<'a>, batch: &Batch, groups: &[Group]) -> Result<Session<'a>, Error> {
    let Session { client, plan, prepared, .. } = session;
    let (Some(copy), Some(between)) = (prepared.find(COPY), prepared.find(BETWEEN)) else { return Ok(session) };
    let (tried, turns): (Vec<Group>, Vec<i32>) = batch.folded_away(groups, plan.folding).unzip();
    // A row between two documents that fit does, too.
    let fit = |fitting: &Fitting| {
        let members = tried.iter().flat_map(|single| batch.members(single));
        fitting.fits(members.map(|(part, row)| part.document(row)))
    };
    if tried.is_empty() || plan.fitting.as_ref().is_some_and(fit) {
        return Ok(session);
    }
    let judged = async { Ok(client.execute(between, &[]).await?) };
    copy_groups(session, Destination::Judge(copy, &turns), batch, &tried, judged).await?;
    Ok(Session { opening: "", ..session })
}
