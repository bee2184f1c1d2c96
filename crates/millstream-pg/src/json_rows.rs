//! Rows that the server writes as JSON objects: a struct names its columns once, in its fields.

use crate::error::Error;
use serde::de::DeserializeOwned;
use tokio_postgres::GenericClient;
use tokio_postgres::types::ToSql;

/// The rows of a query, each read as a JSON object with a member for each column. `what` names one in an error.
///
/// # Errors
/// Those of the server or the connection; [`Error::Driver`] when a row is not such an object.
pub async fn json_rows<T: DeserializeOwned>(
    client: &impl GenericClient,
    what: &'static str,
    query: &str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<Vec<T>, Error> {
    let query = format!("select pg_catalog.row_to_json(listed)::pg_catalog.text from (\n{query}\n) as listed");
    let rows = client.query(&query, parameters).await?;
    let unreadable = |error| Error::Driver { message: format!("{what} cannot be read: {error}") };
    rows.iter().map(|row| serde_json::from_str(row.try_get(0)?).map_err(unreadable)).collect()
}
