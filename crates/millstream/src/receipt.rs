//! The receipt as text.

use crate::quantity;
use millstream_engine::Durability;
use millstream_model::{COUNTERS, Receipt, StageCounts, WalScope};

/// What a column of the receipt means, for people.
fn meaning(counter: &str) -> &'static str {
    match counter {
        "read" => "documents",
        "inserted" => "new keys",
        "updated" => "existing keys, written",
        "unchanged" => "equal to the stored one, or a delete of an absent key",
        "superseded" => "by a later one of the same key and batch",
        "stale" => "older than the stored version",
        "kept" => "existing keys, left as they were",
        "deleted" => "keys removed",
        "appended" => "for `millstream compact` to merge",
        "rejected" => "could not be stored",
        _ => "",
    }
}

/// What became of the documents in a stage.
pub fn stage(stage: &StageCounts) -> String {
    let counts = stage.documents.iter().map(|(name, n)| format!("{} {name}", quantity::count(*n)));
    format!("{}: {}", stage.name, counts.collect::<Vec<_>>().join(", "))
}

/// The receipt, without counts that are zero.
pub fn text(receipt: &Receipt) -> String {
    let state = if receipt.finished { "" } else { " (unfinished)" };
    let mut lines = vec![format!("receipt of load {} into {}{state}", receipt.load_id, receipt.collection)];
    for (name, value) in COUNTERS.iter().zip(receipt.counters.to_array()) {
        if *name != "bytes_read" && (value > 0 || *name == "read") {
            lines.push(format!("  {:<10} {:>15}  {}", name, quantity::count(value), meaning(name)));
        }
    }
    lines.extend(receipt.stages.iter().map(|counts| format!("  {}", stage(counts))));
    if let Some(before) = receipt.resumed_from {
        lines.push(format!("  resumed after {} of earlier runs", quantity::things(before, "document")));
    }
    lines.push(format!(
        "  {:.2} s, {} documents/s, {} read",
        receipt.seconds,
        quantity::rate(receipt.rows_per_second),
        quantity::bytes(receipt.counters.bytes_read),
    ));
    match receipt.wal_scope {
        WalScope::Backend => lines.push(format!("  {} of WAL", quantity::bytes(receipt.wal_bytes))),
        WalScope::Server => lines.push(format!("  {} of WAL by the whole server", quantity::bytes(receipt.wal_bytes))),
        WalScope::Unknown => {}
    }
    let writers: Vec<String> = receipt.writers.iter().map(|(name, n)| format!("{name} {n}")).collect();
    let mut how = format!("  {}", quantity::things(u64::from(receipt.lanes), "lane"));
    if !writers.is_empty() {
        how.push_str(&format!(", batches: {}", writers.join(", ")));
    }
    if receipt.retries > 0 {
        how.push_str(&format!(", retries: {} ({} after a deadlock)", receipt.retries, receipt.deadlocks));
    }
    lines.push(how);
    lines.extend(Durability::by_name(&receipt.durability).map(|durability| format!("  {}", durability.promise)));
    lines.join("\n")
}
