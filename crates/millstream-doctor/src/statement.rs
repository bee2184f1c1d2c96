//! The statements that the server has counted (`pg_stat_statements`).

use crate::limits::{STATEMENT_BYTES_MAX, STATEMENT_SHOWN_MAX, STATEMENTS_MAX};
use crate::refusal::or_refusal;
use millstream_model::Finding;
use millstream_model::quantity;
use millstream_pg::{Error, fill, quote_identifier};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use tokio_postgres::{Client, Row};

/// A statement that the server has counted, with a parameter in the place of each constant.
#[derive(Debug)]
pub(crate) struct Counted {
    /// Its number, `queryid`.
    pub(crate) id: i64,
    pub(crate) sql: String,
    /// It begins as a statement that only reads.
    is_query: bool,
    /// The server makes a plan for it, as for no `vacuum` and no `commit`.
    pub(crate) is_planned: bool,
    pub(crate) calls: u64,
    /// Rows that all calls returned.
    pub(crate) rows: u64,
    /// Blocks of tables and indexes that all calls looked at, in memory or on the disk.
    pub(crate) blocks: u64,
    /// Of these, blocks that were not in shared buffers.
    pub(crate) reads: u64,
    pub(crate) milliseconds: f64,
    /// Share of the time of all statements in this database, in percent.
    pub(crate) percent: f64,
    /// The same since an earlier look, and the seconds since then.
    recent: Option<(f64, f64)>,
    /// Since when the server counts statements.
    since: Since,
    /// Tables that want an index for it, as findings say.
    named: Mutex<BTreeSet<String>>,
}

/// Since when the server counts statements.
#[derive(Debug, Clone, Copy, Default)]
struct Since {
    /// Seconds since the counters were reset. `None` if the extension is older than 1.9.
    seconds: Option<f64>,
    /// How often the server has dropped the statements that are used least, to make room for others.
    drops: u64,
}

impl Counted {
    /// Its text as a report shows it: on one line, and not too long. Of a statement that is not planned only the first word:
    /// the server keeps its constants, a password for instance.
    pub(crate) fn shown(&self) -> String {
        if !self.is_planned {
            let word: String = self.sql.trim_start().chars().take_while(|c| c.is_alphabetic()).collect();
            return format!("{word} ..");
        }
        shown(&self.sql)
    }

    /// Its words in lower case.
    pub(crate) fn words(&self) -> Vec<String> {
        let is_mark = |c: char| !c.is_alphanumeric() && c != '_';
        self.sql.split(is_mark).filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
    }

    /// Share of the time of all statements that it takes now, in percent: since an earlier look, or else since the counters
    /// began.
    pub(crate) fn percent_now(&self) -> f64 {
        self.recent.map_or(self.percent, |(percent, _)| percent)
    }

    /// Notes that a finding names it, because a table wants an index.
    pub(crate) fn name_for(&self, table: &str) {
        self.named.lock().unwrap_or_else(PoisonError::into_inner).insert(table.to_owned());
    }

    /// Whether a finding has named it for want of an index of this table. Several checks may know a way to make it faster,
    /// and one is enough.
    pub(crate) fn is_named_for(&self, table: &str) -> bool {
        self.named.lock().unwrap_or_else(PoisonError::into_inner).contains(table)
    }

    /// Whether a finding has named it for want of an index of any table.
    pub(crate) fn is_named(&self) -> bool {
        !self.named.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Blocks that it looked at for each row that it returned. A call that returned none counts as one row.
    pub(crate) fn blocks_per_row(&self) -> f64 {
        self.blocks as f64 / (self.rows.max(self.calls).max(1) as f64)
    }

    /// The finding with the statement as evidence, and the time for which the server has counted it.
    pub(crate) fn add_to(&self, finding: Finding) -> Finding {
        let source = "pg_stat_statements";
        let mean = self.milliseconds / (self.calls.max(1) as f64);
        let drops = (self.since.drops > 0).then(|| quantity::count(self.since.drops));
        let (percent, seconds) = self.recent.unzip();
        let share = format!("its share of the time in the last {}", quantity::age(seconds.unwrap_or(0.0)));
        finding
            .with("statement", self.shown(), source)
            .with("its calls", quantity::count(self.calls), source)
            .with("its mean time", format!("{mean:.1} ms"), source)
            .with_known("how often rare statements were dropped", drops, "pg_stat_statements_info.dealloc")
            .with_known(&share, percent.map(|percent| format!("{percent:.0} %")), source)
            .counted(self.since.seconds)
            .costs(self.percent_now())
    }

    /// The same, with what each call returned and looked at.
    pub(crate) fn add_reads_to(&self, finding: Finding) -> Finding {
        let source = "pg_stat_statements";
        let calls = self.calls.max(1);
        self.add_to(finding)
            .with("rows that a call returns", format!("{:.1}", self.rows as f64 / (calls as f64)), source)
            .with("blocks that a call looks at", quantity::count(self.blocks / calls), source)
    }
}

/// Statements of a database, and what is not known of them.
#[derive(Debug, Default)]
pub(crate) struct Statements {
    /// Those that took the most time come first.
    pub(crate) list: Vec<Counted>,
    pub(crate) unseen: Option<String>,
    /// Seconds since the server began to count them, if that is known.
    pub(crate) counted_seconds: Option<f64>,
}

impl Statements {
    /// Reads the statements that took the most time in the database of the session.
    ///
    /// # Errors
    /// The server's, but for a library that is not loaded.
    pub(crate) async fn read(client: &Client) -> Result<Self, Error> {
        let schema = match schema(client).await? {
            Ok(schema) => schema,
            Err(way) => {
                let unseen = Some(format!("which statements take the time; {way}"));
                return Ok(Self { unseen, ..Self::default() });
            }
        };
        let sql = fill!(include_str!("statement.sql"), schema = quote_identifier(&schema));
        match client.query(&sql, &[&STATEMENT_BYTES_MAX, &STATEMENTS_MAX]).await.map_err(Error::from) {
            Ok(rows) => {
                let since = Since::read(client, &schema).await?;
                let all = rows.iter().map(|row| counted(row, since));
                let (hidden, list): (Vec<_>, Vec<_>) = all.partition(|one| one.sql == HIDDEN);
                let unseen = "statements of other roles; grant pg_monitor to this role to see them";
                let unseen = (!hidden.is_empty()).then(|| unseen.to_owned());
                Ok(Self { list, unseen, counted_seconds: since.seconds })
            }
            // The server has not loaded the library, or the extension is older than the server.
            Err(Error::Server { message, sqlstate, .. }) => {
                let is_old = sqlstate == NO_COLUMN;
                let hint = if is_old { "; run: alter extension pg_stat_statements update" } else { "" };
                let unseen = Some(format!("which statements take the time: {message}{hint}"));
                Ok(Self { unseen, ..Self::default() })
            }
            Err(error) => Err(error),
        }
    }

    /// Says which shares of the time they take since an earlier look, so many seconds ago.
    pub(crate) fn now_take(&mut self, percent_of: impl Fn(i64) -> f64, seconds: f64) {
        for one in &mut self.list {
            one.recent = Some((percent_of(one.id), seconds));
        }
    }

    /// Those for which the server makes plans.
    pub(crate) fn planned(&self) -> Vec<&Counted> {
        self.list.iter().filter(|one| one.is_planned).collect()
    }

    /// Those that only read.
    pub(crate) fn queries(&self) -> Vec<&Counted> {
        self.list.iter().filter(|one| one.is_query).collect()
    }
}

impl Since {
    /// Reads it in the database of the session.
    ///
    /// # Errors
    /// The server's.
    async fn read(client: &Client, schema: &str) -> Result<Self, Error> {
        let view = format!("{}.pg_stat_statements_info", quote_identifier(schema));
        let is_there = "select to_regclass($1) is not null";
        if !client.query_one(is_there, &[&view]).await?.get::<_, bool>(0) {
            return Ok(Self::default());
        }
        // Statements with `extract` could not be planned again.
        let sql = format!("select date_part('epoch', now() - stats_reset)::float8, dealloc from {view}");
        let row = client.query_one(&sql, &[]).await?;
        Ok(Self { seconds: row.get(0), drops: u64::try_from(row.get::<_, i64>(1)).unwrap_or(0) })
    }
}

/// The schema of `pg_stat_statements`. The inner `Err` says what is to be done if the extension is not in the session's
/// database, or if this role may not use its schema.
///
/// # Errors
/// The server's.
pub(crate) async fn schema(client: &Client) -> Result<Result<String, String>, Error> {
    let sql = "select n.nspname, has_schema_privilege(n.oid, 'usage') \
               from pg_extension as e join pg_namespace as n on n.oid = e.extnamespace \
               where e.extname = 'pg_stat_statements'";
    let Some(row) = client.query_opt(sql, &[]).await? else {
        return Ok(Err("load pg_stat_statements, and create the extension in this database".to_owned()));
    };
    let (schema, may_use): (String, bool) = (row.get(0), row.get(1));
    let grant =
        || format!("grant usage on schema {} to this role, where pg_stat_statements is", quote_identifier(&schema));
    Ok(if may_use { Ok(schema) } else { Err(grant()) })
}

/// The texts of statements without their constants, by their numbers, as far as the server has counted them and the role may
/// see them.
///
/// # Errors
/// The server's, but for a library that is not loaded.
pub(crate) async fn without_constants(client: &Client, ids: &[i64]) -> Result<BTreeMap<i64, String>, Error> {
    let Ok(schema) = schema(client).await? else { return Ok(BTreeMap::new()) };
    let sql = format!(
        "select queryid, min(query) from {}.pg_stat_statements where queryid = any($1) and query <> $2 group by queryid",
        quote_identifier(&schema)
    );
    let rows = or_refusal(client.query(&sql, &[&ids, &HIDDEN]).await)?;
    Ok(rows.unwrap_or_default().iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// A statement as a report shows it: on one line, and not too long.
pub(crate) fn shown(sql: &str) -> String {
    let line = sql.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(STATEMENT_SHOWN_MAX) {
        Some((end, _)) => format!("{} ..", &line[..end]),
        None => line,
    }
}

/// SQLSTATE of a column that is not found.
const NO_COLUMN: &str = "42703";

/// What stands in the place of a statement that the role may not see.
const HIDDEN: &str = "<insufficient privilege>";

fn counted(row: &Row, since: Since) -> Counted {
    let number = |column: &str| u64::try_from(row.get::<_, i64>(column)).unwrap_or(0);
    Counted {
        id: row.get::<_, Option<i64>>("queryid").unwrap_or(0),
        sql: row.get("query"),
        is_query: row.get("is_query"),
        is_planned: row.get("is_planned"),
        calls: number("calls"),
        rows: number("rows"),
        blocks: number("blocks"),
        reads: number("reads"),
        milliseconds: row.get("total_exec_time"),
        percent: row.get::<_, Option<f64>>("percent").unwrap_or(0.0),
        recent: None,
        since,
        named: Mutex::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_model::{Class, Level};

    #[test]
    fn a_statement_has_words_and_blocks_for_each_row() {
        let sql = "select * from Public.Modem m where a=$1".to_owned();
        let since = Since { seconds: Some(60.0), drops: 0 };
        let mut one = Counted {
            id: 1,
            sql,
            is_query: true,
            is_planned: true,
            calls: 10,
            rows: 40,
            blocks: 400,
            reads: 0,
            milliseconds: 1.0,
            percent: 1.0,
            recent: None,
            since,
            named: Mutex::default(),
        };
        assert_eq!(one.words(), ["select", "from", "public", "modem", "m", "where", "a", "1"]);
        assert!((one.blocks_per_row() - 10.0).abs() < 1e-9);
        one.rows = 0;
        assert!((one.blocks_per_row() - 40.0).abs() < 1e-9);

        let found = |one: &Counted| one.add_to(Finding::new("a", Class::Fact, Level::Info, "", "b"));
        assert_eq!((found(&one).counted_seconds, found(&one).evidence.len()), (Some(60.0), 3));
        one.since = Since { seconds: None, drops: 5 };
        let dropped = found(&one);
        assert_eq!(dropped.counted_seconds, None);
        assert_eq!(dropped.evidence[3].value, "5");
    }
}
