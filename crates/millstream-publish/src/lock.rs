//! The locks of a model: the advisory locks of refreshes and builders, and the table locks that block readers.

use crate::error::Error;
use crate::limits::{LOCK_PAUSE_MAX, LOCK_PAUSE_MIN, LOCKED_IDLE_MAX, PUBLISH_LOCK_WAIT, READERS_HELD_MAX};
use millstream_pg::Poll;
use millstream_pg::advisory::{BUILD, MODEL, PUBLISH};
use millstream_store::limits::{LOAD_LOCK_POLL, LOAD_LOCK_WAIT};
use millstream_store::models::Model;
use std::time::Instant;
use tokio_postgres::{Client, GenericClient};

/// Locks out others that publish or unpublish models, until the transaction ends.
///
/// # Errors
/// [`Error::PublishBusy`] when others hold the lock for longer than [`PUBLISH_LOCK_WAIT`].
pub(crate) async fn lock_publishing(client: &impl GenericClient) -> Result<(), Error> {
    let poll = Poll::new(LOAD_LOCK_POLL, PUBLISH_LOCK_WAIT);
    while !PUBLISH.try_lock_in_transaction(client).await? {
        if !poll.again().await {
            return Err(Error::PublishBusy);
        }
    }
    Ok(())
}

/// Sets a session's `lock_timeout`. Returns the previous value.
pub(crate) async fn set_lock_timeout(client: &Client, value: &str) -> Result<String, Error> {
    let sql = "select pg_catalog.current_setting('lock_timeout'), pg_catalog.set_config('lock_timeout', $1, false)";
    Ok(client.query_one(sql, &[&value]).await?.get(0))
}

/// Takes the lock of a model until the session ends. Waits for a refresh whose client was killed, and for its builders:
/// what they still write must not mix with what the next builders write.
pub(crate) async fn lock_for_refresh(client: &impl GenericClient, model: &Model) -> Result<(), Error> {
    lock_for_session(client, model).await?;
    let builders = BUILD.of(model.lock_id);
    builders.lock(client).await?;
    Ok(builders.unlock(client).await?)
}

/// Locks out refreshes of a model, until the session ends or unlocks it.
pub(crate) async fn lock_for_session(client: &impl GenericClient, model: &Model) -> Result<(), Error> {
    wait_for(client, model, false).await
}

/// Locks out refreshes of a model, until the transaction ends.
pub(crate) async fn lock_for_transaction(client: &impl GenericClient, model: &Model) -> Result<(), Error> {
    wait_for(client, model, true).await
}

/// Repeats a statement that locks tables, in an open transaction, until it gets all of them. Returns false, without any
/// lock, when `deadline` has passed. Each try blocks new readers behind running ones for at most [`READERS_HELD_MAX`].
/// Once a try succeeds, readers wait until the caller commits.
///
/// The caller must send its work under the locks at once. If the client vanishes, it blocks all readers until the
/// server ends its session, after [`LOCKED_IDLE_MAX`].
pub(crate) async fn lock_exclusively(client: &Client, statement: &str, deadline: Instant) -> Result<bool, Error> {
    let (held_ms, idle_ms) = (READERS_HELD_MAX.as_millis(), LOCKED_IDLE_MAX.as_millis());
    let begin = format!(
        "savepoint locked; set local lock_timeout = 0; set local statement_timeout = {held_ms}; \
         set local idle_in_transaction_session_timeout = {idle_ms}"
    );
    let mut pause = LOCK_PAUSE_MIN;
    loop {
        client.batch_execute(&begin).await?;
        match client.batch_execute(&format!("{statement}; set local statement_timeout = 0")).await.map_err(Error::from)
        {
            Ok(()) => return Ok(true),
            // Query canceled, by the statement timeout.
            Err(Error::Postgres(error)) if error.sqlstate() == Some("57014") => {
                client.batch_execute("rollback to locked; release locked").await?;
            }
            Err(error) => return Err(error),
        }
        if Instant::now() + pause > deadline {
            return Ok(false);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LOCK_PAUSE_MAX);
    }
}

/// Tries to get the lock of a model. When a refresh has ended or was killed, the server takes a moment to release its
/// lock.
async fn wait_for(client: &impl GenericClient, model: &Model, transaction: bool) -> Result<(), Error> {
    let (lock, poll) = (MODEL.of(model.lock_id), Poll::new(LOAD_LOCK_POLL, LOAD_LOCK_WAIT));
    while !if transaction { lock.try_lock_in_transaction(client).await? } else { lock.try_lock(client).await? } {
        if !poll.again().await {
            return Err(Error::ModelBusy { model: model.name.clone() });
        }
    }
    Ok(())
}
