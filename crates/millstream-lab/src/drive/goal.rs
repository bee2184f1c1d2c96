//! The goal of a search: the percentile of a latency and what it must stay below.

use crate::limits::PERCENTILE_MAX;

/// What a script must keep: a latency that a share of all scheduled transactions does not exceed.
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
    /// The script; all scripts together if there is none.
    pub script: Option<String>,
    /// The percentile of the latencies of all scheduled transactions.
    pub percentile: f64,
    /// What it must stay below, in milliseconds.
    pub below_ms: f64,
}

impl LatencyGoal {
    /// Whether it is about a script of that name.
    pub(super) fn is_about(&self, name: &str) -> bool {
        self.script.as_deref().is_none_or(|script| script == name)
    }
}

/// How a goal is written.
const FORM: &str = "a goal is written as `SCRIPT.p99 < 10ms`, or `p99 < 10ms` for all scripts together";

impl std::str::FromStr for LatencyGoal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("\"{text}\" is not a goal: {FORM}");
        let (what, limit) = text.split_once('<').ok_or_else(wrong)?;
        let (script, percentile) = match what.trim().split_once('.') {
            Some((script, percentile)) if is_name(script) && percentile.starts_with('p') => (Some(script), percentile),
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
        Ok(Self { script: script.map(str::to_owned), percentile, below_ms })
    }
}

impl std::fmt::Display for LatencyGoal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let script = self.script.as_ref().map_or(String::new(), |script| format!("{script}."));
        write!(f, "{script}p{} < {} ms", self.percentile, self.below_ms)
    }
}

/// Fewest transactions of which a percentile leaves out one.
pub(super) fn transactions_needed(percentile: f64) -> f64 {
    (100.0 / (100.0 - percentile)).round()
}

/// Transactions of which a percentile leaves out ten, so that it does not depend on one or two.
pub(super) fn transactions_wanted(percentile: f64) -> f64 {
    (1_000.0 / (100.0 - percentile)).round()
}

/// Whether a text can be the name of a script.
pub(super) fn is_name(text: &str) -> bool {
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
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

    fn goal(script: Option<&str>, percentile: f64, below_ms: f64) -> LatencyGoal {
        LatencyGoal { script: script.map(str::to_owned), percentile, below_ms }
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
    fn high_percentiles_need_many_transactions() {
        let counts = [50.0, 90.0, 99.0, 99.9]
            .map(|percentile| (transactions_needed(percentile), transactions_wanted(percentile)));
        assert_eq!(counts, [(2.0, 20.0), (10.0, 100.0), (100.0, 1_000.0), (1_000.0, 10_000.0)]);
    }

    #[test]
    fn what_is_no_goal_is_refused() {
        for text in
            ["", "p99", "p99 > 3ms", "p99 < 3", "p100 < 3ms", "p0 < 3ms", "p99 < -1ms", "p99 < infms", "x < 3ms"]
        {
            let error = text.parse::<LatencyGoal>().unwrap_err();
            assert!(error.contains("SCRIPT.p99 < 10ms"), "{error}");
        }
    }
}
