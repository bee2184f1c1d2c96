//! A comparison of two arms over blocks, or of two sides of records.

use super::criteria::Criteria;
use super::differences::{log_ratio, logarithm, median};
use super::interval::Interval;
use super::rank_sum::{self, RankSum};
use super::sample_size::Sampled;
use super::samples::Samples;
use super::signed_rank::{self, SignedRank};
use super::tails::Tails;
use super::verdict::{Arm, Verdict};
use crate::core::Better;
use crate::limits::{BLOCKS_MAX, RECORDS_MAX};
use serde::Serialize;

/// Two arms compared: by how much B differs from A, and how sure that is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Comparison {
    /// How many samples there are.
    pub samples: Samples,
    /// The estimate of B / A (Hodges and Lehmann 1963).
    pub ratio: f64,
    /// The confidence interval of B / A, at the level of this look; `None` if there are too few samples for it.
    pub interval: Option<Interval>,
    /// The smallest and the largest B / A of a block, if the blocks are too few for an interval and each of them shows a
    /// difference that matters, all in one direction.
    pub every: Option<Interval>,
    /// The two-sided p-value of the exact test that B / A is 1. It is at most the level where the interval excludes 1.
    pub p: f64,
    /// What the verdict is based on.
    pub criteria: Criteria,
    /// What the samples say.
    pub verdict: Verdict,
}

/// Why two arms cannot be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Incomparable {
    /// An arm has no values.
    #[error("an arm has no values")]
    Empty,
    /// The arms have different numbers of blocks.
    #[error("one arm has {0} blocks and the other {1}")]
    Unequal(usize, usize),
    /// A value has no logarithm.
    #[error("a value is not a positive number, so there is no ratio")]
    NotPositive,
    /// The exact test would take too long.
    #[error("an arm has {0} values; at most {1} are compared")]
    TooMany(usize, u32),
}

impl Comparison {
    /// Compares B with A over blocks: `a` and `b` hold a value for each block, in the same order.
    ///
    /// The differences are ln(B / A) within each block, so that whatever changes between blocks cancels. The test is
    /// the exact signed-rank test; the interval holds the ratios that this same test does not reject.
    pub fn paired(a: &[f64], b: &[f64], criteria: Criteria) -> Result<Self, Incomparable> {
        if a.len() != b.len() {
            return Err(Incomparable::Unequal(a.len(), b.len()));
        }
        let samples = Samples::Blocks(counted(a, BLOCKS_MAX)?);
        if a == b && a.iter().all(|one| one.is_finite()) {
            return Ok(Self::identical(samples, criteria));
        }
        let differences: Option<Vec<f64>> = a.iter().zip(b).map(|(a, b)| log_ratio(*a, *b)).collect();
        let differences = differences.ok_or(Incomparable::NotPositive)?;
        let candidates = signed_rank::walsh_averages(&differences);
        let test = SignedRank::of(&differences);
        let found = Self::concluded(samples, criteria, &candidates, |shift| test.tails(shift));
        let every = every(&differences, criteria.margin()).filter(|_| found.interval.is_none());
        Ok(Self { every, ..found })
    }

    /// Compares the values of B in some records with those of A in others: one value for each record, because what
    /// changes between records is the same for all runs of one. No record belongs to one of the other side.
    ///
    /// The test is the exact rank-sum test of the logarithms; the interval holds the ratios that this same test does
    /// not reject. With as many records on either side, 5 a side are the fewest that can differ at 1 %.
    pub fn unpaired(a: &[f64], b: &[f64], criteria: Criteria) -> Result<Self, Incomparable> {
        // However many they are, identical samples need no test.
        let samples = Samples::Records(counted(a, u32::MAX)?, counted(b, u32::MAX)?);
        if sorted(a) == sorted(b) && a.iter().all(|one| one.is_finite()) {
            return Ok(Self::identical(samples, criteria));
        }
        for side in [a, b] {
            counted(side, RECORDS_MAX)?;
        }
        let logarithms = |values: &[f64]| values.iter().map(|one| logarithm(*one)).collect::<Option<Vec<f64>>>();
        let a = logarithms(a).ok_or(Incomparable::NotPositive)?;
        let b = logarithms(b).ok_or(Incomparable::NotPositive)?;
        let candidates = rank_sum::pair_differences(&a, &b);
        let test = RankSum::of(&a, &b);
        Ok(Self::concluded(samples, criteria, &candidates, |shift| test.tails(shift)))
    }

    /// The better arm, if the arms differ and the metric has a better direction.
    pub fn winner(&self, better: Better) -> Option<Arm> {
        let b_is_higher = self.ratio > 1.0;
        match (self.verdict, better) {
            (Verdict::Differs { .. }, Better::Higher) => Some(if b_is_higher { Arm::B } else { Arm::A }),
            (Verdict::Differs { .. }, Better::Lower) => Some(if b_is_higher { Arm::A } else { Arm::B }),
            _ => None,
        }
    }

    fn identical(samples: Samples, criteria: Criteria) -> Self {
        Self { samples, ratio: 1.0, interval: None, every: None, p: 1.0, criteria, verdict: Verdict::Identical }
    }

    /// The comparison that `tails` gives, an exact test of shifts, whose statistic changes at the `candidates`.
    fn concluded(samples: Samples, criteria: Criteria, candidates: &[f64], tails: impl Fn(f64) -> Tails) -> Self {
        let shift = median(candidates).unwrap_or_default();
        let interval = Interval::invert(candidates, criteria.level_now(), &tails);
        let margin = criteria.margin();
        let verdict = match interval {
            Some(one) if !one.contains(0.0) => Verdict::Differs { negligible: within(one, margin) },
            Some(one) if within(one, margin) => Verdict::NoDifference,
            _ => {
                // With too few samples for the level, the strictest level that they reach shows how they scatter.
                let interval_level = criteria.level_now().max(samples.least_p());
                let reached = interval.or_else(|| Interval::invert(candidates, interval_level, &tails));
                let interval = reached.filter(|_| interval_level < 1.0);
                let sampled = Sampled { samples, shift, interval, interval_level };
                Verdict::CannotTell { more: sampled.more(margin, criteria.next().level_now()) }
            }
        };
        let interval = interval.map(|one| Interval { low: one.low.exp(), high: one.high.exp() });
        Self { samples, ratio: shift.exp(), interval, every: None, p: tails(0.0).p(), criteria, verdict }
    }
}

/// The estimate of B / A over blocks, as [`Comparison::paired`] has it; `None` without blocks, or if a value is not
/// positive.
pub fn estimate(a: &[f64], b: &[f64]) -> Option<f64> {
    let differences: Option<Vec<f64>> = a.iter().zip(b).map(|(a, b)| log_ratio(*a, *b)).collect();
    median(&signed_rank::walsh_averages(&differences?)).map(f64::exp)
}

/// Fewest blocks of which it is said what each of them shows.
const EVERY_MIN: usize = 2;

/// The smallest and the largest ratio, if all are beyond the `margin` on one side.
fn every(differences: &[f64], margin: f64) -> Option<Interval> {
    let low = differences.iter().copied().fold(f64::INFINITY, f64::min);
    let high = differences.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let is_beyond = differences.len() >= EVERY_MIN && (low > margin || high < -margin);
    is_beyond.then(|| Interval { low: low.exp(), high: high.exp() })
}

/// Whether the interval lies between -`margin` and `margin`.
fn within(interval: Interval, margin: f64) -> bool {
    -margin < interval.low && interval.high < margin
}

fn counted(values: &[f64], most: u32) -> Result<u32, Incomparable> {
    match u32::try_from(values.len()) {
        Ok(0) => Err(Incomparable::Empty),
        Ok(count) if count <= most => Ok(count),
        _ => Err(Incomparable::TooMany(values.len(), most)),
    }
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEADY: [f64; 10] = [101.0, 99.5, 100.2, 100.8, 99.1, 100.4, 98.9, 100.1, 99.7, 100.6];
    const OTHER: [f64; 10] = [99.9, 100.3, 100.9, 99.4, 100.5, 98.8, 100.7, 99.6, 101.1, 100.0];

    fn times(values: &[f64], factors: &[f64]) -> Vec<f64> {
        values.iter().zip(factors.iter().cycle()).map(|(value, factor)| value * factor).collect()
    }

    fn paired(a: &[f64], b: &[f64]) -> Comparison {
        Comparison::paired(a, b, Criteria::default()).unwrap()
    }

    #[test]
    fn a_factor_is_found_and_the_direction_of_the_metric_names_the_winner() {
        let faster = paired(&STEADY, &times(&OTHER, &[1.3]));
        assert_eq!(faster.verdict, Verdict::Differs { negligible: false });
        assert!((faster.ratio - 1.3).abs() < 0.02 && faster.interval.unwrap().contains(1.3), "{faster:?}");
        assert_eq!(faster.p, 2.0 / 1_024.0);
        assert_eq!(faster.winner(Better::Higher), Some(Arm::B));
        assert_eq!(faster.winner(Better::Lower), Some(Arm::A));
        assert_eq!(faster.winner(Better::Neither), None);
    }

    #[test]
    fn exchanged_arms_give_the_reciprocal() {
        let (b, criteria) = (times(&OTHER, &[1.1, 1.2, 0.97]), Criteria::default());
        for compare in [Comparison::paired, Comparison::unpaired] {
            let (one, other) = (compare(&STEADY, &b, criteria).unwrap(), compare(&b, &STEADY, criteria).unwrap());
            let (found, back) = (one.interval.unwrap(), other.interval.unwrap());
            assert!((one.ratio * other.ratio - 1.0).abs() < 1e-9);
            assert!((found.low * back.high - 1.0).abs() < 1e-9 && (found.high * back.low - 1.0).abs() < 1e-9);
            assert!((one.p - other.p).abs() < 1e-12);
        }
    }

    #[test]
    fn a_small_difference_is_negligible_and_none_is_none() {
        let small = paired(&STEADY, &times(&STEADY, &[1.011, 1.012, 1.013]));
        assert_eq!(small.verdict, Verdict::Differs { negligible: true });
        let none = paired(&STEADY, &OTHER);
        assert_eq!(none.verdict, Verdict::NoDifference, "{none:?}");
        let wide = Criteria { matters: 0.001, ..Criteria::default() };
        let unsure = Comparison::paired(&STEADY, &OTHER, wide).unwrap();
        assert!(matches!(unsure.verdict, Verdict::CannotTell { .. }), "{unsure:?}");
    }

    #[test]
    fn fewer_than_eight_blocks_give_no_verdict_of_a_difference() {
        let b = times(&OTHER, &[2.0]);
        assert_eq!(paired(&STEADY[..8], &b[..8]).verdict, Verdict::Differs { negligible: false });
        let seven = paired(&STEADY[..7], &b[..7]);
        assert_eq!((seven.interval, seven.verdict), (None, Verdict::CannotTell { more: None }));
        assert!((seven.ratio - 2.0).abs() < 0.05);
        let every = seven.every.unwrap();
        assert!(
            every.low > 1.9 && every.low <= seven.ratio && seven.ratio <= every.high && every.high < 2.1,
            "{every:?}"
        );
        assert_eq!(paired(&STEADY[..8], &b[..8]).every, None, "there is an interval");
        assert_eq!(paired(&STEADY[..7], &OTHER[..7]).every, None, "less than matters");
        assert_eq!(paired(&[1.0, 1.0, 1.0], &[2.0, 2.0, 0.9]).every, None, "one shows something else");
        assert_eq!(paired(&[1.0], &[2.0]).every, None, "one block is not every block");
        let again = Comparison::paired(&STEADY[..8], &b[..8], Criteria::default().next()).unwrap();
        assert_eq!(again.interval, None, "the second look has a stricter level");
        let exact = Criteria { level: 2.0 / 256.0, ..Criteria::default() };
        let reached = Comparison::paired(&STEADY[..8], &b[..8], exact).unwrap();
        assert_eq!(reached.verdict, Verdict::Differs { negligible: false }, "a p-value may equal the level");
    }

    #[test]
    fn sides_differ_from_five_records_each() {
        let b = times(&OTHER, &[1.2]);
        let five = Comparison::unpaired(&STEADY[..5], &b[..5], Criteria::default()).unwrap();
        assert_eq!((five.samples, five.verdict), (Samples::Records(5, 5), Verdict::Differs { negligible: false }));
        let four = Comparison::unpaired(&STEADY[..4], &b[..4], Criteria::default()).unwrap();
        assert_eq!((four.interval, four.verdict), (None, Verdict::CannotTell { more: Some(2) }));
    }

    #[test]
    fn identical_samples_are_no_difference_however_few() {
        assert_eq!(paired(&[3.0], &[3.0]).verdict, Verdict::Identical);
        assert_eq!(paired(&[0.0, 0.0], &[0.0, 0.0]).verdict, Verdict::Identical);
        let reordered = Comparison::unpaired(&[1.0, 2.0], &[2.0, 1.0], Criteria::default()).unwrap();
        assert_eq!(reordered.verdict, Verdict::Identical);
        assert_eq!(paired(&[1.0, 2.0], &[2.0, 1.0]).interval, None, "other blocks are other pairs");
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        let compare = |a: &[f64], b: &[f64]| Comparison::paired(a, b, Criteria::default()).unwrap_err();
        assert_eq!(compare(&[], &[]), Incomparable::Empty);
        assert_eq!(compare(&[1.0], &[1.0, 2.0]), Incomparable::Unequal(1, 2));
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(compare(&[1.0, 2.0], &[1.0, bad]), Incomparable::NotPositive);
            assert_eq!(compare(&[bad, 2.0], &[bad, 1.0]), Incomparable::NotPositive);
        }
        let many = vec![1.0; 1_000];
        assert_eq!(compare(&many, &many), Incomparable::TooMany(1_000, BLOCKS_MAX));
        let runs = |a: &[f64]| Comparison::unpaired(a, &many, Criteria::default());
        assert_eq!(runs(&[1.0]), Err(Incomparable::TooMany(1_000, RECORDS_MAX)));
        assert_eq!(runs(&many).unwrap().verdict, Verdict::Identical);
    }

    #[test]
    fn an_outlier_moves_the_estimate_little() {
        let mut b = times(&STEADY, &[1.10, 1.11, 1.12]);
        b[4] = 1.0;
        let found = paired(&STEADY, &b);
        assert!((found.ratio - 1.11).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn the_most_blocks_and_runs_are_compared() {
        let a: Vec<f64> = (0..BLOCKS_MAX).map(|one| f64::from(one % 7 + 100)).collect();
        let b: Vec<f64> = (0..BLOCKS_MAX).map(|one| f64::from(one % 11 + 120)).collect();
        let blocks = paired(&a, &b);
        assert!(blocks.p < 1e-30 && blocks.interval.unwrap().low > 1.15, "{blocks:?}");
        // Without ties, as measured: each tie needs a distribution of its own.
        let most = RECORDS_MAX as usize;
        let steps = |values: &[f64]| (0..).zip(&values[..most]).map(|(n, one)| one + f64::from(n) / 1e4).collect();
        let (a, b): (Vec<f64>, Vec<f64>) = (steps(&a), steps(&b));
        let runs = Comparison::unpaired(&a, &b, Criteria::default()).unwrap();
        assert!(runs.p < 1e-30 && runs.interval.unwrap().low > 1.15, "{runs:?}");
    }
}
