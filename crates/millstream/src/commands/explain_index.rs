//! `explain-index`: shows whether a query uses an index of a model or a collection, and if not, why.

use crate::args::TargetArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::quantity::count;
use crate::screen::visible;
use crate::target::Database;
use millstream_doctor::index::{self, ExaminedTable, Explanation, Mismatch, Missed, NewIndex, TableRead, Verdict};
use millstream_host::shell_word;
use millstream_model::{CollectionName, KeyRequest};
use millstream_pg::{quote_name, quote_qualified};
use millstream_publish::{IndexedTable, THE_KEY};
use millstream_store::GivenSql;
use millstream_store::models::Model;

const EXAMPLES: &str = "\
Examples:
  millstream explain-index events_read \\
      \"select * from events_read where doc->>'mac' = 'a1'\"
  millstream explain-index events_read 'select from events_read where id = $1'

A query may read MODEL in several places. Exit code 0 if an index can serve each
of them, even if the planner finds it cheaper to read all rows. Exit code 1 if
there is one that no index can serve.";

/// Show whether a query uses an index of a read model, and what to change if not
///
/// Millstream plans the query and never executes it. Parameters such as $1 stand for any value. If no index
/// serves the query, Millstream compares each condition with the indexes and prints repairs: another condition,
/// or another index. It tries each repair on an empty copy of the table, in a transaction that is rolled back.
/// If the server allows no such copy, it prints a warning.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ExplainIndexArgs {
    /// Read model or collection
    #[arg(value_name = "[SCHEMA.]MODEL")]
    name: CollectionName,

    /// One select statement that reads it
    #[arg(value_name = "SQL")]
    query: String,

    #[command(flatten)]
    target: TargetArgs,
}

/// Runs the command.
pub async fn run(args: &ExplainIndexArgs, output: Output) -> Result<Exit, Failure> {
    let mut database = Database::reach(&args.target).await?;
    let indexed = IndexedTable::find(&database.connection.client, &database.schema, &args.name).await?;
    let IndexedTable { schema, table, hidden_column, .. } = indexed.clone();
    let oid = "select $1::text::pg_catalog.regclass::pg_catalog.oid";
    let oid = database.connection.client.query_one(oid, &[&quote_qualified(&schema, &table)]).await;
    let oid = oid.map_err(millstream_pg::Error::from)?.get(0);
    database.warn_of_code(oid).await?;
    if indexed.model.is_some() {
        database.require_trusted_view(&args.name).await?;
    }
    let given = GivenSql { of: "query", texts: &[args.query.as_str()], reads: Some(oid) };
    database.schema.require_trusted_sql(&database.connection.client, &given).await?;
    let client = &mut database.connection.client;
    let mut explanation =
        Box::pin(index::explain(client, &ExaminedTable { schema, table, hidden_column }, &args.query)).await?;
    explanation.rename_indexes(|index| indexed.clause(index));
    let Some(worst) = explanation.readings.iter().map(|reading| reading.verdict).max() else {
        return Err(Failure::user(format!("the plan of this query reads no row of {}", args.name))
            .hint(format!("name {} in the query; a condition that is never true needs no rows either", args.name)));
    };
    let lines: Vec<String> = text(args, &indexed, &explanation).iter().map(|line| visible(line)).collect();
    output.print(&explanation, &lines.join("\n"))?;
    if let Some(message) = &explanation.untried {
        note(&format!(
            "warning: the repairs were not tried, because the server allows no empty temporary copy: {message}"
        ));
    }
    Ok(if worst == Verdict::Unusable { Exit::Findings } else { Exit::Done })
}

fn text(args: &ExplainIndexArgs, indexed: &IndexedTable, explanation: &Explanation) -> Vec<String> {
    let mut lines = Vec::new();
    let readings = explanation.readings.len();
    for (n, reading) in explanation.readings.iter().enumerate() {
        let which = if readings > 1 { format!(", reading {} of {readings}", n + 1) } else { String::new() };
        lines.push(format!("{}{which}: {}", args.name, verdict(reading, explanation)));
        for missed in &reading.missed {
            lines.extend(missed_lines(&args.name, indexed.model.as_ref(), missed));
        }
        if reading.verdict == Verdict::Unusable && reading.missed.is_empty() {
            lines.push("  nothing that an index could look up: the query has no condition and no order".into());
        }
    }
    let repaired = explanation.readings.iter().flat_map(|reading| &reading.missed).any(has_repair);
    if repaired && explanation.untried.is_none() {
        let place = if explanation.hypothetical {
            "planned with a hypothetical index where there is none"
        } else {
            "tried on an empty copy of the table"
        };
        lines.push(format!("each repair was {place}: the planner uses the index"));
    }
    lines
}

fn verdict(reading: &TableRead, explanation: &Explanation) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "an estimate, never negative")]
    let rows = explanation
        .rows
        .map_or_else(|| "all rows".to_owned(), |rows| format!("all rows (about {})", count(rows as u64)));
    let indexes = reading.indexes.iter().map(|index| named(index)).collect::<Vec<_>>().join(", ");
    match reading.verdict {
        Verdict::Used => format!("uses {indexes}"),
        Verdict::Usable => format!("can use {indexes}, and the planner thinks that another way is cheaper"),
        Verdict::Unusable => format!("no index serves the query, which reads {rows}"),
    }
}

fn named(index: &str) -> String {
    if index == THE_KEY { index.to_owned() } else { format!("index {index}") }
}

fn has_repair(missed: &Missed) -> bool {
    missed.near.iter().any(|near| near.rewrite.is_some()) || matches!(missed.new_index, NewIndex::Clause(_))
}

fn missed_lines(name: &CollectionName, model: Option<&Model>, missed: &Missed) -> Vec<String> {
    let side = if missed.side_of_or { " (every side of an or needs an index)" } else { "" };
    let what = if missed.condition.starts_with("order by ") { "" } else { "condition " };
    let mut lines = vec![format!("{what}{}{side}", missed.condition)];
    for Mismatch { index, reason, rewrite, .. } in &missed.near {
        lines.push(format!("  {}: {reason}", named(index)));
        if let Some(rewrite) = rewrite {
            lines.push(format!("    change the query: {}", rewrite.sql));
            lines.extend(rewrite.caution.map(|caution| format!("      which {caution}")));
        }
    }
    if missed.near.is_empty() {
        lines.push("  no index covers it".into());
    }
    match &missed.new_index {
        NewIndex::Clause(clause) => {
            lines.push("  make an index:".into());
            lines.push(format!("    {}", make(name, model, clause)));
        }
        NewIndex::Refused(message) => lines.push(format!("  no index can be made of it: {message}")),
        NewIndex::Unknown => lines.push("  no index is known that serves it as it is".into()),
    }
    lines
}

/// What creates an index: SQL, or for a model the command that publishes it again with its whole definition.
fn make(name: &CollectionName, model: Option<&Model>, clause: &str) -> String {
    let Some(model) = model else {
        return format!("create index on {} {clause};", quote_name(name));
    };
    let mut words = vec!["millstream publish".to_owned()];
    words.push(model.collection.as_ref().map_or_else(|| "COLLECTION".into(), shell_word));
    let mut option = |flag: &str, value: &str| words.extend([flag.to_owned(), shell_word(&value)]);
    option("--as", &model.name.to_string());
    let definition = model.wanted.as_ref().unwrap_or(&model.definition);
    for column in &definition.columns {
        let path = KeyRequest { column: String::new(), path: column.path.clone(), key_type: None }.path_text();
        option("--column", &format!("{}:{}={path}", column.name, column.type_name));
    }
    let texts = [("--where", &definition.condition), ("--select", &definition.select), ("--query", &definition.query)];
    for (flag, value) in texts {
        if let Some(value) = value {
            option(flag, value);
        }
    }
    if !definition.unique.is_empty() {
        option("--unique", &definition.unique.join(","));
    }
    for index in definition.indexes.iter().map(String::as_str).chain([listed(clause)]) {
        option("--index", index);
    }
    if definition.materialized {
        words.push("--materialized".into());
    }
    words.join(" ")
}

/// The clause as `--index` takes it: without its parentheses, if it is nothing but a list in parentheses.
fn listed(clause: &str) -> &str {
    let mut depth = 0;
    let closes = clause.char_indices().find(|(_, c)| {
        depth += i32::from(*c == '(') - i32::from(*c == ')');
        depth == 0
    });
    match clause.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        Some(inner) if closes.is_some_and(|(place, _)| place + 1 == clause.len()) => inner,
        _ => clause,
    }
}

#[cfg(test)]
mod tests {
    use super::listed;

    #[test]
    fn a_column_list_prints_without_its_brackets() {
        for (clause, expected) in [
            ("(mac)", "mac"),
            ("((doc ->> 'a'))", "(doc ->> 'a')"),
            ("(a) where (b)", "(a) where (b)"),
            ("using gin (doc)", "using gin (doc)"),
        ] {
            assert_eq!(listed(clause), expected);
        }
    }
}
