//! `collections`: lists what has been loaded.

use crate::args::TargetArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::quantity;
use crate::table::{Align, Table};
use crate::target::Database;
use millstream_engine::Check;
use millstream_engine::store::collections::{self, CollectionSummary};

const EXAMPLES: &str = "\
Examples:
  millstream collections
  millstream collections --db postgres://me@db.example/shop --output json";

/// List the collections: key, rows, size, loads, checks
///
/// Rows are an estimate from the table's statistics. The size counts indexes and TOAST. A crash of
/// the server empties a table that is not logged. A check that is not valid may be broken by rows that
/// were stored before it. What was loaded with --layout log waits, in so many segments and since then, for
/// `millstream compact`; where the table is gone the next load removes it, or `millstream drop`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct CollectionsArgs {
    #[command(flatten)]
    target: TargetArgs,
}

/// Place of the column for what waits, where anything does.
const WAITING_PLACE: usize = 3;

/// Runs the command.
pub async fn run(args: &CollectionsArgs, output: Output) -> Result<Exit, Failure> {
    let found = match Database::open(&args.target).await? {
        Some(database) => collections::list(&database.connection.client, &database.schema).await?,
        None => Vec::new(),
    };
    if output.is_json() {
        output.json(&found)?;
    } else if found.is_empty() {
        note("no collections yet");
    } else {
        output.table(&table(&found))?;
    }
    Ok(Exit::Done)
}

fn table(found: &[CollectionSummary]) -> Table {
    let checks = found.iter().any(|c| !c.checks.is_empty());
    let waits = found.iter().any(|c| c.segments > 0);
    let mut columns = vec![
        ("name", Align::Left),
        ("rows", Align::Right),
        ("size", Align::Right),
        ("logged", Align::Left),
        ("loads", Align::Right),
        ("last load (utc)", Align::Left),
        ("key", if checks { Align::Left } else { Align::Wrap }),
    ];
    columns.extend(checks.then_some(("checks", Align::Wrap)));
    if waits {
        columns.insert(WAITING_PLACE, ("waiting", Align::Right));
    }
    let mut table = Table::new(&columns);
    for c in found {
        let key: Vec<&str> = c.key.iter().map(|column| column.name.as_str()).collect();
        let listed: Vec<String> = c.checks.iter().map(listed).collect();
        let mut cells = vec![
            c.name.to_string(),
            c.rows_estimate.map_or_else(|| "?".to_owned(), |n| format!("~{}", quantity::count(n))),
            c.bytes.map_or_else(|| "no table".to_owned(), quantity::bytes),
            c.unlogged.map_or("", |unlogged| if unlogged { "no" } else { "yes" }).to_owned(),
            quantity::count(c.loads),
            c.last_load_at.as_deref().map(quantity::minute).unwrap_or_default(),
            key.join(", "),
        ];
        if waits {
            cells.insert(WAITING_PLACE, waiting(c));
        }
        cells.extend(checks.then(|| listed.join(", ")));
        table.row(cells);
    }
    table
}

fn listed(check: &Check) -> String {
    let validated = if check.validated { "" } else { " not valid" };
    format!("{} {}{validated}", check.name, check.expression)
}

fn waiting(collection: &CollectionSummary) -> String {
    let Some(since) = &collection.waiting_since else { return String::new() };
    let (bytes, segments) = (quantity::bytes(collection.segment_bytes), quantity::count(collection.segments));
    format!("{bytes} in {segments} since {}", quantity::minute(since))
}
