//! Tries what folding leaves out, where the table may refuse it: each document as it arrives, and each row between the
//! stored one and the one that the batch stores.
//!
//! A temporary table with the constraints and generated columns of the collection judges them. That takes no index, no
//! WAL, and no version of a row for each document. If it refuses anything, the batch is written [row by
//! row](super::replay), which finds out what.

use super::Session;
use super::copy_stream::{Destination, copy_groups};
use super::names::Names;
use crate::batch::{Batch, Group};
use crate::error::Error;
use crate::merge::Mode;
use millstream_pg::fill;
use millstream_store::Schema;
use tokio_postgres::{Client, Statement};

/// The statements for trying documents, as text.
#[derive(Debug)]
pub(super) struct Sql {
    /// Creates the table, and what the mode needs.
    create: String,
    copy: String,
    between: String,
}

/// The same on one connection.
pub(crate) struct Statements {
    copy: Statement,
    between: Statement,
}

impl Sql {
    /// `None` if the mode stores documents unchanged.
    pub(super) fn new(mode: &Mode, schema: &Schema, names: &Names, keys: &[String]) -> Option<Self> {
        let between = mode.between(schema)?;
        let Names { table, key, join } = names;
        let of = |row: &str| keys.iter().map(|key| format!("{row}.{key}")).collect::<Vec<_>>().join(", ");
        Some(Self {
            create: fill!(include_str!("judge_create.sql"), table, create = between.create),
            copy: format!(
                "copy pg_temp.millstream_judge ({key}, doc, millstream_place, millstream_turn) from stdin (format binary)"
            ),
            between: fill!(
                include_str!("between.sql"),
                table,
                key,
                join,
                staged_key = of("staged"),
                told_key = of("told"),
                first = between.first,
                so_far = between.so_far,
                document = between.document,
            ),
        })
    }

    /// Creates the table on a connection, and prepares the statements.
    pub(super) async fn prepare(&self, client: &Client) -> Result<Statements, tokio_postgres::Error> {
        client.batch_execute(&self.create).await?;
        let (copy, between) = tokio::try_join!(client.prepare(&self.copy), client.prepare(&self.between))?;
        Ok(Statements { copy, between })
    }
}

/// Tries what is folded into these groups. Returns the session for what follows in the transaction.
///
/// # Errors
/// The server's, if it refuses a document or a row. The caller then rolls back.
pub(super) async fn judge<'a>(session: Session<'a>, batch: &Batch, groups: &[Group]) -> Result<Session<'a>, Error> {
    let Session { client, plan, prepared, .. } = session;
    let Some(Statements { copy, between }) = &prepared.judge else { return Ok(session) };
    let (tried, turns): (Vec<Group>, Vec<i32>) = batch.folded_away(groups, plan.folding).unzip();
    if tried.is_empty() {
        return Ok(session);
    }
    let judged = async { Ok(client.execute(between, &[]).await?) };
    copy_groups(session, Destination::Judge(copy, &turns), batch, &tried, judged).await?;
    Ok(Session { opening: "", ..session })
}
