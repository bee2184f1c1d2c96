//! The receipt as text.

use crate::quantity;
use millstream_engine::Durability;
use millstream_kafka::{Account, PartitionAccount};
use millstream_model::{COUNTERS, Receipt, TransformCounts, WalScope};

/// What a column of the receipt means, for people.
fn meaning(counter: &str) -> &'static str {
    match counter {
        "read" => "documents",
        "inserted" => "new keys",
        "updated" => "existing keys, written",
        "unchanged" => "equal to the stored one, or nothing to delete",
        "superseded" => "by a later one of the same key and batch",
        "stale" => "older than the stored version",
        "kept" => "existing keys, left as they were",
        "deleted" => "keys removed",
        "appended" => "for `millstream compact` to merge",
        "rejected" => "could not be stored",
        _ => "",
    }
}

/// What became of the documents in a transform.
fn transform(transform: &TransformCounts) -> String {
    let counts = transform.documents.iter().map(|(name, n)| format!("{} {name}", quantity::count(*n)));
    format!("{}: {}", transform.name, counts.collect::<Vec<_>>().join(", "))
}

/// Why a transform gave no document anything. `None`: it did, or it was asked for no document.
pub fn nothing_added(transform: &TransformCounts) -> Option<String> {
    let count = |outcome: &str| transform.documents.get(outcome).copied().unwrap_or_default();
    let (missing, unusable) = (count("missing"), count("unusable"));
    // A document that kept its member has a value.
    if count("enriched") + count("existing") > 0 || missing + unusable == 0 {
        return None;
    }
    let reasons = [(unusable, "without a usable address"), (missing, "whose address is in no range")];
    let reasons = reasons.into_iter().filter(|(n, _)| *n > 0);
    let reasons: Vec<String> = reasons.map(|(n, why)| format!("{} {why}", quantity::things(n, "document"))).collect();
    Some(reasons.join(", "))
}

/// What became of the documents in each transform, a line for each.
pub fn transforms(transforms: &[TransformCounts]) -> impl Iterator<Item = String> {
    let nothing = |counts| nothing_added(counts).map(|reasons| format!("nothing was enriched: {reasons}"));
    transforms.iter().flat_map(move |counts| std::iter::once(transform(counts)).chain(nothing(counts)))
}

/// Counts with their names and meanings, a line for each that is not zero or is always shown.
pub fn counts<'a>(
    counts: impl IntoIterator<Item = (&'a str, u64, &'a str)>,
    always: &[&str],
) -> impl Iterator<Item = String> {
    let shown = counts.into_iter().filter(move |(name, count, _)| *count > 0 || always.contains(name));
    shown.map(|(name, count, meaning)| format!("  {name:<10} {:>15}  {meaning}", quantity::count(count)))
}

/// The receipt, without counts that are zero.
pub fn text(receipt: &Receipt) -> String {
    if receipt.load_id == 0 {
        let files = quantity::things(receipt.skipped_files, "file");
        return format!("nothing to load into {}: {files} loaded before", receipt.collection);
    }
    let state = if receipt.finished { "" } else { " (unfinished)" };
    let mut lines = vec![format!("receipt of load {} into {}{state}", receipt.load_id, receipt.collection)];
    let counters = COUNTERS.iter().zip(receipt.counters.to_array()).filter(|(name, _)| **name != "bytes_read");
    lines.extend(counts(counters.map(|(name, value)| (*name, value, meaning(name))), &["read"]));
    if receipt.rejected_lines > 0 {
        lines.push(format!("  rejects of several lines hold {}", quantity::things(receipt.rejected_lines, "line")));
    }
    if receipt.skipped_files > 0 {
        lines.push(format!("  skipped {} that were loaded before", quantity::things(receipt.skipped_files, "file")));
    }
    lines.extend(transforms(&receipt.transforms).map(|line| format!("  {line}")));
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

/// The account of a topic, without counts that are zero.
pub fn topic(account: &Account) -> String {
    let partitions = account.partitions.len() as u64;
    let of = quantity::things(partitions, "partition");
    let mut lines = vec![format!("receipt of topic {} into {}, {of}", account.topic, account.collection)];
    let counters = COUNTERS.iter().zip(account.counters.to_array()).filter(|(name, _)| **name != "bytes_read");
    lines.extend(counts(counters.map(|(name, value)| (*name, value, meaning(name))), &["read"]));
    for PartitionAccount { partition, offset, gap, receipt } in &account.partitions {
        let mut line = format!("  partition {partition} up to offset {offset}, load {}", receipt.load_id);
        if receipt.counters.rejected > 0 {
            line.push_str(&format!(", {} rejected", quantity::count(receipt.counters.rejected)));
        }
        if *gap > 0 {
            line.push_str(&format!(", at most {} removed before", quantity::things(*gap, "record")));
        }
        lines.push(line);
    }
    lines.push(format!(
        "  {:.2} s, {} documents/s, {} read",
        account.seconds,
        quantity::rate(account.rows_per_second),
        quantity::bytes(account.counters.bytes_read),
    ));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transform_says_why_it_gave_no_document_anything() {
        let reason = |counts: &[(&str, u64)]| {
            let documents = counts.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
            nothing_added(&TransformCounts { name: "ip from geo as geo".into(), documents })
        };
        let (no_address, no_range) =
            ("2 documents without a usable address", "1 document whose address is in no range");
        assert_eq!(reason(&[("unusable", 2)]).unwrap(), no_address);
        assert_eq!(reason(&[("missing", 1)]).unwrap(), no_range);
        let both = reason(&[("enriched", 0), ("missing", 1), ("unusable", 2)]).unwrap();
        assert_eq!(both, format!("{no_address}, {no_range}"));
        for counts in
            [&[("enriched", 1), ("missing", 9)][..], &[("existing", 1), ("unusable", 9)], &[("missing", 0)], &[]]
        {
            assert_eq!(reason(counts), None, "{counts:?}");
        }
    }
}
