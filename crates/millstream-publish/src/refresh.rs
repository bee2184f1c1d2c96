//! Refreshes models, all models of a call in one transaction.

use crate::clear::{clear, oldest_reader};
use crate::error::Error;
use crate::failing_document::failing_document;
use crate::figures::bloat;
use crate::invalid_values::{InvalidValues, invalid_values};
use crate::limits::{BLOAT_SHARE_MAX, BUILD_WORKERS_MAX, CLEAR_AFTER_PATIENCE, READERS_PATIENCE, REFRESH_TRIES_MAX};
use crate::lock;
use crate::model::found_again;
use crate::origin::is_unlogged;
use crate::refresh_target::{
    RefreshTarget, lock_collections, require_columns, require_trusted_rows, rows_estimate, targets,
};
use crate::refresh_way::{Applied, Refresh, Way};
use crate::repair::repair;
use crate::republish::indexed;
use crate::storage::{GENERATIONS, Storage};
use crate::switch::Switch;
use millstream_engine::{Compacted, compact, refresh_session};
use millstream_failpoint as failpoint;
use millstream_model::{CollectionName, shell_word};
use millstream_pg::{ConnInfo, Connection, ErrorKind, Explained, Failures, quote_name};
use millstream_store::collections::Collection;
use millstream_store::limits::DROP_LOCK_WAIT;
use millstream_store::{Access, Schema, foreign_code, models, segments};
use serde::Serialize;
use std::time::{Duration, Instant};
use tokio_postgres::Client;

/// Undefined function or operator, table, column, type or other object, schema.
const NAME_NOT_FOUND: [&str; 5] = ["42883", "42P01", "42703", "42704", "3F000"];

/// Which models to refresh, and how.
#[derive(Debug, Clone)]
pub struct RefreshRequest {
    /// Names of the models. Afterwards they all show the same snapshot.
    pub models: Vec<CollectionName>,
    /// Name of the way; `None` chooses by cost.
    pub way: Option<String>,
    /// Connections that build, at most `BUILD_WORKERS_MAX`; `None` means one for each core.
    pub workers: Option<usize>,
    /// How long to wait for readers: before a build for those of replaced rows, and after it for those of the model.
    /// The usual value is [`READERS_PATIENCE`].
    pub patience: Duration,
    /// Hears whose code a refresh of a collection is about to run with the rights of this session, before it runs.
    pub warn: fn(&CollectionName, &str),
}

impl RefreshRequest {
    /// A refresh of these models by the cheapest way.
    pub fn new(models: Vec<CollectionName>) -> Self {
        Self { models, way: None, workers: None, patience: READERS_PATIENCE, warn: |_, _| {} }
    }
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
    /// How long the call took, for all models together, with the cleanup after the commit.
    pub seconds: f64,
    /// Age in seconds of the newest change that is not shown yet; `None` if there is none.
    pub lag_seconds: Option<f64>,
    /// Bytes that it wastes: replaced rows that could not be removed because readers may see them, and dead rows, which
    /// the next vacuum removes.
    pub bloat_bytes: u64,
    /// Values that are not valid for their column's type, among the rows that were written.
    pub invalid_values: Vec<InvalidValues>,
    /// What else went wrong. The model is up to date nevertheless.
    pub warnings: Vec<String>,
}

/// What a refresh of one model would do.
#[derive(Debug, Clone, Serialize)]
pub struct Estimate {
    /// Schema and name.
    pub model: CollectionName,
    /// The collection that it is derived from.
    pub collection: CollectionName,
    /// How: `incremental`, `swap` or `materialized`.
    pub way: &'static str,
    /// Why, as a clause. It also names the segments that are merged first; the other figures do not include them.
    pub reason: String,
    /// Recorded changes of keys that are not shown yet; `None` if everything may have changed.
    pub changed_keys: Option<u64>,
    /// Rows of the collection, by its statistics.
    pub collection_rows: u64,
    /// Bytes on disk that it needs in addition, with indexes, roughly. That is the size of the rows shown; for
    /// `incremental`, the part of them that changed; if nothing is shown yet, the size of the collection's table.
    pub bytes: u64,
}

/// What a refresh would do, without doing it.
///
/// # Errors
/// [`Error::Model`] for a name that is not a model, or a model that another role owns.
pub async fn estimate(db: &ConnInfo, schema: &Schema, request: &RefreshRequest) -> Result<Vec<Estimate>, Error> {
    let connection = coordinator(db).await?;
    let client = &connection.client;
    let (targets, mut estimates) = (targets(client, schema, &request.models).await?, Vec::new());
    require_trusted_columns(client, schema, &targets).await?;
    for target in targets {
        target.model.require_own()?;
        let (way, pending, mut reason) = target.choose(client, request.way.as_deref(), false).await?;
        match segments::count(client, schema, &target.collection).await? {
            0 => {}
            1 => reason.push_str("; 1 segment is merged first"),
            waiting => reason.push_str(&format!("; {waiting} segments are merged first")),
        }
        let (size, rows) = (target.size(client).await?, rows_estimate(client, target.model.table_oid).await?);
        // A changed row is written anew, with its index entries.
        let bytes = if way.needs_records { size / rows.max(1) * pending.keys.min(rows) } else { size };
        estimates.push(Estimate {
            model: target.model.name.clone(),
            collection: target.collection.name.clone(),
            way: way.name,
            reason,
            changed_keys: (!pending.everything).then_some(pending.keys),
            collection_rows: rows,
            bytes,
        });
    }
    Ok(estimates)
}

/// Refreshes models. From one moment on, all of them show the same snapshot of their collections. If the server ends a
/// session of the refresh, it begins again.
///
/// # Errors
/// [`Error::Model`] for a name that is not a model, for a model that another role owns, or when readers do not release
/// the rows to be replaced; `ModelBusy` while others refresh a model. The models then show what they showed before.
/// What fails after the commit is a warning.
pub async fn refresh(db: &ConnInfo, schema: &Schema, request: &RefreshRequest) -> Result<Vec<Refreshed>, Error> {
    let mut failures = Failures::default();
    loop {
        match Box::pin(refresh_once(db, schema, request)).await {
            Err(Error::Postgres(error)) if failures.wait_for_session(&error).await => {}
            ended => return ended,
        }
    }
}

/// The session of a refresh.
async fn coordinator(db: &ConnInfo) -> Result<Connection, Error> {
    let session = refresh_session("millstream refresh").with_own_names();
    Ok(millstream_pg::connect_when_free(db, &session).await?)
}

async fn refresh_once(db: &ConnInfo, schema: &Schema, request: &RefreshRequest) -> Result<Vec<Refreshed>, Error> {
    let started = Instant::now();
    let mut connection = coordinator(db).await?;
    connection.require_writable()?;
    let client = &connection.client;
    let mut targets = targets(client, schema, &request.models).await?;
    // First, because the next steps may take long.
    for target in &targets {
        target.model.require_own()?;
        target.asked(request.way.as_deref())?;
    }
    schema.require_trusted_writers(client).await?;
    require_trusted_columns(client, schema, &targets).await?;
    let in_segments = warn_of_code(client, schema, &targets, request.warn).await?;
    let mut warnings = Vec::new();
    if !in_segments.is_empty() {
        // A role may have no more connections than the merge needs.
        connection.close().await;
        warnings = compacted(db, schema, &in_segments, request.workers).await?;
        connection = coordinator(db).await?;
        connection.require_writable()?;
    }
    let client = &connection.client;
    for target in &targets {
        lock::lock_for_refresh(client, &target.model).await?;
    }
    failpoint::hit("refresh-locked").await?;
    // What we read before the lock may be outdated.
    for target in &mut targets {
        target.model = found_again(client, schema, &target.model).await?;
        target.require_own(client).await?;
        target.unlogged = is_unlogged(client, target.model.table_oid).await?;
    }
    warnings.extend(repair(client, &targets).await?);
    let mut tries = 0;
    let done = loop {
        tries += 1;
        match attempt(db, client, &targets, request, tries == REFRESH_TRIES_MAX).await {
            Ok(Some(done)) => break done,
            Ok(None) => {}
            // A session waits to change a collection. It goes first.
            Err(Error::InUse { .. }) if tries < REFRESH_TRIES_MAX => client.batch_execute("rollback").await?,
            Err(error) => {
                // If this fails, the next refresh does it. The error to report is the first one.
                let _ = remove_unshown(client, &targets).await;
                return Err(with_key(client, &targets, error).await);
            }
        }
    };
    let mut refreshed = Vec::new();
    for (target, Done { way, instead, applied, view }) in targets.iter().zip(done) {
        let mut one = tidied(client, target, way, applied).await;
        one.warnings.extend(instead);
        if let Some(before) = view {
            let now = target.storage().view_text(client, &target.model.name).await;
            if now.is_ok_and(|now| now.is_some_and(|now| now != before)) {
                let replaced = "somebody had replaced its view, which shows the model again";
                one.warnings.push(replaced.into());
            }
        }
        let of_table = warnings.iter().filter(|(oid, _)| *oid == target.model.table_oid);
        one.warnings.extend(of_table.map(|(_, warning)| warning.clone()));
        refreshed.push(one);
    }
    failpoint::hit("refresh-tidied").await?;
    let seconds = started.elapsed().as_secs_f64();
    refreshed.iter_mut().for_each(|one| one.seconds = seconds);
    Ok(refreshed)
}

/// Removes the generations that an interrupted refresh of these models has built and not shown. Waits a while for its
/// sessions to end. The next refresh of the models would remove them too.
///
/// # Errors
/// [`Error::Model`] for a name that is not a model; the server's.
pub async fn abandon(db: &ConnInfo, schema: &Schema, names: &[CollectionName]) -> Result<(), Error> {
    let connection = coordinator(db).await?;
    let client = &connection.client;
    let targets = targets(client, schema, names).await?;
    for target in &targets {
        lock::lock_for_session(client, &target.model).await?;
    }
    remove_unshown(client, &targets).await
}

/// The error, with the key of the document for which an expression of a model fails, if there is one.
async fn with_key(client: &Client, targets: &[RefreshTarget<'_>], error: Error) -> Error {
    if let Error::Postgres(server) = &error
        && server.sqlstate().is_some_and(|code| NAME_NOT_FOUND.contains(&code))
    {
        let hint = "a model's expressions, and the functions that they call, find names in pg_catalog alone: give such a \
                    function the schemas' names, or `alter function .. set search_path = ..`; if something was dropped, \
                    publish again";
        return match targets {
            [target] => Error::model(&target.model.name, format!("cannot be built: {error}"), hint),
            _ => Error::refused(format!("one of the models cannot be built: {error}"), hint),
        };
    }
    if let Error::Postgres(server) = &error
        && server.sqlstate() == Some("42P16")
        && let Some(target) = targets.iter().find(|target| target.model.view_replaced)
    {
        let (problem, view) =
            ("has a view that somebody replaced by one with other columns", quote_name(&target.model.name));
        let hint = format!(
            "drop view {view}; the next refresh makes it again, without the grants on it and the views over it"
        );
        return Error::model(&target.model.name, problem, hint);
    }
    if error.kind() != ErrorKind::DataRefused {
        return error;
    }
    for target in targets.iter().filter(|target| target.model.aim().query.is_none()) {
        // If the search fails, the error stays as it is.
        let Ok(derivation) = target.derivation(&target.storage()) else { continue };
        if let Ok(Some(key)) = failing_document(client, &derivation).await {
            let get = format!("millstream get {} KEY", shell_word(&target.collection.name));
            let problem = format!("cannot be built from the document with key {key}: {error}");
            let hint = format!("see it with `{get}`; mend it, or publish again with another --select or --where");
            return Error::model(&target.model.name, problem, hint);
        }
    }
    error
}

/// As `abandon`, in the session that holds the locks of the models.
async fn remove_unshown(client: &Client, targets: &[RefreshTarget<'_>]) -> Result<(), Error> {
    // Its builders have ended, or end within a second, when the server checks for their client.
    client.batch_execute(&format!("rollback; set lock_timeout = {}", DROP_LOCK_WAIT.as_millis())).await?;
    for target in targets.iter().filter(|target| !target.model.definition.materialized) {
        // The refresh may have been committed. Then the other generation must go.
        let serving = found_again(client, target.schema, &target.model).await?.serving;
        clear(client, &[(&target.storage(), Storage::other(serving))], CLEAR_AFTER_PATIENCE).await?;
    }
    Ok(())
}

/// Requires, before the planner looks at the collections, what [`require_trusted_rows`] requires of their columns' types
/// under a lock.
async fn require_trusted_columns(client: &Client, schema: &Schema, targets: &[RefreshTarget<'_>]) -> Result<(), Error> {
    let tables: Vec<u32> = targets.iter().map(|target| target.model.table_oid).collect();
    Ok(schema.require_trusted_columns(client, "model", &tables).await?)
}

/// Names the code of others that the refresh is about to run: what reading the collections runs, and where segments are
/// merged first, what writing them runs. Returns the collections with segments.
async fn warn_of_code<'a>(
    client: &Client,
    schema: &Schema,
    targets: &'a [RefreshTarget<'_>],
    warn: fn(&CollectionName, &str),
) -> Result<Vec<&'a Collection>, Error> {
    let mut in_segments = Vec::new();
    for collection in collections(targets) {
        let access = match segments::count(client, schema, collection).await? {
            0 => Access::Read,
            _ => {
                in_segments.push(collection);
                Access::Write
            }
        };
        for warning in foreign_code(client, schema, collection.table_oid, access).await? {
            warn(&collection.name, &warning);
        }
    }
    Ok(in_segments)
}

/// The collections of the models, each once.
fn collections<'a>(targets: &'a [RefreshTarget<'_>]) -> Vec<&'a Collection> {
    let mut collections: Vec<&Collection> = targets.iter().map(|target| &target.collection).collect();
    collections.sort_by_key(|collection| collection.table_oid);
    collections.dedup_by_key(|collection| collection.table_oid);
    collections
}

/// Merges the segments of the collections, because models are derived from tables. Returns warnings about segments that
/// are left, by collection.
async fn compacted(
    db: &ConnInfo,
    schema: &Schema,
    in_segments: &[&Collection],
    workers: Option<usize>,
) -> Result<Vec<(u32, String)>, Error> {
    let mut waiting = Vec::new();
    for &collection in in_segments {
        let warning = match compact(db, schema, collection, workers).await.map_err(Error::from) {
            Ok(Compacted { left: 0, .. }) => continue,
            Ok(Compacted { left, waits_for, .. }) => {
                let until = waits_for.map_or_else(String::new, |load_id| format!(" until load {load_id} has ended"));
                format!("{left} segments were left to the next refresh{until}")
            }
            // The documents in the table can be shown nevertheless.
            Err(busy @ (Error::Store(millstream_store::Error::CompactionBusy { .. }) | Error::InUse { .. })) => {
                format!("segments were left to the next refresh: {busy}")
            }
            // This role owns the model. It need not own the segments.
            Err(Error::Refused(refusal)) => {
                let hint = refusal.hint.as_ref().map_or_else(String::new, |hint| format!("; {hint}"));
                format!("segments were left: {refusal}{hint}")
            }
            Err(error) => return Err(error),
        };
        waiting.push((collection.table_oid, warning));
    }
    Ok(waiting)
}

/// What one try did to a model.
struct Done {
    way: &'static Way,
    /// Why it is another way than the one asked for.
    instead: Option<String>,
    applied: Applied,
    /// The query of its view before, if that was not ours.
    view: Option<String>,
}

/// One try. `None` if everything counts as changed since the ways were chosen.
async fn attempt(
    db: &ConnInfo,
    client: &Client,
    targets: &[RefreshTarget<'_>],
    request: &RefreshRequest,
    last: bool,
) -> Result<Option<Vec<Done>>, Error> {
    require_columns(client, targets).await?;
    let (mut ways, mut reasons) = (Vec::new(), Vec::new());
    for target in targets {
        let (way, _, reason) = target.choose(client, request.way.as_deref(), last).await?;
        ways.push(way);
        reasons.push(reason);
    }
    let storages: Vec<Storage<'_>> = targets.iter().map(RefreshTarget::storage).collect();
    let swaps = |n: &usize| ways[*n].swaps;
    let stale: Vec<(&Storage<'_>, i16)> =
        (0..targets.len()).filter(swaps).map(|n| (&storages[n], Storage::other(targets[n].model.serving))).collect();
    let swapped: Vec<&RefreshTarget<'_>> = (0..targets.len()).filter(swaps).map(|n| &targets[n]).collect();
    let waiting = db.roster.waits_for("readers of rows that an earlier refresh replaced");
    if !stale.is_empty() && !clear(client, &stale, request.patience).await? {
        return Err(held(client, &swapped, request.patience).await?);
    }
    drop(waiting);
    // Before the snapshot, which would not see the columns of the table to build.
    client.batch_execute("begin").await?;
    lock_collections(client, targets).await?;
    require_trusted_rows(client, targets).await?;
    for n in (0..targets.len()).filter(swaps) {
        let (target, storage) = (&targets[n], &storages[n]);
        let make = storage.make_part(Storage::other(target.model.serving), &target.derivation(storage)?);
        client.batch_execute(&make).await?;
    }
    client.batch_execute("commit; begin isolation level repeatable read").await?;
    lock_collections(client, targets).await?;
    // Somebody may have changed the collection between the locks.
    require_trusted_rows(client, targets).await?;
    let snapshot: String = client.query_one("select pg_catalog.pg_export_snapshot()", &[]).await?.get(0);
    failpoint::hit("snapshot-exported").await?;
    for (target, way) in targets.iter().zip(&ways) {
        if way.needs_records && target.pending(client).await?.everything {
            client.batch_execute("rollback").await?;
            return Ok(None);
        }
    }
    let workers = request.workers.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let workers = workers.clamp(1, BUILD_WORKERS_MAX);
    let (mut done, mut switch) = (Vec::new(), Switch::default());
    let mut views = Vec::new();
    for (target, storage) in targets.iter().zip(&storages) {
        let replaced = target.model.view_replaced;
        views.push(if replaced { storage.view_text(client, &target.model.name).await? } else { None });
    }
    for ((((target, way), reason), storage), view) in targets.iter().zip(&ways).zip(reasons).zip(&storages).zip(views) {
        let (derivation, change_record) = (target.derivation(storage)?, target.change_record());
        let refresh = Refresh {
            db,
            coordinator: client,
            snapshot: &snapshot,
            model: &target.model,
            derivation: &derivation,
            storage,
            change_record: &change_record,
            workers,
        };
        let applied = (way.apply)(&refresh).await?;
        models::show(client, target.schema, target.model.model_id, applied.generation, way.name).await?;
        if way.swaps {
            switch.add(client, storage, &target.model, applied.generation).await?;
        }
        if !target.model.view_present && !target.model.definition.materialized {
            storage.make_view(client, &target.model.name).await?;
        }
        let asked = request.way.as_deref().filter(|asked| *asked != way.name);
        let instead = asked.map(|asked| format!("{asked} was asked for, but {reason}: it was built anew"));
        done.push(Done { way, instead, applied, view });
    }
    let _waiting = db.roster.waits_for("readers to release the model, to show them the new rows");
    if !switch.commit(client, request.patience).await? {
        return Err(held(client, &swapped, request.patience).await?);
    }
    failpoint::hit("refresh-committed").await?;
    Ok(Some(done))
}

/// Cleans up as far as possible, and returns what was done.
async fn tidied(client: &Client, target: &RefreshTarget<'_>, way: &'static Way, applied: Applied) -> Refreshed {
    let mut refreshed = Refreshed {
        model: target.model.name.clone(),
        way: way.name,
        rows: applied.rows,
        seconds: 0.0,
        lag_seconds: None,
        bloat_bytes: 0,
        invalid_values: applied.invalid_values,
        warnings: Vec::new(),
    };
    if target.model.shows.is_some() && !target.model.view_present {
        let lost = "its view was gone and was created again, without the grants on it and the views over it";
        refreshed.warnings.push(lost.into());
    }
    if let Err(error) = tidy(client, target, way, &mut refreshed).await {
        refreshed.warnings.push(format!("it is up to date, but some of what it replaced was not removed: {error}"));
        // The other models are cleaned up on the same connection. If it is lost, they report it.
        let _ = client.batch_execute("rollback").await;
    }
    refreshed
}

/// The cleanup after the commit: deletes recorded changes, removes the generation that is no longer shown, vacuums what
/// was changed in place.
async fn tidy(client: &Client, target: &RefreshTarget<'_>, way: &Way, refreshed: &mut Refreshed) -> Result<(), Error> {
    let (storage, change_record) = (target.storage(), target.change_record());
    let model = found_again(client, target.schema, &target.model).await?;
    if model.definition.is_recorded() {
        change_record.forget(client).await?;
        refreshed.lag_seconds = change_record.pending(client, &model).await?.newest_age;
    }
    failpoint::hit("changes-forgotten").await?;
    let shown = indexed(&storage, &model).0;
    // Otherwise the statistics of this session are counted later, even for rows that a vacuum has removed by then.
    client.batch_execute("select pg_catalog.pg_stat_force_next_flush()").await?;
    if way.swaps {
        let cleared = clear(client, &[(&storage, Storage::other(model.serving))], CLEAR_AFTER_PATIENCE).await?;
        // After the build, whose own snapshot keeps rows from being frozen.
        client.batch_execute(&format!("vacuum (freeze) {shown}")).await?;
        // After the build, too: its lock on the whole model would last as long. It also reads the replaced generation,
        // and would wait for those who use it.
        if cleared {
            client.batch_execute(&format!("analyze {}", storage.parts())).await?;
        }
        refreshed.invalid_values = invalid_values(client, &target.derivation(&storage)?, &shown, None).await?;
    } else {
        if !model.definition.materialized {
            // Remove what could not be removed after a swap because of readers.
            clear(client, &[(&storage, Storage::other(model.serving))], Duration::ZERO).await?;
        }
        if is_bloated(client, &shown).await? {
            client.batch_execute(&format!("vacuum (analyze) {shown}")).await?;
        }
    }
    refreshed.bloat_bytes = bloat(client, &storage, &model).await?;
    Ok(())
}

/// The error for a swap that waited in vain. It names a model and the sessions that have it open. If no model is open, an old
/// snapshot was in the way: the error names the first model and the session of the oldest snapshot.
async fn held(client: &Client, swapped: &[&RefreshTarget<'_>], waited: Duration) -> Result<Error, Error> {
    let (mut name, mut holder) = (&swapped[0].model.name, None);
    for target in swapped {
        let storage = target.storage();
        let tables: Vec<String> =
            GENERATIONS.iter().map(|generation| storage.part(*generation)).chain([storage.parts()]).collect();
        holder = client.query_one(include_str!("held.sql"), &[&tables]).await?.get::<_, Option<String>>(0);
        if holder.is_some() {
            name = &target.model.name;
            break;
        }
    }
    let who = match holder {
        Some(holder) => format!(": {holder}"),
        None => oldest_reader(client)
            .await?
            .map_or_else(String::new, |reader| format!("; {reader} has the oldest snapshot")),
    };
    let problem = format!("is in use all the time: its readers did not release it for {} s{who}", waited.as_secs());
    let hint = format!(
        "end the transactions that have it open (see pg_stat_activity), then refresh again; or wait longer: millstream \
         refresh {} --wait 10m",
        shell_word(name)
    );
    Ok(Error::model(name, problem, hint))
}

/// Whether so many of a table's rows are dead that we vacuum it now and do not wait for autovacuum. A vacuum scans
/// every index, which is too much for a few changes.
async fn is_bloated(client: &Client, table: &str) -> Result<bool, Error> {
    let sql = "select pg_catalog.pg_stat_get_dead_tuples(oid)::float8, greatest(reltuples, 0)::float8 \
               from pg_catalog.pg_class where oid = $1::text::pg_catalog.regclass::pg_catalog.oid";
    let row = client.query_one(sql, &[&table]).await?;
    Ok(row.get::<_, f64>(0) > BLOAT_SHARE_MAX * row.get::<_, f64>(1))
}
