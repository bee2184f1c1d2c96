//! `collections`: lists the collections.

mod sizes;

use crate::args::TargetArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interruption::attended;
use crate::output::{Output, note};
use crate::quantity;
use crate::table::{Align, Column};
use crate::target::Database;
use millstream_model::DocumentForm;
use millstream_store::collections::{self, CollectionSummary};
use millstream_store::{Check, GeneratedColumn};

/// What a list without collections says.
const NONE: &str = "no collections yet";

const EXAMPLES: &str = "\
Examples:
  millstream collections
  millstream collections --sizes
  millstream collections --db postgres://me@db.example/shop --output json";

/// List collections with key, typed columns, rows, size, loads and checks
///
/// `rows` is an estimate from the statistics of the table. `size` includes indexes and TOAST. If `logged` is
/// no, a crash of the server empties the table. `columns` are the generated columns: those that Millstream knows
/// are written as `load --column` takes them. `not valid` marks a check that rows stored before it may break.
///
/// `waiting` shows documents that were loaded with --layout log: their size, the number of segments, and since
/// when they wait for `millstream compact`. If the table is gone, the next load or `millstream drop` removes
/// these documents.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct CollectionsArgs {
    /// List what each part of a collection takes on disk
    ///
    /// The parts of a table are its rows (`heap`), long values outside the rows (`toast`), each index, and the maps of free
    /// and visible pages. They add up to the size of the table; a partitioned table has the sums of its partitions.
    /// `waiting` are documents in segments. Bytes per document are those on disk divided by the estimate of the rows.
    /// `free` is free space inside a part, found as `millstream doctor tables` finds it: ~ is estimated, + is what the last
    /// vacuum found.
    #[arg(long)]
    sizes: bool,

    #[command(flatten)]
    target: TargetArgs,
}

/// Runs the command.
pub async fn run(args: &CollectionsArgs, output: Output) -> Result<Exit, Failure> {
    let database = Database::open(&args.target).await?;
    if args.sizes {
        sizes::print(database.as_ref(), output, NONE).await?;
        return Ok(Exit::Done);
    }
    let found = match &database {
        Some(Database { connection, schema, conninfo }) => {
            attended(conninfo, note, collections::list(&connection.client, schema)).await?
        }
        None => Vec::new(),
    };
    output.rows(&found, &columns(&found), NONE)?;
    Ok(Exit::Done)
}

/// The columns that say something about one of these collections.
fn columns(found: &[CollectionSummary]) -> Vec<Column<CollectionSummary>> {
    let checks = found.iter().any(|c| !c.checks.is_empty());
    let typed = found.iter().any(|c| !c.columns.is_empty());
    let waits = found.iter().any(|c| c.segments > 0);
    let without_key = found.iter().any(|c| c.doc != DocumentForm::Whole);
    let mut columns: Vec<Column<CollectionSummary>> = vec![
        ("name", Align::Left, |c| c.name.to_string()),
        ("rows", Align::Right, |c| c.rows_estimate.map_or("?".into(), |n| format!("~{}", quantity::count(n)))),
        ("size", Align::Right, |c| c.bytes.map_or_else(|| unsized_table(c).into(), quantity::bytes)),
        ("waiting", Align::Right, waiting),
        ("logged", Align::Left, |c| c.unlogged.map_or("", |unlogged| if unlogged { "no" } else { "yes" }).into()),
        ("doc", Align::Left, |c| c.doc.name().into()),
        ("loads", Align::Right, |c| quantity::count(c.loads)),
        ("last load (utc)", Align::Left, |c| c.last_load_at.as_deref().map(quantity::minute).unwrap_or_default()),
        ("key", if checks || typed { Align::Left } else { Align::Wrap }, |c| {
            joined(&c.key, |column| column.name.clone())
        }),
        ("columns", if checks { Align::Left } else { Align::Wrap }, |c| joined(&c.columns, GeneratedColumn::to_string)),
        ("checks", Align::Wrap, |c| joined(&c.checks, listed)),
    ];
    columns.retain(|(name, ..)| {
        (waits || *name != "waiting")
            && (without_key || *name != "doc")
            && (typed || *name != "columns")
            && (checks || *name != "checks")
    });
    columns
}

/// Why the size of a collection is not known.
fn unsized_table(collection: &CollectionSummary) -> &'static str {
    if collection.distributed { "distributed" } else { "no table" }
}

fn joined<T>(items: &[T], text: fn(&T) -> String) -> String {
    items.iter().map(text).collect::<Vec<_>>().join(", ")
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
