//! How far a model is behind its collection, and how many bytes it wastes.

use crate::error::Error;
use crate::limits::FIGURE_LOCK_WAIT;
use crate::lock::set_lock_timeout;
use crate::record::ChangeRecord;
use crate::refresh_target::VIEW_REPLACED;
use crate::republish::indexed;
use crate::storage::Storage;
use millstream_store::models::Model;
use millstream_store::{Schema, segments};
use serde::Serialize;
use tokio_postgres::Client;

/// How far a model is behind, and what it wastes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Recorded changes of keys that it does not show yet. `None` if they are not known: everything may have changed,
    /// it is a materialized view without a query of its own, its collection is gone, the role may not read the record or
    /// does not trust its owner, or others have locked it.
    pub waiting_changes: Option<u64>,
    /// Whether the next refresh builds all of it anew: it was never built, its definition is to change, or the changed
    /// keys are not known.
    pub everything_waits: bool,
    /// Segments of the collection that a refresh merges first; `None` if the role may not see them, or others have
    /// locked them.
    pub waiting_segments: Option<u64>,
    /// Documents in these segments.
    pub waiting_documents: Option<u64>,
    /// Age in seconds of the newest change that it does not show; `None` if there is none.
    pub lag_seconds: Option<f64>,
    /// Bytes of dead rows, and of rows that were replaced or are being built; `None` if the role may not see them, or
    /// others have locked them.
    pub bloat_bytes: Option<u64>,
}

/// The figures of a model. For a table that others have locked, it waits only a moment.
///
/// # Errors
/// The server's, except missing rights and locked tables.
pub async fn figures(client: &Client, schema: &Schema, model: &Model) -> Result<Figures, Error> {
    let before = set_lock_timeout(client, &FIGURE_LOCK_WAIT.as_millis().to_string()).await?;
    let figures = known(client, schema, model).await;
    set_lock_timeout(client, &before).await?;
    figures
}

async fn known(client: &Client, schema: &Schema, model: &Model) -> Result<Figures, Error> {
    let mut figures = Figures::default();
    let storage = Storage { schema, model_id: model.model_id, unlogged: false };
    figures.bloat_bytes = allowed(bloat(client, &storage, model).await)?;
    if model.collection.is_none() {
        return Ok(figures);
    }
    if let Some(waiting) = allowed(segments::list(client, schema, model.table_oid).await.map_err(Error::from))? {
        figures.waiting_segments = Some(waiting.len() as u64);
        figures.waiting_documents = Some(waiting.iter().map(|segment| segment.documents).sum());
    }
    figures.everything_waits = model.shows.is_none() || model.wanted.is_some() || model.view_replaced;
    if !model.definition.is_recorded() {
        return Ok(figures);
    }
    let change_record =
        ChangeRecord { schema, table_oid: model.table_oid, table: String::new(), key: &[], unlogged: false };
    // Its owner may give it an index at any time, whose expression runs when a query is planned.
    if change_record.owner(client).await?.is_some() {
        return Ok(figures);
    }
    if let Some(pending) = allowed(change_record.pending(client, model).await)? {
        figures.waiting_changes = (!pending.everything).then_some(pending.keys);
        figures.everything_waits |= pending.everything;
        figures.lag_seconds = pending.newest_age;
    }
    Ok(figures)
}

/// Why the next refresh builds all of a model anew, as a clause, if it does.
///
/// # Errors
/// The server's, except missing rights and locked tables.
pub async fn why_anew(client: &Client, schema: &Schema, model: &Model) -> Result<Option<String>, Error> {
    if model.collection.is_none() || !model.definition.is_recorded() {
        return Ok(None);
    }
    let known = match model {
        Model { shows: None, .. } => Some("it was never built"),
        Model { wanted: Some(_), .. } => Some("its definition has changed"),
        Model { view_replaced: true, .. } => Some(VIEW_REPLACED),
        _ => None,
    };
    if known.is_some() {
        return Ok(known.map(str::to_owned));
    }
    let change_record =
        ChangeRecord { schema, table_oid: model.table_oid, table: String::new(), key: &[], unlogged: false };
    if change_record.owner(client).await?.is_some() {
        return Ok(None);
    }
    let before = set_lock_timeout(client, &FIGURE_LOCK_WAIT.as_millis().to_string()).await?;
    let pending = allowed(change_record.pending(client, model).await);
    set_lock_timeout(client, &before).await?;
    if !pending?.is_some_and(|pending| pending.everything) {
        return Ok(None);
    }
    change_record.why_everything(client).await.map(Some)
}

/// Bytes that a model wastes, according to the server's current statistics.
pub(crate) async fn bloat(client: &Client, storage: &Storage<'_>, model: &Model) -> Result<u64, Error> {
    let (shown, stale) = (indexed(storage, model).0, storage.part(Storage::other(model.serving)));
    let row = client.query_one(include_str!("bloat.sql"), &[&shown, &stale]).await?;
    Ok(u64::try_from(row.get::<_, i64>(0)).unwrap_or(0))
}

/// `None` if the role lacks a right, the table was dropped meanwhile, or others have locked it.
fn allowed<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Error::Postgres(error)) if matches!(error.sqlstate(), Some("42501" | "42P01" | "55P03")) => Ok(None),
        Err(error) => Err(error),
    }
}
