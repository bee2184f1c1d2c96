//! The check that a session stays on its backend: a transaction pooler between us and the server is refused.

use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::connection::Connection;
use crate::error::Error;
use crate::kind::ErrorKind;
use crate::limits;

/// Checks with two open sessions that each keeps its backend from one transaction to the next.
///
/// Staging tables, settings and prepared statements belong to a backend. A pooler that assigns backends per transaction
/// would mix them up. A pooler does not report its mode, and a `set` may survive by luck while nobody else works. So
/// one session holds a transaction open while the other works. If backends are assigned per transaction, there are two
/// signs. Either the holder gets the backend that the other has just released, so both sessions show one backend. Or
/// the other session moves to a different backend. Poolers that reuse the latest backend show the first sign, those
/// that rotate show the second. A random choice survives [`limits::POOLER_ROUNDS`] rounds only by rare luck. Session
/// poolers pass.
///
/// # Errors
/// [`ErrorKind::Config`] with a hint; errors of the statements.
pub async fn ensure_session_pooling(first: &Connection, second: &Connection) -> Result<(), Error> {
    for _ in 0..limits::POOLER_ROUNDS {
        for (resting, holding) in [(first, second), (second, first)] {
            let result = compare(&resting.client, &holding.client).await;
            let rolled_back = within(holding.client.batch_execute("rollback")).await;
            result?;
            rolled_back?;
        }
    }
    Ok(())
}

/// One comparison: `resting` runs one transaction before and one while `holding` is inside another.
async fn compare(resting: &Client, holding: &Client) -> Result<(), Error> {
    let before = backend(resting).await?;
    if let Err(error) = within(holding.batch_execute("begin")).await {
        // PgBouncer's statement mode refuses transactions as a protocol violation.
        return Err(if error.sqlstate() == Some("08P01") { refused() } else { error });
    }
    let shared = backend(holding).await? == before || backend(resting).await? != before;
    if shared { Err(refused()) } else { Ok(()) }
}

/// The backend that answers: its pid and when it started.
async fn backend(client: &Client) -> Result<String, Error> {
    const SQL: &str = "select a.pid, a.backend_start::pg_catalog.text \
                       from pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) as a";
    let messages = within(client.simple_query(SQL)).await?;
    let row = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    match row.map(|row| (row.get(0), row.get(1))) {
        Some((Some(pid), Some(start))) => Ok(format!("{pid} {start}")),
        _ => Err(Error::Driver { message: "the server does not know our backend".to_owned() }),
    }
}

/// The answer, or our refusal if it does not come: a pooler whose only backend is held never answers the other session.
async fn within<T>(future: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T, Error> {
    match timeout(Duration::from_secs(limits::POOLER_TIMEOUT_S), future).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(refused()),
    }
}

fn refused() -> Error {
    Error::unusable(
        ErrorKind::Config,
        "a pooler between us and PostgreSQL gives each transaction another backend",
        "connect to the server itself, or to a pool in session mode (PgBouncer: pool_mode=session)",
    )
}
