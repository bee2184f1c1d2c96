//! Models brought up to date, all of a call in one transaction.

use super::clear::clear;
use super::definition::Derivation;
use super::record::{Listened, Pending};
use super::republish::indexed;
use super::storage::Storage;
use super::switch::Switch;
use super::uncast::{Uncast, uncast};
use super::{
    Applied, Refresh, WAYS, Way, derivation, find, incremental, is_unlogged, listened, lock, materialized,
    refresh_session, swap,
};
use crate::error::Error;
use crate::failpoint;
use crate::limits::{
    BUILD_WORKERS_MAX, CLEAR_AFTER_PATIENCE, CLEAR_BEFORE_PATIENCE, INCREMENTAL_SHARE_MAX, LITTER_SHARE_MAX,
    REFRESH_TRIES_MAX, SWITCH_PATIENCE,
};
use crate::store::collections::Collection;
use crate::store::models::{self, Model};
use crate::store::{Schema, collections};
use millstream_model::CollectionName;
use millstream_pg::{ConnInfo, quote_qualified};
use serde::Serialize;
use std::time::{Duration, Instant};
use tokio_postgres::{Client, SimpleQueryMessage};

/// What is to be brought up to date.
#[derive(Debug, Clone)]
pub struct RefreshRequest {
    /// Names of the models; they show one snapshot afterwards.
    pub models: Vec<CollectionName>,
    /// The way, by its name; by cost when `None`.
    pub way: Option<String>,
    /// Connections that build; as many as there are cores when `None`.
    pub workers: Option<usize>,
}

/// What a refresh of one model did.
#[derive(Debug, Clone, Serialize)]
pub struct Refreshed {
    /// Schema and name.
    pub model: CollectionName,
    /// How: `incremental`, `swap` or `materialized`.
    pub way: &'static str,
    /// Rows written and deleted.
    pub rows: u64,
    /// How long it took, for all models together.
    pub seconds: f64,
    /// Age in seconds of the newest change that is not shown yet; `None` where there is none.
    pub lag_seconds: Option<f64>,
    /// Bytes of rows that are not shown any more and could not be removed, because readers may see them.
    pub bloat_bytes: u64,
    /// Values that are none of their column's type, among the rows that were written.
    pub uncast: Vec<Uncast>,
    /// What went wrong beside: the model is up to date all the same.
    pub warnings: Vec<String>,
}

/// What a refresh of one model would do.
#[derive(Debug, Clone, Serialize)]
pub struct Estimate {
    /// Schema and name.
    pub model: CollectionName,
    /// How: `incremental`, `swap` or `materialized`.
    pub way: &'static str,
    /// Why, as a clause.
    pub reason: String,
    /// Changes on record that are not shown, by key; `None` where all is to be derived again.
    pub changed_keys: Option<u64>,
    /// Rows of the collection, by its statistics.
    pub collection_rows: u64,
    /// Bytes on disk that it needs beside what is there, indexes too: what the rows shown take, or the
    /// collection's table where nothing is shown yet.
    pub bytes: u64,
}

/// A model with all that its refresh needs.
struct Subject<'a> {
    model: Model,
    collection: Collection,
    schema: &'a Schema,
    unlogged: bool,
    version_num: i32,
}

impl<'a> Subject<'a> {
    fn storage(&self) -> Storage<'a> {
        Storage { schema: self.schema, model_id: self.model.model_id, unlogged: self.unlogged }
    }

    fn listened(&self) -> Listened<'_> {
        listened(self.schema, &self.collection, self.unlogged)
    }

    fn derivation(&self, storage: &Storage<'_>) -> Derivation {
        derivation(&self.collection, self.model.aim(), self.version_num, storage)
    }

    /// Keeps the collection's table as it is until the transaction ends, and makes sure that its name is still its.
    async fn lock_collection(&self, client: &Client) -> Result<(), Error> {
        let table = quote_qualified(&self.collection.name.schema, &self.collection.name.table);
        client.batch_execute(&format!("lock table {table} in access share mode")).await?;
        let oid = "select $1::text::pg_catalog.regclass::pg_catalog.oid";
        if client.query_one(oid, &[&table]).await?.get::<_, u32>(0) == self.model.table_oid {
            return Ok(());
        }
        Err(Error::Model {
            model: self.model.name.clone(),
            problem: "has a collection that was just renamed".into(),
            hint: "refresh again".into(),
        })
    }

    /// Bytes that its rows take when they are built anew.
    async fn size(&self, client: &Client) -> Result<u64, Error> {
        let sql = "select pg_catalog.pg_total_relation_size($1::text::pg_catalog.regclass)";
        let row = if self.model.shows.is_some() && self.model.view_present {
            client.query_one(sql, &[&indexed(&self.storage(), &self.model).0]).await?
        } else {
            let sql = "select pg_catalog.pg_table_size($1::pg_catalog.oid::pg_catalog.regclass)";
            client.query_one(sql, &[&self.model.table_oid]).await?
        };
        Ok(u64::try_from(row.get::<_, i64>(0)).unwrap_or(0))
    }

    /// What the snapshot at hand sees and the model does not show.
    async fn pending(&self, client: &Client) -> Result<Pending, Error> {
        match self.model.definition.materialized {
            true => Ok(Pending { keys: 0, everything: true, newest_age: None }),
            false => self.listened().pending(client, &self.model).await,
        }
    }

    /// The cheapest way that is right, and why; anew where `anew` says so.
    async fn choose(
        &self,
        client: &Client,
        asked: Option<&str>,
        anew: bool,
    ) -> Result<(&'static Way, Pending, String), Error> {
        let (pending, model) = (self.pending(client).await?, &self.model);
        let asked = asked.map(way).transpose()?;
        if let Some(asked) = asked
            && model.definition.materialized != (asked.name == materialized::WAY.name)
        {
            let kind = if model.definition.materialized { "is a materialized view" } else { "is no materialized view" };
            return Err(Error::Model {
                model: model.name.clone(),
                problem: format!("{kind}: it cannot be refreshed by {}", asked.name),
                hint: "leave --way out; the kind is chosen with `millstream publish --materialized`".into(),
            });
        }
        let rows = rows_estimate(client, model.table_oid).await?;
        #[expect(clippy::cast_precision_loss, reason = "a share needs no 53 bits")]
        let share = pending.keys as f64 / rows.max(1) as f64;
        let (way, reason) = match asked {
            _ if model.definition.materialized => (&materialized::WAY, "it is a materialized view".to_owned()),
            _ if model.shows.is_none() => (&swap::WAY, "it was never built".to_owned()),
            _ if model.wanted.is_some() => (&swap::WAY, "it is to be made of something else".to_owned()),
            _ if pending.everything || anew => (&swap::WAY, "everything may have changed".to_owned()),
            Some(way) => (way, "it was asked for".to_owned()),
            None => {
                let way = if share <= INCREMENTAL_SHARE_MAX { &incremental::WAY } else { &swap::WAY };
                (way, format!("{} changes for about {rows} rows", pending.keys))
            }
        };
        Ok((way, pending, reason))
    }
}

/// The way of a name.
fn way(name: &str) -> Result<&'static Way, Error> {
    WAYS.iter().copied().find(|way| way.name == name).ok_or_else(|| Error::Request {
        problem: format!("there is no way {name} to refresh"),
        hint: format!("one of {}", WAYS.iter().map(|way| way.name).collect::<Vec<_>>().join(", ")),
    })
}

/// What a refresh would do, without doing it.
///
/// # Errors
/// [`Error::Model`] for a name that is no model.
pub async fn estimate(db: &ConnInfo, schema: &Schema, request: &RefreshRequest) -> Result<Vec<Estimate>, Error> {
    let connection = millstream_pg::connect(db, &refresh_session("millstream refresh")).await?;
    let client = &connection.client;
    let mut estimates = Vec::new();
    for subject in subjects(client, schema, request, connection.server.version_num).await? {
        let (way, pending, reason) = subject.choose(client, request.way.as_deref(), false).await?;
        let bytes = match way.name {
            "incremental" => 0,
            _ => subject.size(client).await?,
        };
        estimates.push(Estimate {
            model: subject.model.name.clone(),
            way: way.name,
            reason,
            changed_keys: (!pending.everything).then_some(pending.keys),
            collection_rows: rows_estimate(client, subject.model.table_oid).await?,
            bytes,
        });
    }
    Ok(estimates)
}

/// Brings models up to date: all of them show one snapshot of their collections from one moment on.
///
/// # Errors
/// [`Error::Model`] for a name that is no model, one that is being refreshed by others, or one whose
/// readers never let go of the rows to be replaced: then the models show what they showed. What fails after the
/// commit is a warning.
pub async fn refresh(db: &ConnInfo, schema: &Schema, request: &RefreshRequest) -> Result<Vec<Refreshed>, Error> {
    let started = Instant::now();
    let connection = millstream_pg::connect(db, &refresh_session("millstream refresh")).await?;
    connection.require_writable()?;
    let client = &connection.client;
    let mut subjects = subjects(client, schema, request, connection.server.version_num).await?;
    for subject in &subjects {
        lock::lock_for_refresh(client, &subject.model).await?;
    }
    failpoint::hit("refresh-locked").await?;
    // What was read before the lock may be of the past.
    for subject in &mut subjects {
        subject.model = find(client, schema, &subject.model.name).await?;
        subject.unlogged = is_unlogged(client, subject.model.table_oid).await?;
    }
    let mut tries = 0;
    let done = loop {
        tries += 1;
        if let Some(done) = attempt(db, client, &subjects, request, tries == REFRESH_TRIES_MAX).await? {
            break done;
        }
    };
    let seconds = started.elapsed().as_secs_f64();
    let mut refreshed = Vec::new();
    for (subject, (way, applied)) in subjects.iter().zip(done) {
        refreshed.push(tidied(client, subject, way, applied, seconds).await);
    }
    failpoint::hit("refresh-tidied").await?;
    Ok(refreshed)
}

/// One try; `None` when everything changed after the ways were chosen.
async fn attempt(
    db: &ConnInfo,
    client: &Client,
    subjects: &[Subject<'_>],
    request: &RefreshRequest,
    last: bool,
) -> Result<Option<Vec<(&'static str, Applied)>>, Error> {
    let mut ways = Vec::new();
    for subject in subjects {
        ways.push(subject.choose(client, request.way.as_deref(), last).await?.0);
    }
    let storages: Vec<Storage<'_>> = subjects.iter().map(Subject::storage).collect();
    let swaps = |n: &usize| ways[*n].name == "swap";
    let stale: Vec<(&Storage<'_>, i16)> =
        (0..subjects.len()).filter(swaps).map(|n| (&storages[n], Storage::other(subjects[n].model.serving))).collect();
    if !stale.is_empty() && !clear(client, &stale, CLEAR_BEFORE_PATIENCE).await? {
        return Err(held(&subjects[0].model.name, CLEAR_BEFORE_PATIENCE));
    }
    for n in (0..subjects.len()).filter(swaps) {
        let (subject, storage) = (&subjects[n], &storages[n]);
        swap::prepare(client, storage, &subject.derivation(storage), Storage::other(subject.model.serving)).await?;
    }
    client.batch_execute("begin isolation level repeatable read").await?;
    // Before the snapshot, which a lock does not take: whatever rewrites or empties a table comes before both or
    // waits for the end.
    for subject in subjects {
        subject.lock_collection(client).await?;
    }
    let snapshot: String = client.query_one("select pg_catalog.pg_export_snapshot()", &[]).await?.get(0);
    failpoint::hit("snapshot-exported").await?;
    for (subject, way) in subjects.iter().zip(&ways) {
        if way.name == "incremental" && subject.pending(client).await?.everything {
            client.batch_execute("rollback").await?;
            return Ok(None);
        }
    }
    let workers = request.workers.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let workers = workers.clamp(1, BUILD_WORKERS_MAX);
    let (mut done, mut switch) = (Vec::new(), Switch::default());
    for ((subject, way), storage) in subjects.iter().zip(&ways).zip(&storages) {
        let (derivation, listened) = (subject.derivation(storage), subject.listened());
        let refresh = Refresh {
            db,
            coordinator: client,
            snapshot: &snapshot,
            model: &subject.model,
            derivation: &derivation,
            storage,
            listened: &listened,
            workers,
        };
        let applied = (way.apply)(&refresh).await?;
        models::show(client, subject.schema, subject.model.model_id, applied.generation, way.name).await?;
        if way.name == "swap" {
            switch.add(client, storage, &subject.model, applied.generation).await?;
        }
        if !subject.model.view_present && !subject.model.definition.materialized {
            storage.make_view(client, &subject.model.name).await?;
        }
        done.push((way.name, applied));
    }
    if !switch.commit(client).await? {
        clear(client, &stale, CLEAR_AFTER_PATIENCE).await?;
        return Err(held(&subjects[0].model.name, SWITCH_PATIENCE));
    }
    failpoint::hit("refresh-committed").await?;
    Ok(Some(done))
}

/// What was done, when all that is left to do has been tried.
async fn tidied(
    client: &Client,
    subject: &Subject<'_>,
    way: &'static str,
    applied: Applied,
    seconds: f64,
) -> Refreshed {
    let mut refreshed = Refreshed {
        model: subject.model.name.clone(),
        way,
        rows: applied.rows,
        seconds,
        lag_seconds: None,
        bloat_bytes: 0,
        uncast: applied.uncast,
        warnings: Vec::new(),
    };
    if subject.model.shows.is_some() && !subject.model.view_present {
        let lost = "its view was gone and was made again, without the grants on it and the views over it";
        refreshed.warnings.push(lost.into());
    }
    if let Err(error) = tidy(client, subject, &mut refreshed).await {
        refreshed.warnings.push(format!("it is up to date, but what it replaced was not all tidied up: {error}"));
        // The others are tidied over the same connection; where it is lost, that shows with them.
        let _ = client.batch_execute("rollback").await;
    }
    refreshed
}

/// What is left to do when the new rows are shown: forget the changes, empty what is not shown any more,
/// vacuum what was changed in place.
async fn tidy(client: &Client, subject: &Subject<'_>, refreshed: &mut Refreshed) -> Result<(), Error> {
    let (storage, listened) = (subject.storage(), subject.listened());
    let model = find(client, subject.schema, &subject.model.name).await?;
    if !model.definition.materialized {
        listened.restore(client).await?;
        listened.forget(client).await?;
        refreshed.lag_seconds = listened.pending(client, &model).await?.newest_age;
    }
    failpoint::hit("changes-forgotten").await?;
    let shown = indexed(&storage, &model).0;
    if refreshed.way == "swap" {
        clear(client, &[(&storage, Storage::other(model.serving))], CLEAR_AFTER_PATIENCE).await?;
        // Not sooner: the snapshot of the build kept anything from being frozen, and the lock that statistics of the
        // whole need is not held beside a build.
        client.batch_execute(&format!("vacuum (freeze) {shown}")).await?;
        client.batch_execute(&format!("analyze {}", storage.parts())).await?;
        refreshed.uncast = uncast(client, &subject.derivation(&storage), &shown, "true").await?;
    } else if is_littered(client, &shown, refreshed.rows).await? {
        client.batch_execute(&format!("vacuum (analyze) {shown}")).await?;
    }
    let stale = storage.part(Storage::other(model.serving));
    let sql = "select coalesce(pg_catalog.pg_total_relation_size(pg_catalog.to_regclass($1)), 0)";
    refreshed.bloat_bytes = u64::try_from(client.query_one(sql, &[&stale]).await?.get::<_, i64>(0)).unwrap_or(0);
    Ok(())
}

async fn subjects<'a>(
    client: &Client,
    schema: &'a Schema,
    request: &RefreshRequest,
    version_num: i32,
) -> Result<Vec<Subject<'a>>, Error> {
    let mut subjects = Vec::new();
    for name in &request.models {
        let model = find(client, schema, name).await?;
        let all = collections::by_oid(client, schema, model.table_oid).await?;
        let collection = all.filter(|collection| collection.present).ok_or_else(|| Error::Model {
            model: name.clone(),
            problem: "has lost its collection: the table is gone".into(),
            hint: format!("remove it: millstream unpublish {name}"),
        })?;
        let unlogged = is_unlogged(client, model.table_oid).await?;
        subjects.push(Subject { model, collection, schema, unlogged, version_num });
    }
    // Always locked in one order, and each once.
    subjects.sort_by_key(|subject| subject.model.model_id);
    subjects.dedup_by_key(|subject| subject.model.model_id);
    Ok(subjects)
}

fn held(model: &CollectionName, waited: Duration) -> Error {
    Error::Model {
        model: model.clone(),
        problem: format!("is read all the time: its readers did not let go for {} s", waited.as_secs()),
        hint: "end the transactions that have it open (see pg_stat_activity), then refresh again".into(),
    }
}

/// Rows of a table, as the planner sees them: by its statistics and size, or by its size alone.
async fn rows_estimate(client: &Client, table_oid: u32) -> Result<u64, Error> {
    let sql = "select $1::pg_catalog.oid::pg_catalog.regclass::text";
    let table: String = client.query_one(sql, &[&table_oid]).await?.get(0);
    let lines = client.simple_query(&format!("explain (format json) select from {table}")).await?;
    let plan = lines.iter().find_map(|line| match line {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    let plan: Option<serde_json::Value> = plan.and_then(|plan| serde_json::from_str(plan).ok());
    Ok(plan.and_then(|plan| plan.pointer("/0/Plan/Plan Rows")?.as_u64()).unwrap_or(0))
}

/// Whether so many of a table's rows are dead that it is cleaned now, and not when the server comes to it: that
/// takes a pass over every index, which few changes are not worth.
async fn is_littered(client: &Client, table: &str, just_changed: u64) -> Result<bool, Error> {
    let sql = "select (pg_catalog.pg_stat_get_dead_tuples(oid) + $2)::float8, greatest(reltuples, 0)::float8 \
               from pg_catalog.pg_class where oid = $1::text::pg_catalog.regclass";
    let row = client.query_one(sql, &[&table, &i64::try_from(just_changed).unwrap_or(i64::MAX)]).await?;
    Ok(row.get::<_, f64>(0) > LITTER_SHARE_MAX * row.get::<_, f64>(1))
}
