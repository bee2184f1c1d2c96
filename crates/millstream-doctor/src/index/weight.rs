//! What it costs to find rows by an index, by the statistics of the table.

use super::statement::Statement;
use crate::refusal::or_refusal;
use millstream_pg::Error;
use tokio_postgres::GenericClient;

/// What an index must make cheaper.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weight<'q> {
    /// The query.
    pub(super) query: &'q str,
    /// The planner's cost of the query now.
    pub(super) whole: f64,
    /// The part of it that the index would replace.
    pub(super) part: f64,
    /// How often the query would look rows up.
    pub(super) lookups: f64,
    /// The share of the rows it finds that it reads, before a limit ends it.
    pub(super) share: f64,
}

/// Cost of each row that is found by an index: `random_page_cost` of a disk without heads.
const COST_OF_ROW: f64 = 1.1;

/// Finding the first row costs as much as so many rows: an index has few levels.
const ROWS_FOR_FIRST: f64 = 10.0;

/// Each look-up reads so many pages of the index: a leaf. The upper levels are in memory after the first one.
const PAGES_OF_LOOK_UP: f64 = 1.0;

/// The planner's cost of so many look-ups that each read so many rows, by estimate.
pub(super) fn look_up_cost(lookups: f64, rows: f64) -> f64 {
    COST_OF_ROW * (ROWS_FOR_FIRST + lookups * (PAGES_OF_LOOK_UP + rows))
}

/// The planner's cost of so many rows that are read one after the other in the order of an index, by estimate.
pub(super) fn reading_cost(rows: f64) -> f64 {
    COST_OF_ROW * rows
}

/// Rows of a query whose parameters can have any value, as the planner estimates them. `None` if the server refuses the query.
/// The client is in a transaction.
///
/// # Errors
/// The server's, if the connection is lost.
pub(super) async fn rows_found(client: &impl GenericClient, sql: &str) -> Result<Option<f64>, Error> {
    let plan = Statement { sql }.plan(client).await;
    Ok(or_refusal(plan)?.ok().map(|plan| plan.returned))
}
