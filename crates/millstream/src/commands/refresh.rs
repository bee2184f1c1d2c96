//! `refresh`: brings read models up to date.

use crate::args::{TargetArgs, duration, workers};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interruption::{clean_up, interruptible};
use crate::keeper::Keeper;
use crate::output::{Output, note, note_once};
use crate::quantity;
use crate::signal::Signals;
use crate::table::{Align, Column, Table};
use crate::target::Database;
use millstream_model::CollectionName;
use millstream_pg::{ConnInfo, Explained};
use millstream_publish::limits::BUILD_WORKERS_MAX;
use millstream_publish::{Estimate, RefreshRequest, Refreshed, abandon, estimate, refresh};
use millstream_store::Schema;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  millstream refresh events_read
  millstream refresh offers_read prices_read
  millstream refresh events_read --dry-run";

/// Bring read models up to date
///
/// There are two ways. `incremental` derives only the rows that changed. `swap` builds all rows beside the ones
/// that readers see, and then shows the new ones. Millstream chooses the cheaper way. A materialized view has
/// only the way `materialized`: `refresh materialized view concurrently`. Documents that were loaded with
/// --layout log are merged first. Several models show the same moment afterwards.
///
/// Readers see each refresh whole or not at all. An incremental refresh does not block them. A swap needs a
/// lock to show the new rows and to remove the replaced ones. Each try blocks new readers for at most 50 ms,
/// plus one round trip between client and server. A swap can wait for readers at two
/// points: before it removes the rows of an earlier swap, and before it shows the new rows. Each wait takes at most
/// --wait. After that the swap fails, and readers keep what they saw.
///
/// Only the role that published a model can refresh it, because what the model is made of runs with the rights
/// of that role.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct RefreshArgs {
    /// Read models to refresh
    #[arg(value_name = "[SCHEMA.]MODEL", required = true)]
    models: Vec<CollectionName>,

    /// How to refresh: incremental or swap; materialized for a materialized view [default: the cheaper way]
    #[arg(long, value_name = "WAY")]
    way: Option<String>,

    /// Connections that build, 8 at most [default: this machine's cores]
    #[arg(long, value_name = "N", value_parser = workers(BUILD_WORKERS_MAX))]
    workers: Option<usize>,

    /// How long a swap waits for readers (500ms, 30s, 5m, 1h) [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    wait: Option<Duration>,

    /// Only print what would be done, and why
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    target: TargetArgs,
}

/// Runs the command.
pub async fn run(args: &RefreshArgs, output: Output, signals: Signals) -> Result<Exit, Failure> {
    let Database { connection, conninfo, schema } = Database::reach(&args.target).await?;
    // A role may have no more connections than the refresh needs.
    connection.close().await;
    let usual = RefreshRequest::new(args.models.clone());
    let patience = args.wait.unwrap_or(usual.patience);
    let request = RefreshRequest { way: args.way.clone(), workers: args.workers, patience, warn, ..usual };
    if args.dry_run {
        let estimates = estimate(&conninfo, &schema, &request).await?;
        match output.is_json() {
            true => output.json(&estimates)?,
            false => output.table(&Table::of(&estimates, COLUMNS))?,
        }
        return Ok(Exit::Done);
    }
    let keeper = Keeper::watch(&args.target);
    let ended = loop {
        match refresh_until_stopped(&conninfo, &schema, &request, &signals).await {
            Err(error) if keeper.revived(error.kind()).await => {}
            ended => break ended?,
        }
    };
    ended.show(output)
}

/// What a refresh would do.
const COLUMNS: &[Column<Estimate>] = &[
    ("model", Align::Left, |estimate| estimate.model.to_string()),
    ("way", Align::Left, |estimate| estimate.way.to_owned()),
    ("disk needed", Align::Right, |estimate| format!("~{}", quantity::bytes(estimate.bytes))),
    ("because", Align::Wrap, |estimate| estimate.reason.clone()),
];

/// How a refresh ended.
pub(super) enum Ended {
    /// What was done.
    Refreshed(Vec<Refreshed>),
    /// A signal interrupted it.
    Stopped(Exit),
}

impl Ended {
    /// Prints what was done, and returns the exit of the command.
    pub(super) fn show(self, output: Output) -> Result<Exit, Failure> {
        match self {
            Self::Refreshed(refreshed) => show(output, &refreshed).map(|()| Exit::Done),
            Self::Stopped(exit) => Ok(exit),
        }
    }
}

/// Warns of code of others in a collection. A command that refreshes again and again warns once.
pub(super) fn warn(collection: &CollectionName, text: &str) {
    note_once(&format!("warning: {collection}: {text}"));
}

/// One refresh of these models, by the cheapest way.
pub(super) async fn refresh_now(
    conninfo: &ConnInfo,
    schema: &Schema,
    models: &[CollectionName],
    signals: &Signals,
) -> Result<Ended, Failure> {
    let request = RefreshRequest { warn, ..RefreshRequest::new(models.to_vec()) };
    Ok(refresh_until_stopped(conninfo, schema, &request, signals).await?)
}

/// A refresh that the first signal interrupts. What it was building is then removed.
async fn refresh_until_stopped(
    conninfo: &ConnInfo,
    schema: &Schema,
    request: &RefreshRequest,
    signals: &Signals,
) -> Result<Ended, millstream_publish::Error> {
    match interruptible(signals, conninfo, Box::pin(refresh(conninfo, schema, request))).await {
        Ok(refreshed) => Ok(Ended::Refreshed(refreshed?)),
        Err(exit) => {
            // The next refresh removes what is left.
            let abandoned = async { _ = Box::pin(abandon(conninfo, schema, &request.models)).await };
            clean_up(signals, abandoned).await;
            Ok(Ended::Stopped(exit))
        }
    }
}

/// Prints a line for each model, with warnings and with values that do not fit their column.
pub(super) fn show(output: Output, refreshed: &[Refreshed]) -> Result<(), Failure> {
    if output.is_json() {
        return output.json(&refreshed);
    }
    for one in refreshed {
        let rows = quantity::things(one.rows, "row");
        let mut line = format!("{}: {rows} by {} in {:.2} s", one.model, one.way, one.seconds);
        if let Some(lag) = one.lag_seconds {
            line.push_str(&format!(", the newest change not shown is {lag:.1} s old"));
        }
        if one.bloat_bytes > 0 {
            line.push_str(&format!(", {} of replaced or dead rows left", quantity::bytes(one.bloat_bytes)));
        }
        output.line(&line)?;
        for warning in &one.warnings {
            note(&format!("warning: {}: {warning}", one.model));
        }
        for invalid_values in &one.invalid_values {
            let documents = quantity::things(invalid_values.documents, "document");
            output.line(&format!(
                "  {}: null for {documents} whose value does not fit {}, such as {}",
                invalid_values.column,
                invalid_values.type_name,
                invalid_values.keys.join("; ")
            ))?;
        }
    }
    Ok(())
}
