//! What a way to refresh a model is, and what it works with.

use crate::definition::Derivation;
use crate::error::Error;
use crate::invalid_values::InvalidValues;
use crate::record::ChangeRecord;
use crate::storage::Storage;
use futures_util::future::BoxFuture;
use millstream_pg::ConnInfo;
use millstream_store::models::Model;
use tokio_postgres::Client;

/// A way to bring a model up to date.
pub(crate) struct Way {
    pub(crate) name: &'static str,
    /// Whether it is for materialized views, and no other model.
    pub(crate) is_for_materialized: bool,
    /// Whether it builds a generation beside the one that is shown, and then shows that.
    pub(crate) swaps: bool,
    /// Whether it looks only at recorded changes, so that it does not do when everything may have changed.
    pub(crate) needs_records: bool,
    pub(crate) apply: for<'a> fn(&'a Refresh<'a>) -> Working<'a>,
}

pub(crate) type Working<'a> = BoxFuture<'a, Result<Applied, Error>>;

/// One model being refreshed, in the transaction of the coordinator.
pub(crate) struct Refresh<'a> {
    pub(crate) db: &'a ConnInfo,
    /// In a repeatable-read transaction, whose snapshot the model will show.
    pub(crate) coordinator: &'a Client,
    /// Its identifier, by which other sessions can use that snapshot.
    pub(crate) snapshot: &'a str,
    pub(crate) model: &'a Model,
    pub(crate) derivation: &'a Derivation,
    pub(crate) storage: &'a Storage<'a>,
    pub(crate) change_record: &'a ChangeRecord<'a>,
    /// Connections that build.
    pub(crate) workers: usize,
}

/// Blocks of a table, given its name as in SQL.
pub(crate) async fn blocks(client: &Client, table: &str) -> Result<u64, Error> {
    let sql = "select pg_catalog.pg_relation_size($1::text::pg_catalog.regclass) \
               / pg_catalog.current_setting('block_size')::bigint";
    let blocks: i64 = client.query_one(sql, &[&table]).await?.get(0);
    Ok(u64::try_from(blocks).unwrap_or(0))
}

/// What a way did.
pub(crate) struct Applied {
    /// The generation to show.
    pub(crate) generation: i16,
    /// Rows written and deleted.
    pub(crate) rows: u64,
    /// Values among them that are not valid for their column's type. A swap leaves this empty; they are looked for
    /// after it.
    pub(crate) invalid_values: Vec<InvalidValues>,
}
