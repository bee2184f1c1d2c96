//! `distinct`: prints the distinct values of a column of a key.

use crate::args::TargetArgs;
use crate::exit::Exit;
use crate::failure::{Failure, shell_word};
use crate::key_values;
use crate::limits::DISTINCT_LINES_MAX;
use crate::output::{Output, note};
use crate::quantity;
use crate::table::visible;
use crate::target::Database;
use futures_util::StreamExt;
use millstream_engine::store::collections::Collection;
use millstream_engine::store::segments;
use millstream_engine::{DistinctRequest, distinct};
use millstream_model::CollectionName;

const EXAMPLES: &str = "\
Examples:
  millstream distinct telemetry device
  millstream distinct telemetry at --prefix device-7 --limit 10
  millstream distinct telemetry device --count | sort -rn | head";

/// Print the distinct values of a column of the key, without reading every row
///
/// A walk along the key's index finds them, in its order: the time it takes grows with the
/// number of values, not of rows. COLUMN is the first column of the key, or a later one after the
/// values of all columns before it, which --prefix gives. With --output json the answer is an
/// array of values, or of {value, count}. As text, control characters are printed as escapes.
///
/// In SQL the same is millstream.distinct_values('NAME', 'COLUMN', '{PREFIX,..}').
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct DistinctArgs {
    /// Collection, as listed
    #[arg(value_name = "[SCHEMA.]NAME")]
    name: CollectionName,

    /// Column of its key
    column: String,

    /// Only where the key begins with these values, one for each column before COLUMN: a single one as
    /// it stands, several as `get` takes a key
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    prefix: Option<String>,

    /// Print before each value, with a tab, how many documents have it, which takes the time to read
    /// their part of the index
    #[arg(long)]
    count: bool,

    /// Print at most this many
    #[arg(long, value_name = "N")]
    limit: Option<u64>,

    #[command(flatten)]
    target: TargetArgs,
}

/// Runs the command.
pub async fn run(args: &DistinctArgs, output: Output) -> Result<Exit, Failure> {
    let (mut database, collection) = Database::open_table(&args.target, &args.name).await?;
    let waiting = segments::count(&database.connection.client, &database.schema, &collection).await?;
    if waiting > 0 {
        let name = &collection.name;
        note(&format!(
            "{} of {name} are not looked at, for they have no index: millstream compact {}",
            quantity::things(waiting as u64, "segment"),
            shell_word(name)
        ));
    }
    let request = DistinctRequest {
        column: args.column.clone(),
        prefix: args.prefix.as_deref().map(|text| values(text, &args.column, &collection)).unwrap_or_default(),
        count: args.count,
        json: output.is_json(),
        limit: args.limit,
    };
    let found = distinct(&mut database.connection.client, &collection, &request).await?;
    // What is there goes out at once, so that nobody waits for values that are still looked for.
    let mut found = std::pin::pin!(found.ready_chunks(DISTINCT_LINES_MAX));
    let mut list = output.list();
    while let Some(values) = found.next().await {
        let values = values.into_iter().collect::<Result<Vec<_>, _>>()?;
        list.add(values.into_iter().map(|value| if output.is_json() { value } else { line(&value, args.count) }))?;
    }
    list.end()?;
    Ok(Exit::Done)
}

/// A value that cannot steer the terminal; the tab behind its count stays.
fn line(value: &str, counted: bool) -> String {
    match value.split_once('\t').filter(|_| counted) {
        Some((count, value)) => format!("{count}\t{}", visible(value)),
        None => visible(value),
    }
}

/// The values before a column; the one of a single column as it stands.
fn values(text: &str, column: &str, collection: &Collection) -> Vec<String> {
    match collection.key.iter().position(|key| key.name == column) {
        Some(1) => vec![text.to_owned()],
        _ => key_values::parse(text),
    }
}
