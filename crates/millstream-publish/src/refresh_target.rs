//! A model with its collection, as a refresh finds them, and the choice of its way.

use crate::asked::used_schemas;
use crate::definition::Derivation;
use crate::error::Error;
use crate::limits::INCREMENTAL_SHARE_MAX;
use crate::model::find;
use crate::origin::{change_record, is_unlogged};
use crate::record::{ChangeRecord, Pending};
use crate::refresh_way::Way;
use crate::republish::indexed;
use crate::row_wise::plan;
use crate::storage::Storage;
use crate::{incremental, materialized, query, swap};
use millstream_model::{CollectionName, shell_word};
use millstream_pg::quote_name;
use millstream_store::collections::Collection;
use millstream_store::models::Model;
use millstream_store::{GivenSql, Schema, collections, has_powers};
use tokio_postgres::Client;

/// Why a model is built anew whose view has another rule.
pub(crate) const VIEW_REPLACED: &str = "its view was replaced";

/// Every way to refresh.
pub(crate) static WAYS: &[&Way] = &[&incremental::WAY, &materialized::WAY, &swap::WAY];

/// A model with all that its refresh needs.
#[derive(Debug)]
pub(crate) struct RefreshTarget<'a> {
    pub(crate) model: Model,
    pub(crate) collection: Collection,
    pub(crate) schema: &'a Schema,
    pub(crate) unlogged: bool,
}

impl<'a> RefreshTarget<'a> {
    pub(crate) fn storage(&self) -> Storage<'a> {
        Storage { schema: self.schema, model_id: self.model.model_id, unlogged: self.unlogged }
    }

    pub(crate) fn change_record(&self) -> ChangeRecord<'_> {
        change_record(self.schema, &self.collection, self.unlogged)
    }

    /// How its rows are derived, as its owner published it.
    ///
    /// # Errors
    /// [`Error::Model`] when our tables have it otherwise.
    pub(crate) fn derivation(&self, storage: &Storage<'_>) -> Result<Derivation, Error> {
        let resolved = self.model.require_resolved()?;
        // What was published may have been so by an older server.
        let has = |name: &str| resolved.rows.iter().any(|part| part.contains(name));
        let caster = |type_name: &str| has(&storage.caster_name(type_name)).then(|| storage.caster(type_name));
        let key = (self.collection.key.as_slice(), self.collection.doc);
        Ok(Derivation::resolved(quote_name(&self.collection.name), key, &resolved, caster))
    }

    /// Requires that the session's role owns the model, and that the model is what this role published. After a rename
    /// or a restore, what was published gets the collection's new name or OID.
    ///
    /// # Errors
    /// [`Error::Model`] says what is otherwise.
    pub(crate) async fn require_own(&self, client: &Client) -> Result<(), Error> {
        self.model.require_own()?;
        let (storage, name) = (self.storage(), &self.model.name);
        if let Some(table) = storage.foreign_table(client).await? {
            let problem = format!("has a table of another role among its own: {table}");
            return Err(Error::model(name, problem, "a superuser can drop that table"));
        }
        if self.model.definition.is_recorded() {
            self.change_record().require_owner(client).await?;
        }
        let mut resolved = self.model.require_resolved()?;
        self.schema.require_trusted_calls(client, &resolved.schemas, &[]).await?;
        if (resolved.table_oid, &resolved.table) != (self.model.table_oid, &self.collection.name) {
            (resolved.table_oid, resolved.table) = (self.model.table_oid, self.collection.name.clone());
            storage.remember(client, &resolved).await?;
        }
        Ok(())
    }

    /// Requires that the session trusts everybody who may change what the rows mean now. A column may have got another type
    /// since the model was published, with casts of its owner, and a function or a type another owner. Call it in a
    /// transaction that holds the collection's lock, before the server reads the rows' SQL.
    ///
    /// # Errors
    /// [`Error::Refused`] or [`Error::Model`] names the role or what else is refused; the server's.
    async fn require_trusted_rows(&self, client: &Client) -> Result<(), Error> {
        let (storage, resolved) = (self.storage(), self.model.require_resolved()?);
        let (derivation, stand_in) = (self.derivation(&storage)?, storage.table("stand_in"));
        if derivation.is_query() && self.model.view_present {
            // The server runs what it has stored, whatever the tables are called now.
            self.schema.require_trusted_columns(client, "model", &[self.model.table_oid]).await?;
            return self.require_alone(client, &quote_name(&self.model.name)).await;
        }
        let view = storage.table("tried");
        let rows = derivation.rows_of(&stand_in);
        let kinds: Vec<String> = resolved.types.iter().map(|kind| format!("::{kind}")).collect();
        let mut texts = vec![rows.as_str()];
        texts.extend(resolved.indexes.iter().chain(&kinds).map(String::as_str));
        let given = GivenSql { of: "model", texts: &texts, reads: Some(self.model.table_oid) };
        self.schema.require_trusted_sql(client, &given).await?;
        client.batch_execute("savepoint trusted").await?;
        let table = quote_name(&self.collection.name);
        let make = format!("create table {stand_in} (like {table}); create view {view} as {rows}");
        client.batch_execute(&make).await?;
        if derivation.is_query() {
            self.require_alone(client, &view).await?;
        } else {
            used_schemas(client, self.schema, (&view, &[&stand_in]), (&view, &[]), &resolved.types).await?;
        }
        Ok(client.batch_execute("rollback to trusted; release trusted").await?)
    }

    /// Requires that the query of a view reads the collection and nothing else.
    async fn require_alone(&self, client: &Client, view: &str) -> Result<(), Error> {
        let collection = (self.model.table_oid, &self.collection.name);
        let alone = query::require_collection_alone(client, self.schema, view, collection).await;
        alone.map_err(|error| query::of_model(&self.model.name, error))
    }

    /// Bytes that its rows take when they are built anew, roughly.
    pub(crate) async fn size(&self, client: &Client) -> Result<u64, Error> {
        let sql = "select pg_catalog.pg_total_relation_size($1::text::pg_catalog.regclass)";
        let row = if self.model.shows.is_some() && self.model.view_present {
            client.query_one(sql, &[&indexed(&self.storage(), &self.model).0]).await?
        } else {
            let sql = "select pg_catalog.pg_table_size($1::pg_catalog.oid::pg_catalog.regclass)";
            client.query_one(sql, &[&self.model.table_oid]).await?
        };
        Ok(u64::try_from(row.get::<_, i64>(0)).unwrap_or(0))
    }

    /// The changes that the current snapshot sees and the model does not show.
    pub(crate) async fn pending(&self, client: &Client) -> Result<Pending, Error> {
        match self.model.definition.is_recorded() {
            true => self.change_record().pending(client, &self.model).await,
            false => Ok(Pending { keys: 0, everything: true, newest_age: None }),
        }
    }

    /// The way that was asked for by name, if any.
    ///
    /// # Errors
    /// [`Error::Refused`] when there is no such way, [`Error::Model`] when it does not fit this kind of model.
    pub(crate) fn asked(&self, name: Option<&str>) -> Result<Option<&'static Way>, Error> {
        let Some(asked) = name.map(way).transpose()? else { return Ok(None) };
        let materialized = self.model.definition.materialized;
        if materialized == asked.is_for_materialized {
            return Ok(Some(asked));
        }
        let kind = if materialized { "is a materialized view" } else { "is not a materialized view" };
        let problem = format!("{kind}: it cannot be refreshed by {}", asked.name);
        let hint = "leave --way out; the kind is chosen with `millstream publish --materialized`";
        Err(Error::model(&self.model.name, problem, hint))
    }

    /// Chooses a way, and says why: the way that was asked for if its rows would be right, else the cheapest. `anew`
    /// asks for a swap.
    pub(crate) async fn choose(
        &self,
        client: &Client,
        asked: Option<&str>,
        anew: bool,
    ) -> Result<(&'static Way, Pending, String), Error> {
        let (pending, model) = (self.pending(client).await?, &self.model);
        let asked = self.asked(asked)?;
        let rows = rows_estimate(client, model.table_oid).await?;
        let share = pending.keys as f64 / rows.max(1) as f64;
        let (way, reason) = match asked {
            _ if model.definition.materialized => (&materialized::WAY, "it is a materialized view".to_owned()),
            _ if model.shows.is_none() => (&swap::WAY, "it was never built".to_owned()),
            _ if model.wanted.is_some() => (&swap::WAY, "its definition has changed".to_owned()),
            _ if model.view_replaced => (&swap::WAY, VIEW_REPLACED.to_owned()),
            _ if pending.everything || anew => (&swap::WAY, self.change_record().why_everything(client).await?),
            Some(way) => (way, "it was asked for".to_owned()),
            None => {
                let way = if share <= INCREMENTAL_SHARE_MAX { &incremental::WAY } else { &swap::WAY };
                (way, format!("{} changes for about {rows} rows", pending.keys))
            }
        };
        Ok((way, pending, reason))
    }
}

/// The way of a name.
fn way(name: &str) -> Result<&'static Way, Error> {
    WAYS.iter().copied().find(|way| way.name == name).ok_or_else(|| {
        let problem = format!("there is no way {name} to refresh");
        Error::refused(problem, format!("one of {}", WAYS.iter().map(|way| way.name).collect::<Vec<_>>().join(", ")))
    })
}

/// The models of these names, each once, in the order in which every session locks them.
///
/// # Errors
/// [`Error::Model`] for a name that is not a model, or for a model whose collection is gone.
pub(crate) async fn targets<'a>(
    client: &Client,
    schema: &'a Schema,
    names: &[CollectionName],
) -> Result<Vec<RefreshTarget<'a>>, Error> {
    let mut targets = Vec::new();
    for name in names {
        let model = find(client, schema, name).await?;
        let all = collections::by_oid(client, schema, model.table_oid).await?;
        let collection = all.filter(|collection| collection.present).ok_or_else(|| {
            let hint = format!("remove it: millstream unpublish {}", shell_word(name));
            Error::model(name, "has lost its collection: the table is gone", hint)
        })?;
        let unlogged = is_unlogged(client, model.table_oid).await?;
        targets.push(RefreshTarget { model, collection, schema, unlogged });
    }
    targets.sort_by_key(|target| target.model.model_id);
    targets.dedup_by_key(|target| target.model.model_id);
    Ok(targets)
}

/// Requires that the collections have the columns that their models use.
///
/// # Errors
/// [`Error::Model`] names the first that was renamed or dropped.
pub(crate) async fn require_columns(client: &Client, targets: &[RefreshTarget<'_>]) -> Result<(), Error> {
    for RefreshTarget { model, collection, .. } in targets {
        let columns: Vec<&str> = collection.key.iter().map(|column| column.name.as_str()).chain(["doc"]).collect();
        if let Some(gone) = client.query_opt(include_str!("columns_gone.sql"), &[&model.table_oid, &columns]).await? {
            let (gone, name): (&str, _) = (gone.get(0), &collection.name);
            let problem = format!("needs the column {gone}, which {name} does not have any more");
            return Err(Error::model(&model.name, problem, "give the column its name back"));
        }
    }
    Ok(())
}

/// Locks the collections' tables until the transaction ends, so that nobody rewrites or empties them, and checks that
/// they still have their names. The lock takes no snapshot; the first query does. So a session that rewrites or empties
/// a table comes before the snapshot, or waits for our transaction.
pub(crate) async fn lock_collections(client: &Client, targets: &[RefreshTarget<'_>]) -> Result<(), Error> {
    let tables: Vec<String> = targets.iter().map(|target| quote_name(&target.collection.name)).collect();
    client.batch_execute(&format!("lock table {} in access share mode", tables.join(", "))).await?;
    let oid = "select $1::text::pg_catalog.regclass::pg_catalog.oid";
    for (target, table) in targets.iter().zip(&tables) {
        if client.query_one(oid, &[table]).await?.get::<_, u32>(0) != target.model.table_oid {
            let problem = "has a collection that was just renamed";
            return Err(Error::model(&target.model.name, problem, "refresh again"));
        }
    }
    Ok(())
}

/// Requires that a session with more rights than tables need trusts everybody who may change what the models' rows mean now.
/// Roles with fewer rights are not asked. It needs the transaction of [`lock_collections`].
///
/// # Errors
/// [`Error::Refused`] or [`Error::Model`] names the role; the server's.
pub(crate) async fn require_trusted_rows(client: &Client, targets: &[RefreshTarget<'_>]) -> Result<(), Error> {
    if !has_powers(client).await? {
        return Ok(());
    }
    for target in targets {
        target.require_trusted_rows(client).await?;
    }
    Ok(())
}

/// Rows of a table, as the planner estimates them: from its statistics and size, or from its size alone.
pub(crate) async fn rows_estimate(client: &Client, table_oid: u32) -> Result<u64, Error> {
    let sql = "select $1::pg_catalog.oid::pg_catalog.regclass::text";
    let table: String = client.query_one(sql, &[&table_oid]).await?.get(0);
    Ok(plan(client, &format!("select from {table}")).await?["Plan Rows"].as_u64().unwrap_or(0))
}
