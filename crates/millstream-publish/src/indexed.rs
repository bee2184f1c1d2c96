//! The table that a query of a model or a collection reads, and the clauses of its indexes.

use crate::error::Error;
use crate::materialized;
use crate::storage::{GENERATIONS, Storage};
use millstream_model::{CollectionName, shell_word};
use millstream_pg::quote_qualified;
use millstream_store::models::Model;
use millstream_store::{Schema, collections, models};
use tokio_postgres::Client;

/// The name for the index of a model's key, which has no clause.
pub const THE_KEY: &str = "the key";

/// The table behind a model, or a collection's own.
#[derive(Debug, Clone)]
pub struct IndexedTable {
    /// The model; `None` if the name is a collection's.
    pub model: Option<Model>,
    /// The table's schema.
    pub schema: String,
    /// The table's name.
    pub table: String,
    /// A column that queries of the model cannot name.
    pub hidden_column: Option<String>,
    /// Names of indexes, and the clauses that made them.
    clauses: Vec<(String, String)>,
}

impl IndexedTable {
    /// Finds the table that queries of a model or a collection read.
    ///
    /// # Errors
    /// [`Error::Refused`] when the name is neither's, [`Error::Model`] when the model is not built yet; the server's.
    pub async fn find(client: &Client, schema: &Schema, name: &CollectionName) -> Result<Self, Error> {
        let is_ours = schema.exists(client).await?;
        let model = if is_ours { models::find(client, schema, name).await? } else { None };
        match model {
            None => Self::of_collection(client, schema, name, is_ours).await,
            Some(model) if model.shows.is_none() => {
                Err(Error::model(name, "has not been built yet", format!("millstream refresh {}", shell_word(name))))
            }
            Some(model) => Self::of_model(client, schema, model).await,
        }
    }

    /// The clause of an index, or [`THE_KEY`]. For an index that was created by hand, its name.
    pub fn clause(&self, index: &str) -> String {
        let found = self.clauses.iter().find(|(name, _)| name == index);
        found.map_or(index, |(_, clause)| clause).to_owned()
    }

    async fn of_collection(
        client: &Client,
        schema: &Schema,
        name: &CollectionName,
        is_ours: bool,
    ) -> Result<Self, Error> {
        let found = if is_ours { collections::find(client, schema, name).await? } else { None };
        match found {
            Some(collection) if collection.present => Ok(Self {
                model: None,
                schema: name.schema.clone(),
                table: name.table.clone(),
                hidden_column: None,
                clauses: Vec::new(),
            }),
            _ => {
                let hint = "see `millstream models` and `millstream collections`";
                Err(Error::refused(format!("{name} is neither a model nor a collection"), hint))
            }
        }
    }

    async fn of_model(client: &Client, schema: &Schema, model: Model) -> Result<Self, Error> {
        let storage = Storage { schema, model_id: model.model_id, unlogged: false };
        let mut clauses = Vec::new();
        for generation in [materialized::GENERATION].into_iter().chain(GENERATIONS) {
            let indexes = model.definition.indexes.iter();
            clauses.extend(indexes.map(|clause| (storage.index_name(generation, clause), clause.clone())));
        }
        let (table_schema, table, hidden_column) = match model.definition.materialized {
            true => (model.name.schema.clone(), model.name.table.clone(), None),
            false => {
                let table = format!("model_{}_{}", model.model_id, model.serving);
                (schema.name().to_owned(), table, Some("millstream_generation".to_owned()))
            }
        };
        if let Some(key) = key_index(client, &quote_qualified(&table_schema, &table)).await? {
            clauses.insert(0, (key, THE_KEY.to_owned()));
        }
        Ok(Self { model: Some(model), schema: table_schema, table, hidden_column, clauses })
    }
}

/// The index of a model's key: the first that its table gets, and the only unique one that is not made by hand.
async fn key_index(client: &Client, table: &str) -> Result<Option<String>, Error> {
    let sql = "select c.relname::text from pg_catalog.pg_index i join pg_catalog.pg_class c on c.oid = i.indexrelid \
               where i.indrelid = $1::text::pg_catalog.regclass::pg_catalog.oid and i.indisunique order by i.indexrelid limit 1";
    Ok(client.query_opt(sql, &[&table]).await?.map(|row| row.get(0)))
}
