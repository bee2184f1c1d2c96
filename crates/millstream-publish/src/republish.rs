//! Changes a model that is shown: its indexes at once, its rows and columns with the next refresh.

use crate::asked::Asked;
use crate::error::Error;
use crate::origin::change_record;
use crate::refusal::refused;
use crate::request::{PublishRequest, Published};
use crate::shape::Shape;
use crate::storage::{Storage, TRIAL};
use crate::{materialized, query};
use millstream_model::shell_word;
use millstream_pg::advisory::MODEL;
use millstream_pg::quote_name;
use millstream_store::Definition;
use millstream_store::Schema;
use millstream_store::collections::Collection;
use millstream_store::models::{self, Model};
use tokio_postgres::error::SqlState;
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
    let storage = Storage { schema, model_id: model.model_id, unlogged: false };
    let warn = |text: &str| (request.warn)(&request.model, text);
    if old.has_rows_of(new) {
        let unique = if new.unique.is_empty() { &old.unique } else { &new.unique };
        let same_rows = Definition { indexes: new.indexes.clone(), unique: unique.clone(), ..old.clone() };
        let asked = Asked::new(client, &storage, collection, &same_rows, version_num, &warn).await?;
        return reindex(client, &storage, model, asked).await;
    }
    if old.materialized {
        let hint = format!(
            "for that, give its other options as they were; for other rows, remove it first, with the grants on it: \
             millstream unpublish {}",
            shell_word(&model.name)
        );
        let problem = "is a materialized view, of which only the indexes can change";
        return Err(Error::model(&model.name, problem, hint));
    }
    let asked = Asked::new(client, &storage, collection, new, version_num, &warn).await?;
    let columns = asked.columns().to_vec();
    let resolved = asked.try_out(client, &storage).await?;
    Shape::of(client, &storage, TRIAL, model).await?;
    client.batch_execute(&format!("drop table {}", storage.part(TRIAL))).await?;
    models::want(client, schema, model.model_id, &resolved.definition).await?;
    storage.remember(client, &resolved).await?;
    change_record(schema, collection, false).rely_on(client, &columns).await?;
    Ok(Published::Redefined)
}

/// Whether a request leaves a model's definition as it is, because it asks for nothing of its own.
///
/// # Errors
/// [`Error::Model`] when it asks only for another kind of model.
pub(crate) fn keeps(model: &Model, new: &Definition) -> Result<bool, Error> {
    let is_nothing =
        |definition: &Definition| Definition { materialized: false, ..definition.clone() } == Definition::default();
    // Otherwise what it is to mean is written down again.
    let is_known = !is_nothing(model.aim()) || model.require_resolved().is_ok();
    let asks_nothing = is_nothing(new) && is_known;
    if asks_nothing {
        refuse_kind(model, new.materialized && !model.definition.materialized)?;
    }
    Ok(asks_nothing)
}

fn refuse_kind(model: &Model, is_other: bool) -> Result<(), Error> {
    if !is_other {
        return Ok(());
    }
    let (problem, hint) = match model.definition.materialized {
        true => ("is a materialized view, and stays one", "give --materialized again to change its indexes"),
        false => ("is not a materialized view, and cannot become one", "leave --materialized out to change it"),
    };
    let remove = format!("millstream unpublish {}", shell_word(&model.name));
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
    storage: &Storage<'_>,
    model: &Model,
    asked: Asked<'_>,
) -> Result<Published, Error> {
    let old = &model.definition.indexes;
    client.batch_execute("savepoint trial").await?;
    let resolved = match model.definition.materialized {
        true => materialized::try_definition(client, storage, asked, &storage.part(TRIAL)).await?,
        false => asked.try_out(client, storage).await?,
    };
    client.batch_execute("rollback to trial").await?;
    let new = &resolved.definition.indexes;
    let (table, generation) = indexed(storage, model);
    // Every name in a clause is resolved.
    client.batch_execute("set local search_path = pg_catalog").await?;
    let unique = &resolved.definition.unique;
    let other_unique = *unique != model.definition.unique;
    if other_unique {
        query::make_unique(client, storage, (&table, generation), unique).await?;
    }
    let made: Vec<(&String, &String)> =
        new.iter().zip(&resolved.indexes).filter(|(text, _)| !old.contains(text)).collect();
    for (text, clause) in &made {
        let make = storage.index(&table, generation, (text, clause));
        client.batch_execute(&make).await.map_err(|error| not_made(text, error))?;
    }
    let dropped = old.iter().filter(|text| !new.contains(text)).count() + usize::from(other_unique);
    models::redefine(client, storage.schema, model.model_id, &resolved.definition).await?;
    storage.remember(client, &resolved).await?;
    Ok(Published::Reindexed { made: made.len() + usize::from(other_unique), dropped, in_use: 0 })
}

/// The error for an index that the empty table has got, and the model cannot get.
fn not_made(index: &str, error: tokio_postgres::Error) -> Error {
    if error.code() == Some(&SqlState::DUPLICATE_TABLE) {
        let problem = format!("index \"{index}\" could not be removed yet: others still use it");
        let hint = "end the transactions that have the model open (see pg_stat_activity), then publish again";
        return Error::refused(problem, hint);
    }
    refused(&format!("index \"{index}\""), error)
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
        storage.drop_other_indexes(client, &table, generation, &query::named_indexes(&now.definition)).await
    }
    .await;
    let unlocked = MODEL.of(model.lock_id).unlock(client).await;
    let left = dropped?;
    Ok(unlocked.map(|()| left)?)
}
