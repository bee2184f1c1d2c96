//! The statements that the server has counted (`pg_stat_statements`).

use crate::limits::{STATEMENT_BYTES_MAX, STATEMENT_SHOWN_MAX, STATEMENTS_MAX};
use crate::server::Database;
use millstream_model::Finding;
use millstream_model::quantity;
use millstream_pg::{Error, quote_identifier};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// A statement that the server has counted, with a parameter in the place of each constant.
pub(super) struct Counted {
    /// Its number, `queryid`.
    pub(super) id: i64,
    pub(super) sql: String,
    pub(super) calls: u64,
    pub(super) milliseconds: f64,
    /// Share of the time of all statements in this database, in percent.
    pub(super) percent: f64,
}

impl Counted {
    /// Its text as a report shows it: on one line, and not too long.
    pub(super) fn shown(&self) -> String {
        let line = self.sql.split_whitespace().collect::<Vec<_>>().join(" ");
        match line.char_indices().nth(STATEMENT_SHOWN_MAX) {
            Some((end, _)) => format!("{} ..", &line[..end]),
            None => line,
        }
    }

    /// The finding with the statement as evidence.
    pub(super) fn add_to(&self, finding: Finding) -> Finding {
        let source = "pg_stat_statements";
        let mean = self.milliseconds / (self.calls.max(1) as f64);
        finding.with("statement", self.shown(), source).with("its calls", quantity::count(self.calls), source).with(
            "its mean time",
            format!("{mean:.1} ms"),
            source,
        )
    }
}

/// Statements of a database, and what is not known of them.
#[derive(Default)]
pub(super) struct Statements {
    /// Those that took the most time come first.
    pub(super) list: Vec<Counted>,
    pub(super) unseen: Option<String>,
}

/// Which statements are wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    All,
    /// Those that only read.
    Queries,
}

/// The statements that took the most time in this database.
pub(super) async fn statements(database: &Database, wanted: Wanted) -> Result<Statements, Error> {
    let client = &database.session.client;
    let sql = "select n.nspname from pg_extension as e join pg_namespace as n on n.oid = e.extnamespace \
               where e.extname = 'pg_stat_statements' and has_schema_privilege(n.oid, 'usage')";
    let Some(row) = client.query_opt(sql, &[]).await? else {
        let why = "which statements take the time; load pg_stat_statements, and create the extension in this database";
        return Ok(Statements { list: Vec::new(), unseen: Some(why.to_owned()) });
    };
    let sql = include_str!("statement.sql").replace("{schema}", &quote_identifier(row.get(0)));
    let parameters: [&(dyn ToSql + Sync); 3] = [&(wanted == Wanted::Queries), &STATEMENT_BYTES_MAX, &STATEMENTS_MAX];
    match client.query(&sql, &parameters).await.map_err(Error::from) {
        Ok(rows) => {
            let (hidden, shown): (Vec<_>, Vec<_>) = rows.iter().map(counted).partition(|one| one.sql == HIDDEN);
            let unseen = "statements of other roles; grant pg_monitor to this role to see them";
            Ok(Statements { list: shown, unseen: (!hidden.is_empty()).then(|| unseen.to_owned()) })
        }
        // The server has not loaded the library, or the extension is older than the server.
        Err(Error::Server { message, .. }) => {
            Ok(Statements { list: Vec::new(), unseen: Some(format!("which statements take the time: {message}")) })
        }
        Err(error) => Err(error),
    }
}

/// What stands in the place of a statement that the role may not see.
const HIDDEN: &str = "<insufficient privilege>";

fn counted(row: &Row) -> Counted {
    Counted {
        id: row.get::<_, Option<i64>>("queryid").unwrap_or(0),
        sql: row.get("query"),
        calls: u64::try_from(row.get::<_, i64>("calls")).unwrap_or(0),
        milliseconds: row.get("total_exec_time"),
        percent: row.get::<_, Option<f64>>("percent").unwrap_or(0.0),
    }
}
