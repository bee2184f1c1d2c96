//! Removes what killed runs have left on the server.
//!
//! A run holds a lock while it is alive; a later run drops the schemas whose lock nobody holds.

use crate::error::Error;
use millstream_pg::advisory::LAB;
use millstream_pg::quote_identifier;
use tokio_postgres::Client;

/// Prefix of the names of a run's schemas; eight hexadecimal digits follow.
pub(crate) const PREFIX: &str = "millstream_lab_";

/// Marks the run with this schema as alive, until the session ends.
pub(crate) async fn claim(client: &Client, schema: &str) -> Result<(), Error> {
    Ok(LAB.of(number(schema)).lock(client).await?)
}

/// Drops the schemas of runs that are dead, and returns their names.
pub(crate) async fn clear(client: &Client) -> Result<Vec<String>, Error> {
    let mut dropped = Vec::new();
    for row in client.query(include_str!("leftovers.sql"), &[]).await? {
        let schema: String = row.get(0);
        let lock = LAB.of(number(&schema));
        if lock.try_lock(client).await? {
            let drop = format!("drop schema if exists {} cascade", quote_identifier(&schema));
            let done = client.batch_execute(&drop).await;
            lock.unlock(client).await?;
            done?;
            dropped.push(schema);
        }
    }
    Ok(dropped)
}

/// The number in a schema's name; 0 if there is none.
fn number(schema: &str) -> i32 {
    let digits = schema.strip_prefix(PREFIX).and_then(|rest| rest.get(..8)).unwrap_or_default();
    u32::from_str_radix(digits, 16).unwrap_or(0).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_schemas_of_a_run_have_its_number() {
        for (schema, n) in [("millstream_lab_0000000a", 10), ("millstream_lab_ffffffff_store", -1), ("other", 0)] {
            assert_eq!(number(schema), n, "{schema}");
        }
    }
}
