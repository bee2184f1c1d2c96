//! The tables and the view of a read model.
//!
//! Rows are kept in two partitions, one for each generation. The view shows the one that the model's line
//! in our tables names, read in the reader's own snapshot: a refresh that builds the other and then
//! changes that line is seen whole or not at all, by every statement and for the life of every
//! repeatable-read transaction, without any lock; the view itself never changes.

use super::definition::{Derivation, index_clauses};
use crate::error::Error;
use crate::store::Schema;
use crate::store::models::Model;
use millstream_model::CollectionName;
use millstream_pg::{quote_identifier, quote_literal, quote_qualified};
use tokio_postgres::{Client, GenericClient};

/// Generations that take turns.
pub(super) const GENERATIONS: [i16; 2] = [1, 2];

/// Names of a model's tables.
#[derive(Debug, Clone)]
pub(super) struct Storage<'a> {
    pub(super) schema: &'a Schema,
    pub(super) model_id: i32,
    pub(super) unlogged: bool,
}

impl Storage<'_> {
    /// The generation that is built when `serving` is shown.
    pub(super) fn other(serving: i16) -> i16 {
        if serving == GENERATIONS[0] { GENERATIONS[1] } else { GENERATIONS[0] }
    }

    /// Both generations.
    pub(super) fn parts(&self) -> String {
        self.schema.sql(&format!("{{schema}}.model_{}", self.model_id))
    }

    /// The table of one generation.
    pub(super) fn part(&self, generation: i16) -> String {
        self.schema.sql(&format!("{{schema}}.model_{}_{generation}", self.model_id))
    }

    /// The function that casts a typed column before PostgreSQL 16.
    pub(super) fn caster(&self, column: usize) -> String {
        self.schema.sql(&format!("{{schema}}.model_{}_cast_{column}", self.model_id))
    }

    /// Makes the functions that casts need.
    pub(super) async fn make_casters(&self, client: &impl GenericClient, types: &[&str]) -> Result<(), Error> {
        for (n, type_name) in types.iter().enumerate() {
            let sql = include_str!("caster.sql").replace("{caster}", &self.caster(n)).replace("{type}", type_name);
            client.batch_execute(&sql).await?;
        }
        Ok(())
    }

    /// Makes the tables, empty, with their indexes: whatever is wrong with a definition shows here.
    /// Returns the clause that each index was made by.
    ///
    /// # Errors
    /// [`Error::Request`] names the index or says that the server refuses the definition.
    pub(super) async fn make(
        &self,
        client: &impl GenericClient,
        derivation: &Derivation,
        indexes: &[String],
    ) -> Result<Vec<String>, Error> {
        let persistence = if self.unlogged { "unlogged" } else { "" };
        let [first, second] = GENERATIONS.map(|generation| self.part(generation));
        let sql = include_str!("storage.sql")
            .replace("{persistence}", persistence)
            .replace("{first}", &first)
            .replace("{second}", &second)
            .replace("{parts}", &self.parts())
            .replace("{key}", &derivation.key())
            .replace("{rows}", &derivation.rows(""));
        client.batch_execute(&sql).await.map_err(|error| refused("the model", error))?;
        let mut clauses = Vec::with_capacity(indexes.len());
        for index in indexes {
            let known = index_clauses(index).into_iter().any(|clause| clauses.contains(&clause));
            if !known {
                clauses.push(self.try_index(client, GENERATIONS[0], index).await?);
            }
        }
        Ok(clauses)
    }

    /// Makes an index on a generation, as the first reading of its text that the server takes.
    pub(super) async fn try_index(
        &self,
        client: &impl GenericClient,
        generation: i16,
        index: &str,
    ) -> Result<String, Error> {
        let mut first_error = None;
        for clause in index_clauses(index) {
            client.batch_execute("savepoint index").await?;
            match client.batch_execute(&self.index(generation, &clause)).await {
                Ok(()) => {
                    client.batch_execute("release index").await?;
                    return Ok(clause);
                }
                Err(error) => {
                    client.batch_execute("rollback to index; release index").await?;
                    first_error = first_error.or(Some(error));
                }
            }
        }
        let error = first_error.expect("every index has a reading");
        Err(refused(&format!("index \"{index}\""), error))
    }

    /// The statement that makes an index on one generation.
    pub(super) fn index(&self, generation: i16, clause: &str) -> String {
        format!("create index {} on {} {clause}", self.index_name(generation, clause), self.part(generation))
    }

    /// Known by its clause, so that it can be found again.
    fn index_name(&self, generation: i16, clause: &str) -> String {
        let hash = xxhash_rust::xxh3::xxh3_64(clause.as_bytes());
        format!("model_{}_{generation}_{hash:016x}", self.model_id)
    }

    /// Drops the indexes of a generation that no clause names; no reader is in its way.
    pub(super) async fn drop_other_indexes(
        &self,
        client: &Client,
        generation: i16,
        clauses: &[String],
    ) -> Result<(), Error> {
        let named: Vec<String> = clauses.iter().map(|clause| self.index_name(generation, clause)).collect();
        let pattern = format!("^model_{}_{generation}_[0-9a-f]{{16}}$", self.model_id);
        let rows = client.query(include_str!("other_indexes.sql"), &[&self.part(generation), &pattern, &named]).await?;
        for row in &rows {
            let name: String = row.get(0);
            let sql = format!("drop index concurrently if exists {{schema}}.{}", quote_identifier(&name));
            client.batch_execute(&self.schema.sql(&sql)).await?;
        }
        Ok(())
    }

    /// The model's columns, quoted.
    pub(super) async fn columns(&self, client: &impl GenericClient) -> Result<Vec<String>, Error> {
        let sql = "select attname::text from pg_catalog.pg_attribute where attrelid = $1::text::pg_catalog.regclass \
                   and attnum > 1 and not attisdropped order by attnum";
        let rows = client.query(sql, &[&self.parts()]).await?;
        Ok(rows.iter().map(|row| quote_identifier(row.get(0))).collect())
    }

    /// Makes the model's view, which then stays.
    pub(super) async fn make_view(&self, client: &impl GenericClient, name: &CollectionName) -> Result<(), Error> {
        let columns = self.columns(client).await?;
        let view = quote_qualified(&name.schema, &name.table);
        let sql = include_str!("view.sql")
            .replace("{view_literal}", &quote_literal(&view))
            .replace("{view}", &view)
            .replace("{columns}", &columns.join(", "))
            .replace("{parts}", &self.parts())
            .replace("{model_id}", &self.model_id.to_string());
        let made = client.batch_execute(&self.schema.sql(&sql)).await;
        made.map_err(|error| match error.code().is_some_and(|code| code.code() == "42P07") {
            true => Error::Model {
                model: name.clone(),
                problem: "has no view any more, and something else has its name".into(),
                hint: "rename that, or remove the model: millstream unpublish".into(),
            },
            false => error.into(),
        })
    }

    /// Drops all of it, the view too.
    pub(super) async fn drop(&self, client: &impl GenericClient, model: &Model) -> Result<(), Error> {
        let view = quote_qualified(&model.name.schema, &model.name.table);
        let mut sql = String::new();
        if model.view_present {
            sql.push_str(&format!("drop view if exists {view}; "));
        }
        sql.push_str(&format!("drop table if exists {}; ", self.parts()));
        for n in 0..model.definition.columns.len() {
            sql.push_str(&format!("drop function if exists {}(text); ", self.caster(n)));
        }
        Ok(client.batch_execute(&sql).await?)
    }
}

/// A definition that the server does not take is a wrong request.
fn refused(what: &str, error: tokio_postgres::Error) -> Error {
    let Some(told) = error.as_db_error() else { return error.into() };
    let code = told.code().code();
    // Classes: syntax error or access rule, feature not supported, data exception, invalid name.
    if ["42", "0A", "22", "3F"].iter().any(|class| code.starts_with(class)) {
        return Error::Request {
            problem: format!("the server refuses {what}: {}", told.message()),
            hint: "key columns, --column names and doc can be used; see millstream publish --help".into(),
        };
    }
    error.into()
}
