//! `compact`: merges documents of the log layout into the collection's table.

use crate::args::{TargetArgs, workers};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interruption::interruptible;
use crate::output::{Output, note};
use crate::quantity;
use crate::signal::Signals;
use crate::target::Database;
use millstream_engine::limits::COMPACTION_WORKERS_MAX;
use millstream_engine::{Compacted, compact};
use millstream_host::shell_word;
use millstream_model::CollectionName;
use millstream_store::{Access, foreign_code, segments};

const EXAMPLES: &str = "\
Examples:
  millstream compact events
  millstream compact raw.day --workers 4";

/// Merge documents that were loaded with --layout log into the table
///
/// Writes the newest document of each key to the table and drops the segments. If you stop or kill it, the next
/// `compact` resumes. Loads in the log layout may run meanwhile; the next `compact` merges what they commit.
/// `millstream refresh` compacts first. You need the rights of the role that loaded.
///
/// Exit code 1 if segments must wait because an earlier load still runs.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct CompactArgs {
    /// Name of the collection
    #[arg(value_name = "[SCHEMA.]NAME")]
    name: CollectionName,

    /// Connections that merge, 8 at most [default: this machine's cores]
    #[arg(long, value_name = "N", value_parser = workers(COMPACTION_WORKERS_MAX))]
    workers: Option<usize>,

    #[command(flatten)]
    target: TargetArgs,
}

/// Runs the command.
pub async fn run(args: &CompactArgs, output: Output, signals: Signals) -> Result<Exit, Failure> {
    let (Database { connection, schema, conninfo }, collection) =
        Database::open_table(&args.target, &args.name).await?;
    collection.require_whole("compact")?;
    let client = &connection.client;
    if segments::count(client, &schema, &collection).await? > 0 {
        for warning in foreign_code(client, &schema, collection.table_oid, Access::Write).await? {
            note(&format!("warning: {warning}"));
        }
    }
    // A role may have no more connections than the compaction needs.
    connection.close().await;
    let work = Box::pin(compact(&conninfo, &schema, &collection, args.workers));
    let done = match interruptible(&signals, &conninfo, work).await {
        Ok(done) => done?,
        Err(exit) => {
            note(&format!("stopped; what was merged stays. To resume: millstream compact {}", shell_word(&args.name)));
            return Ok(exit);
        }
    };
    for warning in &done.warnings {
        note(&format!("warning: {warning}"));
    }
    output.print(&done, &text(&collection.name, &done))?;
    let Some(load_id) = done.waits_for.filter(|_| done.left > 0) else { return Ok(Exit::Done) };
    note(&format!(
        "{} left: load {load_id} began before them and still runs; see `millstream loads`",
        quantity::things(done.left as u64, "segment")
    ));
    Ok(Exit::Findings)
}

fn text(name: &CollectionName, done: &Compacted) -> String {
    if done.segments == 0 && done.left == 0 {
        return format!("{name}: nothing to merge");
    }
    let left = match (done.left, done.waits_for) {
        (1.., None) => format!("; added meanwhile: {}", quantity::things(done.left as u64, "segment")),
        _ => String::new(),
    };
    format!(
        "{name}: merged {} of {}, {} written, in {:.2} s{left}",
        quantity::things(done.documents, "document"),
        quantity::things(done.segments as u64, "segment"),
        quantity::things(done.keys, "key"),
        done.seconds
    )
}
