//! `unpublish`: removes a read model.

use crate::args::TargetArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::target::Database;
use millstream_model::CollectionName;
use millstream_publish::unpublish;
use serde_json::json;

const EXAMPLES: &str = "\
Examples:
  millstream unpublish events_read";

/// Remove a read model and keep the collection
///
/// With the last model of a collection, the record of its changes is removed too. Refused if a view of yours
/// depends on the model. Waits up to 5 seconds for readers of the model and for writers of the collection.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct UnpublishArgs {
    /// Read model to remove
    #[arg(value_name = "[SCHEMA.]MODEL")]
    model: CollectionName,

    #[command(flatten)]
    target: TargetArgs,
}

/// Runs the command.
pub async fn run(args: &UnpublishArgs, output: Output) -> Result<Exit, Failure> {
    let mut database = Database::reach(&args.target).await?;
    let kept_by = unpublish(&mut database.connection, &database.schema, &args.model).await?;
    if let Some(owner) = &kept_by {
        note(&format!(
            "warning: the record of the collection's changes stays, because it belongs to role {owner}; to have it \
             removed, publish a model of the collection as {owner}, and unpublish that"
        ));
    }
    output.print(&json!({ "unpublished": args.model }), &format!("{} is gone", args.model))?;
    Ok(Exit::Done)
}
