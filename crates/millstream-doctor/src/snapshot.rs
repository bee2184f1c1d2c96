//! A snapshot of a server's counters, sizes and settings: two of them show what happened in between.

use crate::limits::{SNAPSHOT_STATEMENTS_MAX, SNAPSHOT_TABLES_MAX};
use crate::refusal::or_refusal;
use crate::statement::{schema, shown};
use millstream_pg::{Error, fill, quote_identifier};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tokio_postgres::Client;

/// What a server had counted at a time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The time by the server's clock, in seconds since 1970.
    pub at: f64,
    /// What tells the server's data from those of others (`pg_control_system`); empty if this role may not know it.
    #[serde(default)]
    pub system: String,
    /// The statements that have taken the most time.
    pub statements: Vec<StatementCount>,
    /// Sessions that were opened in each database.
    #[serde(default)]
    pub sessions: BTreeMap<String, u64>,
    /// The largest tables of the databases that were examined.
    pub tables: Vec<TableSize>,
    /// Settings that differ from their defaults, as new sessions have them. What may hold a secret is left out.
    pub settings: BTreeMap<String, String>,
}

/// How often a statement was called, and the time that it took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatementCount {
    /// Its database.
    pub database: String,
    /// Its number, `queryid`.
    pub id: i64,
    /// Its text without constants, shortened. Only the first word of a statement that neither reads nor writes rows. Empty if
    /// this role may not see it.
    pub text: String,
    /// Calls.
    pub calls: u64,
    /// Time of all calls.
    pub milliseconds: f64,
}

/// How large a table is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableSize {
    /// Its database.
    pub database: String,
    /// Its name, as SQL needs it.
    pub table: String,
    /// Its size without indexes, at the last vacuum or analyze.
    pub bytes: u64,
    /// Its rows, at the last vacuum or analyze.
    pub rows: u64,
}

impl Snapshot {
    /// Reads what the server has counted, and the tables of the session's database.
    ///
    /// # Errors
    /// The server's. Statements that are not counted, or that this role may not see, are none.
    pub(crate) async fn read(client: &Client) -> Result<Self, Error> {
        let sql = "select date_part('epoch', clock_timestamp())::float8, \
                   case when has_function_privilege('pg_control_system()', 'execute') then 1 else 0 end";
        let row = client.query_one(sql, &[]).await?;
        let system = match row.get::<_, i32>(1) {
            0 => String::new(),
            _ => client.query_one("select system_identifier::text from pg_control_system()", &[]).await?.get(0),
        };
        let settings = client.query(include_str!("snapshot_settings.sql"), &[]).await?;
        Ok(Self {
            at: row.get(0),
            system,
            statements: Self::statements(client, None).await?,
            sessions: Self::sessions(client).await?,
            tables: Self::tables(client).await?,
            settings: settings.iter().map(|row| (row.get("name"), row.get("value"))).collect(),
        })
    }

    /// The statements that have taken the most time, of all databases or of one.
    pub(crate) async fn statements(client: &Client, database: Option<&str>) -> Result<Vec<StatementCount>, Error> {
        let Ok(schema) = schema(client).await? else { return Ok(Vec::new()) };
        let sql = fill!(include_str!("snapshot_statements.sql"), schema = quote_identifier(&schema));
        let rows = or_refusal(client.query(&sql, &[&database, &SNAPSHOT_STATEMENTS_MAX]).await)?;
        let statement = |row: &tokio_postgres::Row| StatementCount {
            database: row.get("database"),
            id: row.get("queryid"),
            text: shown(row.get("query")),
            calls: u64::try_from(row.get::<_, i64>("calls")).unwrap_or(0),
            milliseconds: row.get("milliseconds"),
        };
        // The check that needs them says why they are not seen.
        Ok(rows.unwrap_or_default().iter().map(statement).collect())
    }

    /// Sessions that were opened in each database.
    pub(crate) async fn sessions(client: &Client) -> Result<BTreeMap<String, u64>, Error> {
        let sql =
            "select datname::text, sessions from pg_stat_database where datname is not null order by 1 limit 1000";
        let rows = client.query(sql, &[]).await?;
        Ok(rows.iter().map(|row| (row.get(0), u64::try_from(row.get::<_, i64>(1)).unwrap_or(0))).collect())
    }

    /// The largest tables of the session's database.
    pub(crate) async fn tables(client: &Client) -> Result<Vec<TableSize>, Error> {
        let rows = client.query(include_str!("snapshot_tables.sql"), &[&SNAPSHOT_TABLES_MAX]).await?;
        let number = |row: &tokio_postgres::Row, name: &str| u64::try_from(row.get::<_, i64>(name)).unwrap_or(0);
        let size = |row: &tokio_postgres::Row| TableSize {
            database: row.get("database"),
            table: row.get("name"),
            bytes: number(row, "bytes"),
            rows: number(row, "rows"),
        };
        Ok(rows.iter().map(size).collect())
    }

    /// Whether two snapshots are of the same server, as far as that is known.
    pub fn is_of_same_server(&self, other: &Self) -> bool {
        self.system.is_empty() || other.system.is_empty() || self.system == other.system
    }

    /// The time that a statement had taken. If it was not among those that took most, it is at most theirs.
    pub(crate) fn milliseconds_of(&self, database: &str, id: i64) -> f64 {
        let is_full = i64::try_from(self.statements.len()).is_ok_and(|count| count >= SNAPSHOT_STATEMENTS_MAX);
        let least = self.statements.last().filter(|_| is_full).map_or(0.0, |one| one.milliseconds);
        self.statement(database, id).map_or(least, |one| one.milliseconds)
    }

    /// What a statement had counted.
    pub(crate) fn statement(&self, database: &str, id: i64) -> Option<&StatementCount> {
        self.statements.iter().find(|one| one.id == id && one.database == database)
    }
}
