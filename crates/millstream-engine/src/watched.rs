//! Looks at a collection's table again during a run: somebody may change it under the load.

use crate::error::{Error, TRUNCATED};
use millstream_store::truncation::{Rows, rows_since, times_emptied};
use millstream_store::{Schema, TableMark};
use tokio_postgres::GenericClient;

/// The table as a run found it.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    pub(crate) mark: TableMark,
    /// How often it had been found truncated when the run began.
    pub(crate) times_emptied: i32,
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
        let Self { mark: before, times_emptied: known } = self;
        let mark = same_table(before, client).await?;
        if mark == *before {
            return Ok(None);
        }
        let Stake { load_id, documents, adds_up } = stake;
        let rows = rows_since(client, &before.files, &mark).await?;
        let again = times_emptied(client, schema, mark.oid).await? > *known;
        let rewritten = matches!(rows, Rows::Rewritten { .. });
        let doubtful = rows == Rows::Rewritten { uncounted: true } && documents > 0;
        match rows {
            _ if documents == 0 => {}
            Rows::PartitionEmptied(partition) if adds_up => return Err(Error::PartitionEmptied { load_id, partition }),
            Rows::Emptied | Rows::PartitionEmptied(_) => return Err(Error::Emptied { documents, by: TRUNCATED }),
            // Another run has found it truncated, and somebody has inserted since.
            Rows::Rewritten { .. } if again => return Err(Error::Emptied { documents, by: TRUNCATED }),
            Rows::Rewritten { .. } | Rows::Same => {}
        }
        Ok(Some(Harmless { mark, rewritten, doubtful }))
    }
}

/// The mark of a table, read again.
///
/// # Errors
/// [`Error::TableMoved`] if it was renamed, replaced or dropped, [`Error::TableChanged`] if documents must be written in
/// another way now.
pub(crate) async fn same_table(before: &TableMark, client: &impl GenericClient) -> Result<TableMark, Error> {
    let collection = before.name.clone();
    let mark = before.again(client).await?.filter(|mark| mark.name == before.name);
    let Some(mark) = mark else { return Err(Error::TableMoved { collection }) };
    before.difference(&mark).map_or(Ok(mark), |what| Err(Error::TableChanged { collection, what }))
}
