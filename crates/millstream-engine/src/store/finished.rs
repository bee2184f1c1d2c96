//! The receipt of a load that has been run to its end and must not run again by mistake.

use super::load::{Identity, key_json};
use super::schema::Schema;
use crate::error::Error;
use millstream_model::{Receipt, SLOT_HASH_VERSION};
use tokio_postgres::Client;

/// The stored receipt, when the last load of this identity, with all of its sources, is finished and its
/// documents would count twice if it ran again.
pub(super) async fn finished(client: &Client, schema: &Schema, identity: &Identity) -> Result<Option<Receipt>, Error> {
    if !identity.once {
        return Ok(None);
    }
    let Identity { table_oid, mode, key, format, sources, .. } = identity;
    let sql = schema.sql(include_str!("load_finished.sql"));
    let row = client.query_opt(&sql, &[table_oid, mode, &key_json(key), format, sources, &SLOT_HASH_VERSION]).await?;
    let Some(receipt) = row.and_then(|row| row.get::<_, Option<String>>(0)) else { return Ok(None) };
    let receipt = serde_json::from_str(&receipt).map_err(|_| Error::Ledger("a receipt cannot be read"))?;
    Ok(Some(receipt))
}
