//! Check `missed-index`: indexes that queries nearly match.

use super::number::count;
use super::statement::{Counted, Statements, Wanted, statements};
use crate::check::{Check, Look, Seen, Task, Threshold};
use crate::index::{
    ExaminedTable, Explanation, Mismatch, Missed, NewIndex, PATTERN, explain, is_uncertain, tables, with_patterns,
};
use crate::limits::{PROOF_TIME_MAX, PROVEN_TABLES_MAX, ROWS_MAX};
use crate::server::{Database, Server};
use millstream_model::{Class, Finding, Level, Repair, Restart};
use millstream_pg::{ConnInfo, Error, quote_identifier};
use std::collections::BTreeSet;
use std::time::Instant;
use tokio_postgres::{Client, Row};

pub(super) const CHECK: Check = Check {
    id: "missed-index",
    about: "indexes that queries nearly match and do not use, such as one on lower(mac) for mac = 'a1'",
    class: Class::Hypothesis,
    thresholds: &[
        Threshold { name: "rows", default: 10_000.0 },
        Threshold { name: "reads", default: 10.0 },
        Threshold { name: "calls", default: 10.0 },
    ],
    manual: include_str!("missed_index.md"),
    looks: &[Look::Database(|server, database, task| Box::pin(look(server, database, task)))],
};

async fn look(server: &Server, database: &Database, task: Task) -> Result<Seen, Error> {
    let statements = statements(database, Wanted::Queries).await?;
    match &server.planner {
        Some(planner) => Box::pin(proven(planner, database, &task, statements)).await,
        None => suspected(database, &task, &statements.list).await,
    }
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
async fn proven(planner: &ConnInfo, database: &Database, task: &Task, statements: Statements) -> Result<Seen, Error> {
    let mut session = match database.session_to_plan(planner).await? {
        Ok(session) => session,
        Err(why) => return Ok(Seen::default().but(Some(why))),
    };
    let end = Instant::now() + PROOF_TIME_MAX;
    let mut found: Vec<Finding> = Vec::new();
    let (mut refused, mut first_refusal, mut late) = (0, String::new(), 0);
    let often = |one: &&Counted| one.calls as f64 >= task.threshold("calls");
    for statement in statements.list.iter().filter(often) {
        if Instant::now() >= end {
            late += 1;
            continue;
        }
        match examined(&mut session.client, statement, task, end).await {
            Ok(new) => {
                found.extend(new);
                // The statement that takes the most time stands for an index.
                let mut keys = BTreeSet::new();
                found.retain(|finding| keys.insert(finding.key.clone()));
            }
            Err(error) if session.client.is_closed() => return Err(error),
            Err(error) => {
                refused += 1;
                if first_refusal.is_empty() {
                    first_refusal = error.to_string();
                }
            }
        }
    }
    let refused =
        (refused > 0).then(|| format!("{refused} statements that cannot be planned; the first: {first_refusal}"));
    let late = (late > 0).then(|| format!("{late} statements, because planning the others took {PROOF_TIME_MAX:?}"));
    let unseen: Vec<String> = [refused, late, statements.unseen].into_iter().flatten().collect();
    let seen: Seen = found.into_iter().collect();
    Ok(seen.but((!unseen.is_empty()).then(|| unseen.join("; "))))
}

/// Compares a statement with the indexes of the tables that it reads.
async fn examined(client: &mut Client, statement: &Counted, task: &Task, end: Instant) -> Result<Vec<Finding>, Error> {
    let sql = with_patterns(&statement.sql);
    let mut found = Vec::new();
    for table in tables(client, &sql).await?.into_iter().take(PROVEN_TABLES_MAX) {
        let is_of_the_system = matches!(table.schema.as_str(), "pg_catalog" | "information_schema");
        if is_of_the_system || Instant::now() >= end {
            continue;
        }
        let explanation = explain(client, &table, &sql).await?;
        found.extend(findings(&explanation, &table, statement, &sql, task));
    }
    Ok(found)
}

fn findings(
    explanation: &Explanation,
    table: &ExaminedTable,
    statement: &Counted,
    planned: &str,
    task: &Task,
) -> Vec<Finding> {
    if explanation.rows.is_none_or(|rows| rows < task.threshold("rows")) {
        return Vec::new();
    }
    let missed = explanation.readings.iter().flat_map(|reading| &reading.missed);
    let near = missed.flat_map(|missed| missed.near.iter().map(move |near| (missed, near)));
    let near = near.filter(|(missed, near)| !is_uncertain(missed, near));
    let finding = |(missed, near): (&Missed, &Mismatch)| {
        let mut finding = proof(missed, near, table, task, explanation.untried.as_deref());
        if planned != statement.sql {
            finding = finding.with("pattern that was assumed", PATTERN, "the server keeps no constants");
        }
        statement.add_to(finding)
    };
    near.map(finding).collect()
}

fn proof(missed: &Missed, near: &Mismatch, table: &ExaminedTable, task: &Task, untried: Option<&str>) -> Finding {
    let index = format!("{}.{}", spelled(&table.schema), spelled(&near.index));
    let is_tried = untried.is_none();
    // Only a rewrite that the planner has used is worth a warning.
    let level = if is_tried && near.rewrite.is_some() { Level::Warning } else { Level::Info };
    let suspected = if is_tried { "" } else { "suspected: " };
    let mut finding = task.finding(level, index, format!("{suspected}{}", near.reason)).with(
        "condition",
        &missed.condition,
        "the plan of the statement",
    );
    if let Some(why) = untried {
        finding = finding.with("repairs were not tried", why, "the server");
    }
    finding.alternative = Some("the statement is not meant to look for single rows".to_owned());
    let sentence = match (&near.rewrite, &missed.new_index) {
        (Some(rewrite), _) => format!("write {} instead of {}", rewrite.sql, missed.condition),
        (None, NewIndex::Clause(clause)) => {
            format!(
                "an index for the condition as it is: create index concurrently on {} {clause}",
                spelled(&table.table)
            )
        }
        (None, _) => "no condition that means the same can use this index".to_owned(),
    };
    let caution = near.rewrite.as_ref().and_then(|rewrite| rewrite.caution);
    finding.repair = Some(repair(&sentence, Vec::new(), caution));
    finding
}

fn repair(sentence: &str, commands: Vec<String>, caution: Option<&str>) -> Repair {
    let risk = match caution {
        Some(caution) => format!("the other condition {caution}"),
        None => "the statement must change in the program, too".to_owned(),
    };
    Repair { sentence: sentence.to_owned(), commands, risk, restart: Restart::Nothing, change: None }
}

/// For a unique index on `lower(column)`: a plain one, and a check that keeps all values in lower case.
fn folded(is_unique: bool, table: &str, key: &str) -> Vec<String> {
    let call = key.strip_suffix(')').and_then(|key| key.split_once('('));
    let Some((function @ ("lower" | "upper"), inside)) = call.filter(|_| is_unique) else { return Vec::new() };
    let column = inside.strip_suffix("::text").unwrap_or(inside);
    let column = column.strip_prefix('(').and_then(|column| column.strip_suffix(')')).unwrap_or(column);
    if spelled(column) != column {
        return Vec::new();
    }
    vec![
        format!("-- or, as the owner of the table, keep all values in {function} case, with a plain index;"),
        "-- other values are refused from then on:".to_owned(),
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
        assert!(folded(true, "t", "lower((doc ->> 'mac'::text))").is_empty());
        assert!(folded(true, "t", "lower(btrim(mac))").is_empty());
    }

    #[test]
    fn a_statement_is_compared_with_an_expression_however_it_is_spelled() {
        assert!(plain("SELECT 1 FROM modem WHERE lower( mac ) = $1").contains(&plain("lower(mac::text)")));
        assert!(names("select * from Public.Modem m", "modem") && !names("select * from modems", "modem"));
    }
}
