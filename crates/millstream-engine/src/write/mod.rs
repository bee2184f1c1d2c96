//! Ways to get a batch's keys into the table: one file each, all inside the lane's transaction.

mod choice;
mod comparison;
mod copy;
mod copy_stream;
mod deleting;
mod kept;
mod lane;
mod replay;
mod staged;
mod staged_update;
mod statement;

pub(crate) use lane::{Lane, LaneReport, LaneSetup};
pub(crate) use statement::Target;

use crate::batch::{Batch, Group};
use crate::error::Error;
use crate::merge::Written;
use futures_util::future::BoxFuture;
use statement::Prepared;
use tokio_postgres::Client;

/// A way of writing. It runs inside an open transaction and leaves that open; after an error the
/// caller rolls back.
pub(crate) struct Writer {
    /// The name in the receipt.
    pub(crate) name: &'static str,
    /// Writes the groups, which are in key order.
    pub(crate) write: for<'a> fn(Session<'a>, &'a Batch, &'a [Group]) -> Writing<'a>,
}

/// The end of a writer's work; `None` when the groups hold a key that this writer cannot write.
pub(crate) type Writing<'a> = BoxFuture<'a, Result<Option<Written>, Error>>;

/// What a writer works with.
#[derive(Clone, Copy)]
pub(crate) struct Session<'a> {
    pub(crate) client: &'a Client,
    pub(crate) target: &'a Target,
    pub(crate) prepared: &'a Prepared,
    /// Sent ahead of the writer's first statement, in the same flight: `begin` or `savepoint`.
    pub(crate) opening: &'a str,
}

impl<'a> Session<'a> {
    /// Writes groups with a writer; `None` when it cannot, and the caller is to roll back and take [`staged`].
    ///
    /// # Errors
    /// [`Error::RowsDropped`] when the server neither stored nor kept a row, as a trigger can make it do.
    pub(crate) async fn write(
        self,
        writer: &'static Writer,
        batch: &'a Batch,
        groups: &'a [Group],
    ) -> Result<Option<Written>, Error> {
        let Some(rounds) = batch.rounds(groups, &self.target.mode, !self.target.folds) else {
            return self.write_round(self.writer(writer, batch), batch, groups).await;
        };
        let mut sum = Written::default();
        for (n, groups) in rounds.iter().enumerate() {
            let session =
                if n == 0 { self } else { Session { opening: "delete from pg_temp.millstream_stage", ..self } };
            let written = Box::pin(session.write_round(self.writer(&staged::WRITER, batch), batch, groups)).await?;
            sum += written.expect("the staged writer writes any key");
        }
        Ok(Some(sum))
    }

    /// The writer of a batch that is meant for another one, which writes no tombstones.
    pub(crate) fn writer(&self, meant: &'static Writer, batch: &Batch) -> &'static Writer {
        if self.target.guarded || batch.has_tombstones() { &deleting::WRITER } else { meant }
    }

    async fn write_round(self, writer: &Writer, batch: &'a Batch, groups: &[Group]) -> Result<Option<Written>, Error> {
        let Some(written) = (writer.write)(self, batch, groups).await? else { return Ok(None) };
        let done = written.done();
        assert!(done <= written.keys && written.keys <= written.documents, "no row is stored twice: {written:?}");
        if done < written.keys && !self.target.mode.leaves() {
            return Err(Error::RowsDropped { rows: written.keys - done });
        }
        Ok(Some(written))
    }
}

/// Every writer. A lane's [`choice::Choice`] names the one it wants.
#[cfg(test)]
static WRITERS: &[&Writer] =
    &[&comparison::WRITER, &copy::WRITER, &deleting::WRITER, &staged::WRITER, &staged_update::WRITER];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let names: std::collections::BTreeSet<_> = WRITERS.iter().map(|w| w.name).collect();
        assert_eq!(names.len(), WRITERS.len());
    }
}
