//! `freeze --cold`: rewrites a collection that hardly changes any more as small as it gets.

use super::FreezeArgs;
use crate::confirmation::confirmed;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interruption::interruptible;
use crate::output::{Output, note};
use crate::quantity;
use crate::signal::Signals;
use crate::target::Database;
use millstream_host::shell_word;
use millstream_model::CollectionName;
use millstream_pg::quote_name;
use millstream_publish::limits::COLD_BYTES_PER_SECOND;
use millstream_publish::{ColdEstimate, cold_estimate, freeze_cold, vacuum_cold};
use millstream_store::collections::Collection;
use serde_json::json;

/// Runs `freeze --cold`.
pub async fn run(
    args: &FreezeArgs,
    output: Output,
    signals: Signals,
    mut database: Database,
    collection: &Collection,
) -> Result<Exit, Failure> {
    let name = &collection.name;
    let estimate = cold_estimate(&database.connection.client, &database.schema, collection).await?;
    let announced = announced(name, &estimate);
    if args.dry_run {
        output.print(&estimate, &announced)?;
        return Ok(Exit::Done);
    }
    if !args.yes && !is_wanted(name, &announced)? {
        return Err(Failure::user("nothing was rewritten"));
    }
    database.warn_of_code(collection.table_oid).await?;
    let (lz4, warn) = (database.connection.server.lz4, |text: &str| note(&format!("warning: {text}")));
    let client = &mut database.connection.client;
    let work = Box::pin(freeze_cold(client, &database.schema, collection, lz4, &warn));
    let done = match interruptible(&signals, &database.conninfo, work).await {
        Ok(done) => done?,
        Err(exit) => {
            note(&format!("stopped: {name} is as it was, unless the rewrite had just ended"));
            return Ok(exit);
        }
    };
    let vacuum = Box::pin(vacuum_cold(&database.connection.client, collection));
    let vacuumed = interruptible(&signals, &database.conninfo, vacuum).await;
    let (before, after) = (quantity::bytes(done.bytes_before), quantity::bytes(done.bytes_after));
    let text = format!("rewrote {name} in the order of its key: {before} before, {after} now\nundo: {}", done.undo);
    let shown = json!({
        "schema": name.schema,
        "table": name.table,
        "bytes_before": done.bytes_before,
        "bytes_after": done.bytes_after,
        "undo": done.undo,
    });
    output.print(&shown, &text)?;
    let by_hand = format!("vacuum (analyze) {}", quote_name(name));
    match vacuumed {
        Ok(Ok(())) => Ok(Exit::Done),
        Ok(Err(error)) => {
            note(&format!("warning: it was not vacuumed: {error}; autovacuum will do it, or {by_hand}"));
            Ok(Exit::Done)
        }
        Err(exit) => {
            note(&format!("it was not vacuumed: autovacuum will do it, or {by_hand}"));
            Ok(exit)
        }
    }
}

/// What a rewrite would take, as sentences.
fn is_wanted(name: &CollectionName, announced: &str) -> Result<bool, Failure> {
    confirmed(&format!("{announced}\nRewrite it?"), || {
        let command = format!("millstream freeze {} --cold", shell_word(name));
        Failure::user(format!("rewriting {name} needs a confirmation, and there is no terminal to ask on"))
            .hint(format!("see what it needs: {command} --dry-run; then: {command} --yes"))
    })
}

fn announced(name: &CollectionName, estimate: &ColdEstimate) -> String {
    let [all, heap, toast, indexes, sort, needs] = [
        estimate.bytes,
        estimate.heap_bytes,
        estimate.toast_bytes,
        estimate.index_bytes,
        estimate.sort_bytes,
        estimate.needs_bytes,
    ]
    .map(quantity::bytes);
    let wal = match estimate.wal_bytes {
        0 => "hardly any WAL".to_owned(),
        wal => format!("up to {} of WAL", quantity::bytes(wal)),
    };
    format!(
        "rewriting {name} in the order of {} copies {all}: rows {heap}, long values {toast}, indexes {indexes}\n\
         It writes {wal}, in roughly {} at {}/s.\n\
         It needs up to {needs} of free disk until it is done: {all} for the new files, and {sort} for sorting.\n\
         Nobody can read or write the table meanwhile. If it is stopped or killed, the table stays as it was.\n\
         Afterwards it takes writes, but an update no longer finds room beside its row.\n\
         undo: {}",
        estimate.index,
        quantity::age(estimate.seconds),
        quantity::bytes(COLD_BYTES_PER_SECOND),
        estimate.undo
    )
}
