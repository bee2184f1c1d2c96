//! `models`: lists read models.

use crate::args::TargetArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::quantity;
use crate::table::{Align, Table};
use crate::target::Database;
use millstream_engine::store::models;

const EXAMPLES: &str = "\
Examples:
  millstream models
  millstream models --output json";

/// List the read models: collection, last refresh, indexes
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ModelsArgs {
    #[command(flatten)]
    target: TargetArgs,
}

/// Runs the command.
pub async fn run(args: &ModelsArgs, output: Output) -> Result<Exit, Failure> {
    let found = match Database::open(&args.target).await? {
        Some(database) => models::list(&database.connection.client, &database.schema).await?,
        None => Vec::new(),
    };
    if output.is_json() {
        output.json(&found)?;
        return Ok(Exit::Done);
    }
    if found.is_empty() {
        note("no models yet");
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&[
        ("model", Align::Left),
        ("collection", Align::Left),
        ("refreshed (utc)", Align::Left),
        ("way", Align::Left),
        ("indexes", Align::Wrap),
    ]);
    for model in &found {
        table.row([
            model.name.to_string(),
            model.collection.as_ref().map_or_else(|| "gone".to_owned(), ToString::to_string),
            model.refreshed_at.as_deref().map_or_else(|| "never".to_owned(), quantity::minute),
            model.way.clone().unwrap_or_default(),
            model.definition.indexes.join(", "),
        ]);
    }
    output.table(&table)?;
    Ok(Exit::Done)
}
