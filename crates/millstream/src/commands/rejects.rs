//! `rejects`: shows, exports and clears the documents that could not be stored.

pub(super) mod export;

use crate::args::{TargetArgs, named};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::limits::REJECTS_SHOWN;
use crate::output::{Output, note};
use crate::quantity::{self, Age};
use crate::screen::visible;
use crate::table::{Align, Column, Table};
use crate::target::Database;
use clap::builder::PossibleValuesParser;
use millstream_model::{CollectionName, REASONS};
use millstream_store::rejects::{self, Cleared, ReasonCount, RejectFilter, RejectRecord};
use serde_json::json;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  millstream rejects events
  millstream rejects events --reason not_json --limit 100
  millstream rejects events --export mend.rejects --clear
  millstream load --format rejects mend.rejects --into events --key id
  millstream rejects events --clear --older-than 30d";

/// Show the documents of a collection that could not be stored
///
/// Prints how many rejects there are for each reason. Then it prints the rejects: load, source and line, reason
/// and detail. --output json also prints the bytes of the documents.
///
/// --export writes the rejects to a file. You can mend the documents there and load the file with `load
/// --format rejects`. --clear removes the rejects. With both, only exported ones are removed. Loads keep their
/// counts. The reject of a damaged file stays while its load can be resumed; the resumed load removes it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct RejectsArgs {
    /// Name of the collection
    #[arg(value_name = "[SCHEMA.]NAME")]
    name: CollectionName,

    /// Only rejects of this load
    #[arg(long, value_name = "ID")]
    load: Option<i64>,

    /// Only rejects with this reason
    #[arg(long, value_name = "REASON", value_parser = reasons())]
    reason: Option<String>,

    /// Only rejects older than this (90m, 12h, 30d, 8w)
    #[arg(long, value_name = "AGE")]
    older_than: Option<Age>,

    /// Show at most this many rejects
    #[arg(long, value_name = "N", default_value_t = REJECTS_SHOWN,
        conflicts_with_all = ["export", "clear"])]
    limit: u64,

    /// Write all of them to a new file instead of showing them; - is standard output
    #[arg(long, value_name = "FILE")]
    export: Option<PathBuf>,

    /// Remove them instead of showing them
    #[arg(long)]
    clear: bool,

    #[command(flatten)]
    target: TargetArgs,
}

fn reasons() -> PossibleValuesParser {
    named(REASONS.iter().map(|reason| (reason.code(), reason.about())))
}

/// Runs the command.
pub async fn run(args: &RejectsArgs, output: Output) -> Result<Exit, Failure> {
    let (database, collection) = Database::open_record(&args.target, &args.name).await?;
    collection.require_own_rejects(&database.schema)?;
    let filter = RejectFilter {
        table_oid: collection.table_oid,
        load_id: args.load,
        reason: args.reason.clone(),
        older_than_seconds: args.older_than.map(|age| age.seconds as f64),
    };
    if args.export.is_some() || args.clear {
        return take_out(args, &filter, &database, output).await;
    }
    show(args, &filter, &database, output).await
}

async fn show(args: &RejectsArgs, filter: &RejectFilter, database: &Database, output: Output) -> Result<Exit, Failure> {
    let reasons = rejects::count(&database.connection.client, &database.schema, filter).await?;
    let mut shown = Vec::new();
    let limit = Some(args.limit);
    rejects::each(&database.connection.client, &database.schema, filter, limit, |reject| {
        shown.push(reject);
        Ok::<(), Failure>(())
    })
    .await?;
    if output.is_json() {
        output.json(&json!({ "reasons": reasons, "rejects": shown }))?;
        return Ok(Exit::Done);
    }
    if reasons.is_empty() {
        note("no rejects");
        return Ok(Exit::Done);
    }
    output.table(&Table::of(&reasons, SUMMARY))?;
    output.line("")?;
    output.table(&Table::of(&shown, COLUMNS))?;
    let all: u64 = reasons.iter().map(|reason| reason.count).sum();
    let more = all.saturating_sub(shown.len() as u64);
    if more > 0 {
        note(&format!("{} more; --limit shows more, --export FILE writes all", quantity::count(more)));
    }
    Ok(Exit::Done)
}

const SUMMARY: &[Column<ReasonCount>] = &[
    ("reason", Align::Left, |reason| reason.reason.clone()),
    ("rejects", Align::Right, |reason| quantity::count(reason.count)),
    ("size", Align::Right, |reason| quantity::bytes(reason.bytes)),
];

const COLUMNS: &[Column<RejectRecord>] = &[
    ("load", Align::Right, |reject| reject.load_id.to_string()),
    ("source:line", Align::Left, |reject| format!("{}:{}", reject.source, reject.line)),
    ("byte", Align::Right, |reject| reject.byte_offset.to_string()),
    ("reason", Align::Left, |reject| reject.reason.clone()),
    ("detail", Align::Wrap, |reject| reject.detail.clone()),
];

/// How many rejects went to stdout. If its reader goes away, `--clear` must not take out what nobody has.
fn printed(args: &RejectsArgs, printed: Result<u64, Failure>) -> Result<u64, Failure> {
    match printed {
        Err(failure) if failure.is_closed_pipe() && args.clear => {
            Err(Failure::user("the reader of stdout went away before it had all rejects; nothing was cleared")
                .hint("export them to a file: --export FILE --clear"))
        }
        printed => printed,
    }
}

/// Exports, clears, or both. With both, only exported rejects are removed, because both see one snapshot. If the
/// command ends early, the session ends and the server rolls back.
async fn take_out(
    args: &RejectsArgs,
    filter: &RejectFilter,
    database: &Database,
    output: Output,
) -> Result<Exit, Failure> {
    let client = &database.connection.client;
    let run = async |sql: &str| client.batch_execute(sql).await.map_err(millstream_pg::Error::from);
    run("begin isolation level repeatable read").await?;
    let is_stdout = args.export.as_deref().is_some_and(|path| path.as_os_str() == "-");
    let exported = match &args.export {
        Some(_) if is_stdout => Some(printed(args, export::print(database, filter).await)?),
        Some(path) => Some(export::write_new(path, database, filter).await?),
        None => None,
    };
    let cleared = match args.clear {
        true => Some(rejects::clear(client, &database.schema, filter).await?),
        false => None,
    };
    run("commit").await?;
    let mut lines = Vec::new();
    if let (Some(n), Some(path)) = (exported, &args.export) {
        let to = if is_stdout { "stdout".to_owned() } else { visible(&path.display().to_string()) };
        lines.push(format!("exported {} to {to}", quantity::things(n, "reject")));
    }
    if let Some(Cleared { deleted, .. }) = cleared {
        lines.push(format!("cleared {}", quantity::things(deleted, "reject")));
    }
    if is_stdout {
        // Stdout holds the rejects and nothing else.
        lines.iter().for_each(|line| note(line));
    } else if output.is_json() {
        output.json(&json!({ "exported": exported, "cleared": cleared.map(|cleared| cleared.deleted) }))?;
    } else {
        output.line(&lines.join("\n"))?;
    }
    if let Some(Cleared { kept: kept @ 1.., .. }) = cleared {
        note(&format!(
            "kept {} where a file is damaged: mend the file and run the same load again, which removes the reject",
            quantity::things(kept, "reject")
        ));
    }
    Ok(Exit::Done)
}
