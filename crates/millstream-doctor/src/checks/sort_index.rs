//! Check `sort-index`: queries that follow the order of an index, and discard most of its rows.

use super::command::spelled;
use super::new_index;
use super::number::with_analyzed;
use super::proof::planned;
use crate::check::{Check, Look, Looked, Seen, Task};
use crate::index::{OrderedScan, ordered_scans, with_limit, with_patterns};
use crate::server::{Database, Server};
use crate::statement::{Counted, Statements};
use millstream_model::{Change, Class, Finding, Level, Repair};
use millstream_pg::Error;
use tokio_postgres::Client;

pub(super) const CHECK: Check = Check {
    id: "sort-index",
    about: "queries with order by and limit that follow an index and discard rows, where another index finds them",
    class: Class::Hypothesis,
    thresholds: &[("rows", 10_000.0), ("calls", 10.0), ("blocks_per_row", 100.0)],
    manual: include_str!("sort_index.md"),
    looks: &[Look::Database(|server, database, task| Box::pin(look(server, database, task)))],
};

/// Words of queries that read many rows for each that they return, as they must.
const SUMMARIES: &[&str] = &["distinct", "except", "group", "having", "intersect", "over", "union"];

async fn look(server: &Server, database: &Database, task: Task) -> Looked {
    let Some(planner) = &server.planner else {
        let statements = task.statements(database).await?;
        return Ok(suspected(statements, &task).but(statements.unseen.clone()));
    };
    let proof =
        planned(planner, database, &task, |client, statement, task, _| Box::pin(examined(client, statement, task)));
    Box::pin(proof).await
}

/// What the counters alone show. No statement is planned.
fn suspected(statements: &Statements, task: &Task) -> Seen {
    let is_suspect = |one: &&Counted| {
        let words = one.words();
        let has = |word: &str| words.iter().any(|one| one == word);
        let reads_the_system = words.iter().any(|word| word.starts_with("pg_") || word == "information_schema");
        let is_often = one.calls as f64 >= task.threshold("calls");
        is_often
            && one.blocks_per_row() >= task.threshold("blocks_per_row")
            && has("where")
            && is_limited(&words)
            && !one.is_named()
            && !SUMMARIES.iter().any(|word| has(word))
            && !reads_the_system
    };
    statements.queries().into_iter().filter(is_suspect).map(|one| suspicion(one, task)).collect()
}

/// Whether a query with such words wants the first rows of an order.
fn is_limited(words: &[String]) -> bool {
    let has = |word: &str| words.iter().any(|one| one == word);
    has("order") && (has("limit") || has("fetch"))
}

fn suspicion(statement: &Counted, task: &Task) -> Finding {
    let sentence = format!(
        "suspected: a query with order by and limit looks at {:.0} blocks for each row that it returns",
        statement.blocks_per_row()
    );
    let finding = task.finding(Level::Info, format!("{:016x}", statement.id), sentence);
    statement.add_reads_to(finding).unless("the blocks belong to a join or a subquery").repaired(
        "let the doctor plan the statements with --prove; an index on the compared columns and then those of order by \
         finds the first rows at once",
        "every write to the table maintains an index more",
    )
}

/// Plans a query that reads much for what it returns, with a limit of as many rows as a call returns.
async fn examined(client: &mut Client, statement: &Counted, task: &Task) -> Result<Vec<Finding>, Error> {
    let words = statement.words();
    // The planner answers min and max by the first row of an order, too.
    let is_first = is_limited(&words) || words.iter().any(|word| word == "min" || word == "max");
    if !is_first || statement.blocks_per_row() < task.threshold("blocks_per_row") {
        return Ok(Vec::new());
    }
    let rows = (statement.rows / statement.calls.max(1)).max(1);
    let sql = with_patterns(&with_limit(&statement.sql, rows));
    let found = ordered_scans(client, &sql).await?;
    let mut findings = Vec::new();
    for scan in found.into_iter().filter(|scan| scan.rows.is_some_and(|rows| rows >= task.threshold("rows"))) {
        let table = format!("{}.{}", spelled(&scan.schema), spelled(&scan.table));
        if statement.is_named_for(&table) {
            continue;
        }
        let mut change = None;
        if let Some(clause) = &scan.new_index {
            // One that is there and serves nothing is not valid, and another check says so.
            if new_index::is_there(client, &scan.schema, &scan.table, clause).await? {
                continue;
            }
            change = new_index::change(client, &scan.schema, &scan.table, clause).await?;
        }
        statement.name_for(&table);
        findings.push(finding(&scan, statement, task, change));
    }
    Ok(findings)
}

fn finding(scan: &OrderedScan, statement: &Counted, task: &Task, change: Option<Change>) -> Finding {
    let named = |name: &str| format!("{}.{}", spelled(&scan.schema), spelled(name));
    let other = named(&scan.other);
    let sentence = format!(
        "a query follows the order of this index and checks {} row by row, although {other} finds such rows",
        scan.condition
    );
    let finding = task
        .finding(Level::Info, named(&scan.index), sentence)
        .with("condition", &scan.condition, "the plan of the statement")
        .with("index that begins with what it compares", &other, "pg_index")
        .with("blocks for each row", format!("{:.0}", statement.blocks_per_row()), "pg_stat_statements");
    statement
        .add_reads_to(with_analyzed(finding, scan.analyze_age))
        .unless("the blocks belong to another part of the query, or few of the compared values are rare")
        .repaired_by(repair(scan, &named(&scan.table), &named(&format!("{}_together", scan.table))))
        .changes(change)
}

/// The ways out, the best first.
fn repair(scan: &OrderedScan, table: &str, statistics: &str) -> Repair {
    let mut commands: Vec<String> = scan.new_index.iter().map(|clause| new_index::command(table, clause)).collect();
    if !scan.columns.is_empty() {
        let or = if commands.is_empty() { "" } else { "or " };
        commands.push(format!("-- {or}let the planner know better how many rows there are:"));
    }
    let more = |column: &String| format!("alter table {table} alter column {column} set statistics 1000");
    commands.extend(scan.columns.iter().map(more));
    if scan.columns.len() > 1 {
        commands.push(format!("create statistics {statistics} on {} from {table}", scan.columns.join(", ")));
    }
    if !scan.columns.is_empty() {
        commands.push(format!("analyze {table}"));
    }
    if let Some(order) = &scan.other_order {
        commands
            .push(format!("-- or, as the last way, write {order} in its order by, so that no index has that order"));
    }
    let (sentence, risk) = match scan.new_index {
        Some(_) => (
            "create an index that finds the rows and has them in order, and measure before and after",
            "every write to the table maintains an index more; new statistics change other plans, too",
        ),
        None if scan.has_index => (
            "an index finds the rows and has them in order, but the planner does not choose it; analyze the table",
            "new statistics change other plans, too",
        ),
        None => (
            "the planner would not choose an index that finds the rows and has them in order; let it know better how many there \
             are, and measure before and after",
            "new statistics change other plans, too",
        ),
    };
    Repair::new(sentence, risk).run(commands)
}
