//! Counts as floating-point numbers, and back.

/// A count as a floating-point number. Counts of a benchmark are far below 2^53.
#[expect(clippy::cast_precision_loss, reason = "counts of a benchmark are far below 2^53")]
pub(crate) fn number(count: u64) -> f64 {
    count as f64
}

/// A floating-point number as the count that it was.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it was a count")]
pub(crate) fn count(number: f64) -> u64 {
    number as u64
}
