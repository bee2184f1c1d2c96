//! Check `missed-index`: indexes that queries nearly match.

use super::number::count;
use crate::check::{Check, Look, Seen, Task, Threshold};
use crate::index::{ExaminedTable, Explanation, Mismatch, Missed, explain, is_uncertain, tables, with_patterns};
use crate::limits::{PROOF_TIME_MAX, PROVEN_STATEMENTS_MAX, ROWS_MAX, STATEMENT_SHOWN_MAX};
use crate::server::{Database, Server};
use millstream_model::quantity;
use millstream_model::{Class, Finding, Level, Repair, Restart};
use millstream_pg::{ConnInfo, Error, quote_identifier};
use std::collections::BTreeMap;
use std::time::Instant;
use tokio_postgres::Row;

pub(super) const CHECK: Check = Check {
    id: "missed-index",
    about: "indexes that queries nearly match and do not use, such as one on lower(mac) for mac = 'a1'",
    class: Class::Hypothesis,
    thresholds: &[Threshold { name: "rows", default: 10_000.0 }, Threshold { name: "reads", default: 10.0 }],
    manual: include_str!("missed_index.md"),
    looks: &[Look::Database(|server, database, task| Box::pin(look(server, database, task)))],
};

async fn look(server: &Server, database: &Database, task: Task) -> Result<Seen, Error> {
    let statements = statements(database).await?;
    match &server.planner {
        Some(planner) => Box::pin(proven(planner, database, &task, statements)).await,
        None => suspected(database, &task, &statements.unwrap_or_default()).await,
    }
}

/// A statement that the server has counted.
struct Counted {
    sql: String,
    calls: u64,
    milliseconds: f64,
}

impl Counted {
    /// Its text as a report shows it: on one line, and not too long.
    fn shown(&self) -> String {
        let line = self.sql.split_whitespace().collect::<Vec<_>>().join(" ");
        match line.char_indices().nth(STATEMENT_SHOWN_MAX) {
            Some((end, _)) => format!("{} ..", &line[..end]),
            None => line,
        }
    }

    fn changes_rows(&self) -> bool {
        let first = self.sql.split_whitespace().next().unwrap_or_default().to_lowercase();
        matches!(first.as_str(), "update" | "delete")
    }

    fn add_to(&self, finding: Finding) -> Finding {
        let source = "pg_stat_statements";
        finding.with("statement", self.shown(), source).with("its calls", quantity::count(self.calls), source).with(
            "its mean time",
            format!("{:.1} ms", self.milliseconds / (self.calls.max(1) as f64)),
            source,
        )
    }
}

/// The statements that took the most time in this database. `None` if the server does not count them here.
async fn statements(database: &Database) -> Result<Option<Vec<Counted>>, Error> {
    let client = &database.session.client;
    let sql = "select n.nspname from pg_extension as e join pg_namespace as n on n.oid = e.extnamespace \
               where e.extname = 'pg_stat_statements' and has_schema_privilege(n.oid, 'usage')";
    let Some(row) = client.query_opt(sql, &[]).await? else { return Ok(None) };
    let sql = format!(
        "select query, calls, total_exec_time from {}.pg_stat_statements \
         where dbid = (select oid from pg_database where datname = current_database()) \
         and query ~* '^\\s*(select|with|update|delete)\\M' order by total_exec_time desc limit $1",
        quote_identifier(row.get(0))
    );
    match client.query(&sql, &[&PROVEN_STATEMENTS_MAX]).await.map_err(Error::from) {
        Ok(rows) => Ok(Some(rows.iter().map(counted).collect())),
        // The extension is there, but the server has not loaded its library.
        Err(Error::Server { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn counted(row: &Row) -> Counted {
    let calls = u64::try_from(row.get::<_, i64>("calls")).unwrap_or(0);
    Counted { sql: row.get("query"), calls, milliseconds: row.get("total_exec_time") }
}

/// What the counters alone show. No statement is planned.
async fn suspected(database: &Database, task: &Task, statements: &[Counted]) -> Result<Seen, Error> {
    if database.uncounted.is_some() {
        return Ok(Seen::default().but(database.uncounted.clone()));
    }
    let (rows, reads) = (task.threshold("rows"), task.threshold("reads"));
    let found = database.session.client.query(include_str!("missed_index.sql"), &[&rows, &reads, &ROWS_MAX]).await?;
    Ok(found.iter().map(|row| suspicion(row, task, statements)).collect())
}

fn suspicion(row: &Row, task: &Task, statements: &[Counted]) -> Finding {
    let (name, table, key): (String, String, String) = (row.get("name"), row.get("table_name"), row.get("key"));
    let sentence =
        format!("no query has used this index on {key}, but {table} was read as a whole {} times", count(row, "reads"));
    let mut finding = task
        .finding(Level::Info, name, sentence)
        .with("definition", row.get::<_, String>("definition"), "pg_get_indexdef")
        .with("rows read by whole reads", count(row, "rows_read"), "pg_stat_user_tables");
    let (word, expression): (String, String) = (row.get("table_word"), plain(&key));
    let suspect = statements.iter().find(|one| names(&one.sql, &word) && !plain(&one.sql).contains(&expression));
    if let Some(statement) = suspect {
        finding = statement.add_to(finding);
    }
    finding.alternative = Some("the whole reads are reports or backups, and no query looks for one row".to_owned());
    let sentence = "let the doctor plan the statements with --prove; then write their condition as the index has it";
    finding.repair = Some(repair(sentence, folded(row.get("is_unique"), &table, &key), None));
    finding
}

/// Plans the statements as a role without rights over others, and tries repairs on an empty copy of the table.
async fn proven(
    planner: &ConnInfo,
    database: &Database,
    task: &Task,
    statements: Option<Vec<Counted>>,
) -> Result<Seen, Error> {
    let Some(statements) = statements else {
        let why = "which indexes statements miss; load pg_stat_statements, and create the extension in this database";
        return Ok(Seen::default().but(Some(why.to_owned())));
    };
    let mut session = match database.session_to_plan(planner).await? {
        Ok(session) => session,
        Err(why) => return Ok(Seen::default().but(Some(why))),
    };
    let end = Instant::now() + PROOF_TIME_MAX;
    let mut found = BTreeMap::<String, Finding>::new();
    let (mut refused, mut first_refusal, mut late) = (0, None, 0);
    // The conditions of updates and deletes would need a plan of their own.
    for statement in statements.iter().filter(|one| !one.changes_rows()) {
        if Instant::now() >= end {
            late += 1;
            continue;
        }
        let sql = with_patterns(&statement.sql);
        let examined = match tables(&mut session.client, &sql).await {
            Ok(examined) => examined,
            Err(Error::Query { message, .. } | Error::Server { message, .. }) => {
                refused += 1;
                first_refusal.get_or_insert(message);
                continue;
            }
            Err(error) => return Err(error),
        };
        for table in examined {
            let explanation = match explain(&mut session.client, &table, &sql).await {
                Err(Error::Query { .. } | Error::Server { .. }) => continue,
                other => other?,
            };
            for finding in findings(&explanation, &table, statement, task) {
                found.entry(finding.key.clone()).or_insert(finding);
            }
        }
    }
    let seen: Seen = found.into_values().collect();
    Ok(seen.but(match (late, first_refusal) {
        (0, None) => None,
        (0, Some(message)) => Some(format!("{refused} statements that cannot be planned; the first: {message}")),
        (late, _) => Some(format!("{late} statements, because planning the others took {PROOF_TIME_MAX:?}")),
    }))
}

fn findings(explanation: &Explanation, table: &ExaminedTable, statement: &Counted, task: &Task) -> Vec<Finding> {
    if explanation.rows.is_none_or(|rows| rows < task.threshold("rows")) {
        return Vec::new();
    }
    let missed = explanation.readings.iter().flat_map(|reading| &reading.missed);
    let near = missed.flat_map(|missed| missed.near.iter().map(move |near| (missed, near)));
    let near = near.filter(|(missed, near)| !is_uncertain(missed, near));
    near.map(|(missed, near)| proof(missed, near, table, statement, task, explanation.untried.as_deref())).collect()
}

fn proof(
    missed: &Missed,
    near: &Mismatch,
    table: &ExaminedTable,
    statement: &Counted,
    task: &Task,
    untried: Option<&str>,
) -> Finding {
    let index = format!("{}.{}", spelled(&table.schema), spelled(&near.index));
    let mut finding = task.finding(Level::Warning, index, near.reason.clone()).with(
        "condition",
        &missed.condition,
        "the plan of the statement",
    );
    finding = statement.add_to(finding);
    if let Some(why) = untried {
        finding = finding.with("repairs were not tried", why, "the server");
    }
    finding.alternative = Some("the statement is not meant to look for single rows".to_owned());
    let sentence = match &near.rewrite {
        Some(rewrite) => format!("write {} instead of {}", rewrite.sql, missed.condition),
        None => "write the condition as the index has it, or create an index for the condition".to_owned(),
    };
    let caution = near.rewrite.as_ref().and_then(|rewrite| rewrite.caution);
    finding.repair = Some(repair(&sentence, Vec::new(), caution));
    finding
}

fn repair(sentence: &str, commands: Vec<String>, caution: Option<&str>) -> Repair {
    let risk = caution.map_or_else(|| "none".to_owned(), |caution| format!("the other condition {caution}"));
    Repair { sentence: sentence.to_owned(), commands, risk, restart: Restart::Nothing, change: None }
}

/// For a unique index on `lower(column)`: a plain one, and a check that keeps all values in lower case.
fn folded(is_unique: bool, table: &str, key: &str) -> Vec<String> {
    let call = key.strip_suffix(')').and_then(|key| key.split_once('('));
    let Some((function @ ("lower" | "upper"), inside)) = call.filter(|_| is_unique) else { return Vec::new() };
    let column = inside.strip_suffix("::text").unwrap_or(inside);
    vec![
        format!("-- or keep all values in {function} case, with a plain index:"),
        format!("update {table} set {column} = {function}({column}) where {column} <> {function}({column})"),
        format!("alter table {table} add check ({column} = {function}({column}))"),
        format!("create unique index concurrently on {table} ({column})"),
    ]
}

/// A name, quoted if it needs it.
fn spelled(name: &str) -> String {
    let is_plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if is_plain && !name.starts_with(|c: char| c.is_ascii_digit()) { name.to_owned() } else { quote_identifier(name) }
}

/// A text without spaces, casts and quotes, so that two spellings of an expression are alike.
fn plain(sql: &str) -> String {
    let folded: String = sql.to_lowercase().chars().filter(|c| !c.is_whitespace() && *c != '"').collect();
    ["::text", "::charactervarying", "::varchar"].iter().fold(folded, |text, cast| text.replace(cast, ""))
}

/// Whether a statement has a word.
fn names(sql: &str, word: &str) -> bool {
    let (sql, word) = (sql.to_lowercase(), word.to_lowercase());
    sql.split(|c: char| !c.is_alphanumeric() && c != '_').any(|one| one == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unique_index_on_lower_case_can_be_a_plain_one() {
        assert_eq!(
            folded(true, "public.modem", "lower(mac::text)").last().unwrap(),
            "create unique index concurrently on public.modem (mac)"
        );
        assert!(folded(false, "t", "lower(mac)").is_empty() && folded(true, "t", "a + b").is_empty());
    }

    #[test]
    fn a_statement_is_compared_with_an_expression_however_it_is_spelled() {
        assert!(plain("SELECT 1 FROM modem WHERE lower( mac ) = $1").contains(&plain("lower(mac::text)")));
        assert!(names("select * from Public.Modem m", "modem") && !names("select * from modems", "modem"));
    }
}
