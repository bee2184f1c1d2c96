//! Prepared transactions that hold what others wait for.

use millstream_model::Refusal;
use millstream_pg::{Error, quote_literal};
use tokio_postgres::GenericClient;

/// If a lock was not released in time and a prepared transaction holds one of these tables, given qualified and quoted:
/// what names that transaction.
pub async fn prepared_holder(client: &impl GenericClient, tables: &[String], busy: &Error) -> Option<Refusal> {
    // Lock not available.
    if busy.sqlstate() != Some("55P03") {
        return None;
    }
    // If this fails too, the error to report is the first one.
    let row = client.query_opt(include_str!("prepared_holder.sql"), &[&tables]).await.ok()??;
    let (gid, owner): (String, String) = (row.get(0), row.get(1));
    let end = quote_literal(&gid);
    let end = end.trim_start();
    Some(
        Refusal::new(format!("{busy}: the prepared transaction {gid} of role {owner} holds the lock"))
            .hint(format!("end it in its database: rollback prepared {end}; or: commit prepared {end}")),
    )
}
