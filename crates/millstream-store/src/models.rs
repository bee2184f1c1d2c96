//! The records of read models.

use crate::definition::{Definition, Resolved};
use crate::error::Error;
use crate::schema::Schema;
use millstream_model::{CollectionName, shell_word};
use millstream_pg::json_rows;
use serde::{Deserialize, Serialize};
use tokio_postgres::GenericClient;

/// Prefix of the names of the triggers that record the changes of a collection.
pub const TRIGGER_PREFIX: &str = "millstream_changed_";

/// A recorded read model.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Model {
    /// Its number.
    pub model_id: i32,
    /// Second key of its advisory locks. Models of other schemas have other keys.
    #[serde(skip_serializing)]
    pub lock_id: i32,
    /// Its name, which is the name of its view.
    pub name: CollectionName,
    /// The collection's table.
    pub table_oid: u32,
    /// The collection's current name; `None` if the table is gone.
    pub collection: Option<CollectionName>,
    /// Its definition.
    pub definition: Definition,
    /// The definition that the next refresh gives it, if it is to change.
    pub wanted: Option<Definition>,
    /// The generation that readers see.
    pub serving: i16,
    /// The snapshot of the collection that its rows equal; `None` before they are built.
    pub shows: Option<String>,
    /// The role that owns it; `None` if its table was dropped by hand.
    pub owner: Option<String>,
    /// Whether the session's own role owns it; false after `set role`.
    #[serde(skip_serializing)]
    pub is_own: bool,
    /// Whether its view is there.
    #[serde(skip_serializing)]
    pub view_present: bool,
    /// Whether its view has another rule than we gave it, because somebody replaced it.
    #[serde(skip_serializing)]
    pub view_replaced: bool,
    /// How it was last refreshed.
    pub way: Option<String>,
    /// When it was last refreshed: UTC, RFC 3339.
    pub refreshed_at: Option<String>,
    /// What its owner published, as [`Resolved`]; `None` if that is not known.
    #[serde(skip_serializing)]
    pub resolved: Option<String>,
}

impl Model {
    /// The definition that the next refresh builds.
    pub fn aim(&self) -> &Definition {
        self.wanted.as_ref().unwrap_or(&self.definition)
    }

    /// Requires that the session's own role owns the model. The model's expressions run with the rights of whoever
    /// builds it. `set role` would not protect the session's role, because an expression can set the role back.
    ///
    /// # Errors
    /// [`Error::Model`] names the owner, or says that the model has lost its table.
    pub fn require_own(&self) -> Result<(), Error> {
        if self.is_own {
            return Ok(());
        }
        let (problem, hint) = match &self.owner {
            Some(owner) => (
                format!("belongs to {owner}, and its SQL must run with the rights of that role"),
                format!("connect as {owner}"),
            ),
            None => (
                "has lost its table".to_owned(),
                format!(
                    "remove it and publish it again, with the grants on it: millstream unpublish {}",
                    shell_word(&self.name)
                ),
            ),
        };
        Err(Error::Model { model: self.name.clone(), problem, hint })
    }

    /// The definition that the next refresh builds, as the model's owner published it.
    ///
    /// # Errors
    /// [`Error::Model`] when our tables have another one, or derive the model from another table: who may write them is
    /// not the model's owner.
    pub fn require_resolved(&self) -> Result<Resolved, Error> {
        let resolved: Option<Resolved> = self.resolved.as_deref().and_then(|text| serde_json::from_str(text).ok());
        let problem = match resolved {
            Some(resolved)
                if resolved.definition != *self.aim()
                    || resolved.definition.materialized != self.definition.materialized
                    || ![1, 2].contains(&self.serving) =>
            {
                "has another definition in our tables than the one that its owner published"
            }
            Some(resolved)
                if resolved.table_oid != self.table_oid && self.collection.as_ref() != Some(&resolved.table) =>
            {
                "belongs to another collection in our tables than the one that its owner published"
            }
            Some(resolved) => return Ok(resolved),
            None => "has lost the comment on its table, which says what its owner published",
        };
        let hint =
            "look at it with `millstream models --output json`, and publish it again with all that it is to have";
        Err(Error::Model { model: self.name.clone(), problem: problem.to_owned(), hint: hint.to_owned() })
    }
}

/// Every model, by name.
pub async fn list(client: &impl GenericClient, schema: &Schema) -> Result<Vec<Model>, Error> {
    Ok(json_rows(client, "a model's record", &schema.sql(include_str!("models.sql")), &[]).await?)
}

/// The model of a name, `None` when there is none.
pub async fn find(client: &impl GenericClient, schema: &Schema, name: &CollectionName) -> Result<Option<Model>, Error> {
    Ok(list(client, schema).await?.into_iter().find(|model| model.name == *name))
}

/// The model of a number, `None` when it was removed.
pub async fn by_id(client: &impl GenericClient, schema: &Schema, model_id: i32) -> Result<Option<Model>, Error> {
    Ok(list(client, schema).await?.into_iter().find(|model| model.model_id == model_id))
}

/// Records a new model and returns its number.
pub async fn insert(
    client: &impl GenericClient,
    schema: &Schema,
    name: &CollectionName,
    table_oid: u32,
    definition: &Definition,
) -> Result<i32, Error> {
    let sql = "insert into {schema}.model (schema_name, model_name, table_oid, definition) \
               values ($1, $2, $3, ($4::text)::jsonb) returning model_id";
    let row = client.query_one(&schema.sql(sql), &[&name.schema, &name.table, &table_oid, &json(definition)]).await?;
    Ok(row.get(0))
}

/// Records another definition that gives the same rows. No other definition is wanted then.
pub async fn redefine(
    client: &impl GenericClient,
    schema: &Schema,
    model_id: i32,
    definition: &Definition,
) -> Result<(), Error> {
    let sql = schema.sql("update {schema}.model set definition = ($2::text)::jsonb, wanted = null where model_id = $1");
    client.execute(&sql, &[&model_id, &json(definition)]).await?;
    Ok(())
}

/// Records the definition that the next refresh builds. Until that refresh commits, the model stays as it is.
pub async fn want(
    client: &impl GenericClient,
    schema: &Schema,
    model_id: i32,
    definition: &Definition,
) -> Result<(), Error> {
    let sql = schema.sql("update {schema}.model set wanted = ($2::text)::jsonb where model_id = $1");
    client.execute(&sql, &[&model_id, &json(definition)]).await?;
    Ok(())
}

/// Makes a model show `generation` from the commit of the transaction on. Records that the rows equal the transaction's
/// snapshot of the collection. A wanted definition becomes the model's definition.
pub async fn show(
    client: &impl GenericClient,
    schema: &Schema,
    model_id: i32,
    generation: i16,
    way: &str,
) -> Result<(), Error> {
    let sql = schema.sql(
        "update {schema}.model set serving = $2, way = $3, refreshed_at = pg_catalog.now(), \
         shows = pg_catalog.pg_current_snapshot(), definition = coalesce(wanted, definition), wanted = null where model_id = $1",
    );
    client.execute(&sql, &[&model_id, &generation, &way]).await?;
    Ok(())
}

/// Deletes a model's record.
pub async fn forget(client: &impl GenericClient, schema: &Schema, model_id: i32) -> Result<(), Error> {
    client.execute(&schema.sql("delete from {schema}.model where model_id = $1"), &[&model_id]).await?;
    Ok(())
}

fn json(definition: &Definition) -> String {
    serde_json::to_string(definition).expect("texts and lists of them are JSON")
}
