//! CHECK constraints of a table, as the catalog has them.

use crate::error::Error;
use serde::{Deserialize, Serialize};
use tokio_postgres::GenericClient;

/// A CHECK constraint of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// What must not be false, as the server spells it.
    pub expression: String,
    /// Whether every stored row keeps it, and not only what was written since it is there.
    pub validated: bool,
}

impl std::fmt::Display for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "check {}: {}", self.name, self.expression)
    }
}

/// The constraints of a table that are enforced, in the order in which the server looks at them.
pub async fn checks(client: &impl GenericClient, table_oid: u32) -> Result<Vec<Check>, Error> {
    let rows = client.query(include_str!("checks.sql"), &[&table_oid]).await?;
    let check = |row: &tokio_postgres::Row| Check { name: row.get(0), expression: row.get(1), validated: row.get(2) };
    Ok(rows.iter().map(check).collect())
}
