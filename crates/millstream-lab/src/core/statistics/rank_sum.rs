//! The exact rank-sum test of Wilcoxon, Mann and Whitney, for samples without blocks.

use super::ranks::Ranks;
use super::tails::Tails;

/// The rank-sum test of two samples.
pub(super) struct RankSum<'a> {
    a: &'a [f64],
    b: &'a [f64],
    /// The null distribution of as many ranks without ties. Most shifts share it.
    untied: Vec<f64>,
}

impl<'a> RankSum<'a> {
    /// The test of these samples.
    pub(super) fn of(a: &'a [f64], b: &'a [f64]) -> Self {
        Self { a, b, untied: distribution(&Ranks::untied(a.len() + b.len()), b.len()) }
    }

    /// The tails of the sum of the ranks of `b` among both samples, if `b` is distributed as `a` moved by `shift`.
    ///
    /// The null distribution is exact, given the ranks: each choice of as many of all values as there are in `b` is
    /// equally likely. Ties have mid-ranks. When the shift rises, the ranks of `b` fall or stay and those of `a` rise
    /// or stay. So the upper tail never falls and the lower one never rises. See Hollander and Wolfe, "Nonparametric
    /// Statistical Methods", section 4.1.
    pub(super) fn tails(&self, shift: f64) -> Tails {
        let pooled: Vec<f64> = self.a.iter().copied().chain(self.b.iter().map(|one| one - shift)).collect();
        let ranks = Ranks::of(&pooled);
        let observed = ranks.doubled[self.a.len()..].iter().sum();
        if ranks.tied {
            return Tails::at(observed, &distribution(&ranks.doubled, self.b.len()));
        }
        Tails::at(observed, &self.untied)
    }
}

/// The differences of all pairs, `b` - `a`, sorted.
///
/// Their median is the estimate of the shift (Hodges and Lehmann 1963). At these shifts, and no others, the statistic
/// changes.
pub(super) fn pair_differences(a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut differences: Vec<f64> = b.iter().flat_map(|one| a.iter().map(move |other| one - other)).collect();
    differences.sort_unstable_by(f64::total_cmp);
    differences
}

/// The smallest p-value that samples of these sizes can have: all of one below all of the other.
pub(super) fn least_p(a: u32, b: u32) -> f64 {
    let divisions: f64 = (1..=b).map(|one| (f64::from(a) + f64::from(one)) / f64::from(one)).product();
    (2.0 / divisions).min(1.0)
}

/// How many choices of `chosen` ranks have each sum.
fn distribution(ranks: &[usize], chosen: usize) -> Vec<f64> {
    let mut sorted = ranks.to_vec();
    sorted.sort_unstable();
    let largest: usize = sorted.iter().rev().take(chosen).sum();
    let mut ways = vec![vec![0.0; largest + 1]; chosen + 1];
    ways[0][0] = 1.0;
    let mut sum = 0;
    for (earlier, rank) in sorted.into_iter().enumerate() {
        for size in (1..=chosen.min(earlier + 1)).rev() {
            let (fewer, these) = ways.split_at_mut(size);
            // The earlier ranks reach no higher sum.
            let from = fewer[size - 1].iter().take(sum + 1);
            for (way, from) in these[0].iter_mut().skip(rank).zip(from) {
                *way += from;
            }
        }
        sum += rank;
    }
    ways.swap_remove(chosen)
}

#[cfg(test)]
mod tests {
    use super::super::differences::median;
    use super::super::interval::Interval;
    use super::*;
    use fastrand::Rng;

    /// Counts all choices, without `Ranks`.
    fn counted(a: &[f64], b: &[f64], shift: f64) -> Tails {
        let pooled: Vec<f64> = a.iter().copied().chain(b.iter().map(|one| one - shift)).collect();
        let rank = |one: f64| {
            let below = pooled.iter().filter(|other| **other < one).count();
            let equal = pooled.iter().filter(|other| **other == one).count();
            2 * below + equal + 1
        };
        let ranks: Vec<usize> = pooled.iter().map(|one| rank(*one)).collect();
        let observed: usize = ranks[a.len()..].iter().sum();
        let (mut lower, mut upper, mut all) = (0_u32, 0_u32, 0_u32);
        for pattern in 0..1_u32 << pooled.len() {
            if usize::try_from(pattern.count_ones()) != Ok(b.len()) {
                continue;
            }
            let sum: usize =
                ranks.iter().enumerate().filter(|(at, _)| pattern >> at & 1 == 1).map(|(_, rank)| *rank).sum();
            all += 1;
            lower += u32::from(sum <= observed);
            upper += u32::from(sum >= observed);
        }
        Tails { lower: f64::from(lower) / f64::from(all), upper: f64::from(upper) / f64::from(all) }
    }

    fn sample(rng: &mut Rng, count: usize, steps: i32) -> Vec<f64> {
        (0..count).map(|_| f64::from(rng.i32(-steps..steps)) / 1_048_576.0).collect()
    }

    #[test]
    fn the_permeability_of_hollander_and_wolfe_gives_the_published_answer() {
        // Hollander and Wolfe, table 4.1, and the examples of R's wilcox.test: W = 35, one-sided p = 0.1272. The
        // estimate is that of their example 4.3. The interval at 5 % ends at the 9th difference from either end,
        // because the table of Mann and Whitney has U = 8 for samples of 5 and 10.
        let at_term = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
        let earlier = [1.15, 0.88, 0.90, 0.74, 1.21];
        let found = RankSum::of(&earlier, &at_term).tails(0.0);
        assert!((found.upper - 0.127_206).abs() < 1e-6, "{found:?}");
        assert!((found.p() - 0.254_412).abs() < 1e-6, "also scipy 1.17.1, mannwhitneyu(.., method=\"exact\")");
        let differences = pair_differences(&earlier, &at_term);
        assert!((median(&differences).unwrap() - 0.305).abs() < 1e-9);
        let interval =
            Interval::invert(&differences, 0.05, |shift| RankSum::of(&earlier, &at_term).tails(shift)).unwrap();
        assert!((interval.low + 0.15).abs() < 1e-9 && (interval.high - 0.76).abs() < 1e-9, "{interval:?}");
    }

    #[test]
    fn ten_and_ten_values_give_the_answers_of_another_library() {
        // The tests of Julia's HypothesisTests.jl: 0.0232 and 0.0068.
        let whole: Vec<f64> = (1..=10).map(f64::from).collect();
        let twos: Vec<f64> = (1..=10).map(|one| f64::from(one) * 2.0 + 0.1).collect();
        let tens: Vec<f64> = (0..10).map(|one| f64::from(one) * 10.0 + 1.5).collect();
        assert!((RankSum::of(&whole, &twos).tails(0.0).p() - 0.023_231).abs() < 1e-6);
        assert!((RankSum::of(&tens, &twos).tails(0.0).p() - 0.006_841).abs() < 1e-6);
    }

    #[test]
    fn ties_give_the_answer_of_all_permutations() {
        // scipy 1.17.1: mannwhitneyu(a, b, method=PermutationMethod(n_resamples=inf)) gives p = 0.04312354312354312.
        let (a, b) = ([1.0, 2.0, 2.0, 3.0, 4.0, 4.0, 5.0], [3.0, 4.0, 5.0, 5.0, 6.0, 7.0]);
        assert!((RankSum::of(&a, &b).tails(0.0).p() - 0.043_123_543_123_543_12).abs() < 1e-15);
    }

    #[test]
    fn critical_values_are_those_of_the_tables() {
        // The table of Mann and Whitney: the largest U that is significant at 1 % in a two-sided test, for samples of
        // the same size from 4 to 10.
        let critical = |n: usize| {
            let ranks: Vec<usize> = (1..=2 * n).collect();
            let least = n * (n + 1) / 2;
            let weights = distribution(&ranks, n);
            (0..=n * n).take_while(|u| Tails::at(least + u, &weights).p() <= 0.01).last()
        };
        let table = [None, Some(0), Some(2), Some(4), Some(7), Some(11), Some(16)];
        for (n, expected) in (4..=10).zip(table) {
            assert_eq!(critical(n), expected, "{n}");
        }
        assert!((least_p(5, 5) - 2.0 / 252.0).abs() < 1e-12);
        assert!((least_p(3, 4) - 2.0 / 35.0).abs() < 1e-12);
        assert_eq!(least_p(0, 3), 1.0);
    }

    #[test]
    fn the_tails_are_those_of_all_choices() {
        let mut rng = Rng::with_seed(1);
        for round in 0..60 {
            let steps = if round % 2 == 0 { 4 } else { 1_000_000 };
            let (a, b) = (rng.usize(1..=6), rng.usize(1..=6));
            let (a, b) = (sample(&mut rng, a, steps), sample(&mut rng, b, steps));
            for shift in [0.0, b[0] - a[0]] {
                let (found, expected) = (RankSum::of(&a, &b).tails(shift), counted(&a, &b, shift));
                assert!((found.lower - expected.lower).abs() < 1e-12, "{a:?} {b:?}");
                assert!((found.upper - expected.upper).abs() < 1e-12, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn the_interval_holds_exactly_the_shifts_that_the_test_does_not_reject() {
        let mut rng = Rng::with_seed(2);
        for round in 0..60 {
            let steps = if round % 2 == 0 { 4 } else { 1_000_000 };
            let (a, b) = (rng.usize(1..=6), rng.usize(1..=6));
            let (a, b) = (sample(&mut rng, a, steps), sample(&mut rng, b, steps));
            // Levels that no p-value equals, so that rounding decides nothing.
            let level = [0.010_1, 0.050_1, 0.300_1][round % 3];
            let least = least_p(u32::try_from(a.len()).unwrap(), u32::try_from(b.len()).unwrap());
            let differences = pair_differences(&a, &b);
            let interval = Interval::invert(&differences, level, |shift| RankSum::of(&a, &b).tails(shift));
            assert_eq!(interval.is_some(), least <= level, "{a:?} {b:?}");
            let between = differences.windows(2).map(|pair| f64::midpoint(pair[0], pair[1]));
            let outside = [differences[0] - 0.5, differences[differences.len() - 1] + 0.5];
            for shift in between.chain(outside) {
                let rejected = counted(&a, &b, shift).p() <= level;
                let inside = interval.is_none_or(|one| one.contains(shift));
                let end = interval.is_some_and(|one| shift == one.low || shift == one.high);
                assert!(end || inside != rejected, "{a:?} {b:?} {level} {shift} {interval:?}");
            }
        }
    }
}
