//! The exact signed-rank test of Wilcoxon, for differences within blocks.

use super::ranks::Ranks;
use super::tails::Tails;

/// The signed-rank test of some differences.
pub(super) struct SignedRank<'a> {
    differences: &'a [f64],
    /// The null distribution of as many ranks without ties. Most shifts share it.
    untied: Vec<f64>,
}

impl<'a> SignedRank<'a> {
    /// The test of these differences.
    pub(super) fn of(differences: &'a [f64]) -> Self {
        Self { differences, untied: distribution(&Ranks::untied(differences.len())) }
    }

    /// The tails of the sum of the ranks of the positive differences, if the differences are symmetric about `shift`.
    ///
    /// The null distribution is exact, given the ranks: each of the 2^n patterns of signs is equally likely. Ties have
    /// mid-ranks. A difference that equals `shift` is ranked with the others, and its rank counts for neither sign
    /// (Pratt, "Remarks on zeros and ties in the Wilcoxon signed rank procedures", JASA 54, 1959). Dropping such
    /// differences before the ranking, as Wilcoxon did, can reject a shift and not one further away; then no interval
    /// can be derived from the test. With Pratt's ranks the signed rank of every difference falls or stays when the
    /// shift rises. So the upper tail never falls and the lower one never rises. For the test see Hollander and Wolfe,
    /// "Nonparametric Statistical Methods", section 3.1.
    pub(super) fn tails(&self, shift: f64) -> Tails {
        let moved: Vec<f64> = self.differences.iter().map(|one| one - shift).collect();
        let sizes: Vec<f64> = moved.iter().map(|one| one.abs()).collect();
        let ranks = Ranks::of(&sizes);
        let of_sign = |sign: fn(&f64) -> bool| {
            let with_ranks = ranks.doubled.iter().zip(&moved);
            with_ranks.filter(move |(_, one)| sign(one)).map(|(rank, _)| *rank)
        };
        let observed = of_sign(|one| *one > 0.0).sum();
        if !ranks.tied && moved.iter().all(|one| *one != 0.0) {
            return Tails::at(observed, &self.untied);
        }
        let signed: Vec<usize> = of_sign(|one| *one != 0.0).collect();
        Tails::at(observed, &distribution(&signed))
    }
}

/// The means of all pairs of differences, each also with itself, sorted.
///
/// Their median is the estimate of the shift (Hodges and Lehmann, "Estimates of location based on rank tests", Annals
/// of Mathematical Statistics 34, 1963). At these shifts, and no others, the statistic changes.
pub(super) fn walsh_averages(differences: &[f64]) -> Vec<f64> {
    let mut averages = Vec::with_capacity(differences.len() * (differences.len() + 1) / 2);
    for (at, one) in differences.iter().enumerate() {
        averages.extend(differences[at..].iter().map(|other| f64::midpoint(*one, *other)));
    }
    averages.sort_unstable_by(f64::total_cmp);
    averages
}

/// The smallest p-value that this many differences can have: both patterns with only one sign.
pub(super) fn least_p(blocks: u32) -> f64 {
    (2.0 * 0.5_f64.powi(i32::try_from(blocks).unwrap_or(i32::MAX))).min(1.0)
}

/// The probability of each sum of those ranks whose sign is positive, if all patterns of signs are equally likely.
fn distribution(ranks: &[usize]) -> Vec<f64> {
    let mut weights = vec![0.0; ranks.iter().sum::<usize>() + 1];
    weights[0] = 1.0;
    let mut reached = 0;
    for rank in ranks {
        reached += rank;
        for sum in (0..=reached).rev() {
            let with = if sum >= *rank { weights[sum - rank] } else { 0.0 };
            weights[sum] = 0.5 * (weights[sum] + with);
        }
    }
    weights
}

#[cfg(test)]
mod tests {
    use super::super::differences::median;
    use super::super::interval::Interval;
    use super::*;
    use fastrand::Rng;

    /// Counts all patterns of signs, without `Ranks`.
    fn counted(differences: &[f64], shift: f64) -> Tails {
        let moved: Vec<f64> = differences.iter().map(|one| one - shift).collect();
        let rank = |one: f64| {
            let below = moved.iter().filter(|other| other.abs() < one.abs()).count();
            let equal = moved.iter().filter(|other| other.abs() == one.abs()).count();
            2 * below + equal + 1
        };
        let observed: usize = moved.iter().filter(|one| **one > 0.0).map(|one| rank(*one)).sum();
        let signed: Vec<usize> = moved.iter().filter(|one| **one != 0.0).map(|one| rank(*one)).collect();
        let (mut lower, mut upper) = (0_u32, 0_u32);
        for pattern in 0..1_u32 << signed.len() {
            let sum: usize =
                signed.iter().enumerate().filter(|(at, _)| pattern >> at & 1 == 1).map(|(_, rank)| *rank).sum();
            lower += u32::from(sum <= observed);
            upper += u32::from(sum >= observed);
        }
        let patterns = f64::from(1_u32 << signed.len());
        Tails { lower: f64::from(lower) / patterns, upper: f64::from(upper) / patterns }
    }

    /// Few distinct values on a grid of quarters: ties, zeros and ties of opposite signs.
    fn coarse(rng: &mut Rng, n: usize) -> Vec<f64> {
        (0..n).map(|_| f64::from(rng.i32(-3..6)) / 4.0).collect()
    }

    fn fine(rng: &mut Rng, n: usize) -> Vec<f64> {
        (0..n).map(|_| f64::from(rng.i32(-1_000_000..2_000_000)) / 1_048_576.0).collect()
    }

    #[test]
    #[expect(clippy::approx_constant, reason = "3.14 is a score")]
    fn the_depression_scores_of_hollander_and_wolfe_give_the_published_answer() {
        // Hollander and Wolfe, table 3.1, and the examples of R's wilcox.test: V = 40, one-sided p = 0.01953. The
        // estimate -0.46 and the interval (-0.786, -0.010) are those of their examples 3.3 and 3.4, for y - x.
        let x = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30];
        let y = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29];
        let d: Vec<f64> = x.iter().zip(y).map(|(x, y)| y - x).collect();
        let at_zero = SignedRank::of(&d).tails(0.0);
        assert_eq!(at_zero.lower, 10.0 / 512.0);
        assert_eq!(at_zero.p(), 0.039_062_5, "also scipy 1.17.1, wilcoxon(x, y, method=\"exact\")");
        let walsh = walsh_averages(&d);
        assert!((median(&walsh).unwrap() + 0.46).abs() < 1e-9);
        let interval = Interval::invert(&walsh, 0.04, |shift| SignedRank::of(&d).tails(shift)).unwrap();
        assert!((interval.low + 0.786).abs() < 1e-9 && (interval.high + 0.010).abs() < 1e-9, "{interval:?}");
    }

    #[test]
    fn ties_and_zeros_give_the_published_answers() {
        // Data of Bortz, Lienert and Boehnke. Without the zeros: V = 13, p = 0.1367 by R's exactRankTests (r-help,
        // 25 August 2006). With the zeros, by Pratt: scipy 1.17.1, wilcoxon(d, zero_method="pratt",
        // method=PermutationMethod(n_resamples=inf)) gives p = 0.09765625.
        let d = [-4.0, -1.0, -1.0, -1.0, -2.0, 0.0, 0.0, 1.0, 0.0, -2.0, 4.0, -1.0, -1.0, 0.0, 0.0];
        let without: Vec<f64> = d.iter().copied().filter(|one| *one != 0.0).collect();
        assert_eq!(SignedRank::of(&without).tails(0.0).p(), 0.136_718_75);
        assert_eq!(SignedRank::of(&d).tails(0.0).p(), 0.097_656_25);
    }

    #[test]
    fn critical_values_are_those_of_the_tables() {
        // Wilcoxon's table, as in Hollander and Wolfe, table A.4: the largest sum that is significant in a two-sided
        // test, for 5 to 12 blocks.
        let critical = |n: usize, level: f64| {
            let weights = distribution(&(1..=n).collect::<Vec<_>>());
            (0..weights.len()).take_while(|&sum| Tails::at(sum, &weights).p() <= level).last()
        };
        let five_percent = [None, Some(0), Some(2), Some(3), Some(5), Some(8), Some(10), Some(13)];
        let one_percent = [None, None, None, Some(0), Some(1), Some(3), Some(5), Some(7)];
        for (n, (five, one)) in (5..=12).zip(five_percent.into_iter().zip(one_percent)) {
            assert_eq!(critical(n, 0.05), five, "{n}");
            assert_eq!(critical(n, 0.01), one, "{n}");
        }
        // Counts of the patterns with each sum, the same for all n above it: the partitions into distinct parts.
        let weights = distribution(&(1..=10).collect::<Vec<_>>());
        let counts: Vec<f64> = weights.iter().take(11).map(|one| one * 1_024.0).collect();
        assert_eq!(counts, [1.0, 1.0, 1.0, 2.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0]);
    }

    #[test]
    fn the_tails_are_those_of_all_patterns_of_signs() {
        let mut rng = Rng::with_seed(1);
        for n in 1..=12 {
            for d in [coarse(&mut rng, n), fine(&mut rng, n)] {
                for shift in [0.0, 0.25, d[0], f64::midpoint(d[0], d[n - 1])] {
                    assert_eq!(SignedRank::of(&d).tails(shift), counted(&d, shift), "{d:?} {shift}");
                }
            }
        }
    }

    #[test]
    fn the_interval_holds_exactly_the_shifts_that_the_test_does_not_reject() {
        let mut rng = Rng::with_seed(2);
        for round in 0..200 {
            let n = rng.usize(1..=12);
            let d = if round % 2 == 0 { coarse(&mut rng, n) } else { fine(&mut rng, n) };
            let level = [0.01, 0.05, 0.3][round % 3];
            let walsh = walsh_averages(&d);
            let interval = Interval::invert(&walsh, level, |shift| SignedRank::of(&d).tails(shift));
            assert_eq!(interval.is_some(), least_p(u32::try_from(n).unwrap()) <= level, "{d:?}");
            let between = walsh.windows(2).map(|pair| f64::midpoint(pair[0], pair[1]));
            let outside = [walsh[0] - 0.5, walsh[walsh.len() - 1] + 0.5];
            for shift in between.chain(walsh.iter().copied()).chain(outside) {
                let rejected = counted(&d, shift).p() <= level;
                let inside = interval.is_none_or(|one| one.contains(shift));
                let end = interval.is_some_and(|one| shift == one.low || shift == one.high);
                assert!(end || inside != rejected, "{d:?} {level} {shift} {interval:?}");
            }
        }
    }

    #[test]
    fn tails_never_turn_when_the_shift_rises() {
        let mut rng = Rng::with_seed(3);
        for _ in 0..200 {
            let n = rng.usize(2..=10);
            let d = coarse(&mut rng, n);
            let mut last = Tails { lower: 1.0, upper: 0.0 };
            for step in -16..=24 {
                let now = SignedRank::of(&d).tails(f64::from(step) / 8.0);
                assert!(now.upper >= last.upper && now.lower <= last.lower, "{d:?} {step}");
                last = now;
            }
        }
    }
}
