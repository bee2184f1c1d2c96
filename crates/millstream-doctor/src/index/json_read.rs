//! Members of JSON documents that the conditions of a query read.

use super::plan::Scan;
use super::{actual_plan, json_paths};
use crate::limits::PROVEN_TABLES_MAX;
use millstream_pg::Error;
use tokio_postgres::Client;

/// A member that a condition reads, and where its document is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JsonRead {
    /// The table as SQL needs it, with its schema.
    pub(crate) table: String,
    /// Its rows, as the planner estimates; negative if the table was never vacuumed or analyzed.
    pub(crate) rows: f64,
    /// The column of the documents, as SQL needs it.
    pub(crate) column: String,
    /// The members from the document on.
    pub(crate) path: Vec<String>,
}

/// The members that are read by conditions on the rows of tables, as the plan of a query has them. Members that the query
/// only shows are not among them.
///
/// # Errors
/// [`Error::Query`] if the text is not a single query, or changes rows; the server's if it refuses the query.
pub(crate) async fn json_reads(client: &mut Client, query: &str) -> Result<Vec<JsonRead>, Error> {
    let transaction = client.build_transaction().read_only(true).start().await?;
    let scans = actual_plan(&transaction, query).await?.scans();
    let mut found = Vec::new();
    for Scan { schema, relation, filter, uses, .. } in scans.iter().take(PROVEN_TABLES_MAX) {
        let columns = transaction.query(include_str!("json_columns.sql"), &[schema, relation]).await?;
        for row in &columns {
            let name: String = row.try_get("name")?;
            let conditions = filter.iter().chain(uses.iter().filter_map(|one| one.condition.as_ref()));
            for path in conditions.flat_map(|text| json_paths(text, &name).unwrap_or_default()) {
                let (table, rows, column) = (row.try_get("table")?, row.try_get("rows")?, row.try_get("word")?);
                let read = JsonRead { table, rows, column, path };
                if !found.contains(&read) {
                    found.push(read);
                }
            }
        }
    }
    transaction.rollback().await?;
    Ok(found)
}
