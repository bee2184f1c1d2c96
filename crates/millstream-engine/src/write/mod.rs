//! Lanes, and the writers that put a batch into the table inside a lane's transaction, one file each.

mod arrays;
mod choice;
mod copy;
mod copy_stream;
mod deleting;
mod divided;
mod elements;
mod judge;
mod kept;
mod lane;
mod lanes;
mod learning;
mod ledger;
mod missing;
mod names;
mod portion;
mod probe;
mod refused;
mod replay;
mod segment;
mod segment_plan;
mod staged;
mod statement;
mod texts;
mod upsert;
mod vacancy;

pub(crate) use lanes::Lanes;
pub(crate) use ledger::{LaneReport, LaneSetup, own_wal_bytes};
pub(crate) use missing::MissingRowsSql;
pub(crate) use segment_plan::SegmentPlan;
pub(crate) use texts::Texts;

use crate::batch::{Batch, Group, Part};
use crate::error::Error;
use crate::layout::{LOG, Layout, TABLE};
use crate::merge::{Folded, Written};
use crate::plan::LoadPlan;
use futures_util::future::BoxFuture;
use millstream_store::GUARD_SQLSTATE;
use names::Names;
use statement::{Prepared, Sql};
use tokio::sync::mpsc;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

/// A lane that owns its row.
pub(crate) trait OpenLane: Send {
    /// Commits what comes through the queue until the queue ends, and reports what it did.
    fn run(self: Box<Self>, queue: mpsc::Receiver<Part>) -> BoxFuture<'static, (LaneReport, Result<(), Error>)>;
}

/// The result of opening a lane.
type Opening = BoxFuture<'static, Result<Box<dyn OpenLane>, Error>>;

/// Connects and takes over the lane's row.
type Open = fn(LaneSetup) -> Opening;

/// How the lanes of each layout are opened.
static LANES: &[(&Layout, Open)] = &[(&TABLE, lane::open), (&LOG, segment::open)];

/// Connects and takes over the lane's row.
pub(crate) fn open_lane(setup: LaneSetup) -> Opening {
    let of = setup.lanes.plan.request.layout;
    let (_, open) = LANES.iter().find(|(layout, _)| layout.name == of.name).expect("every layout has lanes");
    open(setup)
}

/// A way of writing. It runs inside an open transaction and leaves it open. After an error, the caller rolls back.
pub(crate) struct Writer {
    /// The name in the receipt.
    pub(crate) name: &'static str,
    facts: Facts,
    /// Makes its statements; `None` if the load cannot use it.
    sql: fn(&Names<'_>) -> Option<Sql>,
    /// Writes the groups, which are in key order.
    write: for<'a> fn(Session<'a>, &'a Batch, &'a [Group]) -> Writing<'a>,
}

/// What a lane asks about a writer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    /// Whether it finds out which documents are unchanged, if those may be skipped.
    compares: bool,
    /// Whether it leaves batches with large documents to an upsert that compares, if unchanged ones may be skipped. Such
    /// documents are neither sampled nor asked for: the server compares them when they have arrived.
    leaves_large: bool,
    /// Whether it can write only keys that are not stored. A key that the lane has met then explains that it failed.
    only_new: bool,
    /// Whether it asks which keys of a batch are stored, unless the lane knows it.
    asks: bool,
}

impl Facts {
    /// What holds for most writers.
    const NONE: Self = Self { compares: false, leaves_large: false, only_new: false, asks: false };
}

/// The keys that a writer inserted, updated, deleted and left unchanged; `None` if the groups hold a key that it cannot
/// write.
pub(crate) type Writing<'a> = BoxFuture<'a, Result<Option<Written>, Error>>;

/// What a writer works with.
#[derive(Clone, Copy)]
pub(crate) struct Session<'a> {
    pub(crate) client: &'a Client,
    pub(crate) plan: &'a LoadPlan,
    pub(crate) prepared: &'a Prepared,
    /// Sent before the writer's first statement, in the same flight: `begin` or `savepoint`.
    pub(crate) opening: &'a str,
    /// For each group of the batch whether its key may be stored, if the lane knows that without asking: the table was
    /// empty, and nobody else writes its keys.
    pub(crate) met: Option<&'a [bool]>,
}

impl<'a> Session<'a> {
    /// The key of each group and what is sent for it.
    pub(crate) fn winners(self, batch: &'a Batch, groups: &'a [Group]) -> impl Iterator<Item = (&'a [u8], Folded<'a>)> {
        batch.winners(groups, &self.plan.mode, self.plan.left_out.as_ref())
    }

    /// Writes groups with a writer. `None` if it cannot write them; the caller then rolls back and chooses another
    /// writer.
    ///
    /// # Errors
    /// [`Error::RowsDropped`] when the server neither stored nor kept a row. A trigger can cause that.
    pub(crate) async fn write(
        self,
        writer: &'static Writer,
        batch: &'a Batch,
        groups: &'a [Group],
    ) -> Result<Option<Written>, Error> {
        let begun = Box::pin(judge::judge(self, batch, groups)).await?;
        let Some(rounds) = batch.rounds(groups, &self.plan.mode, self.plan.folding) else {
            return begun.write_round(self.writer(writer, batch), batch, groups).await;
        };
        let mut sum = Written::default();
        for (n, groups) in rounds.iter().enumerate() {
            let session =
                if n == 0 { begun } else { Session { opening: "delete from pg_temp.millstream_stage", ..self } };
            let meant = if arrays::fit(self, batch, groups) { &arrays::WRITER } else { &upsert::WRITER };
            let written = Box::pin(session.write_round(self.writer(meant, batch), batch, groups)).await?;
            sum += written.expect("both writers write any key");
        }
        Ok(Some(sum))
    }

    /// Sends the opening and a writer's first statement, and returns the answer to the statement.
    async fn first<T>(self, statement: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T, Error> {
        if self.opening.is_empty() {
            return Ok(statement.await?);
        }
        let opening = self.open();
        if self.plan.mode.adds_up() {
            // If the opening failed, the statement behind it would be committed alone, and again with its batch.
            opening.await?;
            return Ok(statement.await?);
        }
        let statement = async { Ok(statement.await?) };
        Ok(tokio::try_join!(biased; opening, statement)?.1)
    }

    /// Sends the opening.
    ///
    /// # Errors
    /// [`Error::TableDiffers`] if the table is not in the state that the lane knows.
    async fn open(self) -> Result<(), Error> {
        self.client.batch_execute(self.opening).await.map_err(differing)
    }

    /// The writer of a batch for which `meant` was chosen. Only `deletes` handles tombstones.
    pub(crate) fn writer(&self, meant: &'static Writer, batch: &Batch) -> &'static Writer {
        if self.plan.checks_tombstones || batch.has_tombstones() {
            &deleting::WRITER
        } else if self.plan.skips() && batch.has_large() && meant.facts.leaves_large {
            &upsert::COMPARING
        } else {
            meant
        }
    }

    /// Whether a writer finds out which documents are unchanged.
    pub(crate) fn compares(&self, writer: &Writer) -> bool {
        self.plan.skips() && writer.facts.compares
    }

    async fn write_round(self, writer: &Writer, batch: &'a Batch, groups: &[Group]) -> Result<Option<Written>, Error> {
        let Some(keys) = (writer.write)(self, batch, groups).await? else { return Ok(None) };
        let mut written = batch.written(groups, &self.plan.mode);
        written += keys;
        let done = written.done();
        assert!(done <= written.keys && written.keys <= written.documents, "no row is stored twice: {written:?}");
        if done < written.keys && !self.plan.mode.may_keep_stored() {
            return Err(Error::RowsDropped { rows: written.keys - done });
        }
        Ok(Some(written))
    }
}

/// The error of a statement that holds the guard of the table's state.
pub(crate) fn differing(error: tokio_postgres::Error) -> Error {
    match error.code() {
        Some(code) if code.code() == GUARD_SQLSTATE => Error::TableDiffers,
        _ => error.into(),
    }
}

/// What was written, if the keys that were neither inserted nor updated have unchanged documents.
fn unchanged_rest(written: Written, groups: &[Group]) -> Written {
    Written { unchanged: groups.len() as u64 - written.inserted - written.updated, ..written }
}

/// The two counts that a statement returns.
async fn counts(client: &Client, statement: &Statement, values: &[&(dyn ToSql + Sync)]) -> Result<(u64, u64), Error> {
    let row = client.query_one(statement, values).await?;
    Ok((count(&row, 0), count(&row, 1)))
}

fn count(row: &Row, column: usize) -> u64 {
    u64::try_from(row.get::<_, i64>(column)).expect("a count is not negative")
}

/// Names of the writers. [`Receipt::writers`](millstream_model::Receipt::writers) counts batches by them.
pub fn writers() -> impl Iterator<Item = &'static str> {
    WRITERS.iter().map(|writer| writer.name)
}

/// Every writer by its name, in the order of preparing their statements. A lane's [`choice::Choice`] names the one it wants.
///
/// The upsert comes first, because preparing it locks the table at once as writing does. Others read the table first. If
/// somebody has locked the table to change it, they would end in a deadlock.
static WRITERS: &[&Writer] = &[
    &upsert::WRITER,
    &arrays::WRITER,
    &copy::WRITER,
    &deleting::WRITER,
    &divided::COMPARED,
    &divided::DIVIDED,
    &staged::WRITER,
];

#[cfg(test)]
mod tests;
