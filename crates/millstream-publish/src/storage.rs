//! The tables and the view of a read model.
//!
//! Rows are kept in partitions, one for each generation. The model's row in our tables names the generation to show.
//! The view reads that row in the reader's own snapshot. A refresh builds another generation and then changes that row.
//! So readers see a refresh as a whole or not at all: in every statement, and for the life of a repeatable-read
//! transaction. A generation is built as a table of its own and attached when it is complete. So no reader's plan meets
//! one that is half filled or has no indexes.

use crate::column_type::{CLOCK_WORDS, ColumnType};
use crate::definition::{Derivation, index_clauses};
use crate::error::Error;
use crate::limits::PUBLISH_LOCK_WAIT;
use crate::lock::set_lock_timeout;
use crate::refusal::refused;
use millstream_model::CollectionName;
use millstream_pg::{fill, quote_identifier, quote_literal, quote_name};
use millstream_store::models::Model;
use millstream_store::{GivenSql, Resolved, Schema};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, GenericClient};

/// The generations that are shown in turn.
pub(crate) const GENERATIONS: [i16; 2] = [1, 2];

/// The generation for trying a definition; it is never shown.
pub(crate) const TRIAL: i16 = 0;

/// Names of a model's tables.
#[derive(Debug, Clone)]
pub(crate) struct Storage<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) model_id: i32,
    pub(crate) unlogged: bool,
}

impl Storage<'_> {
    /// The generation to build while `serving` is shown.
    pub(crate) fn other(serving: i16) -> i16 {
        if serving == GENERATIONS[0] { GENERATIONS[1] } else { GENERATIONS[0] }
    }

    /// The table that generations are attached to. Its owner owns the model.
    pub(crate) fn parts(&self) -> String {
        format!("{}.model_{}", self.schema, self.model_id)
    }

    /// The table of one generation.
    pub(crate) fn part(&self, generation: i16) -> String {
        self.table(&generation.to_string())
    }

    /// Another table or view of the model's own.
    pub(crate) fn table(&self, name: &str) -> String {
        format!("{}.model_{}_{name}", self.schema, self.model_id)
    }

    /// The function that casts to a type, if casts need one.
    pub(crate) fn caster(&self, type_name: &str) -> String {
        format!("{}.{}", self.schema, self.caster_name(type_name))
    }

    /// Its name, without the schema.
    pub(crate) fn caster_name(&self, type_name: &str) -> String {
        format!("model_{}_cast_{:016x}", self.model_id, xxhash_rust::xxh3::xxh3_64(type_name.as_bytes()))
    }

    /// Creates the functions that casts to these types need.
    pub(crate) async fn make_casters(
        &self,
        client: &impl GenericClient,
        types: &[ColumnType],
        version_num: i32,
    ) -> Result<(), Error> {
        for kind in types.iter().filter(|kind| kind.needs_caster(version_num)) {
            let (caster, type_name) = (self.caster(&kind.sql), &kind.sql);
            let row = client.query_one(include_str!("caster_type.sql"), &[type_name]).await?;
            let (has_clock, is_row): (bool, bool) = (row.get(0), row.get(1));
            // PL/pgSQL assigns no text to a row.
            let value = if is_row { format!("input::{type_name}") } else { "input".to_owned() };
            let body = fill!(include_str!("caster_body.sql"), type = type_name, has_clock, value, words = CLOCK_WORDS);
            let sql = fill!(include_str!("caster.sql"), caster, type = type_name, body = quote_literal(&body));
            client.batch_execute(&sql).await?;
            // Whoever made a function of this name before still owns it, and could change it later.
            let other = "select pg_catalog.pg_get_userbyid(proowner)::pg_catalog.text from pg_catalog.pg_proc \
                         where oid operator(pg_catalog.=) pg_catalog.to_regprocedure($1)::pg_catalog.oid \
                         and pg_catalog.pg_get_userbyid(proowner) operator(pg_catalog.<>) current_user";
            let caster = format!("{caster}(pg_catalog.text)");
            if let Some(owner) = client.query_opt(other, &[&caster]).await? {
                let problem = format!("the function {caster} belongs to role {}", owner.get::<_, &str>(0));
                return Err(Error::refused(problem, format!("drop function {caster}; then publish again")));
            }
        }
        Ok(())
    }

    /// A table with one of the model's names that does not belong to the model's owner.
    pub(crate) async fn foreign_table(&self, client: &impl GenericClient) -> Result<Option<String>, Error> {
        let pattern = format!("^model_{}_[0-9]+$", self.model_id);
        let row = client.query_opt(include_str!("foreign_table.sql"), &[&self.parts(), &pattern]).await?;
        Ok(row.map(|row| row.get(0)))
    }

    /// Keeps what a model's owner has published where only that owner can write.
    pub(crate) async fn remember(&self, client: &impl GenericClient, resolved: &Resolved) -> Result<(), Error> {
        let text = serde_json::to_string(resolved).expect("texts, numbers and lists of them are JSON");
        let sql = format!("comment on table {} is {}", self.parts(), quote_literal(&text));
        Ok(client.batch_execute(&sql).await?)
    }

    /// Creates indexes on an empty table. Returns the clause of each.
    ///
    /// # Errors
    /// [`Error::Refused`] names the index that the server refuses, or a role that the session does not trust: the server
    /// calls functions of an index as soon as it creates the index.
    pub(crate) async fn try_indexes(
        &self,
        client: &impl GenericClient,
        table: &str,
        generation: i16,
        indexes: &[String],
    ) -> Result<Vec<String>, Error> {
        let mut clauses = Vec::with_capacity(indexes.len());
        let oid = "select $1::text::pg_catalog.regclass::pg_catalog.oid";
        let oid = client.query_one(oid, &[&table]).await?.get(0);
        let texts: Vec<&str> = indexes.iter().map(String::as_str).collect();
        let given = GivenSql { of: "model", texts: &texts, reads: Some(oid) };
        self.schema.require_trusted_sql(client, &given).await?;
        for index in indexes {
            let known = index_clauses(index).into_iter().any(|clause| clauses.contains(&clause));
            if !known {
                clauses.push(self.try_index(client, table, generation, index).await?);
            }
        }
        Ok(clauses)
    }

    /// The statements that create the table of a generation, empty and detached.
    pub(crate) fn make_part(&self, generation: i16, derivation: &Derivation) -> String {
        fill!(
            include_str!("part.sql"),
            persistence = if self.unlogged { "unlogged" } else { "" },
            part = self.part(generation),
            generation,
            rows = derivation.rows(""),
        )
    }

    /// The statement that turns autovacuum on for a generation that was built.
    pub(crate) fn let_vacuum(&self, generation: i16) -> String {
        format!("alter table {} reset (autovacuum_enabled, toast.autovacuum_enabled)", self.part(generation))
    }

    /// The statement that attaches a generation that was built.
    pub(crate) fn attach(&self, generation: i16) -> String {
        format!("alter table {} attach partition {} for values in ({generation})", self.parts(), self.part(generation))
    }

    /// Creates an index on an empty table. Tries the ways to read its text until the server accepts one. Returns the
    /// clause.
    async fn try_index(
        &self,
        client: &impl GenericClient,
        table: &str,
        generation: i16,
        index: &str,
    ) -> Result<String, Error> {
        let mut first_error = None;
        for clause in index_clauses(index) {
            client.batch_execute("savepoint index").await?;
            // Not `batch_execute`: whatever the text holds, it must be one statement.
            match client.execute(&self.index(table, generation, (&clause, &clause)), &[]).await {
                Ok(_) => {
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

    /// The statement that creates an index on the table of a generation, from its text in the definition and the clause
    /// that makes it.
    pub(crate) fn index(&self, table: &str, generation: i16, (text, clause): (&str, &str)) -> String {
        format!("create index {} on {table} {clause}", self.index_name(generation, text))
    }

    /// The name of an index. It holds a hash of the clause, so that the index can be found again.
    pub(crate) fn index_name(&self, generation: i16, clause: &str) -> String {
        let hash = xxhash_rust::xxh3::xxh3_64(clause.as_bytes());
        format!("model_{}_{generation}_{hash:016x}", self.model_id)
    }

    /// Drops the indexes of a generation's table that no clause names, without blocking readers. Returns how many are
    /// left because others used one for longer than [`PUBLISH_LOCK_WAIT`].
    pub(crate) async fn drop_other_indexes(
        &self,
        client: &Client,
        table: &str,
        generation: i16,
        clauses: &[String],
    ) -> Result<usize, Error> {
        let named: Vec<String> = clauses.iter().map(|clause| self.index_name(generation, clause)).collect();
        let pattern = format!("^model_{}_{generation}_[0-9a-f]{{16}}$", self.model_id);
        let rows = client.query(include_str!("other_indexes.sql"), &[&table, &pattern, &named]).await?;
        let before = set_lock_timeout(client, &PUBLISH_LOCK_WAIT.as_millis().to_string()).await?;
        let dropped = async {
            for (n, row) in rows.iter().enumerate() {
                let sql = format!("drop index concurrently if exists {}", row.get::<_, String>(0));
                match client.batch_execute(&sql).await.map_err(Error::from) {
                    // Each of the others could take as long.
                    Err(Error::Postgres(busy)) if busy.sqlstate() == Some("55P03") => return Ok(rows.len() - n),
                    dropped => dropped?,
                }
            }
            Ok(0)
        }
        .await;
        set_lock_timeout(client, &before).await?;
        dropped
    }

    /// The model's columns, quoted.
    pub(crate) async fn columns(&self, client: &impl GenericClient) -> Result<Vec<String>, Error> {
        let sql = "select attname::text from pg_catalog.pg_attribute where attrelid = $1::text::pg_catalog.regclass::pg_catalog.oid \
                   and attnum > 1 and not attisdropped order by attnum";
        let rows = client.query(sql, &[&self.parts()]).await?;
        Ok(rows.iter().map(|row| quote_identifier(row.get(0))).collect())
    }

    /// Creates the model's view. Refreshes keep it.
    pub(crate) async fn make_view(&self, client: &impl GenericClient, name: &CollectionName) -> Result<(), Error> {
        let columns = self.columns(client).await?;
        let made = client.batch_execute(&format!("create {}", self.view(name, &columns, ""))).await;
        made.map_err(|error| {
            if error.code() != Some(&SqlState::DUPLICATE_TABLE) {
                return Error::from(error);
            }
            let hint = "rename that, or remove the model: millstream unpublish";
            Error::model(name, "has lost its view, and something else has its name", hint)
        })?;
        client.batch_execute(&self.remember_rule(name)).await?;
        self.remember_view(client, name).await
    }

    /// The statement that records the rule of the model's view, so that we notice when somebody replaces the view.
    pub(crate) fn remember_rule(&self, name: &CollectionName) -> String {
        let [parts, view] = [self.parts(), quote_name(name)].map(|name| quote_literal(&name));
        format!("do {}", quote_literal(&fill!(include_str!("view_rule.sql"), parts, view)))
    }

    /// The query of the model's view as the server prints it; `None` if there is no view.
    pub(crate) async fn view_text(
        &self,
        client: &impl GenericClient,
        name: &CollectionName,
    ) -> Result<Option<String>, Error> {
        let sql = "select pg_catalog.pg_get_viewdef(pg_catalog.to_regclass($1)::pg_catalog.oid)";
        Ok(client.query_one(sql, &[&quote_name(name)]).await?.get(0))
    }

    /// The statements that add columns, given quoted, at the end of the view. The first one locks the view. Grants,
    /// options and other views on it stay.
    pub(crate) async fn widen_view(
        &self,
        client: &impl GenericClient,
        name: &CollectionName,
        added: Vec<String>,
    ) -> Result<[String; 2], Error> {
        let view = quote_name(name);
        let sql = "select pg_catalog.pg_get_userbyid(relowner)::text, coalesce(pg_catalog.array_to_string(reloptions, ', '), '') \
                   from pg_catalog.pg_class where oid = $1::text::pg_catalog.regclass::pg_catalog.oid";
        let row = client.query_one(sql, &[&view]).await?;
        let (owner, options): (String, String) = (row.get(0), row.get(1));
        let columns: Vec<String> = self.columns(client).await?.into_iter().chain(added).collect();
        let options = if options.is_empty() { String::new() } else { format!("with ({options})") };
        // `lock table` on a view also locks what the view reads. This statement locks the view alone and changes
        // nothing.
        let lock = format!("alter view {view} owner to {}", quote_identifier(&owner));
        Ok([lock, format!("create or replace {}", self.view(name, &columns, &options))])
    }

    fn view(&self, name: &CollectionName, columns: &[String], options: &str) -> String {
        fill!(
            include_str!("view.sql"),
            view = quote_name(name),
            options,
            columns = columns.join(", "),
            parts = self.parts(),
            schema = self.schema,
            model_id = self.model_id,
        )
    }

    /// Records which view is the model's.
    pub(crate) async fn remember_view(&self, client: &impl GenericClient, name: &CollectionName) -> Result<(), Error> {
        let sql =
            "update {schema}.model set view_oid = $1::text::pg_catalog.regclass::pg_catalog.oid where model_id = $2";
        let view = quote_name(name);
        client.execute(&self.schema.sql(sql), &[&view, &self.model_id]).await?;
        Ok(())
    }

    /// Drops all of the model: its view, its tables and its cast functions.
    pub(crate) async fn drop(&self, client: &impl GenericClient, model: &Model) -> Result<(), Error> {
        let mut sql = String::new();
        if model.view_present {
            let kind = if model.definition.materialized { "materialized view" } else { "view" };
            sql.push_str(&format!("drop {kind} if exists {}; ", quote_name(&model.name)));
        }
        for generation in GENERATIONS {
            // By name, because a generation that was being built is not attached.
            sql.push_str(&format!("drop table if exists {}; ", self.part(generation)));
        }
        sql.push_str(&format!("drop table if exists {}", self.parts()));
        client.batch_execute(&sql).await?;
        let pattern = format!("^model_{}_cast_", self.model_id);
        let casters = client.query(include_str!("casters.sql"), &[&self.schema.name(), &pattern]).await?;
        for caster in &casters {
            client.batch_execute(&format!("drop function {}", caster.get::<_, String>(0))).await?;
        }
        Ok(())
    }
}

/// Requires that a model's rows are one complete query, whatever the texts of the definition hold. Then it stays one
/// query inside any other statement. Refuses column names that are reserved for us.
pub(crate) async fn check(client: &impl GenericClient, derivation: &Derivation) -> Result<(), Error> {
    let rows = client.prepare(&derivation.rows("")).await.map_err(|error| refused("the model", error))?;
    let own = rows.columns().iter().find(|column| column.name().starts_with("millstream_"));
    let Some(own) = own else { return Ok(()) };
    let problem = format!("a column of the model is called {}", own.name());
    Err(Error::refused(problem, "names that begin with millstream_ are our own; give it another one with `as`"))
}
