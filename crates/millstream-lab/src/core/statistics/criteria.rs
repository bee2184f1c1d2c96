//! The criteria of a verdict: the level, the difference that matters, and the look.

use serde::{Deserialize, Serialize};

/// The criteria of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Criteria {
    /// Highest probability of a verdict of a difference at the first look, where there is none. 0.01 is 1 %.
    pub level: f64,
    /// The smallest relative difference that matters. 0.05 is 5 %.
    pub matters: f64,
    /// Which look at these samples this is, from 1. A look after more blocks is a further chance of a false verdict.
    pub look: u32,
}

impl Criteria {
    /// The level of this look: each further look halves it.
    ///
    /// All looks together have at most twice the level of the first. For spending a level over looks see Lan and
    /// DeMets, "Discrete sequential boundaries for clinical trials", Biometrika 70 (1983).
    pub fn level_now(&self) -> f64 {
        self.level * halved(self.look.saturating_sub(1))
    }

    /// The sum of the levels up to this look: it bounds the probability of a false verdict at any of them.
    pub fn level_spent(&self) -> f64 {
        2.0 * self.level * (1.0 - halved(self.look))
    }

    /// The criteria of the next look.
    #[must_use]
    pub fn next(self) -> Self {
        Self { look: self.look.saturating_add(1), ..self }
    }

    /// The difference that matters, as a logarithm of a ratio.
    pub(super) fn margin(&self) -> f64 {
        self.matters.max(0.0).ln_1p()
    }
}

impl Default for Criteria {
    fn default() -> Self {
        Self { level: 0.01, matters: 0.05, look: 1 }
    }
}

fn halved(times: u32) -> f64 {
    0.5_f64.powi(i32::try_from(times).unwrap_or(i32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_further_look_halves_the_level() {
        let first = Criteria::default();
        assert_eq!((first.level_now(), first.level_spent()), (0.01, 0.01));
        let third = first.next().next();
        assert_eq!((third.look, third.level_now(), third.level_spent()), (3, 0.002_5, 0.017_5));
        assert!((Criteria { look: u32::MAX, ..first }.level_spent() - 0.02).abs() < 1e-12);
    }
}
