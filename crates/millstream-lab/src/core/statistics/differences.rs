//! Logarithms of measurements and of their ratios, on a grid on which sums are exact.

/// Steps of the grid in 1. A step is about 1e-12, a relative difference that no measurement can see.
///
/// Ratios that are equal can have logarithms that differ in the last bit. Rounding to the grid makes them ties. A power
/// of two makes the sums, differences and midpoints of these values exact: no logarithm of a positive number has an
/// absolute value above 745, so a difference needs 11 bits before and 40 after the point, of the 53 there are.
const STEPS: f64 = 1_099_511_627_776.0;

/// The natural logarithm, on the grid. `None` if the value is not a positive number.
pub(super) fn logarithm(value: f64) -> Option<f64> {
    (value.is_finite() && value > 0.0).then(|| on_grid(value.ln()))
}

/// ln(`b` / `a`), on the grid. Exchanging the two changes only its sign.
pub(super) fn log_ratio(a: f64, b: f64) -> Option<f64> {
    let positive = |value: f64| value.is_finite() && value > 0.0;
    if !positive(a) || !positive(b) {
        return None;
    }
    // The larger one stands above the line, so that the quotient does not depend on the order of the arms. It overflows
    // only for values that differ by more than 300 orders of magnitude.
    let (ratio, sign) = if a <= b { (b / a, 1.0) } else { (a / b, -1.0) };
    let log = if ratio.is_finite() { ratio.ln() } else { a.max(b).ln() - a.min(b).ln() };
    Some(sign * on_grid(log))
}

/// The middle value of a sorted list, or the mean of the two middle ones.
pub(crate) fn median(sorted: &[f64]) -> Option<f64> {
    let upper = sorted.get(sorted.len() / 2)?;
    let lower = sorted.get((sorted.len() - 1) / 2)?;
    Some(f64::midpoint(*lower, *upper))
}

fn on_grid(value: f64) -> f64 {
    (value * STEPS).round() / STEPS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_ratios_are_ties_and_exchanged_arms_change_the_sign() {
        assert_eq!(log_ratio(1.0, 1.1), log_ratio(3.0, 3.3));
        assert_eq!(log_ratio(0.1, 0.3), log_ratio(1.0, 3.0));
        assert_eq!(log_ratio(3.0, 7.0), log_ratio(7.0, 3.0).map(|one| -one));
        assert_eq!(log_ratio(5.0, 5.0), Some(0.0));
        assert_eq!(logarithm(1.0), Some(0.0));
    }

    #[test]
    fn only_positive_numbers_have_a_logarithm() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(logarithm(bad), None);
            assert_eq!(log_ratio(1.0, bad), None);
            assert_eq!(log_ratio(bad, 1.0), None);
        }
        let extreme = log_ratio(5e-324, f64::MAX).unwrap();
        assert!(extreme > 1_450.0 && extreme.is_finite());
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[1.0, 2.0, 9.0]), Some(2.0));
        assert_eq!(median(&[1.0, 2.0]), Some(1.5));
    }
}
