//! The two tails of an exact test.

/// Probabilities under the null hypothesis, of all sign patterns or all divisions into two groups.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tails {
    /// That the statistic is at most the observed one.
    pub(super) lower: f64,
    /// That the statistic is at least the observed one.
    pub(super) upper: f64,
}

impl Tails {
    /// The tails at `observed` of a distribution: the probability, or any multiple of it, of each value from 0 on.
    pub(super) fn at(observed: usize, weights: &[f64]) -> Self {
        let whole: f64 = weights.iter().sum();
        let lower: f64 = weights.iter().take(observed + 1).sum();
        let upper: f64 = weights.iter().skip(observed).sum();
        Self { lower: lower / whole, upper: upper / whole }
    }

    /// The two-sided p-value: twice the smaller tail, at most 1. R's `wilcox.test` defines it in the same way.
    pub(super) fn p(self) -> f64 {
        (2.0 * self.lower.min(self.upper)).min(1.0)
    }
}
