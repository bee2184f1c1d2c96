//! Measurements by the extension `pgstattuple`, if it is there and this role may use it.

use super::number::number;
use crate::server::Database;
use millstream_pg::{Error, quote_identifier};

/// What a user can do if nothing is known of a table or index.
pub(super) const WHAT_WOULD_SHOW_IT: &str = "grant select on them to this role and analyze them, or create the extension \
     pgstattuple and grant pg_stat_scan_tables";

/// What is measured: one number or two.
pub(super) struct Measured {
    pub(super) first: u64,
    pub(super) second: u64,
}

/// A statement that measures one table or index, `$1`, with a function of the extension, which returns these one or two
/// columns. `None` if this role cannot.
pub(super) async fn call(database: &Database, function: &str, columns: &str) -> Result<Option<String>, Error> {
    let schema = database.session.client.query_opt(include_str!("pgstattuple.sql"), &[&function]).await?;
    Ok(schema.map(|row| {
        let schema = quote_identifier(row.get("nspname"));
        let (first, second) = columns.split_once(", ").unwrap_or((columns, "0"));
        format!(
            "select ({first})::bigint as first, ({second})::bigint as second from {schema}.{function}($1::oid::regclass)"
        )
    }))
}

/// Measures one. `None` without a statement, or if it takes too long or is locked: then an estimate must do.
pub(super) async fn measure(database: &Database, sql: Option<&str>, oid: u32) -> Result<Option<Measured>, Error> {
    let Some(sql) = sql else { return Ok(None) };
    match database.session.client.query_one(sql, &[&oid]).await.map_err(Error::from) {
        Ok(row) => Ok(Some(Measured { first: number(&row, "first"), second: number(&row, "second") })),
        Err(Error::Server { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
