//! The lock under which an unlogged collection becomes logged.

use crate::error::Error;
use millstream_pg::advisory::FREEZE;
use tokio_postgres::Client;

/// Refuses to begin an unlogged load while its table is being frozen, or if the table has become logged since the load
/// was planned. Call it under the lock that [`await_openings`](crate::await_openings) waits for.
///
/// # Errors
/// [`Error::Frozen`].
pub async fn refuse_frozen(client: &Client, table_oid: u32, collection: &str) -> Result<(), Error> {
    let lock = FREEZE.of_table(table_oid).sql("pg_try_advisory_xact_lock_shared");
    let sql = format!("select relpersistence = 'u' and {lock} from pg_catalog.pg_class where oid = $1");
    match client.query_opt(&sql, &[&table_oid]).await? {
        Some(row) if !row.get::<_, bool>(0) => Err(Error::Frozen { collection: collection.to_owned() }),
        _ => Ok(()),
    }
}
