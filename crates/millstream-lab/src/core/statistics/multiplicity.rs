//! How many comparisons a report makes, and how many false verdicts to expect of them.

use super::criteria::Criteria;
use serde::Serialize;
use std::fmt;

/// The number of comparisons of a report.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Multiplicity {
    /// How many comparisons there are.
    pub comparisons: u32,
    /// How many of them say that there is a difference, on average, if none of them has one. An upper bound: the exact
    /// tests have few possible p-values and stay below their level.
    pub false_verdicts: f64,
}

impl Multiplicity {
    /// The multiplicity of comparisons with these criteria, looks included.
    pub fn of<'a>(criteria: impl IntoIterator<Item = &'a Criteria>) -> Self {
        let none = Self { comparisons: 0, false_verdicts: 0.0 };
        criteria.into_iter().fold(none, |sum, one| Self {
            comparisons: sum.comparisons.saturating_add(1),
            false_verdicts: sum.false_verdicts + one.level_spent(),
        })
    }
}

impl fmt::Display for Multiplicity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.comparisons == 1 { "comparison" } else { "comparisons" };
        write!(
            f,
            "{} {word}; if nothing differs, expect at most {:.2} false verdicts of a difference",
            self.comparisons, self.false_verdicts
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn false_verdicts_are_comparisons_times_level() {
        let first = Criteria::default();
        let twelve = Multiplicity::of(&[first; 12]);
        assert_eq!(twelve.comparisons, 12);
        assert_eq!(
            twelve.to_string(),
            "12 comparisons; if nothing differs, expect at most 0.12 false verdicts of a difference"
        );
        let looked_again = Multiplicity::of(&[first, first.next()]);
        assert!((looked_again.false_verdicts - 0.025).abs() < 1e-12);
    }
}
