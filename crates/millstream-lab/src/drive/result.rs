//! The result of a run of a workload.

use super::goal::{Objective, transactions_wanted};
use super::workload::Script;
use crate::core::latency::{Durations, Latency};
use crate::experiments::{Done, Line};
use crate::limits::{BUSY_SHARE_MAX, RATE_SHARE_MIN};
use serde::{Deserialize, Serialize};

/// What a run at one rate measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// Scheduled transactions per second.
    pub rate: f64,
    /// Its length.
    pub seconds: u32,
    /// Processor time of pgbench.
    pub cpu_seconds: Option<f64>,
    /// The share of the run in which pgbench's thread was busy.
    pub client_share: Option<f64>,
    /// Its scripts.
    pub scripts: Vec<ScriptResult>,
    /// What to know when reading these numbers, the weightiest first.
    pub remarks: Vec<String>,
}

/// What a run measured of a script.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScriptResult {
    /// Its name.
    pub name: String,
    /// The latency of its objective.
    pub objective_ms: Option<f64>,
    /// The percentile of its objective.
    pub percentile: Option<f64>,
    /// That share of all scheduled transactions was done in time; one that failed or was skipped was not.
    pub objective_met: Option<bool>,
    /// What became of its transactions.
    #[serde(flatten)]
    pub counts: Counts,
    /// Late, failed and skipped transactions, of all that were scheduled.
    pub miss_percent: f64,
    /// Response time: from the scheduled start, of the transactions that were done.
    pub response: Option<Latency>,
    /// Service time: from when the transaction was sent, of the transactions that were done.
    pub service: Option<Latency>,
}

/// What became of transactions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Transactions that were begun or skipped. All of them are done, failed or skipped.
    pub scheduled: u64,
    /// They were committed.
    pub done: u64,
    /// They took longer than the objective allows. They are among the done ones.
    pub late: u64,
    /// They ended with a serialization failure or a deadlock.
    pub failed: u64,
    /// They could not begin within the limit.
    pub skipped: u64,
}

/// 100 - 99.9 is a little less than 0.1.
const ROUNDING: f64 = 1e-9;

impl Counts {
    /// The sum of both.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            scheduled: self.scheduled + other.scheduled,
            done: self.done + other.done,
            late: self.late + other.late,
            failed: self.failed + other.failed,
            skipped: self.skipped + other.skipped,
        }
    }

    /// Late, failed and skipped transactions, of all that were scheduled; 0 without any.
    pub fn miss_percent(&self) -> f64 {
        share(self.late + self.failed + self.skipped, self.scheduled)
    }

    /// Whether that share of all scheduled transactions, in percent, was done in time.
    pub fn meets(&self, percentile: f64) -> bool {
        self.miss_percent() <= 100.0 - percentile + ROUNDING
    }
}

/// Counts the transactions of a script.
#[derive(Debug)]
pub(super) struct Tally {
    name: String,
    objective: Option<Objective>,
    counts: Counts,
    response: Durations,
    service: Durations,
}

impl Tally {
    /// Nothing of a script yet. Late is what misses the objective.
    pub(super) fn new(script: &Script, objective: Option<Objective>) -> Self {
        let (response, service) = (Durations::new(), Durations::new());
        Self { name: script.name.clone(), objective, counts: Counts::default(), response, service }
    }

    /// Counts a line of the log.
    pub(super) fn add(&mut self, line: &Line) {
        self.counts.scheduled += 1;
        match line.done {
            Done::Skipped => self.counts.skipped += 1,
            Done::Failed => self.counts.failed += 1,
            Done::After(us) => {
                self.counts.done += 1;
                self.counts.late += u64::from(self.objective.is_some_and(|one| us > one.latency_ms * 1e3));
                self.response.record_us(us);
                self.service.record_us(us - line.lag_us.unwrap_or(0.0));
            }
        }
    }

    /// What was counted.
    pub(super) fn result(self) -> ScriptResult {
        let Self { name, objective, counts, response, service } = self;
        ScriptResult {
            name,
            objective_ms: objective.map(|one| one.latency_ms),
            percentile: objective.map(|one| one.percentile),
            objective_met: objective.map(|one| counts.meets(one.percentile)),
            counts,
            miss_percent: counts.miss_percent(),
            response: response.summary(),
            service: service.summary(),
        }
    }
}

impl RunResult {
    /// What became of the transactions of all scripts.
    pub fn counts(&self) -> Counts {
        self.scripts.iter().map(|script| script.counts).fold(Counts::default(), Counts::plus)
    }

    /// Transactions that were begun.
    fn begun(&self) -> u64 {
        self.counts().done + self.counts().failed
    }

    /// Whether the server did not keep up with the schedule.
    pub fn is_overloaded(&self) -> bool {
        // pgbench draws the times at random, so that their number scatters with its root.
        let expected = self.rate * f64::from(self.seconds);
        let begun = self.begun() as f64;
        begun < RATE_SHARE_MIN * expected - 3.0 * expected.sqrt()
    }

    /// Whether pgbench itself may have been too slow.
    pub fn is_client_limited(&self) -> bool {
        self.client_share.is_some_and(|share| share > BUSY_SHARE_MAX)
    }

    /// Whether all objectives were met, at the rate that was asked for.
    pub fn is_good(&self) -> bool {
        let met = self.scripts.iter().all(|script| script.objective_met != Some(false));
        met && !self.is_overloaded() && !self.is_client_limited()
    }

    /// Remarks on the result, the weightiest first.
    pub(super) fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.is_overloaded() {
            let percent = 100.0 * self.begun() as f64 / (self.rate * f64::from(self.seconds));
            remarks.push(format!(
                "overloaded: {percent:.1} % of the scheduled transactions were begun; latency grows with the run's length, \
                 unless a limit skips them"
            ));
        }
        if let Some(share) = self.client_share.filter(|_| self.is_client_limited()) {
            remarks.push(format!(
                "client-limited: pgbench was busy for {:.0} % of the time; the latencies contain its own delay",
                100.0 * share
            ));
        }
        for ScriptResult { name, counts, percentile, .. } in &self.scripts {
            if counts.skipped + counts.failed > 0 {
                remarks.push(format!(
                    "{name}: the latencies leave out {} skipped and {} failed transactions; the objective counts them as \
                     missed",
                    counts.skipped, counts.failed
                ));
            }
            let percentile = percentile.unwrap_or(99.0);
            let wanted = transactions_wanted(percentile);
            if (counts.scheduled as f64) < wanted {
                let there = counts.scheduled;
                remarks.push(format!("{name}: p{percentile} needs {wanted} transactions, not {there}: run longer"));
            }
        }
        remarks
    }
}

/// A part of a whole in percent; 0 of nothing.
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script() -> Script {
        Script { name: "read".to_owned(), weight: 1, objective: None, sql: "select 1".to_owned() }
    }

    #[test]
    fn an_objective_counts_all_scheduled_transactions() {
        let counts = Counts { scheduled: 1_000, done: 995, late: 5, failed: 3, skipped: 2 };
        assert_eq!(counts.miss_percent(), 1.0);
        assert!(counts.meets(99.0) && !counts.meets(99.5));
        let one_of_a_thousand = Counts { scheduled: 1_000, done: 1_000, late: 1, ..Counts::default() };
        assert!(one_of_a_thousand.meets(99.9) && !one_of_a_thousand.meets(99.95));
        assert_eq!(Counts::default().miss_percent(), 0.0);
    }

    #[test]
    fn every_line_is_in_one_count() {
        let objective = Objective { latency_ms: 2.0, percentile: 50.0 };
        let mut tally = Tally::new(&script(), Some(objective));
        for done in [Done::After(1_000.0), Done::After(3_000.0), Done::Skipped, Done::Failed] {
            tally.add(&Line { end: 0.0, script: 0, done, lag_us: Some(500.0) });
        }
        let result = tally.result();
        assert_eq!(result.counts, Counts { scheduled: 4, done: 2, late: 1, failed: 1, skipped: 1 });
        assert_eq!((result.miss_percent, result.objective_met), (75.0, Some(false)));
        let (response, service) = (result.response.unwrap(), result.service.unwrap());
        assert_eq!((response.count, response.max_ms.round()), (2, 3.0));
        assert!((service.max_ms - 2.5).abs() < 0.01, "{service:?}");
    }

    #[test]
    fn a_run_that_falls_behind_is_overloaded_whatever_its_latency() {
        let counts = Counts { scheduled: 800, done: 800, ..Counts::default() };
        let scripts = vec![ScriptResult { counts, ..Tally::new(&script(), None).result() }];
        let mut run = RunResult {
            rate: 100.0,
            seconds: 10,
            cpu_seconds: Some(1.0),
            client_share: Some(0.1),
            scripts,
            remarks: Vec::new(),
        };
        assert!(run.is_overloaded() && !run.is_good());
        assert!(run.remarks()[0].starts_with("overloaded: 80.0 %"), "{:?}", run.remarks());
        run.rate = 80.0;
        assert!(run.is_good());
        assert_eq!(run.remarks(), ["read: p99 needs 1000 transactions, not 800: run longer"]);
        run.client_share = Some(0.95);
        assert!(!run.is_good() && run.remarks()[0].starts_with("client-limited: "), "{:?}", run.remarks());
    }
}
