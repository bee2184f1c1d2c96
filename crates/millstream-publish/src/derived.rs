//! The tables that a collection's read models keep, and the locks of all of these models.

use crate::error::Error;
use crate::lock;
use crate::record::ChangeRecord;
use crate::storage::{GENERATIONS, Storage};
use millstream_store::Schema;
use millstream_store::models;
use tokio_postgres::GenericClient;

/// Keeps others from publishing, unpublishing and refreshing the collection's models, until the transaction ends.
///
/// # Errors
/// [`Error::ModelBusy`] names a model that is being refreshed; [`Error::PublishBusy`] when others publish.
pub(crate) async fn hold_models(client: &impl GenericClient, schema: &Schema, table_oid: u32) -> Result<(), Error> {
    lock::lock_publishing(client).await?;
    let mut models = models::list(client, schema).await?;
    models.retain(|model| model.table_oid == table_oid);
    // In the order in which a refresh locks them.
    models.sort_by_key(|model| model.model_id);
    for model in &models {
        lock::lock_for_transaction(client, model).await?;
    }
    Ok(())
}

/// Quoted names of the change record and of all generations of the models. Not all of these tables exist.
pub(crate) async fn derived_tables(
    client: &impl GenericClient,
    schema: &Schema,
    table_oid: u32,
) -> Result<Vec<String>, Error> {
    let change_record = ChangeRecord { schema, table_oid, table: String::new(), key: &[], unlogged: false };
    let mut tables = vec![change_record.record()];
    for model in models::list(client, schema).await?.into_iter().filter(|model| model.table_oid == table_oid) {
        let storage = Storage { schema, model_id: model.model_id, unlogged: false };
        tables.extend(GENERATIONS.map(|generation| storage.part(generation)));
    }
    Ok(tables)
}
