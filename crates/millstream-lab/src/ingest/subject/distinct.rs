//! The distinct values of a column: by plain SQL, by the functions, and by the command.
//!
//! All read a shared table.

use super::{Store, Subject, Trial};
use crate::error::Error;
use crate::ingest::phase::Phase;
use crate::ingest::shared_table;
use crate::ingest::timing::Timing;
use crate::limits::ANSWERS;
use futures_util::TryStreamExt;
use millstream_pg::quote_identifier;
use std::time::Instant;
use tokio_postgres::Client;

pub(crate) const SELECT: Subject = Subject {
    name: "select",
    about: "`select distinct` on an open session, the faster of the server's own plan and one with parallel workers",
    store: Store::Shared,
    run: |trial, phase, table| Box::pin(select(trial, phase, table)),
    ..Subject::PLAIN
};

pub(crate) const FUNCTION: Subject = Subject {
    name: "function",
    about: "`select from millstream.distinct_values(..)` on an open session",
    run: |trial, phase, table| Box::pin(function(trial, phase, table)),
    ..SELECT
};

pub(crate) const WALK: Subject = Subject {
    name: "walk",
    about: "the statement that millstream.distinct_walk(..) gives, asked for and run on an open session",
    run: |trial, phase, table| Box::pin(walk(trial, phase, table)),
    ..SELECT
};

pub(crate) const COMMAND: Subject = Subject {
    name: "distinct",
    about: "`millstream distinct` as a process, from its start",
    run: |trial, phase, table| Box::pin(command(trial, phase, table)),
    ..SELECT
};

/// Settings that let the planner choose parallel workers for a plan that it thinks too cheap for them.
const PARALLEL: &str = "set parallel_setup_cost = 0; set parallel_tuple_cost = 0; set min_parallel_table_scan_size = 0; \
    set min_parallel_index_scan_size = 0";

/// An answer and what it took.
type Answer = (Timing, Vec<String>);

async fn select(trial: &Trial<'_>, phase: &Phase, table: &str) -> Result<Timing, Error> {
    let sql = format!("select distinct {} from {}", shared_table::COLUMN, trial.bench.quoted(table));
    let session = trial.bench.connect().await?;
    let own = ask(&session.client, Query::Direct(&sql), trial, phase).await?;
    session.client.batch_execute(PARALLEL).await?;
    let parallel = ask(&session.client, Query::Direct(&sql), trial, phase).await?;
    session.close().await;
    Ok(if parallel.wall_seconds < own.wall_seconds { parallel } else { own })
}

async fn function(trial: &Trial<'_>, phase: &Phase, table: &str) -> Result<Timing, Error> {
    let sql = format!("select * from {}", called("distinct_values", trial, table));
    let session = trial.bench.connect().await?;
    let timing = ask(&session.client, Query::Direct(&sql), trial, phase).await?;
    session.close().await;
    Ok(timing)
}

async fn walk(trial: &Trial<'_>, phase: &Phase, table: &str) -> Result<Timing, Error> {
    let sql = format!("select {}", called("distinct_walk", trial, table));
    let session = trial.bench.connect().await?;
    let timing = ask(&session.client, Query::Generated(&sql), trial, phase).await?;
    session.close().await;
    Ok(timing)
}

/// A call of one of our functions for the column of a table.
fn called(function: &str, trial: &Trial<'_>, table: &str) -> String {
    let store = quote_identifier(trial.bench.store());
    let name = trial.bench.quoted(table).replace('\'', "''");
    format!("{store}.{function}('{name}', '{}')", shared_table::COLUMN)
}

async fn command(trial: &Trial<'_>, phase: &Phase, table: &str) -> Result<Timing, Error> {
    let name = trial.bench.dotted(table);
    let mut timings = Vec::new();
    for _ in 0..ANSWERS {
        let (timing, lines) = trial.bench.answer(&["distinct", &name, shared_table::COLUMN]).await?;
        timings.push(checked((timing, lines), trial, phase, true)?);
    }
    Ok(median(timings))
}

/// The query that answers.
#[derive(Clone, Copy)]
enum Query<'a> {
    Direct(&'a str),
    /// A query that returns the query that answers.
    Generated(&'a str),
}

/// Runs a query several times and reads its answer row by row. Returns the median timing.
async fn ask(client: &Client, query: Query<'_>, trial: &Trial<'_>, phase: &Phase) -> Result<Timing, Error> {
    let mut timings = Vec::new();
    for _ in 0..ANSWERS {
        let start = Instant::now();
        let rows = match query {
            Query::Direct(sql) => client.query_raw(sql, [""; 0]).await?,
            Query::Generated(sql) => {
                let sql: String = client.query_one(sql, &[]).await?.try_get(0)?;
                client.query_raw(&sql, [""; 0]).await?
            }
        };
        let mut rows = std::pin::pin!(rows);
        let (mut values, mut first_seconds) = (Vec::new(), None);
        while let Some(row) = rows.try_next().await? {
            first_seconds.get_or_insert_with(|| start.elapsed().as_secs_f64());
            values.push(row.try_get(0)?);
        }
        let wall_seconds = start.elapsed().as_secs_f64();
        let timing = Timing { first_seconds, ..Timing::of(wall_seconds) };
        timings.push(checked((timing, values), trial, phase, false)?);
    }
    Ok(median(timings))
}

/// The timing of an answer, after checking that it holds each value once and, if it is ordered, in order.
fn checked((timing, values): Answer, trial: &Trial<'_>, phase: &Phase, is_ordered: bool) -> Result<Timing, Error> {
    let (rows, found) = (phase.stream.documents(&trial.prepared.data_set), values.len());
    let mut sorted = values.clone();
    sorted.sort_unstable();
    sorted.dedup();
    let expected = shared_table::values(rows);
    if sorted.len() as u64 != expected || sorted.len() != found {
        return Err(Error::Wrong(format!("{found} values, {} of them distinct, instead of {expected}", sorted.len())));
    }
    if is_ordered && values != sorted {
        return Err(Error::Wrong("the values are not in their order".to_owned()));
    }
    Ok(timing)
}

fn median(mut timings: Vec<Timing>) -> Timing {
    timings.sort_by(|a, b| a.wall_seconds.total_cmp(&b.wall_seconds));
    timings.swap_remove(timings.len() / 2)
}
