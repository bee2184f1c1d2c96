//! CHECK constraints of a table, as the catalog has them.

use crate::error::Error;
use serde::{Deserialize, Serialize};
use tokio_postgres::GenericClient;

/// A CHECK constraint of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// The condition, as the server prints it. It must not be false.
    pub expression: String,
    /// Whether all stored rows satisfy it, not only those written since it was added.
    pub validated: bool,
}

impl std::fmt::Display for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "check {}: {}", self.name, self.expression)
    }
}

/// The enforced constraints of a table, in the order in which the server checks them.
pub async fn checks(client: &impl GenericClient, table_oid: u32) -> Result<Vec<Check>, Error> {
    let rows = client.query(include_str!("checks.sql"), &[&table_oid]).await?;
    let check = |row: &tokio_postgres::Row| Check { name: row.get(0), expression: row.get(1), validated: row.get(2) };
    Ok(rows.iter().map(check).collect())
}
