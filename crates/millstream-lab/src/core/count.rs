//! Counts as floating-point numbers.

/// A count as a floating-point number. Counts of a benchmark are far below 2^53.
#[expect(clippy::cast_precision_loss, reason = "counts of a benchmark are far below 2^53")]
pub(crate) fn number(count: u64) -> f64 {
    count as f64
}
