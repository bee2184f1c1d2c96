//! Remarks: what to know when reading the numbers of a run.

use super::goal::requests_wanted;
use super::result::{ClassResult, WorkloadResult};
use crate::limits::LATENESS_MS;

/// Share of the scheduled requests that must be served, in percent.
const SERVED_PERCENT_MIN: f64 = 99.0;

/// The remarks on a result, the weightiest first.
pub(super) fn remarks(result: &WorkloadResult) -> Vec<String> {
    let mut remarks = Vec::new();
    if result.is_overloaded() {
        remarks.push(format!(
            "overloaded: {:.1} % of the scheduled requests were served; latency grows with the run's length",
            result.served_percent()
        ));
    }
    if let Some(lateness) = result.lateness.as_ref().filter(|_| result.is_client_limited()) {
        remarks.push(format!(
            "client-limited: the generator was late by {:.1} ms at the 99th percentile, and {LATENESS_MS} ms is the \
             limit; the latencies contain its own delay",
            lateness.p99_ms
        ));
    }
    if result.stopped {
        remarks.push(format!("stopped after {:.1} s, before the end of the schedule", result.seconds));
    }
    remarks.extend(result.classes.iter().flat_map(class_remarks));
    remarks
}

fn class_remarks(class: &ClassResult) -> Vec<String> {
    let (name, counts) = (&class.name, class.counts);
    let mut remarks = Vec::new();
    if counts.dropped + counts.failed > 0 {
        remarks.push(format!(
            "{name}: the latencies leave out {} dropped and {} failed requests; the objective counts them as missed",
            counts.dropped, counts.failed
        ));
    }
    let percentile = class.percentile.unwrap_or(99.0);
    let wanted = requests_wanted(percentile);
    #[expect(clippy::cast_precision_loss, reason = "it is compared with a small number")]
    if (counts.scheduled as f64) < wanted {
        remarks.push(format!("{name}: p{percentile} needs {wanted} requests, not {}: run longer", counts.scheduled));
    }
    remarks
}

impl WorkloadResult {
    /// Whether less was served than was scheduled. What the sessions can take up at once does not count, because some
    /// requests always become due in the last moment.
    pub fn is_overloaded(&self) -> bool {
        self.served_percent() < SERVED_PERCENT_MIN && self.unserved() > self.connections as u64
    }

    /// Whether the generator was too slow for its own schedule.
    pub fn is_client_limited(&self) -> bool {
        self.lateness.as_ref().is_some_and(|lateness| lateness.p99_ms > LATENESS_MS)
    }

    /// Whether all objectives were met, by a run that was neither overloaded nor limited by the client.
    pub fn is_good(&self) -> bool {
        let met = self.classes.iter().all(|class| class.objective_met != Some(false));
        met && !self.is_overloaded() && !self.is_client_limited()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::result::{Counts, Second};
    use super::*;
    use crate::core::latency::Durations;
    use std::collections::BTreeMap;

    fn durations(milliseconds: u64, count: u64) -> Durations {
        let mut durations = Durations::new();
        (0..count).for_each(|_| durations.record_ns(milliseconds * 1_000_000));
        durations
    }

    /// A result of one class with 150 requests, all done.
    pub(in super::super) fn result() -> WorkloadResult {
        let latency = durations(3, 150).summary();
        let class = ClassResult {
            name: "read".to_owned(),
            objective_ms: Some(10.0),
            percentile: Some(90.0),
            objective_met: Some(true),
            counts: Counts { scheduled: 150, done: 150, ..Counts::default() },
            miss_percent: 0.0,
            failures: BTreeMap::new(),
            drops: BTreeMap::new(),
            response: latency.clone(),
            service: latency.clone(),
            steps: Vec::new(),
            seconds: vec![Second { done: 75, ..Second::default() }; 2],
        };
        WorkloadResult {
            about: String::new(),
            seed: 1,
            rate_factor: 1.0,
            connections: 4,
            seconds: 2.0,
            stopped: false,
            connect_ms: 5.0,
            overdue_at_end: 0,
            cpu_seconds: 0.003,
            lateness: durations(1, 150).summary(),
            lag: latency,
            classes: vec![class],
            remarks: Vec::new(),
        }
    }

    #[test]
    fn a_good_run_needs_no_remarks() {
        let result = result();
        assert_eq!((remarks(&result), result.is_good()), (Vec::new(), true));
        assert_eq!((result.target_rate(), result.served_percent()), (75.0, 100.0));
        assert!((result.cpu_microseconds() - 20.0).abs() < 1e-9);
    }

    #[test]
    fn overload_is_said_in_words() {
        let mut result = result();
        result.overdue_at_end = 4;
        assert!(!result.is_overloaded(), "four sessions take four requests at once");
        result.overdue_at_end = 10;
        result.classes[0].drops =
            BTreeMap::from([("backlog full".to_owned(), 20), ("not begun in time".to_owned(), 9)]);
        result.classes[0].counts.dropped = 29;
        let said = remarks(&result);
        assert_eq!(
            said[0],
            "overloaded: 80.0 % of the scheduled requests were served; latency grows with the run's length"
        );
        assert!(said[1].contains("leave out 29 dropped and 0 failed"), "{said:?}");
        assert!(!result.is_good());
    }

    #[test]
    fn a_generator_that_is_late_says_so() {
        let mut result = result();
        result.lateness = durations(7, 150).summary();
        assert!(remarks(&result)[0].starts_with("client-limited: the generator was late by 7.0 ms"));
        assert!(!result.is_good());
    }

    #[test]
    fn a_percentile_of_few_requests_is_doubted() {
        let mut result = result();
        result.classes[0].percentile = None;
        assert_eq!(remarks(&result), ["read: p99 needs 1000 requests, not 150: run longer"]);
        result.stopped = true;
        assert!(remarks(&result)[0].starts_with("stopped after 2.0 s"));
    }
}
