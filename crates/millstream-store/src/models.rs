//! Read models as they are recorded and listed.

use crate::definition::Definition;
use crate::error::Error;
use crate::schema::Schema;
use millstream_model::CollectionName;
use serde::Serialize;
use tokio_postgres::{GenericClient, Row};

/// What the names of the triggers begin with that record the changes of a collection.
pub const TRIGGER_PREFIX: &str = "millstream_changed_";

/// A read model on record.
#[derive(Debug, Clone, Serialize)]
pub struct Model {
    /// Its number.
    pub model_id: i32,
    /// Second key of its advisory locks, which the models of other schemas do not share.
    #[serde(skip)]
    pub lock_id: i32,
    /// Its name, that of its view.
    pub name: CollectionName,
    /// The collection's table.
    pub table_oid: u32,
    /// The collection's present name; `None` when the table is gone.
    pub collection: Option<CollectionName>,
    /// What it is made of.
    pub definition: Definition,
    /// What it is to be made of by the next refresh, where that is something else.
    pub wanted: Option<Definition>,
    /// The generation that is shown.
    pub serving: i16,
    /// The snapshot of the collection that the rows are equal to; `None` before they are built.
    pub shows: Option<String>,
    /// The role whose it is; `None` where its table was dropped by hand.
    pub owner: Option<String>,
    /// Whether that is the role that asks.
    #[serde(skip)]
    pub is_own: bool,
    /// Whether its view is there.
    #[serde(skip)]
    pub view_present: bool,
    /// How it was last refreshed.
    pub way: Option<String>,
    /// When: UTC, RFC 3339.
    pub refreshed_at: Option<String>,
}

impl Model {
    /// What the next refresh is to make it of.
    pub fn aim(&self) -> &Definition {
        self.wanted.as_ref().unwrap_or(&self.definition)
    }

    /// Makes sure that the role is the model's owner. What a model is made of is evaluated with the rights of whoever
    /// builds it, and `set role` would be no wall: what runs behind it can set the role back.
    ///
    /// # Errors
    /// [`Error::Model`] names the owner.
    pub fn require_own(&self) -> Result<(), Error> {
        if self.is_own {
            return Ok(());
        }
        let (problem, hint) = match &self.owner {
            Some(owner) => (
                format!("belongs to {owner}, and what it is made of may run with no other rights"),
                format!("connect as {owner}"),
            ),
            None => (
                "has lost its table".to_owned(),
                format!("remove it and publish it again, with the grants on it: millstream unpublish {}", self.name),
            ),
        };
        Err(Error::Model { model: self.name.clone(), problem, hint })
    }
}

/// Every model, by name.
pub async fn list(client: &impl GenericClient, schema: &Schema) -> Result<Vec<Model>, Error> {
    let sql = schema.sql(include_str!("models.sql"));
    client.query(&sql, &[]).await?.iter().map(model).collect()
}

/// The model of a name, `None` when there is none.
pub async fn find(client: &impl GenericClient, schema: &Schema, name: &CollectionName) -> Result<Option<Model>, Error> {
    Ok(list(client, schema).await?.into_iter().find(|model| model.name == *name))
}

/// The model of a number, `None` when there is none any more.
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

/// Another definition for a model, of the same rows.
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

/// What the next refresh is to make of a model; until it ends, the model is what it is.
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

/// What a model shows from the end of the transaction on: `generation`, equal to the transaction's
/// snapshot of the collection, made of what was wanted.
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

/// Forgets a model.
pub async fn forget(client: &impl GenericClient, schema: &Schema, model_id: i32) -> Result<(), Error> {
    client.execute(&schema.sql("delete from {schema}.model where model_id = $1"), &[&model_id]).await?;
    Ok(())
}

fn json(definition: &Definition) -> String {
    serde_json::to_string(definition).expect("texts and lists of them are JSON")
}

fn model(row: &Row) -> Result<Model, Error> {
    let read = |text: String| {
        let unreadable = Error::Ledger("a model's record holds a definition that cannot be read");
        serde_json::from_str(&text).map_err(|_| unreadable)
    };
    Ok(Model {
        model_id: row.get("model_id"),
        lock_id: row.get("lock_id"),
        name: CollectionName { schema: row.get("schema_name"), table: row.get("model_name") },
        table_oid: row.get("table_oid"),
        collection: row
            .get::<_, Option<String>>("collection_schema")
            .map(|schema| CollectionName { schema, table: row.get("collection_table") }),
        definition: read(row.get("definition"))?,
        wanted: row.get::<_, Option<String>>("wanted").map(read).transpose()?,
        serving: row.get("serving"),
        shows: row.get("shows"),
        owner: row.get("owner"),
        is_own: row.get("is_own"),
        view_present: row.get("view_present"),
        way: row.get("way"),
        refreshed_at: row.get("refreshed_at"),
    })
}
