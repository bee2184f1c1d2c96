//! `swap`: builds a new generation from the whole collection, while readers use the old one.

use crate::error::Error;
use crate::limits::{BUILD_LOCK_WAIT, BUILD_RANGES_PER_WORKER, CONNECTION_PAUSE, CONNECTION_WAIT};
use crate::refresh_way::{Applied, Refresh, Way, Working, blocks};
use crate::storage::Storage;
use futures_util::FutureExt;
use millstream_engine::refresh_session;
use millstream_failpoint as failpoint;
use millstream_pg::advisory::BUILD;
use millstream_pg::limits::LOCK_TIMEOUT_S;
use millstream_pg::{ConnInfo, Connection, ErrorKind, Explained, Poll};
use millstream_store::models::Model;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::task::JoinSet;
use tokio_postgres::Client;

pub(crate) static WAY: Way = Way { name: "swap", is_for_materialized: false, swaps: true, needs_records: false, apply };

fn apply<'a>(refresh: &'a Refresh<'a>) -> Working<'a> {
    async move { build(refresh).await }.boxed()
}

/// Every worker reads in the coordinator's snapshot and commits rows that readers do not see yet.
async fn build(refresh: &Refresh<'_>) -> Result<Applied, Error> {
    let Refresh { snapshot, model, derivation, storage, workers, .. } = refresh;
    let generation = Storage::other(model.serving);
    let part = storage.part(generation);
    let ranges = ranges(blocks(refresh.coordinator, derivation.table()).await?, *workers);
    let fill: Vec<String> = ranges
        .iter()
        .map(|filter| {
            format!("insert into {part} select {generation}, derived.* from ({}) as derived", derivation.rows(filter))
        })
        .collect();
    let rows = run(refresh, *workers, fill, Some(snapshot)).await?;
    failpoint::hit("rows-built").await?;
    let mut finish = vec![format!("create unique index on {part} ({})", derivation.key())];
    let index = |(text, clause): &(String, String)| storage.index(&part, generation, (text, clause));
    finish.extend(derivation.indexes().iter().map(index));
    run(refresh, *workers, finish, None).await?;
    failpoint::hit("indexes-built").await?;
    run(refresh, 1, vec![format!("analyze {part}")], None).await?;
    // No invalid values yet: the coordinator does not see what the workers wrote.
    Ok(Applied { generation, rows, invalid_values: Vec::new() })
}

/// Conditions that together select every row of a table of `blocks` blocks once.
fn ranges(blocks: u64, workers: usize) -> Vec<String> {
    let count = (workers * BUILD_RANGES_PER_WORKER).min(usize::try_from(blocks).unwrap_or(usize::MAX)).max(1);
    let bound = |n: usize| u128::from(blocks) * n as u128 / count as u128;
    (0..count)
        .map(|n| {
            let first = format!("stored.ctid >= '({},0)'::pg_catalog.tid", bound(n));
            // The last one has no end: the snapshot does not see rows that were added since.
            if n + 1 == count {
                format!("where {first}")
            } else {
                format!("where {first} and stored.ctid < '({},0)'::pg_catalog.tid", bound(n + 1))
            }
        })
        .collect()
}

/// Runs statements over at most `workers` connections, or over fewer if no more can be opened. Returns how many rows they
/// wrote.
async fn run(
    refresh: &Refresh<'_>,
    workers: usize,
    statements: Vec<String>,
    snapshot: Option<&str>,
) -> Result<u64, Error> {
    let (statements, next) = (Arc::new(statements), Arc::new(AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    for n in 0..workers.min(statements.len()) {
        let (statements, next) = (Arc::clone(&statements), Arc::clone(&next));
        let (db, snapshot) = (refresh.db.clone(), snapshot.map(str::to_owned));
        let (model, table) = (refresh.model.clone(), refresh.derivation.table().to_owned());
        tasks.spawn(async move {
            let connection = worker(&db, n == 0, || next.load(Ordering::Relaxed) < statements.len()).await?;
            work(connection, &model, &table, snapshot.as_deref(), &statements, &next).await
        });
    }
    let (mut rows, mut has_worked, mut full) = (0, false, None);
    while let Some(joined) = tasks.join_next().await {
        match joined.map_err(|_| Error::BrokenOff("a worker of the build could not run"))? {
            Ok(written) => (rows, has_worked) = (rows + written, true),
            // The others do its share.
            Err(Error::Postgres(error)) if error.kind() == ErrorKind::TooManyConnections || error.is_unanswered() => {
                full = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    full.filter(|_| !has_worked).map_or(Ok(rows), |error| Err(error.into()))
}

/// The connection of a worker. If the server, the database or the role allows no more, a patient one waits for it while
/// there is work.
async fn worker(db: &ConnInfo, is_patient: bool, has_work: impl Fn() -> bool) -> Result<Connection, Error> {
    let (session, poll) =
        (refresh_session("millstream build").with_own_names(), Poll::new(CONNECTION_PAUSE, CONNECTION_WAIT));
    loop {
        match millstream_pg::connect(db, &session).await {
            Err(error)
                if error.kind() == ErrorKind::TooManyConnections && is_patient && has_work() && poll.again().await => {}
            connected => return Ok(connected?),
        }
    }
}

/// One connection's share of the statements.
async fn work(
    connection: Connection,
    model: &Model,
    table: &str,
    snapshot: Option<&str>,
    statements: &[String],
    next: &AtomicUsize,
) -> Result<u64, Error> {
    let client = &connection.client;
    BUILD.of(model.lock_id).lock_shared(client).await?;
    if let Some(snapshot) = snapshot {
        let begin = format!("begin isolation level repeatable read; set transaction snapshot '{snapshot}'");
        client.batch_execute(&begin).await?;
        lock_collection(client, model, table).await?;
    }
    let mut rows = 0;
    while let Some(statement) = statements.get(next.fetch_add(1, Ordering::Relaxed)) {
        rows += client.execute(statement, &[]).await?;
        if snapshot.is_some() {
            failpoint::hit("range-built").await?;
        }
    }
    if snapshot.is_some() {
        client.batch_execute("commit").await?;
    }
    connection.close().await;
    Ok(rows)
}

/// Locks the collection's table in the transaction of a worker. A session that waits to change the table waits for the
/// coordinator, which waits for its workers. So a worker waits for that session only briefly.
///
/// # Errors
/// [`Error::InUse`] when the refresh must start over after that session.
async fn lock_collection(client: &Client, model: &Model, table: &str) -> Result<(), Error> {
    let lock = format!(
        "set local lock_timeout = {}; lock table {table} in access share mode; set local lock_timeout = '{}s'",
        BUILD_LOCK_WAIT.as_millis(),
        LOCK_TIMEOUT_S
    );
    client.batch_execute(&lock).await.map_err(|error| match Error::from(error) {
        // Lock not available.
        Error::Postgres(busy) if busy.sqlstate() == Some("55P03") => Error::InUse {
            collection: model.collection.as_ref().unwrap_or(&model.name).clone(),
            seconds: BUILD_LOCK_WAIT.as_secs(),
        },
        other => other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cover_every_block_once() {
        assert_eq!(ranges(0, 2), ["where stored.ctid >= '(0,0)'::pg_catalog.tid"]);
        let all = ranges(1000, 2);
        assert_eq!(all.len(), 2 * BUILD_RANGES_PER_WORKER);
        for pair in all.windows(2) {
            let end = pair[0].rsplit_once("< ").unwrap().1;
            assert!(pair[1].contains(&format!(">= {end}")), "{pair:?}");
        }
        assert!(all[0].contains("'(0,0)'") && !all.last().unwrap().contains('<'));
    }
}
