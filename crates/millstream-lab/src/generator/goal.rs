//! The goal of a search: the percentile of a latency and what it must stay below.

use super::statement::is_name;
use crate::limits::PERCENTILE_MAX;

/// What a class must keep: a latency that a share of all scheduled requests does not exceed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Objective {
    /// The latency, from the scheduled start.
    pub latency_ms: f64,
    /// The share in percent.
    pub percentile: f64,
}

/// What a search for the highest rate is to keep, as in `read.p99 < 10ms`.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyGoal {
    /// The class; all classes together if there is none.
    pub class: Option<String>,
    /// The percentile of the latencies of all scheduled requests.
    pub percentile: f64,
    /// What it must stay below, in milliseconds.
    pub below_ms: f64,
}

impl LatencyGoal {
    /// The goal as the objective of a class.
    pub(super) fn objective(&self) -> Objective {
        Objective { latency_ms: self.below_ms, percentile: self.percentile }
    }

    /// Whether it is about a class of that name.
    pub(super) fn is_about(&self, name: &str) -> bool {
        self.class.as_deref().is_none_or(|class| class == name)
    }
}

/// How a goal is written.
const FORM: &str = "a goal is written as `CLASS.p99 < 10ms`, or `p99 < 10ms` for all classes together";

impl std::str::FromStr for LatencyGoal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("\"{text}\" is not a goal: {FORM}");
        let (what, limit) = text.split_once('<').ok_or_else(wrong)?;
        let (class, percentile) = match what.trim().split_once('.') {
            Some((class, percentile)) if is_name(class) && percentile.starts_with('p') => (Some(class), percentile),
            _ => (None, what.trim()),
        };
        let percentile = percentile.strip_prefix('p').and_then(|digits| digits.parse().ok()).ok_or_else(wrong)?;
        let limit = limit.trim();
        let (number, unit_ms) = match (limit.strip_suffix("ms"), limit.strip_suffix('s')) {
            (Some(number), _) => (number, 1.0),
            (None, Some(number)) => (number, 1e3),
            (None, None) => return Err(wrong()),
        };
        let below_ms = number.trim().parse::<f64>().map_err(|_| wrong())? * unit_ms;
        if !is_percentile(percentile) || !is_latency(below_ms) {
            return Err(wrong());
        }
        Ok(Self { class: class.map(str::to_owned), percentile, below_ms })
    }
}

impl std::fmt::Display for LatencyGoal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let class = self.class.as_ref().map_or(String::new(), |class| format!("{class}."));
        write!(f, "{class}p{} < {} ms", self.percentile, self.below_ms)
    }
}

/// Fewest requests of which a percentile leaves out one.
pub(super) fn requests_needed(percentile: f64) -> f64 {
    (100.0 / (100.0 - percentile)).round()
}

/// Requests of which a percentile leaves out ten, so that it does not depend on one or two.
pub(super) fn requests_wanted(percentile: f64) -> f64 {
    (1_000.0 / (100.0 - percentile)).round()
}

/// Whether a number is a percentile that can be asked for.
pub(super) fn is_percentile(number: f64) -> bool {
    number > 0.0 && number <= PERCENTILE_MAX
}

/// Whether a number of milliseconds is a latency that can be asked for.
pub(super) fn is_latency(number: f64) -> bool {
    number.is_finite() && number > 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goal(class: Option<&str>, percentile: f64, below_ms: f64) -> LatencyGoal {
        LatencyGoal { class: class.map(str::to_owned), percentile, below_ms }
    }

    #[test]
    fn goals_are_read() {
        for (text, expected) in [
            ("read.p99 < 10ms", goal(Some("read"), 99.0, 10.0)),
            ("read.p99.9<1.5 s", goal(Some("read"), 99.9, 1_500.0)),
            ("p50 < 0.5 ms", goal(None, 50.0, 0.5)),
            ("p99.9 < 3ms", goal(None, 99.9, 3.0)),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        assert_eq!("read.p99 < 10ms".parse::<LatencyGoal>().unwrap().to_string(), "read.p99 < 10 ms");
    }

    #[test]
    fn high_percentiles_need_many_requests() {
        let requests =
            [50.0, 90.0, 99.0, 99.9].map(|percentile| (requests_needed(percentile), requests_wanted(percentile)));
        assert_eq!(requests, [(2.0, 20.0), (10.0, 100.0), (100.0, 1_000.0), (1_000.0, 10_000.0)]);
    }

    #[test]
    fn what_is_no_goal_is_refused() {
        for text in
            ["", "p99", "p99 > 3ms", "p99 < 3", "p100 < 3ms", "p0 < 3ms", "p99 < -1ms", "p99 < infms", "x < 3ms"]
        {
            let error = text.parse::<LatencyGoal>().unwrap_err();
            assert!(error.contains("CLASS.p99 < 10ms"), "{error}");
        }
    }
}
