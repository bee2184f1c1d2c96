//! Checks that a model's rows depend on nothing but their row of the collection.

use crate::definition::Derivation;
use crate::error::Error;
use crate::refusal::refused;
use tokio_postgres::GenericClient;

/// Refuses a definition that calls a volatile function, or reads a table in a subselect: its rows could become wrong
/// without a change of the collection. `view` is the name of a view that is created for the check and dropped again.
///
/// # Errors
/// [`Error::Refused`] names the function or the table.
pub(crate) async fn refuse_volatile(
    client: &impl GenericClient,
    derivation: &Derivation,
    view: &str,
) -> Result<(), Error> {
    let made = client.batch_execute(&format!("create view {view} as {}", derivation.rows(""))).await;
    made.map_err(|error| refused("the model", error))?;
    let row = client.query_one(include_str!("volatility.sql"), &[&view, &derivation.table()]).await?;
    client.batch_execute(&format!("drop view {view}")).await?;
    let (function, table): (Option<String>, Option<String>) = (row.get(0), row.get(1));
    let (problem, hint) = if let Some(function) = function {
        (
            format!("each row of a model is derived once, and the volatile function {function} may change its answer"),
            format!(
                "if it depends on its arguments alone, say so: alter function {function} immutable; or use \
                 --materialized"
            ),
        )
    } else if let Some(table) = table {
        (
            format!("each row of a model is made of one row of the collection, and a subselect reads {table}"),
            "a refresh would not notice changes there; join the two in a view of your own, or use --materialized"
                .to_owned(),
        )
    } else {
        return Ok(());
    };
    Err(Error::refused(problem, hint))
}
