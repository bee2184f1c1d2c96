//! `freeze`: makes an unlogged collection survive crashes of the server, or rewrites one that hardly changes any more.

mod cold;

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
use millstream_publish::{
    FreezeEstimate, InPlaceEstimate, freeze, freeze_estimate, freeze_in_place, freeze_in_place_estimate, unfreeze,
};
use millstream_store::collections::Collection;
use serde_json::json;

const EXAMPLES: &str = "\
Examples:
  millstream freeze staging.events --dry-run
  millstream freeze events --yes
  millstream freeze events --in-place --yes
  millstream freeze events --undo
  millstream freeze events_2024 --cold --dry-run
  millstream freeze events_2024 --cold --yes";

/// Make an unlogged collection survive crashes of the server
///
/// Rewrites the table with its indexes, and what its read models keep. Nobody can read or write them until that
/// is done. Unfinished loads resume afterwards, without --durability unlogged.
///
/// Refused while a load, a `compact` or a refresh of the collection runs, and if others hold the table for 5
/// seconds.
///
/// With --in-place, only the table and its indexes are rewritten, and the table takes no writes afterwards. The
/// read models stay as they are, and readers can use them. If they are unlogged, a crash of the server empties
/// them, and the next `millstream refresh` builds them again.
///
/// With --cold, a collection that hardly changes any more is written again as small as it gets, in the order of its
/// key and without room for updates. Whether it survives crashes stays as it is.
///
/// A repeatable-read transaction that began before, and reads the table only afterwards, finds it empty. The
/// same happens after every `alter table` that rewrites a table. After --cold it finds its rows.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct FreezeArgs {
    /// Name of the collection
    #[arg(value_name = "[SCHEMA.]NAME")]
    name: CollectionName,

    /// Make only the table logged, and read-only; leave its read models as they are
    ///
    /// A trigger refuses every insert, update, delete and truncate, whoever tries. You must own the table, and
    /// have the right to create in Millstream's schema. Refused if the table has partitions or child tables, or
    /// is one; if a subscription writes it; and while documents wait in segments.
    #[arg(long)]
    in_place: bool,

    /// Rewrite the table in the order of its key, with full pages and full pages of the key's index
    ///
    /// Says first what the rewrite locks, and how much free disk and WAL it needs. It is one transaction: if it is stopped
    /// or killed, the table stays as it was. Afterwards the table takes writes, and long documents that are new are
    /// compressed by lz4 if the server has it. Prints the statements that let it leave room for updates again. You must
    /// own the table. Refused if it has partitions or child tables, while a load or a `compact` of it runs, and while
    /// documents wait in segments.
    #[arg(long, conflicts_with_all = ["in_place", "undo"])]
    cold: bool,

    /// Let a collection that was frozen in place take writes again; it stays logged
    #[arg(long, conflicts_with_all = ["in_place", "dry_run"])]
    undo: bool,

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
    collection.require_whole("freeze")?;
    let name = &collection.name;
    if !args.dry_run {
        database.connection.require_writable()?;
    }
    if args.undo {
        return undo(output, database, &collection).await;
    }
    if args.cold {
        return cold::run(args, output, signals, database, &collection).await;
    }
    if args.in_place {
        return in_place(args, output, signals, database, &collection).await;
    }
    let estimate = freeze_estimate(&database.connection.client, &database.schema, &collection).await?;
    if args.dry_run {
        output.print(&estimate, &announced(name, &estimate))?;
        return Ok(Exit::Done);
    }
    // Without tables to rewrite, only records are updated, which needs no confirmation.
    if estimate.tables > 0 && !args.yes && !is_wanted(name, &announced(name, &estimate), "")? {
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

/// Freezes the table alone, and lets it take no writes.
async fn in_place(
    args: &FreezeArgs,
    output: Output,
    signals: Signals,
    mut database: Database,
    collection: &Collection,
) -> Result<Exit, Failure> {
    let name = &collection.name;
    let estimate = freeze_in_place_estimate(&database.connection.client, &database.schema, collection).await?;
    let announced = announced_in_place(name, &estimate);
    if args.dry_run {
        output.print(&estimate, &announced)?;
        return Ok(Exit::Done);
    }
    if !is_frozen(&estimate) && !args.yes && !is_wanted(name, &announced, " --in-place")? {
        return Err(Failure::user("nothing was frozen"));
    }
    database.warn_of_code(collection.table_oid).await?;
    let work = Box::pin(freeze_in_place(&mut database.connection.client, &database.schema, collection));
    let frozen = match interruptible(&signals, &database.conninfo, work).await {
        Ok(frozen) => frozen?,
        Err(exit) => return Ok(exit),
    };
    let text = match frozen.tables {
        0 if is_frozen(&estimate) => announced,
        0 => format!("froze {name} in place: it survived crashes before, and takes no writes now"),
        tables => format!(
            "froze {name} in place: {} rewritten, it survives crashes and takes no writes now",
            quantity::things(tables, "table")
        ),
    };
    let done = json!({
        "schema": name.schema,
        "table": name.table,
        "tables": frozen.tables,
        "loads": frozen.loads,
        "left": estimate.left,
        "read_only": true,
    });
    output.print(&done, &text)?;
    Ok(Exit::Done)
}

/// Lets the table take writes again.
async fn undo(output: Output, mut database: Database, collection: &Collection) -> Result<Exit, Failure> {
    let name = &collection.name;
    let undone = unfreeze(&mut database.connection.client, &database.schema, collection).await?;
    let text = match undone {
        true => format!("{name} takes writes again"),
        false => format!("{name} takes writes: it was not frozen in place"),
    };
    let done = json!({ "schema": name.schema, "table": name.table, "undone": undone, "read_only": false });
    output.print(&done, &text)?;
    Ok(Exit::Done)
}

/// Whether a freeze in place would change nothing.
fn is_frozen(estimate: &InPlaceEstimate) -> bool {
    estimate.rewritten.tables == 0 && estimate.read_only
}

/// What freezing in place would do and leave, as a sentence.
fn announced_in_place(name: &CollectionName, estimate: &InPlaceEstimate) -> String {
    let mut text = if is_frozen(estimate) {
        format!("{name} is frozen in place: it survives crashes and takes no writes")
    } else if estimate.rewritten.tables == 0 {
        format!("freezing {name} in place rewrites nothing, because it survives crashes; it takes no writes afterwards")
    } else {
        let rewritten = rewriting(&format!("freezing {name} in place"), &estimate.rewritten);
        format!("{rewritten}; it takes no writes afterwards")
    };
    if estimate.left > 0 {
        text += &format!(
            "; what its read models keep ({}, {}) stays unlogged: a crash of the server empties it, and the next \
             `millstream refresh` builds it again",
            quantity::things(estimate.left, "table"),
            quantity::bytes(estimate.left_bytes)
        );
    }
    text
}

/// What freezing would do, as a sentence.
fn announced(name: &CollectionName, estimate: &FreezeEstimate) -> String {
    if estimate.tables == 0 {
        return format!("{name} already survives crashes: there is no table to rewrite");
    }
    rewriting(&format!("freezing {name}"), estimate)
}

/// What the rewrite of an estimate takes, as a sentence that begins with what does it.
fn rewriting(what: &str, estimate: &FreezeEstimate) -> String {
    let tables = quantity::things(estimate.tables, "table");
    let bytes = quantity::bytes(estimate.bytes);
    let wal = match estimate.wal_bytes {
        0 => format!("hardly any WAL (wal_level is {}), but their files are flushed at the end", estimate.wal_level),
        wal => format!("~{} of WAL", quantity::bytes(wal)),
    };
    format!(
        "{what} rewrites {tables} of {bytes} and writes {wal}, in {} at {}/s; until it is done, nobody can \
         read or write them, and the disk must hold both copies",
        quantity::age(estimate.seconds.ceil()),
        quantity::bytes(FREEZE_BYTES_PER_SECOND)
    )
}

/// Asks. `option` is the option with a space before it, if one was given.
fn is_wanted(name: &CollectionName, announced: &str, option: &str) -> Result<bool, Failure> {
    confirmed(&format!("{announced}. Freeze it?"), || {
        Failure::user(format!("freezing {name} needs a confirmation, and there is no terminal to ask on"))
            .hint(format!("{announced}; millstream freeze {}{option} --yes", shell_word(name)))
    })
}
