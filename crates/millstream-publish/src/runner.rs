//! The one process that refreshes a model again and again.

use super::find;
use crate::error::Error;
use crate::limits::{LOAD_LOCK_POLL, LOAD_LOCK_WAIT};
use crate::store::Schema;
use millstream_model::CollectionName;
use std::time::Instant;
use tokio_postgres::Client;

/// First key of the advisory lock that a model's runner holds: `mslr`.
const RUNNER_LOCK_CLASS: i32 = 0x6d73_6c72;

/// Makes this session the model's runner until it ends. One that was killed is waited for until the server has
/// noticed.
///
/// # Errors
/// [`Error::Model`] when there is no such model, or a runner already, by its process on the server.
pub async fn become_runner(client: &Client, schema: &Schema, name: &CollectionName) -> Result<(), Error> {
    let model = find(client, schema, name).await?;
    let key: [&(dyn tokio_postgres::types::ToSql + Sync); 2] = [&RUNNER_LOCK_CLASS, &model.lock_id];
    let deadline = Instant::now() + LOAD_LOCK_WAIT;
    loop {
        if client.query_one("select pg_catalog.pg_try_advisory_lock($1, $2)", &key).await?.get(0) {
            return Ok(());
        }
        let holder = client.query_opt(include_str!("runner.sql"), &key).await?;
        if let (Some(row), true) = (holder, Instant::now() > deadline) {
            return Err(Error::Model {
                model: name.clone(),
                problem: format!("is kept up by another session: pid {} on the server", row.get::<_, i32>(0)),
                hint: "stop that one first; one refresh beside it needs no --every".into(),
            });
        }
        tokio::time::sleep(LOAD_LOCK_POLL).await;
    }
}
