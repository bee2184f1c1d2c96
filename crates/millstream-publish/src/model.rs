//! The model that a command names.

use crate::error::Error;
use millstream_model::CollectionName;
use millstream_store::Schema;
use millstream_store::models::{self, Model};
use tokio_postgres::{Client, GenericClient};

/// The model of a name.
///
/// # Errors
/// [`Error::Model`] when there is none.
pub(crate) async fn find(client: &Client, schema: &Schema, name: &CollectionName) -> Result<Model, Error> {
    let found = if schema.exists(client).await? { models::find(client, schema, name).await? } else { None };
    found.ok_or_else(|| no_model(name))
}

fn no_model(name: &CollectionName) -> Error {
    Error::model(
        name,
        "is not a model",
        "see `millstream models`, or make it: millstream publish COLLECTION --as MODEL",
    )
}

/// Reads a model again. By its number, because its view may have been renamed.
///
/// # Errors
/// [`Error::Model`] when it was removed.
pub(crate) async fn found_again(client: &impl GenericClient, schema: &Schema, model: &Model) -> Result<Model, Error> {
    let now = models::by_id(client, schema, model.model_id).await?;
    now.ok_or_else(|| no_model(&model.name))
}
