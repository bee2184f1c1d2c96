//! The session that runs the load of a stream, and how another session of its group takes the load over.

use crate::error::Error;
use crate::limits::DROP_LOCK_WAIT;
use crate::load::terminate_backends;
use crate::runs::close_run;
use crate::schema::Schema;
use millstream_pg::advisory::LockKey;
use millstream_pg::fill;
use std::fmt;
use tokio_postgres::Client;

/// Whether lock `g` of the server is that of the group, whose two numbers are `$3` and `$4`, and belongs to the session that holds
/// lock `k`.
const IN_GROUP: &str = include_str!("group_lock.sql");

/// The session that runs a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The load's number.
    pub load_id: i64,
    /// The server process of the session.
    pub backend: i32,
    /// Its application name; empty if it has none.
    pub application: String,
    /// The address from which it comes; `None` if it comes by a socket of the server's machine, or if the role may not see it.
    pub address: Option<String>,
    /// Whether it belongs to the group of whoever asks.
    pub of_group: bool,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session {}", self.backend)?;
        let address = self.address.as_ref().map(|address| format!("from {address}"));
        let application = Some(self.application.clone()).filter(|name| !name.is_empty());
        let known: Vec<String> = [application, address].into_iter().flatten().collect();
        if known.is_empty() { Ok(()) } else { write!(f, " ({})", known.join(", ")) }
    }
}

/// The session other than this one that runs the load which a stream of this name resumes. `table` is quoted. `group` is the
/// lock that the sessions of the caller's group share.
///
/// # Errors
/// The server's.
pub async fn holder(
    client: &Client,
    schema: &Schema,
    table: &str,
    name: &str,
    group: Option<LockKey>,
) -> Result<Option<Holder>, Error> {
    let (class, number) = numbers(group);
    let locked = schema.load_locked("l.load_id");
    let sql = fill!(include_str!("holder.sql"), schema, locked, in_group = IN_GROUP);
    let row = client.query_opt(&sql, &[&table, &name, &class, &number]).await?;
    Ok(row.map(|row| Holder {
        load_id: row.get("load_id"),
        backend: row.get("pid"),
        application: row.get("application"),
        address: row.get("address"),
        of_group: row.get("of_group"),
    }))
}

/// The collection, if it is another one than that of `table`, into which another session of a group loads one of the streams of
/// these names. `table` is quoted. `group` is the lock that the sessions of the group share.
///
/// # Errors
/// The server's.
pub async fn elsewhere(
    client: &Client,
    schema: &Schema,
    table: &str,
    names: &[String],
    group: LockKey,
) -> Result<Option<String>, Error> {
    let (class, number) = numbers(Some(group));
    let locked = schema.load_locked("l.load_id");
    let sql = fill!(include_str!("holder_elsewhere.sql"), schema, locked, in_group = IN_GROUP);
    let row = client.query_opt(&sql, &[&table, &names, &class, &number]).await?;
    Ok(row.map(|row| row.get(0)))
}

/// The two numbers of a lock.
fn numbers(lock: Option<LockKey>) -> (Option<i32>, Option<i32>) {
    match lock {
        Some(LockKey::Two(class, number)) => (Some(class), Some(number)),
        _ => (None, None),
    }
}

/// Ends the run of a load that another session does not end itself, and that session. What the run has committed stays, and it
/// commits nothing more. If the session works for other loads too, these continue in a new session of their process.
///
/// # Errors
/// The server's: the role may not end the session, or somebody held the load's rows for too long.
pub async fn take_over(client: &mut Client, schema: &Schema, holder: &Holder) -> Result<(), Error> {
    let transaction = client.transaction().await?;
    transaction.batch_execute(&format!("set local lock_timeout = {}", DROP_LOCK_WAIT.as_millis())).await?;
    // An orphaned backend of the load commits before this, or never.
    terminate_backends(&transaction, schema, holder.load_id).await?;
    close_run(&transaction, schema, holder.load_id, "another process of its group has taken it over").await?;
    transaction.commit().await?;
    // Not earlier: its process would come back, find that the load is still its own, and lock it again.
    let end = fill!(include_str!("holder_end.sql"), locked = schema.load_locked("$1::bigint"));
    client.execute(&end, &[&holder.load_id, &holder.backend]).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_named_by_what_is_known() {
        let known = Holder {
            load_id: 7,
            backend: 12,
            application: "millstream control".into(),
            address: Some("10.0.0.7".into()),
            of_group: true,
        };
        assert_eq!(known.to_string(), "session 12 (millstream control, from 10.0.0.7)");
        let unknown = Holder { application: String::new(), address: None, ..known };
        assert_eq!(unknown.to_string(), "session 12");
    }
}
