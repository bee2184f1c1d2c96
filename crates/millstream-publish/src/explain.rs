//! Whether a query goes through an index of a model or of a collection.

use super::storage::{GENERATIONS, Storage};
use crate::error::Error;
use crate::store::models::Model;
use crate::store::{Schema, collections, models};
use millstream_model::CollectionName;
use millstream_pg::index::{Explanation, Subject};
use millstream_pg::quote_qualified;
use tokio_postgres::Client;

/// How the index of a model's key is called, which no clause made.
pub const THE_KEY: &str = "the key";

/// What is told about a query.
#[derive(Debug, Clone)]
pub struct ExplainedIndexes {
    /// The model; `None` where the name is a collection's.
    pub model: Option<Model>,
    /// The indexes of a model are called by the clauses that made them, the one of its key [`THE_KEY`].
    pub explanation: Explanation,
}

/// Explains which indexes of a model, or of a collection, a query uses and how it misses the others. The query
/// is planned, never executed.
///
/// # Errors
/// [`Error::Request`] when the name is neither's; what [`millstream_pg::index::explain`] refuses.
pub async fn explain_index(
    client: &mut Client,
    schema: &Schema,
    name: &CollectionName,
    query: &str,
) -> Result<ExplainedIndexes, Error> {
    let is_ours = schema.exists(client).await?;
    let model = if is_ours { models::find(client, schema, name).await? } else { None };
    let Some(model) = model else {
        let found = if is_ours { collections::find(client, schema, name).await? } else { None };
        if !found.is_some_and(|collection| collection.present) {
            return Err(neither(name));
        }
        let subject = Subject { schema: name.schema.clone(), table: name.table.clone(), hidden_column: None };
        let explanation = millstream_pg::index::explain(client, &subject, query).await?;
        return Ok(ExplainedIndexes { model: None, explanation });
    };
    if model.shows.is_none() {
        return Err(Error::Model {
            model: name.clone(),
            problem: "has not been built yet".into(),
            hint: format!("millstream refresh {name}"),
        });
    }
    let subject = subject(&model, schema);
    let mut explanation = millstream_pg::index::explain(client, &subject, query).await?;
    let key = key_index(client, &subject).await?;
    for reading in &mut explanation.readings {
        let near = reading.missed.iter_mut().flat_map(|missed| &mut missed.near).map(|near| &mut near.index);
        for index in reading.indexes.iter_mut().chain(near) {
            *index = if Some(&*index) == key.as_ref() { THE_KEY.to_owned() } else { clause(&model, schema, index) };
        }
    }
    Ok(ExplainedIndexes { model: Some(model), explanation })
}

/// The table that is read when the model is.
fn subject(model: &Model, schema: &Schema) -> Subject {
    if model.definition.materialized {
        return Subject { schema: model.name.schema.clone(), table: model.name.table.clone(), hidden_column: None };
    }
    Subject {
        schema: schema.name().to_owned(),
        table: format!("model_{}_{}", model.model_id, model.serving),
        hidden_column: Some("millstream_generation".into()),
    }
}

/// The index of a model's key: the first that its table gets, and the only unique one that is not made by hand.
async fn key_index(client: &Client, subject: &Subject) -> Result<Option<String>, Error> {
    let sql = "select c.relname::text from pg_catalog.pg_index i join pg_catalog.pg_class c on c.oid = i.indexrelid \
               where i.indrelid = $1::text::pg_catalog.regclass and i.indisunique order by i.indexrelid limit 1";
    let table = quote_qualified(&subject.schema, &subject.table);
    Ok(client.query_opt(sql, &[&table]).await?.map(|row| row.get(0)))
}

/// The clause that made an index; the name of one that was made by hand.
fn clause(model: &Model, schema: &Schema, index: &str) -> String {
    let storage = Storage { schema, model_id: model.model_id, unlogged: false };
    let generations = [super::materialized::GENERATION].into_iter().chain(GENERATIONS);
    let mut made =
        generations.flat_map(|generation| model.definition.indexes.iter().map(move |clause| (generation, clause)));
    let found = made.find(|(generation, clause)| storage.index_name(*generation, clause) == index);
    found.map_or_else(|| index.to_owned(), |(_, clause)| clause.clone())
}

fn neither(name: &CollectionName) -> Error {
    Error::Request {
        problem: format!("{name} is neither a model nor a collection"),
        hint: "see `millstream models` and `millstream collections`".into(),
    }
}
