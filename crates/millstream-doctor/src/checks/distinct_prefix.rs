//! Check `distinct-prefix`: `select distinct` that reads a whole index to find a few values.

use super::number::with_analyzed;
use crate::check::{Check, Look, Looked, Seen, Task};
use crate::limits::PROOF_TIME_MAX;
use crate::refusal::{Stop, or_refusal};
use crate::server::{Database, Server};
use crate::statement::Counted;
use millstream_model::quantity::{count, whole};
use millstream_model::{Class, Finding, Level};
use millstream_pg::ConnInfo;
use std::collections::BTreeSet;
use tokio::time::Instant;
use tokio_postgres::Row;

pub(super) const CHECK: Check = Check {
    id: "distinct-prefix",
    about: "select distinct that reads a whole index to find a few values, where a recursive query skips",
    class: Class::Hypothesis,
    thresholds: &[("rows", 100_000.0), ("per_value", 1_000.0)],
    manual: include_str!("distinct_prefix.md"),
    looks: &[Look::Database(|server, database, task| Box::pin(look(server, database, task)))],
};

async fn look(server: &Server, database: &Database, task: Task) -> Looked {
    let statements = task.statements(database).await?;
    let (mut subjects, mut late) = (BTreeSet::new(), 0);
    let end = Instant::now() + PROOF_TIME_MAX;
    for statement in statements.queries() {
        let Some(asked) = Asked::read(&statement.sql) else { continue };
        let sql = include_str!("distinct_prefix.sql");
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 3] = [&asked.schema, &asked.table, &asked.column];
        let Some(row) = database.session.client.query_opt(sql, &parameters).await? else { continue };
        let (rows, values): (f64, f64) = (row.get("rows"), row.get("values"));
        let is_worth = rows >= task.threshold("rows") && rows >= task.threshold("per_value") * values.max(1.0);
        let subject = format!("{}.{}", row.get::<_, String>("table_name"), row.get::<_, String>("column"));
        if is_worth && subjects.insert(subject.clone()) {
            let rewrite = rewrite(row.get("table_name"), row.get("column"));
            let mut finding = finding(&task, subject, &row, statement, &rewrite);
            match &server.planner {
                Some(_) if Instant::now() >= end => late += 1,
                Some(planner) => {
                    let answer = compared(planner, database, &row, &rewrite).await?;
                    finding = finding.with("results of both", answer, "executed");
                }
                None => {}
            }
            task.keep(finding);
        }
    }
    let late = (late > 0).then(|| format!("{late} comparisons, because the others took {PROOF_TIME_MAX:?}"));
    Ok(Seen::default().but(statements.unseen.clone()).but(late))
}

/// The table and column of a `select distinct`.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    schema: Option<String>,
    table: String,
    column: String,
}

impl Asked {
    /// Reads `select distinct COLUMN from [SCHEMA.]TABLE [order by ..]`. `None` for any other statement.
    fn read(sql: &str) -> Option<Self> {
        let words: Vec<&str> = sql.trim_end_matches(';').split_whitespace().collect();
        let lower: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
        let lower: Vec<&str> = lower.iter().map(String::as_str).collect();
        let ["select", "distinct", _, "from", _, rest @ ..] = lower.as_slice() else { return None };
        if !matches!(rest, [] | ["order", "by", _] | ["order", "by", _, "asc" | "desc"]) {
            return None;
        }
        let (schema, table) = match words[4].split_once('.') {
            Some((schema, table)) => (Some(name(schema)?), table),
            None => (None, words[4]),
        };
        Some(Self { schema, table: name(table)?, column: name(words[2])? })
    }
}

/// A name as the catalog has it. `None` if it is more than a name.
fn name(word: &str) -> Option<String> {
    let quoted = word.strip_prefix('"').and_then(|word| word.strip_suffix('"'));
    let plain = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || c == '_');
    match quoted {
        Some(inner) => (!inner.contains('"')).then(|| inner.to_owned()),
        None => plain(word).then(|| word.to_lowercase()),
    }
}

/// Finds each value by looking up the next larger one.
fn rewrite(table: &str, column: &str) -> String {
    format!(
        "with recursive step as ((select {column} from {table} where {column} is not null order by {column} limit 1) \
         union all select (select t.{column} from {table} as t where t.{column} > step.{column} order by t.{column} \
         limit 1) from step where step.{column} is not null) select {column} from step where {column} is not null \
         union all select null where exists (select from {table} where {column} is null)"
    )
}

fn finding(task: &Task, subject: String, row: &Row, statement: &Counted, rewrite: &str) -> Finding {
    let [rows, values] = ["rows", "values"].map(|column| count(whole(row.get(column))));
    let sentence = format!("select distinct reads {rows} rows to find some {values} values");
    let finding = task
        .finding(Level::Info, subject, sentence)
        .with("index that begins with the column", row.get::<_, String>("index"), "pg_index")
        .with("different values, by estimate", values, "pg_stats.n_distinct");
    statement
        .add_to(with_analyzed(finding, row.get("analyze_age")))
        .unless("the statistics are old, and there are more values")
        .repaired(
            "skip from value to value with a recursive query, and measure before and after",
            "with many values it is slower than reading the index once",
        )
        .run([rewrite.to_owned()])
}

/// Executes both queries and compares what they find.
async fn compared(planner: &ConnInfo, database: &Database, row: &Row, rewrite: &str) -> Result<String, Stop> {
    let session = match database.session_to_plan(planner).await {
        Err(Stop::Unseen(why)) => return Ok(format!("not compared: {why}")),
        session => session?,
    };
    let (table, column): (String, String) = (row.get("table_name"), row.get("column"));
    let (own, other) = (format!("select distinct {column} from {table}"), rewrite);
    let sql =
        format!("select count(*) from (({own} except ({other})) union all (({other}) except {own})) as different");
    session.client.batch_execute("set default_transaction_read_only = on").await?;
    Ok(match or_refusal(session.client.query_one(&sql, &[]).await)? {
        Ok(row) if row.get::<_, i64>(0) == 0 => "the same values".to_owned(),
        Ok(row) => format!("{} values differ", row.get::<_, i64>(0)),
        Err(message) => format!("not compared: {message}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_distinct_of_one_column_is_read() {
        let asked = |schema: Option<&str>, table: &str, column: &str| {
            Some(Asked { schema: schema.map(str::to_owned), table: table.to_owned(), column: column.to_owned() })
        };
        assert_eq!(Asked::read("Select Distinct Device From readings;"), asked(None, "readings", "device"));
        assert_eq!(
            Asked::read("select distinct \"A b\" from s.t order by 1 desc"),
            None,
            "a name with a space is left out"
        );
        assert_eq!(Asked::read("select distinct \"Ab\" from s.t order by 1 desc"), asked(Some("s"), "t", "Ab"));
        for other in [
            "select distinct a, b from t",
            "select distinct lower(a) from t",
            "select distinct a from t where b = $1",
            "select distinct a from t join u using (a)",
            "select a from t",
        ] {
            assert_eq!(Asked::read(other), None, "{other}");
        }
    }
}
