//! Measurements by the extensions `pgstattuple` and `pg_freespacemap`, if they are there and this role may use them.

use crate::limits::{ROWS_MAX, STATEMENT_TIME_MAX_MS};
use crate::refusal::or_refusal;
use crate::server::Database;
use millstream_pg::{Error, fill, quote_identifier};
use std::time::{Duration, Instant};
use tokio_postgres::Row;

/// Measures tables or indexes one after the other, for a limited time.
pub(crate) struct Meter<'a> {
    database: &'a Database,
    /// Measures the one with the number `$1`. `None` if this role cannot.
    sql: Option<String>,
    end: Instant,
    /// How many neither a measurement nor the statistics tell anything of.
    pub(crate) unknown: usize,
}

impl<'a> Meter<'a> {
    /// A meter with a function of `pgstattuple` that returns these columns. Without suspects, nothing is looked up.
    pub(crate) async fn of(
        database: &'a Database,
        function: &str,
        columns: &str,
        suspects: &[Row],
    ) -> Result<Self, Error> {
        let name = Self::name(database, function, "regclass", suspects).await?;
        let sql = name.map(|name| format!("select array[{columns}]::int8[] from {name}($1::oid::regclass)"));
        Ok(Self::new(database, sql))
    }

    /// A meter that adds up what the map of the free space has, with the columns of `pgstattuple_approx`.
    pub(crate) async fn of_map(database: &'a Database, suspects: &[Row]) -> Result<Self, Error> {
        let name = Self::name(database, "pg_freespace", "regclass, bigint", suspects).await?;
        let sql = name.map(|name| fill!(include_str!("free_space.sql"), function = name));
        Ok(Self::new(database, sql))
    }

    fn new(database: &'a Database, sql: Option<String>) -> Self {
        Self { database, sql, end: Instant::now() + database.measure_time, unknown: 0 }
    }

    /// The function as SQL needs it, if it is there and this role may use it.
    async fn name(
        database: &Database,
        function: &str,
        arguments: &str,
        suspects: &[Row],
    ) -> Result<Option<String>, Error> {
        if suspects.is_empty() {
            return Ok(None);
        }
        let sql = include_str!("pgstattuple.sql");
        let row = database.session.client.query_opt(sql, &[&function, &arguments]).await?;
        Ok(row.map(|row| format!("{}.{function}", quote_identifier(row.get("nspname")))))
    }

    /// The columns. `None` if it cannot be measured, takes too long or is locked: then an estimate must do.
    pub(crate) async fn measure(&self, oid: u32) -> Result<Option<Vec<u64>>, Error> {
        let left = self.end.saturating_duration_since(Instant::now());
        let Some(sql) = self.sql.as_ref().filter(|_| left >= Duration::from_millis(1)) else { return Ok(None) };
        let client = &self.database.session.client;
        let set = |milliseconds: u128| format!("set statement_timeout = {milliseconds}");
        client.batch_execute(&set(left.as_millis().min(STATEMENT_TIME_MAX_MS.into()))).await?;
        let measured = client.query_one(sql, &[&oid]).await;
        client.batch_execute(&set(STATEMENT_TIME_MAX_MS.into())).await?;
        let Ok(row) = or_refusal(measured)? else { return Ok(None) };
        let columns: Vec<Option<i64>> = row.get(0);
        Ok(columns.into_iter().map(|value| u64::try_from(value?).ok()).collect())
    }

    /// What is not known, and what would show it.
    pub(crate) fn unseen(&self, things: &str, suspects: usize) -> Option<String> {
        let rest = i64::try_from(suspects).is_ok_and(|suspects| suspects >= ROWS_MAX);
        match (self.unknown, &self.sql) {
            (0, _) if rest => Some(format!("all but the {ROWS_MAX} most suspicious {things}")),
            (0, _) => None,
            (unknown, Some(_)) => {
                Some(format!("{things}, because measuring them took too long and they were never analyzed: {unknown}"))
            }
            (unknown, None) => Some(format!(
                "{things}: {unknown}; grant select on them to this role and analyze them, or create the extension \
                 pgstattuple and grant pg_stat_scan_tables"
            )),
        }
    }
}
