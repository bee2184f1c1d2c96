//! The lock of the one session that refreshes a model again and again.

use crate::error::Error;
use crate::model::find;
use millstream_model::CollectionName;
use millstream_pg::Poll;
use millstream_pg::advisory::RUNNER;
use millstream_store::Schema;
use millstream_store::limits::{LOAD_LOCK_POLL, LOAD_LOCK_WAIT};
use tokio_postgres::Client;

/// Makes this session the model's runner until it ends. If the runner was killed, waits until the server has noticed.
///
/// # Errors
/// [`Error::Model`] when there is no such model, or when it has a runner, whose server process it names.
pub async fn become_runner(client: &Client, schema: &Schema, name: &CollectionName) -> Result<(), Error> {
    let model = find(client, schema, name).await?;
    let poll = Poll::new(LOAD_LOCK_POLL, LOAD_LOCK_WAIT);
    loop {
        if RUNNER.of(model.lock_id).try_lock(client).await? {
            return Ok(());
        }
        let holder = client.query_opt(include_str!("runner.sql"), &[&RUNNER.0, &model.lock_id]).await?;
        if let (Some(row), true) = (holder, poll.is_over()) {
            let pid: i32 = row.get(0);
            let problem = format!("is kept up to date by another session: pid {pid} on the server");
            let hint = "stop that session first; for a single refresh, leave out --every";
            return Err(Error::model(name, problem, hint));
        }
        poll.again().await;
    }
}
