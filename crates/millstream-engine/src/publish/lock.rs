//! The advisory locks of a model: one of its refresh, one of the sessions that build its rows.

use crate::error::Error;
use crate::limits::{LOAD_LOCK_POLL, LOAD_LOCK_WAIT};
use crate::store::models::Model;
use std::time::Instant;
use tokio_postgres::GenericClient;

/// First key of the lock that a refresh of a model holds: `mslm`.
pub(super) const MODEL_LOCK_CLASS: i32 = 0x6d73_6c6d;

/// First key of the advisory lock that the sessions of a build share: `mslb`.
pub(super) const BUILD_LOCK_CLASS: i32 = 0x6d73_6c62;

/// Takes the lock of a model until the session ends. A refresh whose client was killed is waited for, and so are
/// its builders: what they still write must not get among what the next ones do.
pub(super) async fn lock_for_refresh(client: &impl GenericClient, model: &Model) -> Result<(), Error> {
    lock_for_session(client, model).await?;
    client.execute("select pg_catalog.pg_advisory_lock($1, $2)", &[&BUILD_LOCK_CLASS, &model.lock_id]).await?;
    client.execute("select pg_catalog.pg_advisory_unlock($1, $2)", &[&BUILD_LOCK_CLASS, &model.lock_id]).await?;
    Ok(())
}

/// Keeps refreshes of a model away until the session ends or unlocks it.
pub(super) async fn lock_for_session(client: &impl GenericClient, model: &Model) -> Result<(), Error> {
    wait_for(client, "select pg_catalog.pg_try_advisory_lock($1, $2)", model).await
}

/// Lets go of what [`lock_for_session`] took.
pub(super) async fn unlock_session(client: &impl GenericClient, model: &Model) -> Result<(), Error> {
    let sql = "select pg_catalog.pg_advisory_unlock($1, $2)";
    client.execute(sql, &[&MODEL_LOCK_CLASS, &model.lock_id]).await?;
    Ok(())
}

/// Keeps refreshes of a model away until the transaction ends.
pub(super) async fn lock_for_transaction(client: &impl GenericClient, model: &Model) -> Result<(), Error> {
    wait_for(client, "select pg_catalog.pg_try_advisory_xact_lock($1, $2)", model).await
}

/// Tries a lock of a model until it is had. A refresh that has just ended or was killed lets go of it when the
/// server has noticed.
async fn wait_for(client: &impl GenericClient, sql: &str, model: &Model) -> Result<(), Error> {
    let deadline = Instant::now() + LOAD_LOCK_WAIT;
    while !client.query_one(sql, &[&MODEL_LOCK_CLASS, &model.lock_id]).await?.get::<_, bool>(0) {
        if Instant::now() > deadline {
            return Err(Error::ModelBusy { model: model.name.clone() });
        }
        tokio::time::sleep(LOAD_LOCK_POLL).await;
    }
    Ok(())
}
