//! Read models: tables with indexes that are derived from a collection, and how they are kept up.

mod clear;
mod definition;
mod derived;
mod incremental;
mod lock;
mod record;
mod refresh;
mod runner;
mod storage;
mod swap;
mod uncast;

pub use definition::{Column, Definition};
pub(crate) use derived::{derived_tables, hold_models};
pub(crate) use record::TRIGGER_PREFIX;
pub use refresh::{Estimate, RefreshRequest, Refreshed, estimate, refresh};
pub use runner::become_runner;

use crate::error::Error;
use crate::failpoint;
use crate::limits::{PUBLISH_LOCK_WAIT, REFRESH_SETTINGS};
use crate::store::collections::Collection;
use crate::store::models::{self, Model};
use crate::store::{Schema, collections};
use definition::{Derivation, index_clauses};
use futures_util::future::BoxFuture;
use millstream_model::CollectionName;
use millstream_pg::{ConnInfo, Connection, SessionSettings, quote_qualified};
use record::Listened;
use storage::Storage;
use tokio_postgres::{Client, GenericClient};
pub use uncast::Uncast;

/// A way to bring a model up to date.
pub(crate) struct Way {
    pub(crate) name: &'static str,
    apply: for<'a> fn(&'a Refresh<'a>) -> Working<'a>,
}

type Working<'a> = BoxFuture<'a, Result<Applied, Error>>;

/// Every way to refresh.
pub(crate) static WAYS: &[&Way] = &[&incremental::WAY, &swap::WAY];

/// One model being refreshed, in the transaction of the coordinator.
struct Refresh<'a> {
    db: &'a ConnInfo,
    /// In a repeatable-read transaction, whose snapshot the model will show.
    coordinator: &'a Client,
    /// Under which others can use that snapshot.
    snapshot: &'a str,
    model: &'a Model,
    derivation: &'a Derivation,
    storage: &'a Storage<'a>,
    listened: &'a Listened<'a>,
    /// Connections that build.
    workers: usize,
}

impl Refresh<'_> {
    /// Blocks of the collection's table.
    async fn blocks(&self) -> Result<u64, Error> {
        let sql = "select pg_catalog.pg_relation_size($1::pg_catalog.oid::pg_catalog.regclass) \
                   / pg_catalog.current_setting('block_size')::bigint";
        let blocks: i64 = self.coordinator.query_one(sql, &[&self.model.table_oid]).await?.get(0);
        Ok(u64::try_from(blocks).unwrap_or(0))
    }
}

/// What a way did.
struct Applied {
    /// The generation to be shown.
    generation: i16,
    /// Rows written and deleted.
    rows: u64,
    /// Values among them that are none of their column's type; to be looked for where they are many.
    uncast: Vec<Uncast>,
}

/// A model that is to be there.
#[derive(Debug, Clone)]
pub struct PublishRequest {
    /// The collection.
    pub collection: CollectionName,
    /// The model's name.
    pub model: CollectionName,
    /// What it is made of.
    pub definition: Definition,
}

/// What publishing did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published {
    /// The model is new and still empty: it is to be refreshed.
    Made,
    /// Its indexes were changed.
    Reindexed {
        /// Indexes made.
        made: usize,
        /// Indexes dropped.
        dropped: usize,
    },
}

/// Makes a model, empty, and turns the collection's change record on; or changes the indexes of one that
/// is there. A new model is shown from its first refresh on.
///
/// # Errors
/// [`Error::Request`] when the definition is refused, [`Error::Model`] when the name is taken or the model
/// is made of other columns.
pub async fn publish(
    connection: &mut Connection,
    schema: &Schema,
    request: &PublishRequest,
) -> Result<Published, Error> {
    schema.ensure(&mut connection.client).await?;
    let version_num = connection.server.version_num;
    let collection = collection(&connection.client, schema, &request.collection).await?;
    if let Some(model) = models::find(&connection.client, schema, &request.model).await? {
        lock::lock_for_session(&connection.client, &model).await?;
        drop_leftovers(&connection.client, schema, &model).await?;
    }
    let transaction = connection.client.transaction().await?;
    transaction.execute("select pg_advisory_xact_lock($1)", &[&PUBLISH_LOCK]).await?;
    if let Some(model) = models::find(&transaction, schema, &request.model).await? {
        if model.table_oid != collection.table_oid {
            return Err(taken(request, "is a model of another collection"));
        }
        if model.shows.is_some() {
            lock::lock_for_transaction(&transaction, &model).await?;
            let (clauses, gone) = reindex(&transaction, schema, &model, request).await?;
            lock::lock_for_session(&transaction, &model).await?;
            transaction.commit().await?;
            drop_leftovers(&connection.client, schema, &model).await?;
            let made = clauses.iter().filter(|clause| !model.definition.indexes.contains(clause)).count();
            return Ok(Published::Reindexed { made, dropped: gone.len() });
        }
        // An earlier attempt came no further, or another is still at it.
        lock::lock_for_transaction(&transaction, &model).await?;
        let storage = Storage { schema, model_id: model.model_id, unlogged: false };
        storage.drop(&transaction, &model).await?;
        models::forget(&transaction, schema, model.model_id).await?;
    }
    let exists = "select pg_catalog.to_regclass($1) is not null";
    let view = quote_qualified(&request.model.schema, &request.model.table);
    if transaction.query_one(exists, &[&view]).await?.get(0) {
        return Err(taken(request, "is something else"));
    }
    check_types(&transaction, &request.definition).await?;
    refuse_descendant(&transaction, &collection).await?;
    let unlogged = is_unlogged(&transaction, collection.table_oid).await?;
    let definition = &request.definition;
    let model_id = models::insert(&transaction, schema, &request.model, collection.table_oid, definition).await?;
    let storage = Storage { schema, model_id, unlogged };
    if version_num < 160_000 {
        let types: Vec<&str> = definition.columns.iter().map(|column| column.type_name.as_str()).collect();
        storage.make_casters(&transaction, &types).await?;
    }
    let derivation = derivation(&collection, definition, version_num, &storage);
    let indexes = storage.make(&transaction, &derivation, &definition.indexes).await?;
    models::redefine(&transaction, schema, model_id, &Definition { indexes, ..definition.clone() }).await?;
    // The view comes with the first rows, but what is wrong with its name shows before they are built.
    transaction.batch_execute("savepoint view").await?;
    storage.make_view(&transaction, &request.model).await?;
    transaction.batch_execute("rollback to view; release view").await?;
    listened(schema, &collection, unlogged).turn_on(&transaction).await?;
    failpoint::hit("model-made").await?;
    transaction.commit().await?;
    failpoint::hit("model-published").await?;
    Ok(Published::Made)
}

/// Makes the indexes that are missing on a model that is shown; returns the clauses of all, and of those
/// no longer asked for.
async fn reindex(
    client: &impl GenericClient,
    schema: &Schema,
    model: &Model,
    request: &PublishRequest,
) -> Result<(Vec<String>, Vec<String>), Error> {
    let (old, new) = (&model.definition, &request.definition);
    if *new == Definition::default() {
        return Ok((old.indexes.clone(), Vec::new()));
    }
    if (&old.columns, &old.condition, &old.select) != (&new.columns, &new.condition, &new.select) {
        return Err(taken(request, "is made of other columns or rows"));
    }
    let storage = Storage { schema, model_id: model.model_id, unlogged: false };
    let mut clauses: Vec<String> = Vec::with_capacity(new.indexes.len());
    for index in &new.indexes {
        let known = index_clauses(index).into_iter().find(|clause| old.indexes.contains(clause));
        let clause = match known {
            Some(clause) => clause,
            None => storage.try_index(client, model.serving, index).await?,
        };
        if !clauses.contains(&clause) {
            clauses.push(clause);
        }
    }
    let gone = old.indexes.iter().filter(|clause| !clauses.contains(clause)).cloned().collect();
    let definition = Definition { indexes: clauses.clone(), ..old.clone() };
    models::redefine(client, schema, model.model_id, &definition).await?;
    Ok((clauses, gone))
}

/// Drops the indexes that a model's definition does not name, also those of an earlier drop that was broken off;
/// then lets go of the session's lock of the model.
async fn drop_leftovers(client: &Client, schema: &Schema, model: &Model) -> Result<(), Error> {
    let dropped = async {
        let present = models::list(client, schema).await?.into_iter().find(|now| now.model_id == model.model_id);
        let Some(now) = present else { return Ok(()) };
        let storage = Storage { schema, model_id: now.model_id, unlogged: false };
        storage.drop_other_indexes(client, now.serving, &now.definition.indexes).await
    }
    .await;
    let unlocked = lock::unlock_session(client, model).await;
    dropped.and(unlocked)
}

/// Removes a model, and the change record when it was the collection's last.
///
/// # Errors
/// [`Error::Model`] when there is none; the server's when something depends on its view.
pub async fn unpublish(connection: &mut Connection, schema: &Schema, name: &CollectionName) -> Result<(), Error> {
    let model = find(&connection.client, schema, name).await?;
    let transaction = connection.client.transaction().await?;
    transaction.execute("select pg_advisory_xact_lock($1)", &[&PUBLISH_LOCK]).await?;
    lock::lock_for_transaction(&transaction, &model).await?;
    transaction.batch_execute(&format!("set local lock_timeout = {}", PUBLISH_LOCK_WAIT.as_millis())).await?;
    Storage { schema, model_id: model.model_id, unlogged: false }.drop(&transaction, &model).await?;
    models::forget(&transaction, schema, model.model_id).await?;
    let others = models::list(&transaction, schema).await?;
    if !others.iter().any(|other| other.table_oid == model.table_oid) {
        Listened { schema, table_oid: model.table_oid, table: String::new(), key: &[], unlogged: false }
            .turn_off(&transaction)
            .await?;
    }
    Ok(transaction.commit().await?)
}

/// Advisory lock under which models are made and removed: `mslpubls`.
const PUBLISH_LOCK: i64 = 0x6d73_6c70_7562_6c73;

/// The model of a name.
///
/// # Errors
/// [`Error::Model`] when there is none.
async fn find(client: &Client, schema: &Schema, name: &CollectionName) -> Result<Model, Error> {
    let found = if schema.exists(client).await? { models::find(client, schema, name).await? } else { None };
    found.ok_or_else(|| Error::Model {
        model: name.clone(),
        problem: "is no model".into(),
        hint: "see `millstream models`, or make it: millstream publish COLLECTION --as MODEL".into(),
    })
}

async fn collection(client: &Client, schema: &Schema, name: &CollectionName) -> Result<Collection, Error> {
    let found = collections::find(client, schema, name).await?.filter(|collection| collection.present);
    found.ok_or_else(|| Error::Request {
        problem: format!("there is no collection {name}"),
        hint: "see `millstream collections`".into(),
    })
}

fn listened<'a>(schema: &'a Schema, collection: &'a Collection, unlogged: bool) -> Listened<'a> {
    let table = quote_qualified(&collection.name.schema, &collection.name.table);
    Listened { schema, table_oid: collection.table_oid, table, key: &collection.key, unlogged }
}

fn derivation(collection: &Collection, definition: &Definition, version_num: i32, storage: &Storage<'_>) -> Derivation {
    let table = quote_qualified(&collection.name.schema, &collection.name.table);
    Derivation::new(table, &collection.key, definition, version_num, |n| storage.caster(n))
}

async fn is_unlogged(client: &impl GenericClient, table_oid: u32) -> Result<bool, Error> {
    let sql = "select relpersistence = 'u' from pg_catalog.pg_class where oid = $1";
    Ok(client.query_one(sql, &[&table_oid]).await?.get(0))
}

/// What is done to a partition or an inheriting table through its parent fires no triggers of it.
async fn refuse_descendant(client: &impl GenericClient, collection: &Collection) -> Result<(), Error> {
    let sql = "select exists (select from pg_catalog.pg_inherits where $1 in (inhrelid, inhparent))";
    if !client.query_one(sql, &[&collection.table_oid]).await?.get::<_, bool>(0) {
        return Ok(());
    }
    Err(Error::Request {
        problem: format!("{} is a partition, or inherits: what changes it cannot all be seen", collection.name),
        hint: "publish a table that stands alone".into(),
    })
}

async fn check_types(client: &impl GenericClient, definition: &Definition) -> Result<(), Error> {
    for Column { name, type_name, .. } in &definition.columns {
        let known = client.query_one("select pg_catalog.to_regtype($1) is not null", &[type_name]).await;
        if !known.is_ok_and(|row| row.get(0)) {
            return Err(Error::Request {
                problem: format!("column {name}: there is no type {type_name}"),
                hint: "name a type of the database, as in price:numeric=price".into(),
            });
        }
    }
    Ok(())
}

fn taken(request: &PublishRequest, what: &str) -> Error {
    Error::Model {
        model: request.model.clone(),
        problem: what.into(),
        hint: format!("choose another name, or remove it: millstream unpublish {}", request.model),
    }
}

/// A session that refreshes: it may wait inside its transaction for a build, and ends soon after its client.
fn refresh_session(name: &str) -> SessionSettings {
    REFRESH_SETTINGS.iter().fold(SessionSettings::named(name), |session, (name, value)| session.with(name, value))
}
