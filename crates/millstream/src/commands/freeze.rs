//! `freeze`: makes an unlogged collection survive crashes of the server.

use crate::args::TargetArgs;
use crate::confirmation::confirmed;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interruption::interruptible;
use crate::output::Output;
use crate::quantity;
use crate::signal::Signals;
use crate::target::Database;
use millstream_host::shell_word;
use millstream_model::CollectionName;
use millstream_publish::limits::FREEZE_BYTES_PER_SECOND;
use millstream_publish::{FreezeEstimate, freeze, freeze_estimate};
use serde_json::json;

const EXAMPLES: &str = "\
Examples:
  millstream freeze staging.events --dry-run
  millstream freeze events --yes";

/// Make an unlogged collection survive crashes of the server
///
/// Rewrites the table with its indexes, and what its read models keep. Nobody can read or write them until that
/// is done. Unfinished loads resume afterwards, without --durability unlogged.
///
/// Refused while a load, a `compact` or a refresh of the collection runs, and if others hold the table for 5
/// seconds.
///
/// A repeatable-read transaction that began before, and reads the table only afterwards, finds it empty. The
/// same happens after every `alter table` that rewrites a table.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct FreezeArgs {
    /// Name of the collection
    #[arg(value_name = "[SCHEMA.]NAME")]
    name: CollectionName,

    /// Do not ask for confirmation; required without a terminal
    #[arg(long)]
    yes: bool,

    /// Only print what would be written
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    target: TargetArgs,
}

/// Runs the command.
pub async fn run(args: &FreezeArgs, output: Output, signals: Signals) -> Result<Exit, Failure> {
    let (mut database, collection) = Database::open_at(&args.target, &args.name).await?;
    let name = &collection.name;
    if !args.dry_run {
        database.connection.require_writable()?;
    }
    let estimate = freeze_estimate(&database.connection.client, &database.schema, &collection).await?;
    if args.dry_run {
        output.print(&estimate, &announced(name, &estimate))?;
        return Ok(Exit::Done);
    }
    // Without tables to rewrite, only records are updated, which needs no confirmation.
    if estimate.tables > 0 && !args.yes && !is_wanted(name, &estimate)? {
        return Err(Failure::user("nothing was frozen"));
    }
    // To freeze a table is to look whether it has rows.
    database.warn_of_code(collection.table_oid).await?;
    let work = Box::pin(freeze(&mut database.connection.client, &database.schema, &collection));
    let frozen = match interruptible(&signals, &database.conninfo, work).await {
        Ok(frozen) => frozen?,
        Err(exit) => return Ok(exit),
    };
    let mut text = match frozen.tables {
        0 => format!("{name} already survives crashes: no table was rewritten"),
        tables => format!("froze {name}: {} rewritten, it survives crashes now", quantity::things(tables, "table")),
    };
    if frozen.lost > 0 {
        let lost = quantity::things(frozen.lost, "load");
        text += &format!("\na crash emptied it after {lost}: if you run them again, they start over");
    }
    let done = json!({
        "schema": name.schema,
        "table": name.table,
        "tables": frozen.tables,
        "loads": frozen.loads,
        "lost": frozen.lost,
    });
    output.print(&done, &text)?;
    Ok(Exit::Done)
}

/// What freezing would do, as a sentence.
fn announced(name: &CollectionName, estimate: &FreezeEstimate) -> String {
    if estimate.tables == 0 {
        return format!("{name} already survives crashes: there is no table to rewrite");
    }
    let tables = quantity::things(estimate.tables, "table");
    let bytes = quantity::bytes(estimate.bytes);
    let wal = match estimate.wal_bytes {
        0 => format!("hardly any WAL (wal_level is {}), but their files are flushed at the end", estimate.wal_level),
        wal => format!("~{} of WAL", quantity::bytes(wal)),
    };
    format!(
        "freezing {name} rewrites {tables} of {bytes} and writes {wal}, in {} at {}/s; until it is done, nobody can \
         read or write them, and the disk must hold both copies",
        quantity::age(estimate.seconds.ceil()),
        quantity::bytes(FREEZE_BYTES_PER_SECOND)
    )
}

fn is_wanted(name: &CollectionName, estimate: &FreezeEstimate) -> Result<bool, Failure> {
    let announced = announced(name, estimate);
    confirmed(&format!("{announced}. Freeze it?"), || {
        Failure::user(format!("freezing {name} needs a confirmation, and there is no terminal to ask on"))
            .hint(format!("{announced}; millstream freeze {} --yes", shell_word(name)))
    })
}
