//! Compaction: merges the segments of a collection into its table, group after group, and drops them.

mod merge;
mod range;

use crate::collection::require_mergeable;
use crate::error::Error;
use crate::limits::{
    COMPACTION_BYTES, COMPACTION_LOCK_WAIT, COMPACTION_RECORDED_DOCUMENTS, COMPACTION_WORKERS_MAX, REFRESH_SETTINGS,
};
use merge::{Company, Fit, Merge, has_no_connection, is_out_of_memory};
use millstream_failpoint as failpoint;
use millstream_model::CollectionName;
use millstream_pg::advisory::COMPACTION;
use millstream_pg::{ConnInfo, Failures, Poll, SessionSettings};
use millstream_store::collections::Collection;
use millstream_store::limits::{COMPACTION_SEGMENTS_MAX, DROP_LOCK_WAIT, LOAD_LOCK_POLL, LOST_RUN_WAIT};
use millstream_store::runs::{UnfinishedRun, runs};
use millstream_store::segments::{self, Segment};
use millstream_store::{Judged, Schema, close_lost_run, models, truncation};
use serde::Serialize;
use std::sync::Arc;
use std::time::Instant;
use tokio::task::JoinSet;
use tokio_postgres::Client;

/// What a compaction did.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Compacted {
    /// Segments merged and dropped.
    pub segments: usize,
    /// Documents in them.
    pub documents: u64,
    /// Keys written or deleted. An earlier, interrupted compaction may have done others.
    pub keys: u64,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Segments that are left for the next compaction.
    pub left: usize,
    /// The load that they wait for: its run began before theirs, so its documents take effect first.
    pub waits_for: Option<i64>,
    /// What became of the table since anybody last looked at it, if it is worth a line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Merges the segments that a collection has now into its table, and drops them. A load into the collection may run:
/// what it commits meanwhile is left for the next compaction. If this is interrupted at any moment, the next call
/// resumes.
///
/// # Errors
/// `CompactionBusy` when another process compacts the collection and does not end; [`Error::InUse`] when readers do not
/// release the segments to be dropped, which are merged by then; [`Error::Refused`] when another role owns the
/// segments, the table refuses or drops a document, or the server's lock table has no room for one segment.
pub async fn compact(
    db: &ConnInfo,
    schema: &Schema,
    collection: &Collection,
    workers: Option<usize>,
) -> Result<Compacted, Error> {
    let (started, mut failures, mut done) = (Instant::now(), Failures::default(), Compacted::default());
    loop {
        let error = match compact_once(db, schema, collection, workers, &mut done).await {
            Ok(()) => {
                done.seconds = started.elapsed().as_secs_f64();
                return Ok(done);
            }
            Err(error) => error,
        };
        let Error::Postgres(ended) = &error else { return Err(error) };
        if !failures.wait_for_session(ended).await {
            return Err(error);
        }
    }
}

/// A compaction in one session. Adds what it does to `done`.
async fn compact_once(
    db: &ConnInfo,
    schema: &Schema,
    collection: &Collection,
    workers: Option<usize>,
    done: &mut Compacted,
) -> Result<(), Error> {
    let mut connection = millstream_pg::connect_when_free(db, &refresh_session("millstream compact")).await?;
    connection.require_writable()?;
    let client = &mut connection.client;
    let table_oid = collection.table_oid;
    let Some(last) = segments::list(client, schema, table_oid).await?.iter().map(|s| s.segment_id).max() else {
        connection.close().await;
        return Ok(());
    };
    schema.require_trusted_writers(client).await?;
    segments::require_own(client, schema, collection).await?;
    failpoint::hit("compaction-listed").await?;
    let waiting = db.roster.waits_for("another compaction of the collection to end");
    lock(client, collection).await?;
    drop(waiting);
    // Once the table has rows again, nobody can see that it was truncated.
    let key = collection.key.iter().map(|column| column.name.as_str());
    let moved = || Error::TableMoved { collection: collection.name.clone() };
    let found =
        truncation::start_over(client, schema, table_oid, key, Judged::Nothing, None).await?.ok_or_else(moved)?;
    if let Some(warning) = found.warning.filter(|warning| !done.warnings.contains(warning)) {
        done.warnings.push(warning);
    }
    // After its mark is read: if somebody changes the table from now on, the merges notice.
    let fit = Arc::new(Fit { mark: found.mark, alters_rows: require_mergeable(client, collection).await? });
    truncation::record_filling(client, schema, &fit.mark).await?;
    let workers = workers.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let workers = workers.clamp(1, COMPACTION_WORKERS_MAX);
    let compaction = Compaction { db, schema, collection, fit, last, workers };
    let mut most = COMPACTION_SEGMENTS_MAX;
    loop {
        match merge_group(client, &compaction, most, done).await {
            Ok(true) => {}
            Ok(false) => break,
            // Locking half as many segments takes half the room.
            Err(error) if is_out_of_memory(&error) && most > 1 => {
                client.batch_execute("rollback").await?;
                most /= 2;
                continue;
            }
            Err(error) => return Err(crowded(error, &collection.name)),
        }
        failpoint::hit("segments-dropped").await?;
    }
    let transaction = client.transaction().await?;
    truncation::record_left(&transaction, schema, &compaction.fit.mark, None).await?;
    transaction.commit().await?;
    let left = segments::list(client, schema, table_oid).await?;
    done.left = left.len();
    if let Some(newest) = left.last() {
        let oldest = runs(client, schema, table_oid).await?.into_iter().find(|run| run.at_work);
        // What that run itself has committed meanwhile waits only for the next compaction.
        done.waits_for = oldest.filter(|run| newest.run_order > run.run_order).map(|run| run.load_id);
    }
    // The server would release it when it notices the end of the session, which may be after our caller's next command.
    COMPACTION.of_table(table_oid).unlock(client).await?;
    connection.close().await;
    Ok(())
}

/// What a compaction in one session merges, and where.
struct Compaction<'a> {
    db: &'a ConnInfo,
    schema: &'a Schema,
    collection: &'a Collection,
    fit: Arc<Fit>,
    /// The last segment that there was when it began.
    last: i64,
    workers: usize,
}

/// Merges the next group, of at most `most` segments, and drops it. Adds what it does to `done`. False if there is no
/// group to merge.
async fn merge_group(
    client: &mut Client,
    compaction: &Compaction<'_>,
    most: usize,
    done: &mut Compacted,
) -> Result<bool, Error> {
    let &Compaction { db, schema, collection, ref fit, last, workers } = compaction;
    let Some(group) = group(client, schema, collection, last, workers, most).await? else { return Ok(false) };
    failpoint::hit("compaction-begun").await?;
    let merge = Merge::new(client, schema, collection, &group).await?;
    merge_all(db, merge, fit, &mut done.keys).await?;
    drop_group(client, schema, collection, &group).await?;
    done.segments += group.len();
    done.documents += group.iter().map(|segment| segment.documents).sum::<u64>();
    Ok(true)
}

/// What to do if the server has no room for the locks of a single segment.
fn crowded(error: Error, name: &CollectionName) -> Error {
    if !is_out_of_memory(&error) {
        return error;
    }
    Error::refused(
        format!("the segments of {name} cannot be merged: {error}"),
        "raise max_locks_per_transaction on the server, or end the sessions that hold many locks (see pg_locks); \
         nothing is lost",
    )
}

/// Settings of a session that compacts or refreshes. It may be idle in its transaction during a build.
pub fn refresh_session(name: &str) -> SessionSettings {
    REFRESH_SETTINGS.iter().fold(SessionSettings::named(name), |session, (name, value)| session.with(name, value))
}

/// Locks out other compactions of the collection until the session ends.
async fn lock(client: &Client, collection: &Collection) -> Result<(), Error> {
    let (lock, poll) = (COMPACTION.of_table(collection.table_oid), Poll::new(LOAD_LOCK_POLL, COMPACTION_LOCK_WAIT));
    while !lock.try_lock(client).await? {
        if !poll.again().await {
            return Err(millstream_store::Error::CompactionBusy { collection: collection.name.clone() }.into());
        }
    }
    Ok(())
}

/// The segments to merge next, at most so many: those of an interrupted compaction, else the first of those that no
/// running load precedes. The group and its ranges are recorded before anything is merged.
async fn group(
    client: &mut Client,
    schema: &Schema,
    collection: &Collection,
    last: i64,
    ranges: usize,
    most: usize,
) -> Result<Option<Vec<Segment>>, Error> {
    let table_oid = collection.table_oid;
    loop {
        let mut begun = segments::list(client, schema, table_oid).await?;
        let Some(first) = begun.iter().find_map(|segment| segment.compaction.clone()) else { break };
        begun.retain(|segment| segment.compaction.as_ref() == Some(&first));
        if begun.len() <= most {
            return Ok(Some(begun));
        }
        segments::halve(client, schema, &begun).await?;
    }
    let oldest = first_to_wait_for(client, schema, table_oid).await?;
    // List them again: a run that has ended meanwhile may have committed more.
    let all = segments::list(client, schema, table_oid).await?;
    let recorded = models::list(client, schema).await?.iter().any(|model| model.table_oid == table_oid);
    let documents_max = if recorded { COMPACTION_RECORDED_DOCUMENTS * ranges as u64 } else { u64::MAX };
    let (mut bytes, mut documents) = (0, 0);
    let group: Vec<Segment> = all
        .into_iter()
        .take_while(|segment| oldest.as_ref().is_none_or(|run| segment.run_order <= run.run_order))
        // A segment committed since the start ends the group. If those behind it were merged now, its older documents
        // of the same keys would be merged after them.
        .take_while(|segment| segment.segment_id <= last)
        .take(most)
        .take_while(|segment| {
            let first = documents == 0;
            (bytes, documents) = (bytes + segment.bytes, documents + segment.documents);
            first || (bytes <= COMPACTION_BYTES && documents <= documents_max)
        })
        .collect();
    let Some(first) = group.first() else { return Ok(None) };
    let begun = (first.segment_id, range::bounds(client, schema, collection, &group, ranges).await?);
    let ids: Vec<i64> = group.iter().map(|segment| segment.segment_id).collect();
    let sql = "update {schema}.segment set compaction = $1, bounds = $2 where segment_id = any ($3)";
    client.execute(&schema.sql(sql), &[&begun.0, &begun.1, &ids]).await?;
    Ok(Some(group.into_iter().map(|segment| Segment { compaction: Some(begun.clone()), ..segment }).collect()))
}

/// The oldest run that the segments of later runs wait for. A run that has lost its sessions has some time to come
/// back. After that, its record is closed and nothing waits for it.
async fn first_to_wait_for(
    client: &mut Client,
    schema: &Schema,
    table_oid: u32,
) -> Result<Option<UnfinishedRun>, Error> {
    let poll = Poll::new(LOAD_LOCK_POLL, LOST_RUN_WAIT);
    loop {
        match runs(client, schema, table_oid).await?.into_iter().find(|run| run.at_work || run.lost) {
            Some(run) if run.lost && run.followed => {
                if !poll.again().await {
                    let why = "a compaction merged documents of a later load";
                    close_lost_run(client, schema, run.load_id, why).await?;
                }
            }
            // Also a lost run that no segment waited for: a later run may have committed one since.
            first => return Ok(first),
        }
    }
}

/// Merges every range of a group that is not merged yet, each on its own connection, with as many of those as there are.
/// Adds the number of keys written or deleted to `keys`.
async fn merge_all(db: &ConnInfo, merge: Merge, fit: &Arc<Fit>, keys: &mut u64) -> Result<(), Error> {
    let merge = Arc::new(merge);
    let (mut left, mut together) = ((0..merge.ranges()).collect::<Vec<usize>>(), usize::MAX);
    while !left.is_empty() {
        let now = left.split_off(left.len().saturating_sub(together));
        let refused = merge_ranges(db, &merge, fit, &now, keys).await?;
        // Sessions that begin at once count each other, so a limit may refuse all of them.
        together = (now.len() - refused.len()).max(1);
        left.extend(refused);
    }
    Ok(())
}

/// Merges some ranges at once. Returns those for which there was no connection; if there is only one to merge, that is an
/// error.
async fn merge_ranges(
    db: &ConnInfo,
    merge: &Arc<Merge>,
    fit: &Arc<Fit>,
    ranges: &[usize],
    keys: &mut u64,
) -> Result<Vec<usize>, Error> {
    let company = if ranges.len() > 1 { Company::Others } else { Company::None };
    let mut tasks = JoinSet::new();
    for &range in ranges {
        let (merge, fit, db) = (Arc::clone(merge), Arc::clone(fit), db.clone());
        tasks.spawn(async move { (range, merge.run(&db, &fit, range, company).await) });
    }
    let (mut full, mut refused) = (Ok(()), Vec::new());
    while let Some(joined) = tasks.join_next().await {
        let (range, merged) = joined.map_err(|_| Error::BrokenOff("a worker of the compaction could not run"))?;
        match merged {
            Ok(merged) => *keys += merged,
            // The other workers may have room. What they merge counts.
            Err(error) if is_out_of_memory(&error) => full = Err(error),
            Err(error) if company == Company::Others && has_no_connection(&error, company) => refused.push(range),
            Err(error) => return Err(error),
        }
    }
    full.map(|()| refused)
}

/// Drops the segments of a group. All ranges of the group must be merged.
async fn drop_group(client: &Client, schema: &Schema, collection: &Collection, group: &[Segment]) -> Result<(), Error> {
    let begin = format!("begin; set local lock_timeout = {}", DROP_LOCK_WAIT.as_millis());
    client.batch_execute(&begin).await?;
    let dropped = async {
        segments::drop(client, schema, group).await?;
        failpoint::hit("segments-dropping").await?;
        Ok(client.batch_execute("commit").await?)
    };
    dropped.await.map_err(|error| match error {
        // A deadlock: another session locks the segments in another order, as pg_dump does.
        Error::Postgres(busy) if matches!(busy.sqlstate(), Some("55P03" | "40P01")) => {
            Error::InUse { collection: collection.name.clone(), seconds: DROP_LOCK_WAIT.as_secs() }
        }
        other => other,
    })
}
