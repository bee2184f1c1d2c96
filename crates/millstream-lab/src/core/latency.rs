//! Latencies: a histogram of durations, and its summary.

use crate::limits::LATENCY_MICROSECONDS_MAX;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Significant decimal digits that a histogram keeps.
const DIGITS: u8 = 3;

/// A histogram of durations, in microseconds with three digits.
///
/// It is an HdrHistogram (Gil Tene): its memory depends on the longest duration, not on how many there are, and two can
/// be added without loss.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Durations(Histogram<u64>);

impl Durations {
    pub(crate) fn new() -> Self {
        // It only refuses more than five digits.
        Self(Histogram::new(DIGITS).expect("three digits are allowed"))
    }

    /// Adds a duration. One of more than the limit counts as one of the limit.
    #[expect(clippy::cast_possible_truncation, reason = "a cast of floats saturates")]
    pub(crate) fn record_us(&mut self, microseconds: f64) {
        // It grows to the limit, so every duration has its place.
        let _ = self.0.record((microseconds.round() as u64).min(LATENCY_MICROSECONDS_MAX));
    }

    /// Adds all durations of another histogram.
    pub(crate) fn add(&mut self, other: &Self) {
        // It only fails for values beyond the range of a histogram that cannot grow.
        let _ = self.0.add(&other.0);
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// The duration that this share of the durations does not exceed, in milliseconds.
    pub(crate) fn percentile_ms(&self, percent: f64) -> f64 {
        milliseconds(self.0.value_at_percentile(percent))
    }

    /// The summary; `None` without durations.
    pub(crate) fn summary(&self) -> Option<Latency> {
        if self.0.is_empty() {
            return None;
        }
        let at = |percent: f64| self.percentile_ms(percent);
        let buckets: Vec<String> = self
            .0
            .iter_recorded()
            .map(|bucket| format!("{}:{}", bucket.value_iterated_to(), bucket.count_at_value()))
            .collect();
        Some(Latency {
            count: self.0.len(),
            mean_ms: self.0.mean() / 1e3,
            sd_ms: self.0.stdev() / 1e3,
            p50_ms: at(50.0),
            p90_ms: at(90.0),
            p95_ms: at(95.0),
            p99_ms: at(99.0),
            p999_ms: at(99.9),
            max_ms: milliseconds(self.0.max()),
            buckets: buckets.join(" "),
        })
    }

    /// The histogram of a summary, to be merged with others; `None` if its buckets cannot be read.
    pub(crate) fn of(latency: &Latency) -> Option<Self> {
        let mut durations = Self::new();
        for bucket in latency.buckets.split_whitespace() {
            let (microseconds, count) = bucket.split_once(':')?;
            let microseconds: u64 = microseconds.parse().ok()?;
            durations.0.record_n(microseconds.min(LATENCY_MICROSECONDS_MAX), count.parse().ok()?).ok()?;
        }
        Some(durations)
    }
}

/// What a histogram of durations says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Number of durations.
    pub count: u64,
    /// Their mean.
    pub mean_ms: f64,
    /// Their standard deviation.
    pub sd_ms: f64,
    /// Their median.
    pub p50_ms: f64,
    /// What 90 % of them do not exceed.
    pub p90_ms: f64,
    /// What 95 % of them do not exceed.
    pub p95_ms: f64,
    /// What 99 % of them do not exceed.
    pub p99_ms: f64,
    /// What 99.9 % of them do not exceed.
    pub p999_ms: f64,
    /// The largest.
    pub max_ms: f64,
    /// The histogram, as `MICROSECONDS:COUNT` with spaces between: durations up to that many microseconds, with three
    /// digits. Histograms of several runs are merged by adding the counts.
    pub buckets: String,
}

fn milliseconds(microseconds: u64) -> f64 {
    microseconds as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn durations(milliseconds: impl IntoIterator<Item = u64>) -> Durations {
        let mut durations = Durations::new();
        milliseconds.into_iter().for_each(|one| durations.record_us(one as f64 * 1e3));
        durations
    }

    #[test]
    fn percentiles_are_those_of_the_durations() {
        let summary = durations(1..=1_000).summary().unwrap();
        assert_eq!((summary.count, summary.max_ms.round()), (1_000, 1_000.0));
        for (value, expected) in [(summary.p50_ms, 500.0), (summary.p99_ms, 990.0), (summary.mean_ms, 500.5)] {
            assert!((value / expected - 1.0).abs() < 1e-3, "{value}, not {expected}");
        }
        assert_eq!(Durations::new().summary(), None);
    }

    #[test]
    fn a_merged_histogram_is_that_of_all_durations() {
        let (odd, even) = (durations((1..100).step_by(2)), durations((2..=100).step_by(2)));
        let all = durations(1..=100).summary().unwrap();
        let mut merged = Durations::of(&odd.summary().unwrap()).unwrap();
        merged.add(&Durations::of(&even.summary().unwrap()).unwrap());
        let merged = merged.summary().unwrap();
        assert_eq!((merged.count, &merged.buckets, merged.p99_ms), (100, &all.buckets, all.p99_ms));
        let broken = Latency { buckets: "7".to_owned(), ..all.clone() };
        assert_eq!(Durations::of(&broken), None);
    }

    #[test]
    fn a_duration_beyond_the_range_counts_as_the_longest() {
        let mut durations = Durations::new();
        durations.record_us(f64::MAX);
        durations.record_us(0.0);
        let summary = durations.summary().unwrap();
        assert!(summary.count == 2 && summary.max_ms >= 3_600_000.0, "{summary:?}");
    }
}
