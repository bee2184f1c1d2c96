//! `collections`: lists the collections.

use crate::args::TargetArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::quantity;
use crate::table::{Align, Table};
use crate::target::Database;
use millstream_store::Check;
use millstream_store::collections::{self, CollectionSummary};

const EXAMPLES: &str = "\
Examples:
  millstream collections
  millstream collections --db postgres://me@db.example/shop --output json";

/// List collections with key, rows, size, loads and checks
///
/// `rows` is an estimate from the statistics of the table. `size` includes indexes and TOAST. If `logged` is
/// no, a crash of the server empties the table. `not valid` marks a check that rows stored before it may break.
///
/// `waiting` shows documents that were loaded with --layout log: their size, the number of segments, and since
/// when they wait for `millstream compact`. If the table is gone, the next load or `millstream drop` removes
/// these documents.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct CollectionsArgs {
    #[command(flatten)]
    target: TargetArgs,
}

/// Place of the column `waiting`, which is shown if documents wait.
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
