//! `distinct`: prints the distinct values of a column of a key.

use crate::args::TargetArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interruption::attended;
use crate::key_values;
use crate::limits::DISTINCT_LINES_MAX;
use crate::output::{Output, note};
use crate::quantity;
use crate::screen::visible;
use crate::target::Database;
use futures_util::StreamExt;
use millstream_host::shell_word;
use millstream_model::CollectionName;
use millstream_publish::{DistinctRequest, distinct};
use millstream_store::collections::Collection;
use millstream_store::segments;

const EXAMPLES: &str = "\
Examples:
  millstream distinct telemetry device
  millstream distinct telemetry at --prefix device-7 --limit 10
  millstream distinct telemetry device --count | sort -rn | head";

/// Print the distinct values of a key column without reading every row
///
/// Millstream skips along the key's index and prints the values in its order. So the time grows with the number
/// of values, not with the number of rows.
///
/// COLUMN is the first column of the key, or a later one. For a later column, give the values of all columns
/// before it with --prefix. With --output json the output is an array of values, or of {value, count} with
/// --count. As text, control characters are printed as escapes.
///
/// Documents that wait for `millstream compact` are not included.
///
/// In SQL, use millstream.distinct_values('NAME', 'COLUMN', '{PREFIX,..}').
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct DistinctArgs {
    /// Name of the collection
    #[arg(value_name = "[SCHEMA.]NAME")]
    name: CollectionName,

    /// Column of the key
    column: String,

    /// Only keys that begin with these values, one for each column before COLUMN
    ///
    /// Write a single value without quotes or escapes, and several values as `millstream get` takes a key.
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    prefix: Option<String>,

    /// Print the number of documents before each value, separated by a tab
    ///
    /// This takes longer, because it reads the documents' part of the index.
    #[arg(long)]
    count: bool,

    /// Print at most this many values
    #[arg(long, value_name = "N")]
    limit: Option<u64>,

    #[command(flatten)]
    target: TargetArgs,
}

/// Runs the command.
pub async fn run(args: &DistinctArgs, output: Output) -> Result<Exit, Failure> {
    let (mut database, collection) = Database::open_table(&args.target, &args.name).await?;
    collection.require_whole("distinct")?;
    let conninfo = database.conninfo.clone();
    attended(&conninfo, note, Box::pin(list(args, &mut database, &collection, output))).await
}

/// Prints the values.
async fn list(
    args: &DistinctArgs,
    database: &mut Database,
    collection: &Collection,
    output: Output,
) -> Result<Exit, Failure> {
    database.warn_of_code(collection.table_oid).await?;
    let waiting = segments::count(&database.connection.client, &database.schema, collection).await?;
    if waiting > 0 {
        let name = &collection.name;
        note(&format!(
            "{} of {name} are not included, because they have no index: millstream compact {}",
            quantity::things(waiting as u64, "segment"),
            shell_word(name)
        ));
    }
    let request = DistinctRequest {
        column: args.column.clone(),
        prefix: args.prefix.as_deref().map(|text| values(text, &args.column, collection)).unwrap_or_default(),
        count: args.count,
        json: output.is_json(),
        limit: args.limit,
    };
    let found = distinct(&mut database.connection.client, collection, &request).await?;
    // Values that have arrived are printed at once, before the next ones are found.
    let mut found = std::pin::pin!(found.ready_chunks(DISTINCT_LINES_MAX));
    let mut list = output.list();
    while let Some(values) = found.next().await {
        let values = values.into_iter().collect::<Result<Vec<_>, _>>()?;
        let lines = values.into_iter().map(|value| if output.is_json() { value } else { line(&value, args.count) });
        if !list.add(lines)? {
            return Ok(Exit::Done);
        }
    }
    list.end()?;
    Ok(Exit::Done)
}

/// A value without control characters. The tab after its count stays.
fn line(value: &str, counted: bool) -> String {
    match value.split_once('\t').filter(|_| counted) {
        Some((count, value)) => format!("{count}\t{}", visible(value)),
        None => visible(value),
    }
}

/// The values before a column. A single value is taken as it is.
fn values(text: &str, column: &str, collection: &Collection) -> Vec<String> {
    match collection.key.iter().position(|key| key.name == column) {
        Some(1) => vec![text.to_owned()],
        _ => key_values::parse(text),
    }
}
