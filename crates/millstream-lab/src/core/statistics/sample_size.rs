//! How many samples would be enough for a verdict.

use super::interval::Interval;
use super::samples::Samples;

/// The probability that the estimated number of samples is not enough.
const MISSED: f64 = 0.1;

/// What is known from the samples so far.
pub(super) struct Sampled {
    /// How many there are.
    pub(super) samples: Samples,
    /// The estimate of the difference, a logarithm of a ratio.
    pub(super) shift: f64,
    /// The interval at `interval_level`, the strictest level that the samples reach; `None` if they reach none.
    pub(super) interval: Option<Interval>,
    /// See `interval`.
    pub(super) interval_level: f64,
}

impl Sampled {
    /// About how many more samples give a verdict at `level`; `None` if the lab does not compare so many, or if there are
    /// too few blocks for an estimate.
    ///
    /// The width of the interval shrinks as 1 / sqrt(n), so it gives the standard error of the estimate: half the
    /// width by the normal quantile of its level (Lehmann, "Nonparametric confidence intervals for a shift parameter",
    /// Annals of Mathematical Statistics 34, 1963). Two verdicts are possible: a difference, if half the
    /// interval is shorter than the distance of the estimate from 0, and none, if it is shorter than its distance from
    /// `margin`. The larger distance needs fewer samples. The next estimate will not be the same, so the distance must
    /// be the sum of two quantiles, in standard errors: that of the level, and that of a miss in 1 of 10 cases. This is
    /// the usual formula for the size of a sample, as in Noether, "Sample size determination for some common
    /// nonparametric tests", JASA 82 (1987).
    pub(super) fn more(&self, margin: f64, level: f64) -> Option<u32> {
        let count = self.samples.count();
        if self.samples.are_too_few_to_estimate() {
            return None;
        }
        let distance = self.shift.abs().max(margin - self.shift.abs());
        let quantiles = normal_quantile(level / 2.0) + normal_quantile(MISSED);
        let needed = self.interval.map_or(0.0, |interval| {
            let error = (interval.high - interval.low) / 2.0 / normal_quantile(self.interval_level / 2.0);
            f64::from(count) * (error * quantiles / distance).powi(2)
        });
        let enough = |all: &u32| f64::from(*all) >= needed && self.samples.of_count(*all).least_p() <= level;
        (count + 1..=self.samples.most().count()).find(enough).map(|all| all - count)
    }
}

/// The value that a standard normal variable exceeds with probability `tail`, for a tail between 0 and 0.5.
///
/// Its error is below 0.00045: Abramowitz and Stegun, "Handbook of Mathematical Functions", formula 26.2.23.
fn normal_quantile(tail: f64) -> f64 {
    let t = (-2.0 * tail.ln()).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let below = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    t - above / below
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (tail, expected) in [(0.1, 1.281_6), (0.025, 1.960_0), (0.005, 2.575_8), (0.002_5, 2.807_0)] {
            assert!((normal_quantile(tail) - expected).abs() < 0.000_5, "{tail}");
        }
    }

    #[test]
    fn twice_the_width_needs_four_times_the_samples() {
        let sampled = |width: f64| Sampled {
            samples: Samples::Blocks(20),
            shift: 0.0,
            interval: Some(Interval { low: -width, high: width }),
            interval_level: 0.01,
        };
        let all = |width: f64| sampled(width).more(0.05, 0.005).map(|more| more + 20);
        let narrow = all(0.04).unwrap();
        let expected = 20.0 * (0.04 / 2.575_8 * (2.807_0 + 1.281_6) / 0.05_f64).powi(2);
        assert!((f64::from(narrow) - expected.ceil()).abs() < 1.5, "{narrow} {expected}");
        let wide = all(0.08).unwrap();
        assert!((f64::from(wide) / 4.0 - expected).abs() < 1.0, "{wide}");
        assert_eq!(all(4.0), None, "more than the lab compares");
    }

    #[test]
    fn a_large_difference_needs_no_more_samples_than_the_test_itself() {
        let interval = Some(Interval { low: 0.4, high: 0.5 });
        let few = Sampled { samples: Samples::Records(3, 3), shift: 0.45, interval, interval_level: 0.25 };
        assert_eq!(few.more(0.05, 0.01), Some(2), "5 records a side are the fewest for 1 %");
        let one = Sampled { samples: Samples::Records(1, 1), shift: 0.45, interval: None, interval_level: 1.0 };
        assert_eq!(one.more(0.05, 0.005), Some(5), "6 records a side are the fewest for 0.5 %");
    }

    #[test]
    fn few_blocks_do_not_say_how_many_more_would_decide() {
        let interval = Some(Interval { low: -0.04, high: 0.04 });
        let more = |count| Sampled { samples: Samples::Blocks(count), shift: 0.0, interval, interval_level: 0.01 };
        assert_eq!(more(19).more(0.05, 0.005), None);
        assert!(more(20).more(0.05, 0.005).is_some());
    }
}
