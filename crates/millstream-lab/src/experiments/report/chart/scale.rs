//! A scale: where a value stands on an axis, and which values the axis names.

/// Most values that an axis names. More do not fit on a narrow screen.
const TICKS_MAX: usize = 6;

/// Fewest values that show what kind of scale it is.
const TICKS_MIN: usize = 3;

/// From this ratio of the largest to the smallest value on, a scale is logarithmic.
pub(super) const LOGARITHMIC_FROM: f64 = 20.0;

/// The part of an axis that stays free at its ends, so that marks do not touch the border.
const MARGIN: f64 = 0.05;

/// An axis from a lowest value to a highest one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
}

impl Scale {
    /// A logarithmic scale that holds all values. Values that have no logarithm do not count; `None` if no other is left.
    pub(super) fn logarithmic(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let (low, high) = extremes(values.into_iter().filter(|value| *value > 0.0))?;
        let margin = (high / low).powf(MARGIN).max(1.02);
        Some(Self { low: low / margin, high: high * margin, logarithmic: true })
    }

    /// A linear scale that begins at 0, or below it if a value does. `None` if there are no values.
    pub(super) fn linear(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let (low, high) = extremes(values)?;
        let (low, high) = (low.min(0.0), high.max(0.0));
        let span = if high > low { high - low } else { 1.0 };
        let low = if low < 0.0 { low - span * MARGIN } else { 0.0 };
        Some(Self { low, high: high + span * MARGIN, logarithmic: false })
    }

    /// Where the value stands: 0 is the low end, 100 the high end. A value outside stands at the end.
    pub(super) fn percent(self, value: f64) -> f64 {
        let Self { low, high, logarithmic } = self;
        let share = match logarithmic {
            true if value <= 0.0 => 0.0,
            true => (value / low).ln() / (high / low).ln(),
            false => (value - low) / (high - low),
        };
        (share * 100.0).clamp(0.0, 100.0)
    }

    /// Round values between the ends, in ascending order.
    pub(super) fn ticks(self) -> Vec<f64> {
        if self.logarithmic {
            for mantissas in [&[1.0][..], &[1.0, 3.0], &[1.0, 2.0, 5.0], &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0]] {
                let ticks = self.decades(mantissas);
                if ticks.len() >= TICKS_MIN {
                    let each = ticks.len().div_ceil(TICKS_MAX);
                    return ticks.into_iter().step_by(each).collect();
                }
            }
        }
        self.steps()
    }

    fn decades(self, mantissas: &[f64]) -> Vec<f64> {
        let (mut decade, mut ticks) = (10_f64.powf(self.low.log10().floor()), Vec::new());
        while decade <= self.high {
            ticks.extend(mantissas.iter().map(|mantissa| mantissa * decade));
            decade *= 10.0;
        }
        ticks.retain(|tick| (self.low..=self.high).contains(tick));
        ticks
    }

    fn steps(self) -> Vec<f64> {
        let Self { low, high, .. } = self;
        let rough = (high - low) / 4.0;
        let decade = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0].map(|one| one * decade).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(10.0 * decade);
        let first = (low / step).ceil();
        (0..TICKS_MAX).map(|n| (first + n as f64) * step).take_while(|tick| *tick <= high).collect()
    }
}

/// The smallest and the largest finite value.
fn extremes(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    let finite = values.into_iter().filter(|value| value.is_finite());
    finite.fold(None, |ends, value| match ends {
        None => Some((value, value)),
        Some((low, high)) => Some((value.min(low), value.max(high))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logarithmic_scale_gives_equal_ratios_equal_distances() {
        let scale = Scale::logarithmic([0.0, 10.0, 1_000.0, f64::NAN]).unwrap();
        let at = [10.0, 100.0, 1_000.0].map(|value| scale.percent(value));
        assert!((at[1] - 50.0).abs() < 1e-9 && (at[2] - at[1] - (at[1] - at[0])).abs() < 1e-9, "{at:?}");
        assert_eq!(scale.ticks(), [10.0, 100.0, 1_000.0]);
        assert_eq!((scale.percent(-1.0), scale.percent(1e9)), (0.0, 100.0));
        assert_eq!(Scale::logarithmic([0.0, -1.0]), None);
    }

    #[test]
    fn every_span_has_from_two_to_six_round_ticks() {
        for (low, high) in [(1.0, 1.0), (100.0, 110.0), (97.0, 260.0), (1.0, 8.0), (0.001, 1e9), (5e-9, 3e12)] {
            let scale = Scale::logarithmic([low, high]).unwrap();
            let ticks = scale.ticks();
            assert!((2..=TICKS_MAX).contains(&ticks.len()), "{low} {high} {ticks:?}");
            assert!(ticks.is_sorted() && ticks.iter().all(|tick| (scale.low..=scale.high).contains(tick)), "{ticks:?}");
        }
    }

    #[test]
    fn a_linear_scale_begins_at_zero() {
        assert_eq!(Scale::linear([30.0, 40.0]).unwrap().ticks(), [0.0, 20.0, 40.0]);
        assert_eq!(Scale::linear([0.0, 0.0]).unwrap().percent(0.0), 0.0);
        let below = Scale::linear([-1.0, 4.0]).unwrap();
        assert!(below.percent(0.0) > below.percent(-1.0) && below.percent(-1.0) > 0.0);
        assert_eq!(Scale::linear([]), None);
    }
}
