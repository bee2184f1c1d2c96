//! The end of the warm-up, found as a changepoint of a series.

use super::differences::median;
use crate::core::Series;
use crate::limits::CHANGES_MAX;
use serde::Serialize;

/// Fewest values before and after a change: fewer can be chance.
const SIDE: usize = 5;

/// Fewest values of a series in which a warm-up is sought.
const VALUES: usize = 4 * SIDE;

/// A change of the mean of the logarithms that does not matter: about 2 %.
const TOLERATED: f64 = 0.02;

/// The gain that a change must have, in variances of the noise and logarithms of the number of values. The Schwarz
/// criterion asks for 2: for the place of the change and for its size. 3 keeps the change that is found by chance below
/// 2 % of steady series without autocorrelation.
const PENALTY: f64 = 3.0;

/// Highest autocorrelation that is believed. Above it no change would be found.
const CORRELATION_MAX: f64 = 0.9;

/// A value counts as at most this many times the median, and at least as the median divided by this.
const FACTOR_MAX: f64 = 3.0;

/// What a series says about the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WarmUp {
    /// From here on the series is steady.
    Ends {
        /// The first value after the warm-up; 0 if there is none.
        at: usize,
        /// The length of the warm-up in seconds.
        seconds: f64,
    },
    /// The series still changes in its second half.
    NeverSteady,
    /// The series has too few values to tell.
    TooShort,
}

impl WarmUp {
    /// Finds the end of the warm-up of a series, for example of transactions per second.
    ///
    /// It takes the change of the mean of ln(values) that leaves the least squares, and asks for a gain above a penalty
    /// of ln(n), as changepoint methods do: Killick, Fearnhead and Eckley, "Optimal detection of changepoints with a
    /// linear computational cost", JASA 107 (2012). It repeats that with the values after the change, until no change
    /// is left: only the last one is wanted, so the values before need no segments of their own. If less than half of
    /// the series remains, nothing shows that it ever became steady: Barrett et al., "Virtual machine warmup blows hot
    /// and cold", OOPSLA 2017, where it is the last quarter.
    ///
    /// Seconds of a run depend on each other. So the noise is the variance around both means, times
    /// (1 + r) / (1 - r) for an autocorrelation r from one value to the next. Drops that come again and again, as at
    /// checkpoints, are noise in this sense and no end of a warm-up.
    ///
    /// Missing values are skipped. A stalled second has no logarithm. Therefore, in this search only, a value counts as
    /// no less than a third of the median, and no more than three times it.
    pub fn of(series: &Series) -> Self {
        let there: Vec<(usize, f64)> =
            series.values.iter().enumerate().filter_map(|(at, value)| Some((at, (*value)?))).collect();
        let values: Vec<f64> = there.iter().map(|(_, value)| *value).collect();
        if values.len() < VALUES {
            return Self::TooShort;
        }
        let Some(logs) = bounded_logarithms(&values) else { return Self::NeverSteady };
        let mut start = 0;
        for _ in 0..CHANGES_MAX {
            if 2 * start > logs.len() {
                return Self::NeverSteady;
            }
            let Some(change) = last_change(&logs[start..]) else {
                let at = if start == 0 { 0 } else { there[start].0 };
                return Self::Ends { at, seconds: at as f64 * series.step_seconds };
            };
            start += change;
        }
        Self::NeverSteady
    }
}

/// The logarithms of the values, bounded by those around the median. `None` if the median is not a positive number.
fn bounded_logarithms(values: &[f64]) -> Option<Vec<f64>> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = median(&sorted).filter(|middle| middle.is_finite() && *middle > 0.0)?;
    let bound = FACTOR_MAX.ln();
    // `max` replaces what is not a number, so that no value can spoil the sums.
    Some(values.iter().map(|value| (value / middle).max(1.0 / FACTOR_MAX).ln().min(bound)).collect())
}

/// The number of values before the most likely change of the mean, if there is a change.
fn last_change(logs: &[f64]) -> Option<usize> {
    let whole: f64 = logs.iter().sum();
    let mut before = logs.iter().take(SIDE.saturating_sub(1)).sum::<f64>();
    let mut best = (0, 0.0);
    for at in SIDE..=logs.len().saturating_sub(SIDE) {
        before += logs[at - 1];
        let (left, right) = (at as f64, (logs.len() - at) as f64);
        let gain = (before / left - (whole - before) / right).powi(2) * left * right / (left + right);
        if gain > best.1 {
            best = (at, gain);
        }
    }
    let (at, gain) = best;
    let (left, right) = logs.split_at_checked(at).filter(|(left, _)| !left.is_empty())?;
    let (from, to) = (mean(left), mean(right));
    let rest: Vec<f64> = left.iter().map(|one| one - from).chain(right.iter().map(|one| one - to)).collect();
    let matters = (to - from).abs() > TOLERATED;
    (matters && gain > PENALTY * (logs.len() as f64).ln() * noise(&rest)).then_some(at)
}

/// The variance of what is left around the means, as large as it would be without autocorrelation for the same error
/// of a mean.
fn noise(rest: &[f64]) -> f64 {
    let squares: f64 = rest.iter().map(|one| one * one).sum();
    if squares == 0.0 {
        return 0.0;
    }
    let products: f64 = rest.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let correlation = (products / squares).clamp(0.0, CORRELATION_MAX);
    squares / (rest.len() - 2) as f64 * (1.0 + correlation) / (1.0 - correlation)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::super::simulation::Noise;
    use super::*;

    /// A series of `count` seconds: a level for each second, times noise with this autocorrelation.
    fn series(noise: &mut Noise, count: u32, correlation: f64, level: impl Fn(f64) -> f64) -> Series {
        let mut state = noise.normal();
        let mut value = |second: u32| {
            state = correlation * state + (1.0 - correlation * correlation).sqrt() * noise.normal();
            Some(1_000.0 * level(f64::from(second)) * (0.05 * state).exp())
        };
        Series::each_second((0..count).map(&mut value).collect::<Vec<_>>())
    }

    /// How many of 200 series end their warm-up in this range, and how many are never steady.
    fn found(
        count: u32,
        correlation: f64,
        range: std::ops::RangeInclusive<usize>,
        level: impl Fn(f64) -> f64,
    ) -> (usize, usize) {
        let mut noise = Noise::seeded(5);
        let results: Vec<WarmUp> =
            (0..200).map(|_| WarmUp::of(&series(&mut noise, count, correlation, &level))).collect();
        let inside = |one: &&WarmUp| matches!(one, WarmUp::Ends { at, .. } if range.contains(at));
        let never = results.iter().filter(|one| **one == WarmUp::NeverSteady).count();
        (results.iter().filter(inside).count(), never)
    }

    #[test]
    fn a_steady_series_has_no_warm_up() {
        let (none, never) = found(120, 0.0, 0..=0, |_| 1.0);
        assert!(none >= 196 && never == 0, "{none} {never}");
        let (none, never) = found(120, 0.5, 0..=0, |_| 1.0);
        assert!(none >= 190 && never <= 4, "autocorrelation: {none} {never}");
    }

    #[test]
    fn the_end_of_a_warm_up_is_found() {
        let (step, never) = found(60, 0.3, 9..=11, |second| if second < 10.0 { 0.6 } else { 1.0 });
        assert!(step >= 180 && never <= 6, "{step} {never}");
        let (ramp, never) = found(120, 0.3, 5..=30, |second| 1.0 - 0.7 * (-second / 5.0).exp());
        assert!(ramp >= 190 && never <= 4, "{ramp} {never}");
    }

    #[test]
    fn a_series_that_changes_to_its_end_is_never_steady() {
        let (_, never) = found(120, 0.3, 0..=0, |second| 1.0 + second / 300.0);
        assert!(never >= 180, "{never}");
        let (_, never) = found(120, 0.0, 0..=0, |second| if second < 90.0 { 0.7 } else { 1.0 });
        assert!(never >= 198, "{never}");
    }

    #[test]
    fn drops_that_come_again_are_no_warm_up() {
        let (none, _) = found(300, 0.3, 0..=0, |second| if second % 30.0 < 6.0 { 0.6 } else { 1.0 });
        assert!(none >= 196, "{none}");
        let (none, _) = found(120, 0.3, 0..=0, |second| if second == 40.0 { 0.0 } else { 1.0 });
        assert!(none >= 190, "a stalled second: {none}");
    }

    #[test]
    fn missing_seconds_keep_their_place() {
        let values = (0..60).map(|second| (second % 7 != 3).then_some(if second < 12 { 500.0 } else { 1_000.0 }));
        let mut series = Series::each_second(values);
        assert_eq!(WarmUp::of(&series), WarmUp::Ends { at: 12, seconds: 12.0 });
        series.step_seconds = 0.5;
        assert_eq!(WarmUp::of(&series), WarmUp::Ends { at: 12, seconds: 6.0 });
    }

    #[test]
    fn odd_series_have_an_answer() {
        let flat = |value: f64, count: usize| WarmUp::of(&Series::each_second(vec![Some(value); count]));
        assert_eq!(flat(3.0, 60), WarmUp::Ends { at: 0, seconds: 0.0 });
        assert_eq!(flat(3.0, 19), WarmUp::TooShort);
        assert_eq!(WarmUp::of(&Series::default()), WarmUp::TooShort);
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(flat(bad, 60), WarmUp::NeverSteady);
        }
        let spoiled = (0..60).map(|second| Some(if second == 30 { f64::NAN } else { 5.0 }));
        assert_eq!(WarmUp::of(&Series::each_second(spoiled)), WarmUp::Ends { at: 0, seconds: 0.0 });
    }
}
