//! `materialized`: PostgreSQL's own materialized view, which derives everything and writes what differs.

use crate::asked::Asked;
use crate::definition::Derivation;
use crate::error::Error;
use crate::invalid_values::invalid_values;
use crate::query;
use crate::refresh_way::{Applied, Refresh, Way, Working};
use crate::refusal::refused;
use crate::storage::{Storage, check};
use futures_util::FutureExt;
use millstream_failpoint as failpoint;
use millstream_pg::quote_name;
use millstream_store::Resolved;
use tokio_postgres::GenericClient;

pub(crate) static WAY: Way =
    Way { name: "materialized", is_for_materialized: true, swaps: false, needs_records: false, apply };

/// The generation in the names of its indexes. It has no others.
pub(crate) const GENERATION: i16 = 0;

fn apply<'a>(refresh: &'a Refresh<'a>) -> Working<'a> {
    async move { again(refresh).await }.boxed()
}

/// Readers see the old rows until the transaction commits, and they are not blocked: an existing view is refreshed
/// concurrently. A new one has no readers, nor has one without rows, which a restore of definitions alone leaves.
async fn again(refresh: &Refresh<'_>) -> Result<Applied, Error> {
    let Refresh { coordinator, model, derivation, storage, .. } = refresh;
    let view = quote_name(&model.name);
    if !model.view_present {
        make(*coordinator, storage, derivation, &view).await?;
        if model.definition.query.is_some() {
            // Somebody may have given the name of the table to another one.
            let collection = (model.table_oid, model.collection.as_ref().unwrap_or(&model.name));
            let checked = query::require_collection_alone(*coordinator, storage.schema, &view, collection).await;
            checked.map_err(|error| query::of_model(&model.name, error))?;
        }
        for (text, clause) in derivation.indexes() {
            coordinator.execute(&storage.index(&view, GENERATION, (text, clause)), &[]).await?;
        }
    }
    let has_rows =
        "select relispopulated from pg_catalog.pg_class where oid = $1::text::pg_catalog.regclass::pg_catalog.oid";
    let has_rows: bool = coordinator.query_one(has_rows, &[&view]).await?.get(0);
    let beside = if has_rows { "concurrently " } else { "" };
    let filled = coordinator.batch_execute(&format!("refresh materialized view {beside}{view}")).await;
    filled.map_err(|error| query::not_filled(model, &derivation.key(), error))?;
    if !model.view_present {
        storage.remember_view(*coordinator, &model.name).await?;
    }
    let counted = if has_rows {
        "select pg_catalog.pg_stat_get_xact_tuples_inserted(oid) + pg_catalog.pg_stat_get_xact_tuples_deleted(oid) \
         from pg_catalog.pg_class where oid = $1::text::pg_catalog.regclass::pg_catalog.oid"
            .to_owned()
    } else {
        format!("select pg_catalog.count(*) from {view} where $1::text is not null")
    };
    coordinator.batch_execute(&format!("analyze {view}")).await?;
    failpoint::hit("changes-applied").await?;
    let rows = u64::try_from(coordinator.query_one(&counted, &[&view]).await?.get::<_, i64>(0)).unwrap_or(0);
    let invalid_values = invalid_values(*coordinator, derivation, &view, None).await?;
    Ok(Applied { generation: model.serving, rows, invalid_values })
}

/// Creates the materialized view without rows, under this quoted name, to see whether the server accepts the definition
/// and what it means.
///
/// # Errors
/// [`Error::Refused`] names the index or says that the server refuses the definition.
pub(crate) async fn try_definition(
    client: &impl GenericClient,
    storage: &Storage<'_>,
    asked: Asked<'_>,
    view: &str,
) -> Result<Resolved, Error> {
    if let Some(query) = &asked.definition.query {
        return Box::pin(query::try_definition(client, storage, &asked, query, (view, GENERATION))).await;
    }
    asked.require_trusted(client, storage).await?;
    check(client, &asked.derivation).await?;
    make(client, storage, &asked.derivation, view).await.map_err(|error| refused("the model", error))?;
    asked.warn_of_clock(client, storage).await?;
    let clauses = storage.try_indexes(client, view, GENERATION, &asked.definition.indexes).await?;
    asked.resolve(client, storage, (view, GENERATION), clauses).await
}

/// Creates it with a unique index, because a concurrent refresh finds rows by the key.
async fn make(
    client: &impl GenericClient,
    storage: &Storage<'_>,
    derivation: &Derivation,
    view: &str,
) -> Result<(), tokio_postgres::Error> {
    let (rows, key) = (derivation.rows(""), derivation.key());
    let index = match derivation.is_query() {
        true => query::unique_index(storage, (view, GENERATION), &key),
        false => format!("create unique index on {view} ({key})"),
    };
    client.batch_execute(&format!("create materialized view {view} as {rows} with no data; {index}")).await
}
