//! Looks at a collection's table again during a run: somebody may change it under the load.

use crate::error::{EmptiedBy, Error};
use millstream_store::truncation::{Rows, Since, emptied_of, rows_since, times_emptied};
use millstream_store::{Schema, TableMark};
use std::sync::{Arc, Mutex, PoisonError};
use tokio_postgres::GenericClient;

/// The table as a run found it.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    pub(crate) mark: TableMark,
    /// How often it had been found truncated when the run began.
    pub(crate) times_emptied: i32,
    /// Whether the run relies on how the table judges documents: on its checks, or also on its indexes.
    judged: bool,
    /// Files that unfilled tables got since then. All lanes of the run know them: the first batch that fills such a table
    /// ends that it is unfilled.
    unfilled: Arc<Mutex<Vec<String>>>,
}

/// Whose documents are in the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stake {
    pub(crate) load_id: i64,
    /// Documents of the load that are in the table.
    pub(crate) documents: u64,
    /// Whether they would count twice if they were loaded again.
    pub(crate) adds_up: bool,
}

/// A table that changed, but not in a way that matters to the load.
pub(crate) struct Harmless {
    pub(crate) mark: TableMark,
    /// Whether it has another file.
    pub(crate) rewritten: bool,
    /// Whether documents of the load may be gone from it.
    pub(crate) doubtful: bool,
}

impl Watched {
    pub(crate) fn new(mark: TableMark, times_emptied: i32, judged: bool) -> Self {
        Self { mark, times_emptied, judged, unfilled: Arc::default() }
    }

    /// The same table in the same state, for another run.
    pub(crate) fn of_another(&self) -> Self {
        Self::new(self.mark.clone(), self.times_emptied, self.judged)
    }

    /// Finds out what happened to the table since the run began. `None` if nothing did.
    ///
    /// # Errors
    /// [`Error::TableMoved`] if it was renamed, replaced or dropped, [`Error::TableChanged`] if documents must be written
    /// in another way now, [`Error::Emptied`] or [`Error::PartitionEmptied`] if documents of the load were truncated.
    pub(crate) async fn look(
        &self,
        client: &impl GenericClient,
        schema: &Schema,
        stake: Stake,
    ) -> Result<Option<Harmless>, Error> {
        let Self { mark: before, times_emptied: known, judged, unfilled } = self;
        let mark = same_table(before, client, *judged).await?;
        if mark == *before {
            return Ok(None);
        }
        let Stake { load_id, documents, adds_up } = stake;
        let mut files = vec![before.files.clone()];
        files.extend(unfilled.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned());
        let Since { rows, unfilled: seen } = rows_since(client, schema, &files.join(" "), &mark).await?;
        unfilled.lock().unwrap_or_else(PoisonError::into_inner).extend(seen);
        let again = times_emptied(client, schema, mark.oid).await? > *known;
        let partition = match rows {
            Rows::Same if !again || mark.files == before.files => {
                return Ok(Some(Harmless { mark, rewritten: false, doubtful: false }));
            }
            // Nothing of the load is gone. Whatever else the truncated rows belonged to is found out by a new run.
            _ if documents == 0 && (again || rows != (Rows::Rewritten { uncounted: false })) => {
                return Err(Error::TableChanged { collection: mark.name, what: "the file of the table" });
            }
            Rows::Emptied => None,
            Rows::PartitionEmptied(partition) => Some(partition),
            Rows::Rewritten { uncounted } if !again => {
                return Ok(Some(Harmless { mark, rewritten: true, doubtful: uncounted }));
            }
            // Another run has found it truncated. Somebody has inserted since, or has deleted what was inserted.
            Rows::Same | Rows::Rewritten { .. } => emptied_of(client, schema, load_id).await?,
        };
        Err(match partition {
            Some(partition) if adds_up => Error::PartitionEmptied { load_id, partition },
            partition => Error::Emptied { documents, by: partition.map_or(EmptiedBy::Truncate, EmptiedBy::TruncateOf) },
        })
    }
}

/// The mark of a table, read again. `judged`: whether it matters how the table judges documents.
///
/// # Errors
/// [`Error::TableMoved`] if it was renamed, replaced or dropped, [`Error::TableChanged`] if documents must be written in
/// another way now.
pub(crate) async fn same_table(
    before: &TableMark,
    client: &impl GenericClient,
    judged: bool,
) -> Result<TableMark, Error> {
    let collection = before.name.clone();
    let mark = before.again(client).await?.filter(|mark| mark.name == before.name);
    let Some(mark) = mark else { return Err(Error::TableMoved { collection }) };
    before.difference(&mark, judged).map_or(Ok(mark), |what| Err(Error::TableChanged { collection, what }))
}
