//! Read models: tables with indexes that are derived from a collection, and how they are kept up.

mod clear;
mod culprit;
mod definition;
mod derived;
mod explain;
mod figures;
mod incremental;
mod lock;
mod materialized;
mod record;
mod refresh;
mod repair;
mod republish;
mod row_wise;
mod runner;
mod shape;
mod steady;
mod storage;
mod subject;
mod swap;
mod switch;
mod uncast;

pub use definition::{Column, Definition};
pub(crate) use derived::{derived_tables, hold_models};
pub use explain::{ExplainedIndexes, THE_KEY, explain_index};
pub use figures::{Figures, figures};
pub(crate) use record::TRIGGER_PREFIX;
pub use refresh::{Estimate, RefreshRequest, Refreshed, abandon, estimate, refresh};
pub use runner::become_runner;

use crate::error::Error;
use crate::failpoint;
use crate::limits::{PUBLISH_LOCK_WAIT, REFRESH_SETTINGS};
use crate::store::collections::Collection;
use crate::store::models::{self, Model};
use crate::store::{Schema, collections};
use definition::Derivation;
use futures_util::future::BoxFuture;
use millstream_model::CollectionName;
use millstream_pg::{ConnInfo, Connection, ErrorKind, SessionSettings, quote_qualified};
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
pub(crate) static WAYS: &[&Way] = &[&incremental::WAY, &materialized::WAY, &swap::WAY];

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
        /// Indexes that it has no more.
        dropped: usize,
        /// Indexes that could not be removed, because readers did not let go of them; publishing again, or a swap,
        /// removes them.
        in_use: usize,
    },
    /// It is made of other rows or columns: its next refresh builds it anew, and it is what it was until then.
    Redefined,
}

/// Makes a model, empty, and turns the collection's change record on; or changes what one that is there is made of.
/// A new model is shown from its first refresh on, other rows and columns from the next one on.
///
/// # Errors
/// [`Error::Request`] when the definition is refused, [`Error::Model`] when the name is taken, or the model is another
/// role's or would lose a column, [`Error::PublishBusy`] when others publish.
pub async fn publish(
    connection: &mut Connection,
    schema: &Schema,
    request: &PublishRequest,
) -> Result<Published, Error> {
    if request.model.schema == schema.name() {
        return Err(Error::Model {
            model: request.model.clone(),
            problem: "would be in the schema of Millstream's own tables".into(),
            hint: format!("choose a name in another schema, as in --as public.{}", request.model.table),
        });
    }
    schema.ensure(&mut connection.client).await?;
    let version_num = connection.server.version_num;
    let collection = collection(&connection.client, schema, &request.collection).await?;
    if let Some(model) = models::find(&connection.client, schema, &request.model).await? {
        model.require_own()?;
        lock::lock_for_session(&connection.client, &model).await?;
        republish::drop_leftovers(&connection.client, schema, &model).await?;
    }
    let transaction = connection.client.transaction().await?;
    lock::lock_publishing(&transaction).await?;
    if let Some(model) = models::find(&transaction, schema, &request.model).await? {
        model.require_own()?;
        if model.table_oid != collection.table_oid {
            return Err(taken(request, "is a model of another collection"));
        }
        lock::lock_for_transaction(&transaction, &model).await?;
        // A refresh that was waited for may have made it what was wanted, or shown it for the first time.
        let model = found_again(&transaction, schema, &model).await?;
        if model.shows.is_some() {
            check_types(&transaction, &request.definition).await?;
            let subject = (&model, &collection);
            let published = republish::republish(&transaction, schema, subject, request, version_num).await?;
            lock::lock_for_session(&transaction, &model).await?;
            transaction.commit().await?;
            let left = republish::drop_leftovers(&connection.client, schema, &model).await?;
            return Ok(match published {
                Published::Reindexed { made, dropped, .. } => Published::Reindexed { made, dropped, in_use: left },
                other => other,
            });
        }
        // An earlier attempt came no further.
        if republish::keeps(&model, &request.definition)? {
            transaction.commit().await?;
            return Ok(Published::Made);
        }
        let storage = Storage { schema, model_id: model.model_id, unlogged: false };
        storage.drop(&transaction, &model).await?;
        models::forget(&transaction, schema, model.model_id).await?;
    }
    let exists = "select pg_catalog.to_regclass($1) is not null";
    let view = quote_qualified(&request.model.schema, &request.model.table);
    if transaction.query_one(exists, &[&view]).await?.get(0) {
        return Err(Error::Model {
            model: request.model.clone(),
            problem: "is something else, which no model has made".into(),
            hint: "choose another name with --as".into(),
        });
    }
    check_types(&transaction, &request.definition).await?;
    refuse_descendant(&transaction, &collection).await?;
    let unlogged = is_unlogged(&transaction, collection.table_oid).await?;
    let definition = &request.definition;
    let model_id = models::insert(&transaction, schema, &request.model, collection.table_oid, definition).await?;
    let storage = Storage { schema, model_id, unlogged };
    storage.make_casters(&transaction, definition, version_num).await?;
    let derivation = derivation(&collection, definition, version_num, &storage);
    let listened = listened(schema, &collection, unlogged);
    let indexes = make(&transaction, &storage, &derivation, request, &listened).await?;
    models::redefine(&transaction, schema, model_id, &Definition { indexes, ..definition.clone() }).await?;
    failpoint::hit("model-made").await?;
    transaction.commit().await?;
    failpoint::hit("model-published").await?;
    Ok(Published::Made)
}

/// What a new model needs before its first refresh; returns the clause that each index is made by. The view comes with
/// the first rows, but what is wrong with it shows before they are built.
async fn make(
    client: &impl GenericClient,
    storage: &Storage<'_>,
    derivation: &Derivation,
    request: &PublishRequest,
    listened: &Listened<'_>,
) -> Result<Vec<String>, Error> {
    let (name, definition) = (&request.model, &request.definition);
    let indexes;
    if definition.materialized {
        storage.make_mark(client).await?;
        client.batch_execute("savepoint view").await?;
        indexes = materialized::try_definition(client, storage, derivation, name, &definition.indexes).await?;
        client.batch_execute("rollback to view; release view").await?;
    } else {
        indexes = storage.make(client, derivation, &definition.indexes).await?;
        client.batch_execute("savepoint view").await?;
        storage.make_view(client, name).await?;
        client.batch_execute("rollback to view; release view").await?;
        listened.turn_on(client).await?;
    }
    Ok(indexes)
}

/// Removes a model, and the change record when it was the collection's last. Returns the role that alone can remove
/// the record, where that is another: it is kept then.
///
/// # Errors
/// [`Error::Model`] when there is none; the server's when something depends on its view.
pub async fn unpublish(
    connection: &mut Connection,
    schema: &Schema,
    name: &CollectionName,
) -> Result<Option<String>, Error> {
    let model = find(&connection.client, schema, name).await?;
    let transaction = connection.client.transaction().await?;
    lock::lock_publishing(&transaction).await?;
    lock::lock_for_transaction(&transaction, &model).await?;
    // A refresh that was waited for may have made its view.
    let model = found_again(&transaction, schema, &model).await?;
    transaction.batch_execute(&format!("set local lock_timeout = {}", PUBLISH_LOCK_WAIT.as_millis())).await?;
    Storage { schema, model_id: model.model_id, unlogged: false }.drop(&transaction, &model).await?;
    models::forget(&transaction, schema, model.model_id).await?;
    let others = models::list(&transaction, schema).await?;
    let mut kept_by = None;
    if !others.iter().any(|other| other.table_oid == model.table_oid && !other.definition.materialized) {
        let listened = Listened { schema, table_oid: model.table_oid, table: String::new(), key: &[], unlogged: false };
        transaction.batch_execute("savepoint record").await?;
        if let Err(error) = listened.turn_off(&transaction).await {
            transaction.batch_execute("rollback to record").await?;
            let owner = listened.other_owner(&transaction).await?;
            kept_by = Some(owner.filter(|_| error.kind() == ErrorKind::Rights).ok_or(error)?);
        }
    }
    transaction.commit().await?;
    Ok(kept_by)
}

/// The model of a name.
///
/// # Errors
/// [`Error::Model`] when there is none.
async fn find(client: &Client, schema: &Schema, name: &CollectionName) -> Result<Model, Error> {
    let found = if schema.exists(client).await? { models::find(client, schema, name).await? } else { None };
    found.ok_or_else(|| no_model(name))
}

fn no_model(name: &CollectionName) -> Error {
    Error::Model {
        model: name.clone(),
        problem: "is no model".into(),
        hint: "see `millstream models`, or make it: millstream publish COLLECTION --as MODEL".into(),
    }
}

/// A model that was found before, as it is now: by its number, for its view may have another name.
///
/// # Errors
/// [`Error::Model`] when it was removed.
async fn found_again(client: &impl GenericClient, schema: &Schema, model: &Model) -> Result<Model, Error> {
    let now = models::by_id(client, schema, model.model_id).await?;
    now.ok_or_else(|| no_model(&model.name))
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
    Derivation::new(table, &collection.key, definition, version_num, |type_name| storage.caster(type_name))
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
