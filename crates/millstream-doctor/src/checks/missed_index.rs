//! Check `missed-index`: indexes that queries nearly match.

use super::command::spelled;
use super::definition::definition;
use super::new_index;
use super::number::count;
use super::proof::planned;
use crate::check::{Check, Look, Looked, Task};
use crate::index::{
    ExaminedTable, Explanation, Mismatch, Missed, NewIndex, PATTERN, explain_by_statistics, is_uncertain, tables,
    with_patterns,
};
use crate::limits::PROVEN_TABLES_MAX;
use crate::server::{Database, Server};
use crate::statement::{Counted, Statements};
use millstream_model::{Class, Finding, Level, Repair};
use millstream_pg::Error;
use std::time::Instant;
use tokio_postgres::{Client, Row};

pub(super) const CHECK: Check = Check {
    id: "missed-index",
    about: "indexes that queries nearly match and do not use, such as one on lower(mac) for mac = 'a1'",
    class: Class::Hypothesis,
    thresholds: &[("rows", 10_000.0), ("reads", 10.0), ("calls", 10.0)],
    manual: include_str!("missed_index.md"),
    looks: &[Look::Database(|server, database, task| Box::pin(look(server, database, task)))],
};

async fn look(server: &Server, database: &Database, task: Task) -> Looked {
    let Some(planner) = &server.planner else {
        return suspected(database, &task, database.statements().await?).await;
    };
    let proof = planned(planner, database, &task, |client, statement, task, end| {
        Box::pin(examined(client, statement, task, end))
    });
    Box::pin(proof).await
}

/// Whether a finding of this check has nothing to do, and another one that names the same statement has.
pub(crate) fn is_idle_beside(finding: &Finding, others: &[Finding]) -> bool {
    let statement =
        |one: &Finding| one.evidence.iter().find(|one| one.name == "statement").map(|one| one.value.clone());
    let acts = |one: &Finding| one.repair.as_ref().is_some_and(|repair| !repair.commands.is_empty());
    let names_it = |other: &Finding| {
        other.check != CHECK.id && other.database == finding.database && statement(other) == statement(finding)
    };
    finding.check == CHECK.id
        && finding.level == Level::Info
        && !acts(finding)
        && statement(finding).is_some()
        && others.iter().any(|other| acts(other) && names_it(other))
}

/// What the counters alone show. No statement is planned.
async fn suspected(database: &Database, task: &Task, statements: &Statements) -> Looked {
    database.counts.clone()?;
    let (rows, reads) = (task.threshold("rows"), task.threshold("reads"));
    let found = database.worst(include_str!("missed_index.sql"), &[&rows, &reads]).await?;
    let texts: Vec<Text<'_>> = statements.queries().into_iter().map(Text::of).collect();
    let mut findings = Vec::new();
    for row in &found {
        let Some(finding) = suspicion(row, task, &texts) else { continue };
        let (schema, table): (&str, &str) = (row.get("schema"), row.get("table"));
        let key: &str = row.get("key");
        let commands = folded(&database.session.client, schema, table, row.get("is_unique"), key, None).await?;
        // What is suspected rests on the counters of the indexes, and not on those of the statements.
        findings.push(finding.run(commands).counted(database.counted_seconds));
    }
    Ok(findings.into_iter().collect())
}

/// A statement, prepared for many comparisons.
struct Text<'a> {
    statement: &'a Counted,
    words: Vec<String>,
    plain: String,
}

impl<'a> Text<'a> {
    fn of(statement: &'a Counted) -> Self {
        Self { statement, words: statement.words(), plain: plain(&statement.sql) }
    }
}

fn suspicion(row: &Row, task: &Task, texts: &[Text<'_>]) -> Option<Finding> {
    let (definition, key) = (definition(row)?, row.get::<_, Option<String>>("key")?);
    let (name, table): (String, String) = (row.get("name"), row.get("table_name"));
    let sentence =
        format!("no query has used this index on {key}, but {table} was read as a whole {} times", count(row, "reads"));
    let mut finding = task.finding(Level::Info, name, sentence).with("definition", definition, "pg_get_indexdef").with(
        "rows read by whole reads",
        count(row, "rows_read"),
        "pg_stat_user_tables",
    );
    let (word, expression) = (row.get::<_, String>("table_word").to_lowercase(), plain(&key));
    let reads_it = |one: &&Text<'_>| {
        one.words.contains(&word) && !one.plain.contains(&expression) && !one.statement.is_named_for(&table)
    };
    if let Some(text) = texts.iter().find(reads_it) {
        text.statement.name_for(&table);
        finding = text.statement.add_to(finding);
    }
    Some(finding.unless("the whole reads are reports or backups, and no query looks for one row").repaired(
        "let the doctor plan the statements with --prove; then write their condition as the index has it",
        STATEMENT_CHANGES,
    ))
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
        let explanation = explain_by_statistics(client, &table, &sql).await?;
        found.extend(finding(client, &explanation, &table, statement, &sql, task).await?);
    }
    Ok(found)
}

/// The finding about the index that helps most: one statement is not named twice for a table.
async fn finding(
    client: &Client,
    explanation: &Explanation,
    table: &ExaminedTable,
    statement: &Counted,
    planned: &str,
    task: &Task,
) -> Result<Option<Finding>, Error> {
    if explanation.rows.is_none_or(|rows| rows < task.threshold("rows")) {
        return Ok(None);
    }
    let missed = explanation.readings.iter().flat_map(|reading| &reading.missed);
    let near = missed.flat_map(|missed| missed.near.iter().map(move |near| (missed, near)));
    let near = near.filter(|(missed, near)| !is_uncertain(missed, near));
    let help = |(missed, near): &(&Missed, &Mismatch)| {
        (near.rewrite.is_some(), matches!(missed.new_index, NewIndex::Clause(_)))
    };
    // Of several that help as much, the first one.
    let Some((missed, near)) = near.reduce(|best, one| if help(&one) > help(&best) { one } else { best }) else {
        return Ok(None);
    };
    if help(&(missed, near)) != (false, false) {
        statement.name_for(&format!("{}.{}", spelled(&table.schema), spelled(&table.table)));
    }
    let pattern = (planned != statement.sql).then_some(PATTERN);
    let finding = proof(missed, near, table, task, explanation)
        .repaired_by(repair(client, missed, near, table, explanation.untried.is_none()).await?)
        .with_known("pattern that was assumed", pattern, "the server keeps no constants");
    Ok(Some(statement.add_to(finding)))
}

fn proof(missed: &Missed, near: &Mismatch, table: &ExaminedTable, task: &Task, explanation: &Explanation) -> Finding {
    let index = format!("{}.{}", spelled(&table.schema), spelled(&near.index));
    let is_tried = explanation.untried.is_none();
    // Only a rewrite that the planner has used is worth a warning.
    let level = if is_tried && near.rewrite.is_some() { Level::Warning } else { Level::Info };
    let suspected = if is_tried { "" } else { "suspected: " };
    let how = explanation.hypothetical.then_some("planned with a hypothetical index where there is none");
    task.finding(level, index, format!("{suspected}{}", near.reason))
        .with("condition", &missed.condition, "the plan of the statement")
        .with_known("repairs were not tried", explanation.untried.as_ref(), "the server")
        .with_known("how repairs were tried", how, "the extension hypopg")
        .unless("the statement is not meant to look for single rows")
}

/// The ways out, the best first: another condition, values in one case, another index. The last one can be applied if it
/// was tried.
async fn repair(
    client: &Client,
    missed: &Missed,
    near: &Mismatch,
    table: &ExaminedTable,
    is_tried: bool,
) -> Result<Repair, Error> {
    let name = format!("{}.{}", spelled(&table.schema), spelled(&table.table));
    let (mut commands, mut risks, mut change) = (Vec::new(), Vec::new(), None);
    // A query that is written as the index has it uses it. Without it, nothing needs the index.
    let (mut folds, mut removal) = (Vec::new(), None);
    if near.kind == "wrapped" {
        let index = client.query_opt(include_str!("missed_index_key.sql"), &[&table.schema, &near.index]).await?;
        if let Some(row) = &index
            && let Some(key) = row.get::<_, Option<&str>>("key")
        {
            let clause = match &missed.new_index {
                NewIndex::Clause(clause) => Some(clause.as_str()),
                NewIndex::Refused(_) | NewIndex::Unknown => None,
            };
            let gone = row.get::<_, bool>("is_idle").then(|| dropped(&table.schema, &near.index));
            folds = folded(client, &table.schema, &table.table, row.get("is_unique"), key, clause).await?;
            match row.get("has_unique_keys") {
                // The new index and the check keep out what it keeps out.
                true if !folds.is_empty() => folds.extend(gone.into_iter().flatten()),
                true => {}
                false => removal = gone,
            }
        }
    }
    let rewrite = near.rewrite.as_ref();
    risks.extend(rewrite.map(|rewrite| match rewrite.caution {
        Some(caution) => format!("the other condition {caution}"),
        None => STATEMENT_CHANGES.to_owned(),
    }));
    let clause = match &missed.new_index {
        NewIndex::Clause(clause) if !new_index::is_there(client, &table.schema, &table.table, clause).await? => {
            Some(clause)
        }
        _ => None,
    };
    if rewrite.is_some() {
        commands.append(&mut folds);
    }
    if let Some(clause) = clause {
        if rewrite.is_some() {
            commands.push("-- or, if the statement cannot change, an index for its condition as it is:".to_owned());
        }
        commands.push(new_index::command(&name, clause));
        commands.extend(removal.into_iter().flatten());
        risks.push("every write to the table maintains a new index, too".to_owned());
        if is_tried {
            change = new_index::change(client, &table.schema, &table.table, clause).await?;
        }
    }
    commands.append(&mut folds);
    if risks.is_empty() {
        risks.push(STATEMENT_CHANGES.to_owned());
    }
    let sentence = match (rewrite, clause) {
        (Some(rewrite), _) => format!("write {} instead of {}", rewrite.sql, missed.condition),
        (None, Some(_)) => "create an index for the condition as it is".to_owned(),
        (None, None) => "the doctor knows no condition that finds the same rows with this index".to_owned(),
    };
    Ok(Repair::new(sentence, risks.join("; ")).run(commands).changes(change))
}

/// The risk of another condition.
const STATEMENT_CHANGES: &str = "the statement must change in the program, too";

/// For a unique index on `lower(column)`: a plain one, and a check that keeps all values in lower case. Nothing if the plain one
/// is there. The clause is that of a new index for the condition as it is.
async fn folded(
    client: &Client,
    schema: &str,
    table: &str,
    is_unique: bool,
    key: &str,
    clause: Option<&str>,
) -> Result<Vec<String>, Error> {
    let Some((function, column)) = folded_column(key).filter(|_| is_unique) else { return Ok(Vec::new()) };
    // A clause with more keys, or for a part of the rows, would keep other values apart.
    let plain = format!("({column})");
    let fits = |clause: &&str| *clause == format!("({column} text_pattern_ops)");
    let clause = clause.filter(fits).unwrap_or(&plain);
    match new_index::is_there(client, schema, table, clause).await? {
        true => Ok(Vec::new()),
        false => Ok(kept_folded(&format!("{}.{}", spelled(schema), spelled(table)), function, column, clause)),
    }
}

/// Takes an index away that no query uses.
fn dropped(schema: &str, index: &str) -> [String; 2] {
    [
        "-- and then, if no standby uses it, the index that no query has used since the counters began:".to_owned(),
        format!("drop index concurrently {}.{}", spelled(schema), spelled(index)),
    ]
}

/// The function and the column of a key such as `lower(column)`.
fn folded_column(key: &str) -> Option<(&str, &str)> {
    let (function @ ("lower" | "upper"), inside) = key.strip_suffix(')')?.split_once('(')? else { return None };
    let column = inside.strip_suffix("::text").unwrap_or(inside);
    let column = column.strip_prefix('(').and_then(|column| column.strip_suffix(')')).unwrap_or(column);
    (spelled(column) == column).then_some((function, column))
}

/// Keeps all values of a column in one case, with a plain unique index.
fn kept_folded(table: &str, function: &str, column: &str, clause: &str) -> Vec<String> {
    vec![
        format!("-- or, as the owner of the table, keep all values in {function} case, with a plain index;"),
        "-- other values are refused from then on:".to_owned(),
        format!("update {table} set {column} = {function}({column}) where {column} <> {function}({column})"),
        format!("alter table {table} add check ({column} = {function}({column}))"),
        format!("create unique index concurrently on {table} {clause}"),
    ]
}

/// A text without spaces, casts and quotes, so that two spellings of an expression are alike.
fn plain(sql: &str) -> String {
    let folded: String = sql.to_lowercase().chars().filter(|c| !c.is_whitespace() && *c != '"').collect();
    ["::text", "::charactervarying", "::varchar"].iter().fold(folded, |text, cast| text.replace(cast, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unique_index_on_lower_case_can_be_a_plain_one() {
        let (function, column) = folded_column("lower(mac::text)").unwrap();
        assert_eq!(
            kept_folded("public.modem", function, column, "(mac)").last().unwrap(),
            "create unique index concurrently on public.modem (mac)"
        );
        for other in ["a + b", "lower((doc ->> 'mac'::text))", "lower(btrim(mac))"] {
            assert_eq!(folded_column(other), None);
        }
    }

    #[test]
    fn a_reason_without_a_repair_gives_way_to_a_repair_of_the_same_statement() {
        let one = |check: &str, statement: &str, command: Option<&str>| {
            let finding =
                Finding::new(check, Class::Hypothesis, Level::Info, "i", "x").with("statement", statement, "y");
            finding.repaired("do it", "none").run(command)
        };
        let idle = one("missed-index", "select 1", None);
        let others = |other: Finding| [idle.clone(), other];
        assert!(is_idle_beside(&idle, &others(one("missing-index", "select 1", Some("create index")))));
        for other in [
            one("missing-index", "select 2", Some("create index")),
            one("top-statement", "select 1", None),
            one("missing-index", "select 1", Some("create index")).of_database("other"),
        ] {
            assert!(!is_idle_beside(&idle, &others(other)));
        }
        let acts = one("missed-index", "select 1", Some("create index"));
        assert!(!is_idle_beside(&acts, &others(one("missing-index", "select 1", Some("create index")))));
    }

    #[test]
    fn a_statement_is_compared_with_an_expression_however_it_is_spelled() {
        assert!(plain("SELECT 1 FROM modem WHERE lower( mac ) = $1").contains(&plain("lower(mac::text)")));
    }
}
