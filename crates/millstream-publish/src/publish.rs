//! Publishes, changes and removes models.

use crate::asked::Asked;
use crate::error::Error;
use crate::limits::PUBLISH_LOCK_WAIT;
use crate::model::{find, found_again};
use crate::origin::{change_record, collection, is_unlogged, refuse_unfit};
use crate::query;
use crate::record::ChangeRecord;
use crate::request::{PublishRequest, Published};
use crate::storage::{GENERATIONS, Storage};
use crate::typed::with_typed;
use crate::waiting::with_holder;
use crate::{lock, materialized, republish};
use millstream_failpoint as failpoint;
use millstream_model::{CollectionName, shell_word};
use millstream_pg::{Connection, ErrorKind, Explained, quote_name};
use millstream_store::models::{self, Model};
use millstream_store::{Resolved, Schema};
use tokio_postgres::GenericClient;

/// Creates an empty model and, unless it is a materialized view without a query of its own, turns on the collection's
/// change record. If the model exists, changes its definition. A new model is shown from its first refresh on, other rows
/// and columns from the next refresh on.
///
/// # Errors
/// [`Error::Refused`] when the definition is refused; [`Error::Model`] when the name is taken, or when the model
/// belongs to another role or would lose a column; [`Error::PublishBusy`] when others publish.
pub async fn publish(
    connection: &mut Connection,
    schema: &Schema,
    request: &PublishRequest,
) -> Result<Published, Error> {
    connection.require_writable()?;
    match Box::pin(publish_at_once(connection, schema, request)).await {
        Ok(published) => Ok(published),
        Err(error) => Err(with_holder(&connection.client, &[quote_name(&request.collection)], error).await),
    }
}

async fn publish_at_once(
    connection: &mut Connection,
    schema: &Schema,
    request: &PublishRequest,
) -> Result<Published, Error> {
    if request.model.is_in_reserved_schema() {
        let hint = format!("choose a name in another schema, as in --as public.{}", request.model.table);
        return Err(Error::model(&request.model, "would be in a schema that PostgreSQL keeps for itself", hint));
    }
    if request.model.schema == schema.name() {
        let other = format!("--as {}", shell_word(&format!("public.{}", request.model.table)));
        let hint = format!("choose a name in another schema, as in {other}");
        return Err(Error::model(&request.model, "would be in the schema of Millstream's own tables", hint));
    }
    query::require_consistent(&request.definition)?;
    schema.ensure(&mut connection.client).await?;
    let version_num = connection.server.version_num;
    let collection = collection(&connection.client, schema, &request.collection).await?;
    let known = models::find(&connection.client, schema, &request.model).await?;
    if let Some(model) = &known {
        model.require_own()?;
        lock::lock_for_session(&connection.client, model).await?;
        republish::drop_leftovers(&connection.client, schema, model).await?;
    }
    let definition = with_typed(&connection.client, collection.table_oid, &request.definition, known.as_ref()).await?;
    let request = &PublishRequest { definition, ..request.clone() };
    schema.require_trusted_writers(&connection.client).await?;
    let transaction = connection.client.transaction().await?;
    lock::lock_publishing(&transaction).await?;
    if let Some(model) = models::find(&transaction, schema, &request.model).await? {
        model.require_own()?;
        if model.table_oid != collection.table_oid {
            let unpublish = format!("millstream unpublish {}", shell_word(&request.model));
            let hint = format!("choose another name, or remove it: {unpublish}");
            return Err(Error::model(&request.model, "is a model of another collection", hint));
        }
        lock::lock_for_transaction(&transaction, &model).await?;
        // The refresh that we waited for may have applied the wanted definition, or shown the model for the first time.
        let model = found_again(&transaction, schema, &model).await?;
        if model.shows.is_some() {
            let existing = (&model, &collection);
            let published = republish::republish(&transaction, schema, existing, request, version_num).await?;
            lock::lock_for_session(&transaction, &model).await?;
            transaction.commit().await?;
            let left = republish::drop_leftovers(&connection.client, schema, &model).await?;
            return Ok(match published {
                Published::Reindexed { made, dropped, .. } => Published::Reindexed { made, dropped, in_use: left },
                other => other,
            });
        }
        // The model was published before and never built.
        if republish::keeps(&model, &request.definition)? {
            transaction.commit().await?;
            return Ok(Published::Made);
        }
        let storage = Storage { schema, model_id: model.model_id, unlogged: false };
        storage.drop(&transaction, &model).await?;
        models::forget(&transaction, schema, model.model_id).await?;
    }
    let exists = "select pg_catalog.to_regclass($1) is not null";
    let view = quote_name(&request.model);
    if transaction.query_one(exists, &[&view]).await?.get(0) {
        let hint = "choose another name with --as";
        return Err(Error::model(&request.model, "exists already and is not a read model", hint));
    }
    let table = quote_name(&collection.name);
    // Nobody changes the type of a column any more.
    transaction.batch_execute(&format!("lock table {table} in access share mode")).await?;
    refuse_unfit(&transaction, &collection).await?;
    let unlogged = is_unlogged(&transaction, collection.table_oid).await?;
    let definition = &request.definition;
    let model_id = models::insert(&transaction, schema, &request.model, collection.table_oid, definition).await?;
    let storage = Storage { schema, model_id, unlogged };
    let warn = |text: &str| (request.warn)(&request.model, text);
    let asked = Asked::new(&transaction, &storage, &collection, definition, version_num, &warn).await?;
    let change_record = change_record(schema, &collection, unlogged);
    let resolved = make(&transaction, &storage, asked, &request.model, &change_record).await?;
    models::redefine(&transaction, schema, model_id, &resolved.definition).await?;
    storage.remember(&transaction, &resolved).await?;
    failpoint::hit("model-made").await?;
    transaction.commit().await?;
    failpoint::hit("model-published").await?;
    Ok(Published::Made)
}

/// Creates what a new model needs before its first refresh. Returns what its definition means. The first refresh creates
/// the view. Here it is only created to find errors, and rolled back.
async fn make(
    client: &impl GenericClient,
    storage: &Storage<'_>,
    asked: Asked<'_>,
    name: &CollectionName,
    change_record: &ChangeRecord<'_>,
) -> Result<Resolved, Error> {
    let resolved;
    let (is_recorded, columns) = (asked.definition.is_recorded(), asked.columns().to_vec());
    if asked.definition.materialized {
        // Its only purpose is its owner, who owns the materialized view. It exists before the view does, and after the
        // view was dropped by hand.
        client.batch_execute(&format!("create table {} ()", storage.parts())).await?;
        client.batch_execute("savepoint view").await?;
        resolved = materialized::try_definition(client, storage, asked, &quote_name(name)).await?;
        client.batch_execute("rollback to view; release view").await?;
    } else {
        resolved = asked.make(client, storage).await?;
        client.batch_execute("savepoint view").await?;
        storage.make_view(client, name).await?;
        client.batch_execute("rollback to view; release view").await?;
    }
    if is_recorded {
        change_record.turn_on(client).await?;
        change_record.rely_on(client, &columns).await?;
    }
    Ok(resolved)
}

/// Removes a model, and with the last model that needs it the collection's change record. If only another role can drop
/// the record, it is kept, and that role is returned.
///
/// # Errors
/// [`Error::Model`] when there is none; the server's when something depends on its view.
pub async fn unpublish(
    connection: &mut Connection,
    schema: &Schema,
    name: &CollectionName,
) -> Result<Option<String>, Error> {
    connection.require_writable()?;
    let model = find(&connection.client, schema, name).await?;
    remove(connection, schema, &model, false).await
}

/// Removes a model that was published and could not be built. Leaves it if it was built since.
///
/// # Errors
/// As [`unpublish`].
pub async fn take_back(connection: &mut Connection, schema: &Schema, name: &CollectionName) -> Result<(), Error> {
    if let Some(model) = models::find(&connection.client, schema, name).await? {
        remove(connection, schema, &model, true).await?;
    }
    Ok(())
}

/// Removes a model; or, if `unbuilt` is set, only if it was never built.
async fn remove(
    connection: &mut Connection,
    schema: &Schema,
    model: &Model,
    unbuilt: bool,
) -> Result<Option<String>, Error> {
    match Box::pin(remove_at_once(connection, schema, model, unbuilt)).await {
        Ok(kept_by) => Ok(kept_by),
        Err(error) => {
            let storage = Storage { schema, model_id: model.model_id, unlogged: false };
            let mut tables = vec![quote_name(&model.name), storage.parts()];
            tables.extend(GENERATIONS.map(|generation| storage.part(generation)));
            tables.extend(model.collection.as_ref().map(quote_name));
            Err(with_holder(&connection.client, &tables, error).await)
        }
    }
}

async fn remove_at_once(
    connection: &mut Connection,
    schema: &Schema,
    model: &Model,
    unbuilt: bool,
) -> Result<Option<String>, Error> {
    schema.require_trusted_writers(&connection.client).await?;
    let transaction = connection.client.transaction().await?;
    lock::lock_publishing(&transaction).await?;
    lock::lock_for_transaction(&transaction, model).await?;
    // The refresh that we waited for may have created its view.
    let model = found_again(&transaction, schema, model).await?;
    if unbuilt && model.shows.is_some() {
        return Ok(None);
    }
    transaction.batch_execute(&format!("set local lock_timeout = {}", PUBLISH_LOCK_WAIT.as_millis())).await?;
    Storage { schema, model_id: model.model_id, unlogged: false }.drop(&transaction, &model).await?;
    models::forget(&transaction, schema, model.model_id).await?;
    let others = models::list(&transaction, schema).await?;
    let mut kept_by = None;
    if !others.iter().any(|other| other.table_oid == model.table_oid && other.definition.is_recorded()) {
        let change_record =
            ChangeRecord { schema, table_oid: model.table_oid, table: String::new(), key: &[], unlogged: false };
        transaction.batch_execute("savepoint record").await?;
        if let Err(error) = change_record.turn_off(&transaction).await {
            transaction.batch_execute("rollback to record").await?;
            let owner = change_record.other_owner(&transaction).await?;
            kept_by = Some(owner.filter(|_| error.kind() == ErrorKind::Rights).ok_or(error)?);
        }
    }
    transaction.commit().await?;
    Ok(kept_by)
}
