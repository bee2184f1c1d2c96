//! The receipt and the plan of a copy as text.

use super::verify;
use crate::quantity::{self, things};
use crate::receipt::counts;
use millstream_copy::{Bottleneck, Failure, Plan, Receipt};

/// How many failures are printed; all are in a file.
const FAILURES_SHOWN_MAX: usize = 10;

/// The receipt, without counts that are zero.
pub fn text(receipt: &Receipt) -> String {
    let mut lines = failures(&receipt.failures);
    if let Some(file) = &receipt.failures_file {
        lines.push(format!("all failures: {file}"));
    }
    lines.push(format!("receipt of the copy to {}", receipt.destination));
    let columns = [
        ("seen", receipt.seen, "entries of the source"),
        ("copied", receipt.copied, "copied"),
        ("same", receipt.same, "there already"),
        ("linked", receipt.linked, "further names of files"),
        ("skipped", receipt.skipped, "gone before their turn came"),
        ("failed", receipt.failed, "could not be copied"),
        ("deleted", receipt.deleted, "deleted at the destination"),
        ("changed", receipt.changed, "changed while they were read"),
    ];
    lines.extend(counts(columns, &["seen"]));
    lines.push(format!(
        "  {} in {:.2} s: {}/s, {} entries/s, {}",
        quantity::bytes(receipt.copied_bytes),
        receipt.seconds,
        quantity::byte_rate(receipt.copied_bytes, receipt.seconds),
        quantity::rate(quantity::per_second(receipt.seen, receipt.seconds)),
        things(receipt.workers as u64, "worker"),
    ));
    if let Some(found) = &receipt.found {
        let (workers, times) = (things(found.workers as u64, "worker"), found.rate.over(found.than));
        let limit = match found.limit {
            Bottleneck::Processors => "the processors are the limit",
            Bottleneck::Disk => "the disk is the limit",
            Bottleneck::Network => "the network is the limit",
            Bottleneck::Unknown => "what the limit is, is unknown",
        };
        lines.push(format!("  {workers} were {times:.1} times as fast as {}; {limit}", found.than_workers));
    }
    if receipt.unhashed > 0 {
        let files = things(receipt.unhashed, "file");
        lines.push(format!("  of {files} no hash is known, because nobody has read them; --hash does"));
    }
    if let Some(why) = &receipt.kept_because {
        lines.push(format!("  nothing was deleted: {why}"));
    }
    if let Some(verified) = &receipt.verified {
        lines.push(verify::text(verified));
    }
    lines.join("\n")
}

/// What a copy would do.
pub fn plan(plan: &Plan) -> String {
    let mut lines = failures(&plan.failures);
    lines.push(plan.rule.clone());
    lines.push(format!(
        "would copy {} ({}), {}, unless they are there already",
        things(plan.entries, "entry"),
        things(plan.folders, "folder"),
        quantity::bytes(plan.bytes)
    ));
    if plan.large > 0 {
        let have = if plan.large == 1 { "is" } else { "are" };
        lines.push(format!("{} {have} copied in pieces, by several workers", things(plan.large, "file")));
    }
    if let Some(deletion) = &plan.deletion {
        lines.push(format!("would delete {}", entries(deletion.entries, deletion.bytes)));
        lines.extend(deletion.first.iter().map(|path| format!("  {path}")));
    }
    lines.join("\n")
}

fn failures(listed: &[Failure]) -> Vec<String> {
    let shown = listed.iter().take(FAILURES_SHOWN_MAX);
    shown.map(|failure| format!("failed: {}: {}", failure.path, failure.reason)).collect()
}

/// Entries, and the bytes of the files among them if they are known.
pub(super) fn entries(entries: u64, bytes: Option<u64>) -> String {
    let bytes = bytes.map_or(String::new(), |bytes| format!(", {}", quantity::bytes(bytes)));
    format!("{}{bytes}", things(entries, "entry"))
}
