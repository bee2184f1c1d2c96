//! Changes a model that is shown: its indexes at once, its rows and columns with the next refresh.

use crate::definition::index_clauses;
use crate::error::Error;
use crate::materialized;
use crate::origin::derivation;
use crate::request::{PublishRequest, Published};
use crate::shape::Shape;
use crate::storage::{Storage, TRIAL};
use millstream_model::words::{command, option};
use millstream_pg::advisory::MODEL;
use millstream_pg::quote_name;
use millstream_store::Definition;
use millstream_store::Schema;
use millstream_store::collections::Collection;
use millstream_store::models::{self, Model};
use tokio_postgres::{Client, GenericClient};

/// Changes the definition of a model that is shown, in a transaction that holds its lock.
///
/// # Errors
/// [`Error::Refused`] when the definition is refused, [`Error::Model`] when the model cannot get it.
pub(crate) async fn republish(
    client: &impl GenericClient,
    schema: &Schema,
    (model, collection): (&Model, &Collection),
    request: &PublishRequest,
    version_num: i32,
) -> Result<Published, Error> {
    let (old, new) = (&model.definition, &request.definition);
    if keeps(model, new)? {
        return Ok(Published::Reindexed { made: 0, dropped: 0, in_use: 0 });
    }
    refuse_kind(model, old.materialized != new.materialized)?;
    if old.has_rows_of(new) {
        return reindex(client, schema, model, new).await;
    }
    if old.materialized {
        let hint = format!("remove it first, with the grants on it: {}", command(format!("unpublish {}", model.name)));
        let problem = "is a materialized view, of which only the indexes can change";
        return Err(Error::model(&model.name, problem, hint));
    }
    let storage = Storage { schema, model_id: model.model_id, unlogged: false };
    storage.make_casters(client, new, version_num).await?;
    let derivation = derivation(collection, new, version_num, &storage);
    let indexes = storage.try_definition(client, &derivation, &new.indexes).await?;
    Shape::of(client, &storage, TRIAL, model).await?;
    client.batch_execute(&format!("drop table {}", storage.part(TRIAL))).await?;
    models::want(client, schema, model.model_id, &Definition { indexes, ..new.clone() }).await?;
    Ok(Published::Redefined)
}

/// Whether a request leaves a model's definition as it is, because it asks for nothing of its own.
///
/// # Errors
/// [`Error::Model`] when it asks only for another kind of model.
pub(crate) fn keeps(model: &Model, new: &Definition) -> Result<bool, Error> {
    let asks_nothing = Definition { materialized: false, ..new.clone() } == Definition::default();
    if asks_nothing {
        refuse_kind(model, new.materialized && !model.definition.materialized)?;
    }
    Ok(asks_nothing)
}

fn refuse_kind(model: &Model, is_other: bool) -> Result<(), Error> {
    if !is_other {
        return Ok(());
    }
    let materialized = option("materialized");
    let (problem, hint) = match model.definition.materialized {
        true => ("is a materialized view, and stays one", format!("give {materialized} again to change its indexes")),
        false => {
            ("is not a materialized view, and cannot become one", format!("leave {materialized} out to change it"))
        }
    };
    let remove = command(format!("unpublish {}", model.name));
    let hint = format!("{hint}; or choose another name, or remove it: {remove}");
    Err(Error::model(&model.name, problem, hint))
}

/// The table that a model's indexes are on, and the generation in their names.
pub(crate) fn indexed(storage: &Storage<'_>, model: &Model) -> (String, i16) {
    if model.definition.materialized {
        (quote_name(&model.name), materialized::GENERATION)
    } else {
        (storage.part(model.serving), model.serving)
    }
}

/// Creates missing indexes. Indexes that are no longer wanted are dropped after the transaction.
async fn reindex(
    client: &impl GenericClient,
    schema: &Schema,
    model: &Model,
    new: &Definition,
) -> Result<Published, Error> {
    let old = &model.definition;
    let storage = Storage { schema, model_id: model.model_id, unlogged: false };
    let (table, generation) = indexed(&storage, model);
    let mut clauses: Vec<String> = Vec::with_capacity(new.indexes.len());
    for index in &new.indexes {
        let known = index_clauses(index).into_iter().find(|clause| old.indexes.contains(clause));
        let clause = match known {
            Some(clause) => clause,
            None => storage.try_index(client, &table, generation, index).await?,
        };
        if !clauses.contains(&clause) {
            clauses.push(clause);
        }
    }
    let made = clauses.iter().filter(|clause| !old.indexes.contains(clause)).count();
    let dropped = old.indexes.iter().filter(|clause| !clauses.contains(clause)).count();
    models::redefine(client, schema, model.model_id, &Definition { indexes: clauses, ..old.clone() }).await?;
    Ok(Published::Reindexed { made, dropped, in_use: 0 })
}

/// Drops the indexes that a model's definition does not name, also those of an earlier drop that was interrupted. Then
/// releases the session's lock of the model. Returns how many are left because they are in use.
pub(crate) async fn drop_leftovers(client: &Client, schema: &Schema, model: &Model) -> Result<usize, Error> {
    let dropped = async {
        let present = models::by_id(client, schema, model.model_id).await?;
        let Some(now) = present.filter(|now| now.shows.is_some() && (now.view_present || !now.definition.materialized))
        else {
            return Ok(0);
        };
        let storage = Storage { schema, model_id: now.model_id, unlogged: false };
        let (table, generation) = indexed(&storage, &now);
        storage.drop_other_indexes(client, &table, generation, &now.definition.indexes).await
    }
    .await;
    let unlocked = MODEL.of(model.lock_id).unlock(client).await;
    let left = dropped?;
    Ok(unlocked.map(|()| left)?)
}
