//! `drop`: removes a collection and all its records.

use crate::args::TargetArgs;
use crate::confirmation::confirmed;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::quantity;
use crate::target::Database;
use millstream_host::shell_word;
use millstream_model::CollectionName;
use millstream_store::collections::{self, Collection};
use serde_json::json;

const EXAMPLES: &str = "\
Examples:
  millstream drop events
  millstream drop staging.events --yes";

/// Drop a collection: its table, loads and rejects
///
/// A table that a load took over with --adopt stays, and only the records of it are removed. Add --table to
/// drop it too. Without --table, `drop` is refused while documents wait to be merged into that table.
///
/// Refused while a load, a `compact` or a read model uses the collection, and if views or foreign keys depend
/// on the table.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct DropArgs {
    /// Name of the collection
    #[arg(value_name = "[SCHEMA.]NAME")]
    name: CollectionName,

    /// Do not ask for confirmation; required without a terminal
    #[arg(long)]
    yes: bool,

    /// Drop the table even if it was adopted
    #[arg(long)]
    table: bool,

    #[command(flatten)]
    target: TargetArgs,
}

/// Runs the command.
pub async fn run(args: &DropArgs, output: Output) -> Result<Exit, Failure> {
    let (mut database, collection) = Database::open_at(&args.target, &args.name).await?;
    collection.require_whole("drop")?;
    database.connection.require_writable()?;
    let with_table = collection.present && (args.table || !collection.adopted);
    if !args.yes && !is_wanted(&collection, with_table)? {
        return Err(Failure::user("nothing was dropped"));
    }
    let dropped = collections::drop(&mut database.connection.client, &database.schema, &collection, with_table).await?;
    let name = &collection.name;
    let loads = quantity::things(dropped.loads, "load");
    let text = match (dropped.table, collection.present) {
        (true, _) => format!("dropped {name} and the record of {loads}"),
        (false, true) => {
            format!("forgot {name} and the record of {loads}; its adopted table stays{}", without_key(&collection))
        }
        (false, false) => format!("forgot {name}, whose table was gone, and the record of {loads}"),
    };
    let done = json!({
        "schema": name.schema,
        "table": name.table,
        "dropped_table": dropped.table,
        "forgotten_loads": dropped.loads,
    });
    output.print(&done, &text)?;
    Ok(Exit::Done)
}

/// What nobody remembers any more about the documents in a table that stays.
fn without_key(collection: &Collection) -> String {
    let left_out = collection.doc.left_out(&collection.key);
    let members: Vec<&str> = left_out.into_iter().flat_map(|column| &column.path).map(String::as_str).collect();
    match members.as_slice() {
        [] => String::new(),
        members => format!(
            ", and its documents are without {}: name --doc without-key if you load into it again",
            members.join(", ")
        ),
    }
}

fn is_wanted(collection: &Collection, with_table: bool) -> Result<bool, Failure> {
    let name = &collection.name;
    let what = if with_table { "drop the table of" } else { "forget" };
    confirmed(&format!("{what} {name} with its loads and rejects?"), || {
        Failure::user(format!("dropping {name} needs a confirmation, and there is no terminal to ask on"))
            .hint(format!("millstream drop {} --yes", shell_word(name)))
    })
}
