//! The receipt of a build as text.

use crate::quantity;
use crate::receipt::counts;
use crate::screen::visible;
use millstream_ranges::Receipt;

/// The receipt, without counts that are zero.
pub fn text(receipt: &Receipt) -> String {
    let mut lines = vec![format!("receipt of generation {}", receipt.generation)];
    let columns = [
        ("read", receipt.read, "entries"),
        ("whole", receipt.whole, "stored as they are"),
        ("merged", receipt.merged, "joined to the range before them, with equal values"),
        ("cut", receipt.cut, "partly hidden by other ranges"),
        ("covered", receipt.covered, "fully hidden by other ranges"),
        ("rejected", receipt.rejected, "could not be used"),
        ("stored", receipt.stored, "ranges in the store"),
    ];
    lines.extend(counts(columns, &["read", "stored"]));
    let types: Vec<String> = receipt.types.iter().map(|(name, kind)| format!("{name} {}", kind.name())).collect();
    if !types.is_empty() {
        lines.push(visible(&format!("  types: {}", types.join(", "))));
    }
    let (v4, v6) = (quantity::count(receipt.stored_v4), quantity::count(receipt.stored_v6));
    lines.push(format!("  {v4} of IPv4, {v6} of IPv6, {}", quantity::bytes(receipt.bytes)));
    lines.push(format!("  {:.2} s, {} entries/s", receipt.seconds, quantity::rate(receipt.ranges_per_second)));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_ranges::ColumnType::{Double, Uint32};

    #[test]
    fn counts_that_are_zero_are_left_out() {
        let receipt = Receipt {
            generation: 7,
            types: [("asn".into(), Uint32), ("lat".into(), Double)].into(),
            read: 1_003,
            whole: 1_000,
            cut: 2,
            rejected: 1,
            stored: 1_004,
            stored_v4: 1_004,
            bytes: 65_536,
            seconds: 0.5,
            ranges_per_second: 2_006.0,
            ..Receipt::default()
        };
        assert_eq!(
            text(&receipt),
            "receipt of generation 7\n  \
               read                 1,003  entries\n  \
               whole                1,000  stored as they are\n  \
               cut                      2  partly hidden by other ranges\n  \
               rejected                 1  could not be used\n  \
               stored               1,004  ranges in the store\n  \
               types: asn uint32, lat double\n  \
               1,004 of IPv4, 0 of IPv6, 64.0 KiB\n  \
               0.50 s, 2,006 entries/s"
        );
        assert!(text(&receipt).lines().all(|line| line.len() <= 80));
    }
}
